"""One Chromium and one server for all the subjects that run in a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from space.tools import machine, site_builder
from space.tools.server import SiteServer
from tests.browser.driver import add_harness
from tests.tools import chromium
from tests.tools.peers.page import rushlight_page
from tests.tools.peers.subject import Subject, Work
from tests.tools.peers.wllama import add_to_site, wllama


@contextmanager
def browser_subjects(
    names: Sequence[str], work: Work, n_threads: int
) -> Iterator[dict[str, Subject]]:
    """ "page" and "wllama", those of them that are asked for, with so many threads."""
    site = site_builder.build_site(machine.ROOT / "dist" / "test-site", model="none")
    harness = add_harness(site)
    model = Path(work.model).resolve()
    found: dict[str, Subject] = {}
    with ExitStack() as stack:
        # The peer's page starts its workers from blobs, which the page's own policy refuses.
        server = stack.enter_context(SiteServer(site, has_policy=False))
        playwright = stack.enter_context(sync_playwright())
        browser = chromium.launch(playwright)
        stack.callback(browser.close)
        if "page" in names:
            opened = rushlight_page(browser, server.url + harness, work, n_threads)
            found["page"] = stack.enter_context(opened)
        if "wllama" in names:
            models = stack.enter_context(SiteServer(model.parent, is_shared=True))
            path = add_to_site(site)
            url = models.url + model.name
            found["wllama"] = stack.enter_context(
                wllama(browser, server.url, path, url, work, n_threads)
            )
        yield found
