"""Replies as Markdown: drawn piece by piece they end as drawn at once, at a flat cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.long_reply import long_reply
from tests.browser.scripted import ScriptedSite, ask, open_page, say, scripted_site

pytestmark = pytest.mark.browser

# Draws a text piece by piece and then at once; counts what Markdown was read for each piece.
DRAW = """async ({ text, size }) => {
  const { ReplyRenderer } = await import("./js/render.js");
  const { Marked } = await import("./vendor/marked.esm.js");
  const read = [];
  const lexer = Marked.prototype.lexer;
  Marked.prototype.lexer = function (source) {
    read[read.length - 1] += source.length;
    return lexer.apply(this, arguments);
  };
  const plain = (root) => { // without what comes later, or with time
    for (const code of root.querySelectorAll("pre code")) code.textContent = code.textContent;
    root.querySelector("summary")?.remove();
    return root.innerHTML;
  };
  try {
    const target = document.createElement("div");
    const renderer = new ReplyRenderer(target);
    const shown = [];
    let nRemoved = 0;
    const watch = new MutationObserver((all) => {
      for (const { removedNodes } of all) nRemoved += removedNodes.length;
    });
    watch.observe(target, { childList: true, subtree: true });
    for (let end = size; end < text.length + size; end += size) {
      read.push(0);
      renderer.update(text.slice(0, end));
      shown.push(target.textContent);
    }
    await Promise.resolve();
    watch.disconnect();
    const streamed = target.innerHTML;
    read.push(0);
    renderer.finish(text);
    const finished = plain(target);
    const fresh = document.createElement("div");
    read.push(0);
    new ReplyRenderer(fresh).finish(text);
    return { read: read.slice(0, -2), shown, streamed, finished, whole: plain(fresh), nRemoved };
  } finally {
    Marked.prototype.lexer = lexer;
  }
}"""

TEXTS = {
    "prose": (
        "Light.\n\nA *rush* is **soft** and `cheap`; see [the article](https://e.org/a_b).\n\nEnd."
    ),
    "heading": "# One\n\ntext\n\n## Two\nmore\n\nSetext\n------\n\nlast",
    "list": (
        "Here are:\n- one\n- two **bold**\n  - inner\n  - other\n- three\n"
        "- four\n- five\n- six\n\nDone."
    ),
    "loose list": (
        "1. one\n\n2. two\n\n   more of two\n\n3. three\n4. four\n\n5. five\n6. six\n7. seven"
    ),
    "numbers": (
        "1. a\n2. b\n3. c\n4. d\n5. e\n6. f\n7. g\n8. h\n\nBut:\n\n3) x\n4) y\n5) z\n6) w\n7) v\n"
    ),
    "ones": "1. a\n1. b\n1. c\n1. d\n1. e\n1. f\n1. g\n1. h\n",
    "table": (
        "Before\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n"
        "| 7 | 8 |\n| 9 | 10 |\n\nAfter."
    ),
    "bare table": "a | b\n--|--\n1 | 2\n3 | 4\n5 | 6\n7 | 8\n9 | 10\n11 | 12\n",
    "code": (
        "Run:\n```python\ndef f(x):\n    # a comment\n    return x < 1\n\n\n"
        "print(f(2))\n```\nand\n\n```\nplain\n```\n"
    ),
    "open code": "```js\nlet a = 1;\nlet b = `x`;\nlet c = 3;\n\nlet d = 4;\n",
    "long fence": "````md\n```py\nx\n```\n\nstill\ninside\nof\nit\n````\n\nout\n",
    "indented fence": "- item\n\n  ```sh\n  ls\n  cd\n  pwd\n  rm\n  ```\n\n  more\n\n- next\n",
    "indented code": "text\n\n    four\n    spaces\n\n    and more\n\nend",
    "quote": "> quoted\n> on\n>\n> - with\n> - list\n\nafter\n\n***\n\nlast",
    "late link": (
        "See [this][1] and ![pic][1].\n\nMore.\n\nMore.\n\nMore.\n\nMore.\n\n"
        "[1]: https://e.org/late\n"
    ),
    "html": (
        "A <b>bold</b> and <script>x</script>\n\n<div>\nblock\n</div>\n\n"
        "<!-- a\n\ncomment -->\n\nend"
    ),
    "math": (
        "So \\(a_1 * b_2 * c\\) and $$x_1 = y_2$$ and $f_a(x)^2$.\n\n\\[\n"
        "a = b\n- c\n= d\n\\]\n\nIt costs $5 or $6.\n"
    ),
    "thought": "<think>\nFirst *this*.\n\n- and that\n</think>\n\nThe **answer**.\n",
    "returns": "one\r\n\r\n- a\r\n- b\r\n- c\r\n- d\r\n- e\r\n- f\r\n\r\ntwo\r\n",
    "tabs": "-\ta\n-\tb\n-\tc\n-\td\n-\te\n-\tf\n\n\tcode\n",
    "number": "42",
    "rtl": "שלום עולם\n\n- אחת\n- שתיים\n\nhello",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """The page with the scripted engine."""
    with scripted_site(tmp_path_factory.mktemp("render-site")) as found:
        yield found


@pytest.fixture(scope="module")
def page(browser: Browser, site: ScriptedSite) -> Iterator[Page]:
    """One tab for all tests here."""
    context = browser.new_context()
    tab = context.new_page()
    tab.on("console", lambda message: print("console:", message.text))
    open_page(tab, site)
    yield tab
    context.close()


@pytest.fixture(autouse=True)
def fresh(page: Page) -> None:
    """No conversation is left from the test before."""
    page.get_by_test_id("new-chat").click()


def draw(page: Page, text: str, size: int) -> dict[str, Any]:
    result: dict[str, Any] = page.evaluate(DRAW, {"text": text, "size": size})
    return result


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("name", TEXTS)
def test_piece_by_piece_ends_as_at_once(page: Page, name: str, size: int) -> None:
    result = draw(page, TEXTS[name], size)
    assert result["finished"] == result["whole"]


def test_a_long_reply_ends_as_at_once(page: Page) -> None:
    result = draw(page, long_reply(1000), 3)
    assert result["finished"] == result["whole"]


def test_what_is_read_for_a_piece_stays_flat(page: Page) -> None:
    text = long_reply(4000)
    result = draw(page, text, 4)
    read = result["read"]
    tenth = len(read) // 10
    first, last = sum(read[:tenth]) / tenth, sum(read[-tenth:]) / tenth
    print(f"{len(read)} pieces, characters read for one: {first:.0f} at first, {last:.0f} at last")
    assert max(read) < 4000, "a piece made the page read much of the reply again"
    assert sum(read) / len(read) < 800
    # Nodes go only for the block at the end: each piece takes its old form away, little more.
    assert result["nRemoved"] < 3 * len(read)


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("prose", ("**", "`", "](")),
        ("table", ("|", "--")),
        ("code", ("``",)),
        ("heading", ("#", "--")),
        ("list", ("**",)),
    ],
)
def test_markup_is_never_shown_while_it_comes_in(
    page: Page, name: str, marks: tuple[str, ...]
) -> None:
    for shown in draw(page, TEXTS[name], 1)["shown"]:
        assert not [mark for mark in marks if mark in shown], shown


def test_a_list_does_not_pass_through_a_heading(page: Page) -> None:
    seen = page.evaluate(
        """async (text) => {
          const { ReplyRenderer } = await import("./js/render.js");
          const target = document.createElement("div");
          const renderer = new ReplyRenderer(target);
          const seen = new Set();
          for (let end = 1; end <= text.length; end += 1) {
            renderer.update(text.slice(0, end));
            for (const element of target.children) seen.add(element.tagName);
          }
          return [...seen].sort();
        }""",
        TEXTS["list"],
    )
    assert seen == ["P", "UL"]


def test_code_has_a_label_a_button_and_colours(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("code", TEXTS["code"]))
    first, second = page.locator(".code").all()
    expect(first.locator(".language")).to_have_text("python")
    expect(second.locator(".language")).to_have_text("text")
    expect(first.locator(".hljs-keyword").first).to_have_text("def")
    assert first.locator("code").text_content() == (
        "def f(x):\n    # a comment\n    return x < 1\n\n\nprint(f(2))"
    )
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    second.get_by_role("button", name="Copy this code").click()
    expect(page.get_by_test_id("announcer")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "plain"


def test_code_in_a_list_is_shown_as_all_code(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("inner", TEXTS["indented fence"]))
    code = page.locator("[data-role=assistant] li .code")
    expect(code.locator(".language")).to_have_text("sh")
    expect(code.locator(".hljs-built_in").first).to_have_text("ls")
    assert code.locator("code").text_content() == "ls\ncd\npwd\nrm"
    assert page.locator("[data-role=assistant] [lang]").count() == 0


def test_lists_keep_their_numbers_and_tables_their_sides(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("sides", "7. seven\n8. eight\n\n| a | b |\n|--:|:-:|\n| 1 | 2 |\n"))
    body = page.locator("[data-role=assistant] .body")
    expect(body.locator("ol")).to_have_attribute("start", "7")
    sides = "cells => cells.map((cell) => getComputedStyle(cell).textAlign)"
    assert body.locator("td").evaluate_all(sides) == ["end", "center"]


def test_no_grammar_comes_with_the_page(browser: Browser, site: ScriptedSite) -> None:
    context = browser.new_context()
    tab = context.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    open_page(tab, site)
    ask(tab, "no code here")
    assert not [url for url in asked if "highlight" in url]
    ask(tab, site.reply("json", '```json\n{"a": 1}\n```\n'))
    expect(tab.locator(".hljs-attr")).to_have_text('"a"')
    files = [url.rsplit("/", 1)[1] for url in asked if "highlight" in url]
    assert files == ["core.min.js", "json.min.js"]
    context.close()


def test_a_thought_is_folded_and_timed(page: Page, site: ScriptedSite) -> None:
    say(page, site.reply("think", "<think>Let me see, slowly.", per_second=40, holds=True))
    thought = page.get_by_test_id("thought")
    expect(thought.locator("summary")).to_have_text("Thinking…")
    expect(thought).not_to_have_attribute("open", "")
    page.get_by_test_id("stop").click()
    ask(page, site.reply("thought", TEXTS["thought"], per_second=40))
    expect(thought.last.locator("summary")).to_have_text(re.compile(r"Thought for \d+(\.\d)? s"))
    assert page.locator("[data-role=assistant]").last.locator("strong").inner_text() == "answer"


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>a</think>b", "a", "b"),
        ("\n<think>\na\n</think>\n\nb", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("a</think>b", "a", "b"),
        ("Write `</think>` to end it.", "", "Write `</think>` to end it."),
        ("<think></think>b", "", "b"),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            "a",
            "b",
        ),
        ("no thought", "", "no thought"),
    ],
)
def test_thought_and_answer_are_told_apart(
    page: Page, text: str, thought: str, answer: str
) -> None:
    script = "async (text) => (await import('./js/render.js')).splitThought(text)"
    found = page.evaluate(script, text)
    assert (found["thought"], found["answer"]) == (thought, answer)
    assert found["isThinking"] is False


def test_each_block_has_its_own_direction(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("rtl", TEXTS["rtl"]))
    directions = page.evaluate(
        """() => [...document.querySelectorAll("[data-role=assistant] .body > *")]
          .map((block) => [block.tagName, getComputedStyle(block).direction])"""
    )
    assert directions == [["P", "rtl"], ["UL", "rtl"], ["P", "ltr"]]
    page.get_by_test_id("input").fill("שלום")
    style = "document.getElementById('input').matches(':dir(rtl)')"
    assert page.evaluate(style)


def test_formulas_stay_as_they_were_written(page: Page, site: ScriptedSite) -> None:
    ask(page, site.reply("math", TEXTS["math"]))
    shown = page.locator("[data-role=assistant] .body").inner_text()
    for formula in ("\\(a_1 * b_2 * c\\)", "$$x_1 = y_2$$", "$f_a(x)^2$", "$5 or $6", "- c\n= d"):
        assert formula in shown
