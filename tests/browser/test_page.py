"""The chat page with the real model: load, ask, stop, broken files, reload; on both backends."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.gemma, pytest.mark.slow]

LOAD_MS, REPLY_MS = 240_000, 300_000
QUESTION, ANSWER = "What is the capital of France?", "Paris"


@pytest.fixture(params=["cpu", "webgpu"])
def chat(tab: Page, site_url: str, request: Any) -> Page:
    """The page with the default model loaded on one backend."""
    open_page(tab, site_url, request.param)
    return tab


def open_page(page: Page, site_url: str, backend: str) -> None:
    page.goto(f"{site_url}?backend={backend}")
    began = time.monotonic()
    wait_until_ready(page)
    print(f"{backend}: ready after {time.monotonic() - began:.1f} s")


def wait_until_ready(page: Page) -> None:
    page.wait_for_selector("body[data-state=ready], body[data-state=error]", timeout=LOAD_MS)
    assert page.locator("body").get_attribute("data-state") == "ready", page.inner_text("#alert")


def ask(page: Page, question: str) -> Any:
    page.get_by_test_id("input").fill(question)
    page.get_by_test_id("input").press("Enter")
    return page.locator("[data-testid=message][data-role=assistant]").last


def wait_for_end(page: Page) -> None:
    page.wait_for_selector("body[data-state=ready]", timeout=REPLY_MS)


def test_ask_again_and_reload(chat: Page) -> None:
    reply = ask(chat, QUESTION)
    expect(reply).to_contain_text(ANSWER, timeout=REPLY_MS)
    wait_for_end(chat)
    print(
        chat.inner_text("[data-testid=reply-speed]"), chat.inner_text("[data-testid=first-token]")
    )
    expect(ask(chat, "And of Italy?")).to_contain_text("Italy", timeout=REPLY_MS)
    wait_for_end(chat)
    chat.reload()
    wait_until_ready(chat)
    expect(ask(chat, QUESTION)).to_contain_text(ANSWER, timeout=REPLY_MS)


def test_stop_ends_a_prompt_and_a_reply(chat: Page) -> None:
    ask(chat, "Count from one to one hundred in words.")
    stop(chat)  # in the prompt: no token has come yet
    reply = ask(chat, "Count from one to one hundred in words.")
    expect(reply).to_contain_text(re.compile(r"one", re.IGNORECASE), timeout=REPLY_MS)
    stop(chat)
    expect(reply).to_contain_text("Stopped")
    written = reply.locator(".body").inner_text()
    reply.get_by_test_id("continue").click()
    expect(reply.locator(".body")).not_to_have_text(written, timeout=REPLY_MS)
    stop(chat)
    assert reply.locator(".body").inner_text().startswith(written)


def stop(page: Page) -> None:
    began = time.monotonic()
    page.get_by_test_id("stop").click()
    wait_for_end(page)
    took = time.monotonic() - began
    print(f"stopped after {took:.2f} s")
    assert took < 2  # the page goes on at once; the engine ends behind it


def test_another_file_ends_a_load(tab: Page, site_url: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    tab.goto(f"{site_url}?backend=webgpu")
    expect(tab.get_by_test_id("progress-label")).to_contain_text("weights", timeout=LOAD_MS)
    tab.get_by_test_id("model-file").set_input_files(broken)
    expect(tab.get_by_test_id("alert")).to_be_visible(timeout=30_000)
    tab.get_by_test_id("model-button").click()
    tab.get_by_test_id("model-default").click()
    wait_until_ready(tab)


def test_a_broken_file_is_refused_and_the_page_stays_usable(chat: Page, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(range(200)))
    chat.get_by_test_id("model-file").set_input_files(broken)
    expect(chat.get_by_test_id("alert")).to_be_visible(timeout=30_000)
    message = chat.inner_text("#alert-message")
    assert "GGUF" in message or "version" in message, message
    chat.get_by_test_id("model-button").click()
    chat.get_by_test_id("model-default").click()
    wait_until_ready(chat)
    expect(ask(chat, QUESTION)).to_contain_text(ANSWER, timeout=REPLY_MS)
