"""Text files that go along with a message: by the button, by drop and by paste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.browser.scripted import ScriptedSite, ask, open_page, scripted_site, wait_until

pytestmark = pytest.mark.browser

GIVE = """([name, text, kind]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const target = kind === "paste" ? document.getElementById("input") : document.body;
  const init = { bubbles: true, cancelable: true };
  if (kind === "paste") {
    target.dispatchEvent(new ClipboardEvent("paste", { ...init, clipboardData: data }));
    return;
  }
  for (const type of ["dragenter", "dragover", "drop"]) {
    target.dispatchEvent(new DragEvent(type, { ...init, dataTransfer: data }));
  }
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """The page with the scripted engine."""
    with scripted_site(tmp_path_factory.mktemp("attach-site")) as found:
        yield found


@pytest.fixture(scope="module")
def page(browser: Browser, site: ScriptedSite) -> Iterator[Page]:
    """One tab for all tests here."""
    context = browser.new_context()
    tab = context.new_page()
    tab.on("console", lambda message: print("console:", message.text))
    site.model(hasChatTemplate=False)  # the page shows the prompt of such a model
    open_page(tab, site)
    yield tab
    context.close()


@pytest.fixture(autouse=True)
def fresh(page: Page) -> None:
    """No conversation and no file is left from the test before."""
    page.get_by_test_id("new-chat").click()
    page.get_by_test_id("input").fill("")
    chips = page.get_by_test_id("attachment")
    while chips.count():
        chips.first.get_by_role("button").click()


def file(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "", "buffer": content}


def attach(page: Page, *files: FilePayload) -> None:
    page.get_by_test_id("attach-file").set_input_files(files)


def given(page: Page) -> str:
    """What the engine was asked."""
    page.get_by_test_id("prompt").locator("summary").first.click()
    text = page.locator("#prompt-text").text_content() or ""
    page.get_by_test_id("prompt").locator("summary").first.click()
    return text.removeprefix("User: ")


def test_a_file_goes_along_and_comes_back(page: Page) -> None:
    attach(
        page, file("notes.md", b"# Buy\n\n```sh\nmilk\n```\n"), file("a.csv", "ä,b\r\n1,2".encode())
    )
    chips = page.get_by_test_id("attachment")
    expect(chips).to_have_count(2)
    expect(chips.first).to_contain_text("notes.md")
    expect(chips.first).to_contain_text("22 B")
    ask(page, "What is it?")
    expect(chips).to_have_count(0)
    assert given(page) == (
        "Attached file: notes.md\n\n````md\n# Buy\n\n```sh\nmilk\n```\n````\n\n"
        "Attached file: a.csv\n\n```csv\nä,b\n1,2\n```\n\nWhat is it?"
    )
    message = page.locator("[data-role=user]")
    expect(message.get_by_test_id("attached")).to_have_count(2)
    expect(message.locator(".body")).to_contain_text("What is it?")
    expect(message.locator(".body")).not_to_contain_text("````")
    message.hover()
    page.get_by_test_id("edit").click()
    expect(chips).to_have_count(2)
    expect(page.get_by_test_id("input")).to_have_value("What is it?")
    chips.first.get_by_role("button", name="Remove notes.md").click()
    ask_again = page.get_by_test_id("input")
    ask_again.fill("And now?")
    ask_again.press("Enter")
    expect(page.locator("[data-role=user]").get_by_test_id("attached")).to_have_count(1)
    wait_until(page, "ready")


def test_a_file_alone_can_be_sent(page: Page) -> None:
    attach(page, file("notes.txt", b"Buy milk."))
    expect(page.get_by_test_id("send")).to_be_enabled()
    page.get_by_test_id("send").click()
    expect(page.locator("[data-role=user]").get_by_test_id("attached")).to_contain_text("notes.txt")
    wait_until(page, "ready")


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_a_file_can_be_dropped_and_pasted(page: Page, kind: str) -> None:
    page.evaluate(GIVE, ["list.txt", "milk", kind])
    expect(page.get_by_test_id("attachment")).to_contain_text("list.txt")
    expect(page.get_by_test_id("drop-overlay")).to_be_hidden()
    wait_until(page, "ready")  # it was not taken for a model


def test_a_dropped_model_is_still_loaded(page: Page, site: ScriptedSite) -> None:
    site.model(name="", hasChatTemplate=False)
    page.evaluate(GIVE, ["dropped.gguf", "GGUF", "drop"])
    expect(page.get_by_test_id("model-name")).to_have_text("dropped")
    wait_until(page, "ready")
    expect(page.get_by_test_id("attachment")).to_have_count(0)
    site.model(hasChatTemplate=False)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("photo.png", b"\x89PNG\r\n\x1a\n\0\0", "photo.png is not a text file."),
        ("latin.txt", b"caf\xe9", "latin.txt is not a text file."),
        ("empty.txt", b"  \n", "empty.txt is empty."),
        ("big.txt", b"x" * 300_000, "big.txt has 300 kB; up to 256 kB can be attached."),
    ],
)
def test_what_cannot_be_attached_is_named(
    page: Page, name: str, content: bytes, words: str
) -> None:
    attach(page, file("good.txt", b"good"), file(name, content))
    expect(page.get_by_test_id("attach-note")).to_have_text(words)
    expect(page.get_by_test_id("attachment")).to_have_count(1)


def test_wide_text_is_read(page: Page) -> None:
    attach(page, file("wide.txt", "\ufeffשלום".encode("utf-16-le")))
    ask(page, "?")
    assert "```txt\nשלום\n```" in given(page)


@pytest.mark.parametrize(
    "files",
    [
        [{"name": "a.txt", "text": "one\n\n```\ntwo"}],
        [{"name": "a.py", "text": "````\n`````"}, {"name": "b", "text": "x"}],
        [],
    ],
)
@pytest.mark.parametrize("text", ["", "Attached file: no\n\nreally", "hello"])
def test_a_message_can_be_taken_apart(page: Page, files: list[dict[str, Any]], text: str) -> None:
    found = page.evaluate(
        """async ([text, files]) => {
          const { joinMessage, splitMessage } = await import("./js/attachments.js");
          return splitMessage(joinMessage(text, files));
        }""",
        [text, files],
    )
    assert found == {"text": text, "files": files}
