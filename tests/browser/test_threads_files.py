"""Conversations as files: what is exported comes back, and what is damaged is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.scripted import ask
from tests.browser.threads_page import ask_edited, new_chat, rows, texts

pytestmark = pytest.mark.browser


def test_export_and_import(talk: Page, tmp_path: Path) -> None:
    ask(talk, "# Once")
    first = talk.locator("[data-role=user]").first
    first.hover()
    first.get_by_test_id("edit").click()
    ask_edited(talk, "Twice")
    with talk.expect_download() as waiting:
        talk.get_by_test_id("history-export").click()
    path = tmp_path / "all.json"
    waiting.value.save_as(path)
    file = json.loads(path.read_text())
    assert (file["format"], file["version"]) == ("rushlight-conversations", 1)
    assert [node["text"] for node in file["threads"][0]["nodes"]] == ["# Once"] * 2 + ["Twice"] * 2
    talk.get_by_test_id("thread").hover()
    with talk.expect_download() as waiting:
        talk.get_by_test_id("thread-export").click()
    markdown = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(markdown)
    assert markdown.name == "Twice.md"
    assert markdown.read_text() == "# Twice\n\n## You\n\nTwice\n\n## Reply\n\nTwice\n"
    talk.get_by_test_id("history-delete-all").click()
    for _ in range(2):  # a second time it adds nothing
        talk.get_by_test_id("history-import").set_input_files(path)
        expect(talk.get_by_test_id("announcer")).to_have_text("One conversation imported.")
        expect(rows(talk)).to_have_count(1)
    rows(talk).click()
    expect(talk.get_by_test_id("message")).to_have_count(2)
    assert texts(talk) == ["Twice", "Twice"]
    expect(talk.get_by_test_id("version").first).to_have_text("2/2")


def test_what_is_imported_while_all_are_deleted_stays(talk: Page) -> None:
    ask(talk, "One")
    kept = talk.evaluate("""async (file) => {
      const { Threads } = await import("/js/threads.js");
      const threads = new Threads();
      await threads.start();
      const deleting = threads.remove(null);
      await Promise.all([deleting, threads.restore(file.threads)]);
      const [deleted, kept] = [await deleting, await threads.all()];
      return [deleted.map(({ title }) => title), kept.map(({ id }) => id)];
    }""", threads_file())  # fmt: skip
    assert kept == [["One"], ["t1"]]
    new_chat(talk)  # the page was told that its conversation is gone, and shows it still


def threads_file(**changes: Any) -> dict[str, Any]:
    node = {"id": "n1", "parent": None, "role": "user", "text": "Hi", "at": 1}
    thread = {
        **{"id": "t1", "title": "T", "isNamed": False, "createdAt": 1, "updatedAt": 2},
        **{"system": "", "options": {}, "nodes": [{**node, **changes.pop("node", {})}]},
    }
    thread.update(changes.pop("thread", {}))
    return {"format": "rushlight-conversations", "version": 1, "threads": [thread], **changes}


REPLY = {"id": "n2", "parent": "n9", "role": "assistant", "text": "x", "at": 1}


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("Buy milk.", "import_not_json", "not JSON"),
        ("[]", "import_wrong_format", "no conversations"),
        (threads_file(version=2), "import_newer_version", "version 2"),
        (threads_file(threads="all"), "import_damaged", "threads is no list"),
        (threads_file(threads=[None]), "import_damaged", "threads[0] is no object"),
        (threads_file(thread={"id": "a b"}), "import_damaged", "threads[0].id is no id"),
        (threads_file(thread={"nodes": []}), "import_damaged", "nodes is empty"),
        (threads_file(thread={"nodes": [REPLY]}), "import_damaged", "nodes[0].parent"),
        (threads_file(node={"role": "system"}), "import_damaged", "nodes[0].role"),
        (threads_file(node={"text": 7}), "import_damaged", "nodes[0].text is no text"),
        (threads_file(thread={"title": "x" * 401}), "import_damaged", "401 characters"),
        (threads_file(node={"at": "now"}), "import_damaged", "nodes[0].at is no time"),
    ],
)
def test_a_damaged_file_is_refused_by_name(talk: Page, content: Any, code: str, words: str) -> None:
    data = content if isinstance(content, str) else json.dumps(content)
    talk.get_by_test_id("history-import").set_input_files(
        {"name": "t.json", "mimeType": "application/json", "buffer": data.encode()}
    )
    expect(talk.get_by_test_id("alert-message")).to_contain_text(words)
    expect(talk.get_by_test_id("alert")).to_have_attribute("data-code", code)
    expect(rows(talk)).to_have_count(0)
    talk.get_by_test_id("alert-close").click()


def test_an_imported_text_stays_text(talk: Page) -> None:
    title = "<img src=x onerror=document.title='run'>"
    file = threads_file(thread={"title": title}, node={"text": title, "chosen": "nothing"})
    talk.get_by_test_id("history-import").set_input_files(
        {"name": "t.json", "mimeType": "application/json", "buffer": json.dumps(file).encode()}
    )
    expect(rows(talk)).to_contain_text(title)
    rows(talk).click()
    expect(talk.get_by_test_id("message")).to_have_count(1)
    assert texts(talk) == [title]
    assert talk.locator(".history img, .message img").count() == 0


def test_a_long_conversation_is_drawn_to_its_end(talk: Page) -> None:
    nodes = []
    for i in range(240):
        role = "user" if i % 2 == 0 else "assistant"
        text = f"**Message {i}**\n\n" + "- a point\n" * 20 + "\n```python\nprint(1)\n```\n"
        parent = f"n{i - 1}" if i else None
        nodes.append({"id": f"n{i}", "parent": parent, "role": role, "text": text, "at": i})
    data = json.dumps(threads_file(thread={"nodes": nodes})).encode()
    talk.get_by_test_id("history-import").set_input_files(
        {"name": "t.json", "mimeType": "application/json", "buffer": data}
    )
    expect(rows(talk)).to_have_count(1)
    talk.evaluate(
        """() => {
          window.longest = 0;
          new PerformanceObserver((list) => {
            for (const { duration } of list.getEntries()) {
              window.longest = Math.max(window.longest, duration);
            }
          }).observe({ type: "longtask" });
        }"""
    )
    rows(talk).click()
    expect(talk.get_by_test_id("message")).to_have_count(240)
    expect(talk.locator("[data-role=assistant] strong")).to_have_count(120)
    expect(talk.locator("[data-role=assistant][data-status=done]")).to_have_count(120)
    print(f"longest task: {talk.evaluate('window.longest')} ms")
    expect(talk.get_by_test_id("to-latest")).to_be_hidden()  # the end is in view


def take(page: Page, *files: dict[str, Any]) -> None:
    """Import each file, and wait until it is in."""
    for file in files:
        data = json.dumps(file).encode()
        page.get_by_test_id("announcer").evaluate("element => (element.textContent = '')")
        page.get_by_test_id("history-import").set_input_files(
            {"name": "t.json", "mimeType": "application/json", "buffer": data}
        )
        expect(page.get_by_test_id("announcer")).to_contain_text("imported")


def chain(*links: tuple[str, str | None, str, str | None]) -> list[dict[str, Any]]:
    """Messages (id, parent, role, chosen); each says its id."""
    return [
        {"id": i, "parent": p, "role": role, "text": i, "at": 1, **({"chosen": c} if c else {})}
        for i, p, role, c in links
    ]


def test_what_was_sent_comes_back_however_long(talk: Page, tmp_path: Path) -> None:
    take(talk, threads_file(node={"text": "Long. " * 250_000}))
    with talk.expect_download() as waiting:
        talk.get_by_test_id("history-export").click()
    path = tmp_path / "all.json"
    waiting.value.save_as(path)
    talk.get_by_test_id("history-delete-all").click()
    expect(rows(talk)).to_have_count(0)
    take(talk, json.loads(path.read_text()))
    expect(rows(talk)).to_have_count(1)


def test_a_longer_copy_is_shown_to_its_end(talk: Page) -> None:
    short = chain(("q1", None, "user", "r1"), ("r1", "q1", "assistant", None))
    longer = [
        *chain(("q1", None, "user", "r1"), ("r1", "q1", "assistant", "q2")),
        *chain(("q2", "r1", "user", "r2"), ("r2", "q2", "assistant", None)),
    ]
    take(talk, threads_file(thread={"nodes": short}), threads_file(thread={"nodes": longer}))
    rows(talk).click()
    expect(talk.get_by_test_id("message")).to_have_count(4)
    assert texts(talk) == ["q1", "r1", "q2", "r2"]


def test_two_copies_cannot_make_a_circle(talk: Page) -> None:
    first = chain(("a", None, "user", "b"), ("b", "a", "assistant", "d"), ("d", "b", "user", "e"))
    first += chain(("e", "d", "assistant", None))
    second = chain(("d", None, "user", "n"), ("n", "d", "assistant", "b"), ("b", "n", "user", None))
    take(talk, threads_file(thread={"nodes": first}), threads_file(thread={"nodes": second}))
    rows(talk).click()
    expect(talk.get_by_test_id("message")).to_have_count(4)
    talk.locator("[data-action=newer]").last.click()
    expect(talk.get_by_test_id("message")).to_have_count(4)
    assert texts(talk)[-1] == "n"


def test_many_conversations_are_imported_together(talk: Page) -> None:
    threads = [threads_file(thread={"id": f"t{i}"})["threads"][0] for i in range(300)]
    take(talk, threads_file(threads=threads))
    expect(rows(talk)).to_have_count(300)
