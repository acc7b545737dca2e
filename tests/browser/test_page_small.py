"""The chat page with a tiny model on the CPU: refused files, full contexts, names, settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from space.tools import site_builder
from space.tools.server import SiteServer
from tests.browser.threads_page import stored_trees

pytestmark = pytest.mark.browser

REPLY_MS = 60_000


@pytest.fixture(scope="module")
def small_url(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[str]:
    """A site whose own model is a golden one with a context of 256 bytes."""
    folder = tmp_path_factory.mktemp("small-site")
    model = data_dir / "golden" / "llama-f32.gguf"
    with SiteServer(site_builder.build_site(folder, model=str(model))) as server:
        yield server.url


@pytest.fixture(scope="module")
def page(browser: Browser, small_url: str) -> Iterator[Page]:
    """One tab for all tests here: starting Python costs more than they do."""
    context = browser.new_context()
    tab = context.new_page()
    tab.on("console", lambda message: print("console:", message.text))
    tab.goto(f"{small_url}?backend=cpu")
    wait_until(tab, "ready")
    yield tab
    context.close()


@pytest.fixture(autouse=True)
def fresh(page: Page) -> None:
    """No conversation is left from the test before."""
    page.get_by_test_id("new-chat").click()
    page.get_by_test_id("input").fill("")


def wait_until(page: Page, state: str) -> None:
    page.wait_for_selector(f"body[data-state={state}]", timeout=REPLY_MS)


def ask(page: Page, text: str) -> None:
    page.get_by_test_id("input").fill(text)
    page.get_by_test_id("input").press("Enter")


def test_a_refused_file_leaves_the_model(page: Page, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Buy milk.")
    page.get_by_test_id("model-file").set_input_files(notes)
    expect(page.get_by_test_id("alert-message")).to_contain_text("not a GGUF file")
    expect(page.get_by_test_id("alert-hint")).to_contain_text("The model before it is still there.")
    expect(page.get_by_test_id("alert-retry")).to_be_hidden()  # it would be no better
    wait_until(page, "ready")
    expect(page.get_by_test_id("model-size")).not_to_contain_text("Not loaded")
    ask(page, "Hi")
    expect(page.get_by_test_id("outcome")).to_contain_text("token", timeout=REPLY_MS)


@pytest.mark.parametrize(
    ("address", "words"), [("models/missing.gguf", "There is no file"), ("index.html", "web page")]
)
def test_a_wrong_address_leaves_the_model(page: Page, address: str, words: str) -> None:
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("model-url").fill(address)  # relative to the site
    page.get_by_test_id("model-url-load").click()
    expect(page.get_by_test_id("alert-message")).to_contain_text(words)
    wait_until(page, "ready")


def test_a_message_that_does_not_fit_comes_back(page: Page) -> None:
    text = "far too long " * 40
    ask(page, text)
    expect(page.get_by_test_id("alert-message")).to_contain_text("the context holds 256")
    expect(page.get_by_test_id("input")).to_have_value(text.strip())
    expect(page.get_by_test_id("message")).to_have_count(0)


def test_a_long_conversation_leaves_out_its_start(page: Page) -> None:
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("setting-maxTokens").fill("12")
    page.get_by_test_id("settings-done").click()
    for count in (1, 2):
        ask(page, "words " * 16)
        expect(page.get_by_test_id("outcome")).to_have_count(count)
        expect(page.get_by_test_id("outcome").last).to_contain_text("token", timeout=REPLY_MS)
        wait_until(page, "ready")
    expect(page.get_by_test_id("left-out")).to_be_visible()
    page.get_by_test_id("prompt").locator("summary").click()
    expect(page.locator("#prompt-text")).to_contain_text("User: words words")


def limit_tokens(page: Page, count: str) -> None:
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("setting-maxTokens").fill(count)
    page.get_by_test_id("settings-done").click()


def reply_to(page: Page, asked: str, *, longer_than: int) -> str:
    """The reply as it came, before Markdown, once that much of it is kept."""
    for _ in range(REPLY_MS // 100):
        page.wait_for_timeout(100)
        for tree in stored_trees(page):
            texts: list[str] = [node["text"] for node in tree["nodes"]]
            if texts[0] == asked and len(texts[-1]) > longer_than and len(texts) == 2:
                return texts[-1]
    raise AssertionError("no such reply was kept")


def test_a_reply_cut_at_its_limit_goes_on(page: Page) -> None:
    limit_tokens(page, "16")
    ask(page, "Tell me")
    expect(page.get_by_test_id("outcome")).to_contain_text("Cut at the length limit")
    half = reply_to(page, "Tell me", longer_than=0)
    page.get_by_test_id("continue").click()
    whole = reply_to(page, "Tell me", longer_than=len(half))
    wait_until(page, "ready")
    assert whole.startswith(half)
    page.get_by_test_id("prompt").locator("summary").click()
    prompt = page.locator("#prompt-text").text_content() or ""
    assert prompt.endswith(f"User: Tell me\nAssistant: {half}")


def test_writing_again_varies_a_greedy_reply(page: Page) -> None:
    ask(page, "Hi")
    expect(page.get_by_test_id("outcome")).to_contain_text("token", timeout=REPLY_MS)
    page.get_by_test_id("regenerate").click()
    expect(page.get_by_test_id("outcome")).to_contain_text("temperature 0.7", timeout=REPLY_MS)


def test_a_cancelled_edit_gives_the_draft_back(page: Page) -> None:
    ask(page, "Hi")
    expect(page.get_by_test_id("outcome")).to_contain_text("token", timeout=REPLY_MS)
    page.get_by_test_id("input").fill("a draft")
    page.locator("[data-role=user]").hover()
    page.get_by_test_id("edit").click()
    expect(page.get_by_test_id("input")).to_have_value("Hi")
    page.get_by_test_id("edit-cancel").click()
    expect(page.get_by_test_id("input")).to_have_value("a draft")


def test_the_context_can_be_chosen(page: Page) -> None:
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("setting-context").select_option("8192")
    expect(page.get_by_test_id("context-help")).to_contain_text("at most 256")
    expect(page.get_by_test_id("about")).to_contain_text("Apache License 2.0")
    page.get_by_test_id("settings-done").click()
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("model-default").click()
    expect(page.get_by_test_id("note").first).to_contain_text("256 tokens")
    page.get_by_test_id("model-button").click()
    expect(page.get_by_test_id("model-default")).to_contain_text("in use")
    page.keyboard.press("Escape")


def test_the_context_can_be_kept_compactly(page: Page, data_dir: Path) -> None:
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("setting-cache").select_option("q8_0")
    # This model's heads of 16 values are no whole blocks.
    expect(page.get_by_test_id("context-help")).to_contain_text("cannot keep them compactly")
    expect(page.get_by_test_id("context-reload")).to_be_hidden()
    page.get_by_test_id("settings-done").click()
    page.get_by_test_id("model-file").set_input_files(data_dir / "golden" / "qwen3-q8_0.gguf")
    expect(page.get_by_test_id("model-name")).to_contain_text("qwen3", ignore_case=True)
    wait_until(page, "ready")
    page.get_by_test_id("settings-button").click()
    help_text = page.get_by_test_id("context-help")
    expect(help_text).to_contain_text("now 256, compact")
    taken = help_text.inner_text()
    page.get_by_test_id("setting-cache").select_option("f16")
    expect(help_text).not_to_have_text(taken)
    expect(page.get_by_test_id("context-reload")).to_be_visible()
    page.get_by_test_id("settings-done").click()
    ask(page, "Hi")
    expect(page.get_by_test_id("outcome").last).to_contain_text("token", timeout=REPLY_MS)
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("context-reload").click()
    wait_until(page, "ready")
    page.get_by_test_id("settings-button").click()
    expect(help_text).not_to_contain_text("compact")
    page.get_by_test_id("settings-done").click()


def test_cancel_dismiss_and_bring_back(tab: Page, small_url: str) -> None:
    tab.goto(f"{small_url}?backend=foo")
    tab.get_by_test_id("load-cancel").click()
    wait_until(tab, "error")
    expect(tab.get_by_test_id("alert-message")).to_contain_text("stopped")
    tab.get_by_test_id("alert-close").click()
    tab.get_by_test_id("alert-recall").click()
    tab.get_by_test_id("alert-retry").click()
    wait_until(tab, "ready")
    expect(tab.get_by_test_id("note").filter(has_text=re.compile("foo"))).to_be_visible()
