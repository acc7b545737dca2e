"""The harness page beside the built site, in the same origin, and tabs for the page itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import Harness, add_harness, runner
from tests.browser.scripted import ScriptedSite, open_page, scripted_site
from tests.browser.threads_page import panel


@pytest.fixture(scope="session")
def harness_url(site_dir: Path, site_url: str) -> str:
    """Address of the harness."""
    # Not served by a Playwright route: with routes, a worker's requests to other origins fail.
    return site_url + add_harness(site_dir)


@pytest.fixture(scope="module")
def harness(browser: Browser, harness_url: str) -> Iterator[Harness]:
    """``harness(job, **options)`` runs a job of harness_worker.js; an error becomes the answer."""
    context = browser.new_context()
    yield runner(context.new_page(), harness_url)
    context.close()


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A fresh tab with storage of its own; its console shows in the test's output."""
    # pytest-playwright's own page fixture pulls in one that newer pytest versions warn about.
    context = browser.new_context()
    page = context.new_page()
    page.on("console", lambda message: print("console:", message.text))
    yield page
    context.close()


# --- conversations ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def talk_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """A site on the scripted engine; a test that changes its model puts it back."""
    with scripted_site(tmp_path_factory.mktemp("threads-site")) as site:
        yield site


@pytest.fixture(scope="module")
def talk_tab(browser: Browser, talk_site: ScriptedSite) -> Iterator[Page]:
    """A tab of the scripted engine for all tests of a file that begin without conversations."""
    context = browser.new_context(accept_downloads=True)
    page = context.new_page()
    page.on("console", lambda message: print("console:", message.text))
    open_page(page, talk_site)
    yield page
    context.close()


@pytest.fixture
def talk(talk_tab: Page) -> Page:
    """No conversation is left from the test before; the list is open."""
    panel(talk_tab)
    if talk_tab.get_by_test_id("history-delete-all").is_visible():
        talk_tab.get_by_test_id("history-delete-all").click()
    expect(talk_tab.get_by_test_id("history-empty")).to_be_visible()
    expect(talk_tab.get_by_test_id("message")).to_have_count(0)
    return talk_tab
