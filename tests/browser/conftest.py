"""The harness page beside the built site, in the same origin."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def harness_url(site_dir: Path, site_url: str) -> str:
    """Address of the harness; its files are copied into the test's site, never into a real one."""
    # Not served by a Playwright route: with routes, a worker's requests to other origins fail.
    folder = site_dir / "harness"
    folder.mkdir(exist_ok=True)
    for path in HERE.glob("harness*.*"):
        shutil.copy2(path, folder / path.name)
    return f"{site_url}harness/harness.html"


@pytest.fixture(scope="module")
def harness(browser: Browser, harness_url: str) -> Iterator[Callable[..., Any]]:
    """``harness(job, **options)`` runs a job of harness_worker.js; an error becomes the answer."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(600_000)
    page.on("console", lambda message: print("console:", message.text))
    page.goto(harness_url)

    def run(job: str, **options: Any) -> Any:
        return page.evaluate("([job, options]) => window.run(job, options)", [job, options])

    yield run
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
