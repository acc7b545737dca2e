"""The harness page beside the built site, in the same origin, and tabs for the page itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.driver import Harness, add_harness, runner


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
