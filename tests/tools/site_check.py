"""`python build.py site --check`: a built site on a plain static host, under a sub-path.

Opens it in Chromium, waits for its model, chats, and does so again with the host gone.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Error, Page, sync_playwright

from space.tools.machine import ROOT, say
from space.tools.server import SiteServer
from tests.tools import chromium

PREFIX = "some/path/"
STAND_IN = ROOT / "tests" / "data" / "golden" / "llama-f32.gguf"
"""For a site that has no model of its own."""
START_MS = 300_000
REPLY_MS = 120_000


class SiteError(Exception):
    """What the site does wrong."""


def check_site(site: Path, browser: Browser, tell: Callable[[str], None] = say) -> None:
    """Goes through the steps, telling each. Raises SiteError at the first that fails."""
    model = json.loads((site / "site.json").read_text(encoding="utf-8"))["default_model"]
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda m: refused.append(m.text) if "Content Security" in m.text else None)
    asked: set[str] = set()
    context.on("request", lambda request: asked.add(request.url))
    try:
        with SiteServer(site, is_isolated=False, has_policy=False, prefix=PREFIX) as server:
            address = f"{server.url}?backend=cpu"
            tell(f"check: {server.url}, plain headers")
            _start(page, address, model is not None, tell)
            tell(f"check: a reply of {_chat(page)} tokens")
            _expect_no_others(server.url, asked, model)
            status = page.locator(
                "[data-testid=offline-status]:is([data-state=ready], [data-state=unavailable])"
            )
            words = status.text_content(timeout=START_MS)
            if status.get_attribute("data-state") != "ready":
                raise SiteError(f"the page is not kept for offline use: {words}")
        tell("check: the host is gone")
        _start(page, address, model is not None, tell)
        tell(f"check: offline, a reply of {_chat(page)} tokens")
    except Error as error:
        raise SiteError(str(error).splitlines()[0]) from error
    finally:
        context.close()
    if refused:
        raise SiteError(f"the page's own policy refused something: {refused[0]}")


def _start(page: Page, address: str, has_model: bool, tell: Callable[[str], None]) -> None:
    began = monotonic()
    page.goto(address)
    page.wait_for_selector("body:is([data-state=ready], [data-state=error])", timeout=START_MS)
    if not has_model:
        page.get_by_test_id("model-file").set_input_files(STAND_IN)
        page.wait_for_selector("body[data-state=ready]", timeout=START_MS)
    if page.locator("body").get_attribute("data-state") != "ready":
        words = page.get_by_test_id("alert").inner_text()
        raise SiteError(f"no model was loaded: {words}")
    name = page.get_by_test_id("model-name").inner_text()
    tell(f"check: {name} is ready after {monotonic() - began:.1f} s")


def _chat(page: Page) -> int:
    """Asks for a short reply and gives its length in tokens."""
    done = page.locator("[data-role=assistant][data-status=done]")
    n_before = done.count()  # a conversation from before comes back with the page
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("setting-maxTokens").fill("8")
    page.get_by_test_id("settings-done").click()
    page.get_by_test_id("input").fill("Hello")
    page.get_by_test_id("input").press("Enter")
    done.nth(n_before).wait_for(timeout=REPLY_MS)
    outcome = done.nth(n_before).get_by_test_id("outcome").inner_text()
    found = re.search(r"(\d+) tokens?\b", outcome)
    if found is None or not int(found[1]):
        raise SiteError(f"no reply came: {outcome or page.get_by_test_id('alert').inner_text()}")
    return int(found[1])


def _expect_no_others(site_url: str, asked: set[str], model: dict[str, str] | None) -> None:
    hosts = {urlsplit(url).netloc for url in asked if url.startswith("http")}
    allowed = {urlsplit(site_url).netloc}
    if model and "://" in model["url"]:
        return  # where its host sends the download on to is not known here
    if hosts - allowed:
        raise SiteError(f"the page asked other hosts: {', '.join(sorted(hosts - allowed))}")


def main(arguments: list[str]) -> int:
    """Checks the site in the folder named; 1 if it fails."""
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        try:
            check_site(Path(arguments[0]), browser)
        except SiteError as error:
            say(f"check failed: {error}")
            return 1
        finally:
            browser.close()
    say("check passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
