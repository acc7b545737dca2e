"""The page with its conversations, on the scripted engine: what the tests of both do with it."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.scripted import ask, wait_until

READ_DATABASE = """new Promise((done) => {
  const request = indexedDB.open("rushlight");
  request.onsuccess = () => {
    const all = request.result.transaction("trees").objectStore("trees").getAll();
    all.onsuccess = () => { request.result.close(); done(all.result); };
  };
})"""


def panel(page: Page) -> None:
    """Open the list."""
    if not page.get_by_test_id("history").is_visible():
        page.get_by_test_id("history-button").click()


def rows(page: Page) -> Any:
    """What opens a conversation, one for each."""
    return page.get_by_test_id("thread-open")


def new_chat(page: Page) -> None:
    """Begin another conversation."""
    page.get_by_test_id("new-chat").click()
    expect(page.get_by_test_id("message")).to_have_count(0)


def texts(page: Page) -> list[str]:
    """What is said in the conversation in view."""
    return page.locator("[data-testid=message] .body").all_inner_texts()


def request(page: Page) -> dict[str, Any]:
    """What the page sends for a message now."""
    ask(page, "show the request")
    found: dict[str, Any] = json.loads(page.locator(".message pre").last.inner_text())
    return found


def settings(page: Page) -> None:
    """Open the settings."""
    page.get_by_test_id("settings-button").click()


def ask_edited(page: Page, text: str) -> None:
    """Send the edited message and wait for its reply."""
    page.get_by_test_id("input").fill(text)
    page.get_by_test_id("input").press("Enter")
    expect(page.locator("[data-role=assistant][data-status=done]").last).to_contain_text(text)
    wait_until(page, "ready")


def stored_trees(page: Page) -> list[dict[str, Any]]:
    """What IndexedDB holds of each conversation's messages."""
    trees: list[dict[str, Any]] = page.evaluate(READ_DATABASE)
    return trees
