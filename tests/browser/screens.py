"""The page's main states, one after the other, for what looks at all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.browser.scripted import ScriptedSite, ask, open_page, say, wait_until

SIZES = {"desktop": (1280, 800), "phone": (390, 844), "narrow": (320, 568)}
SCHEMES = ("light", "dark")

REPLY = """A **rushlight** is a rush dipped in fat. It was the light of those who could not pay for
candles, and burned for about twenty minutes. See [the article](https://example.org/rushlight).

1. Peel the rush, but for one strip of its skin
2. Draw it through melted fat
3. Let it dry, and light it at a slant in an iron clip

```python
def burn(length_cm: float) -> float:
    \"\"\"Minutes that a rush of this length burns.\"\"\"
    return max(0.0, length_cm * 0.5)  # about half a minute a centimetre, in still air
```

| Light | Minutes | Cost |
|---|--:|--:|
| Rushlight | 20 | 1 |
| Tallow candle | 240 | 14 |

> “A light for the many.”
"""
THOUGHT = "<think>The person asks about light.\n\nI should be brief.</think>\nIt is **bright**.\n"
NOTE = "The file asks for a context of 32,768 tokens; this session has 4,096."


@contextmanager
def screen(browser: Browser, size: str, scheme: str) -> Iterator[Page]:
    """A fresh tab of a size and colour scheme; nothing moves in it."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
        has_touch=size != "desktop",
        is_mobile=size != "desktop",
        service_workers="block",
    )
    try:
        yield context.new_page()
    finally:
        context.close()


def states(page: Page, site: ScriptedSite) -> Iterator[str]:
    """Bring the page into each state in turn, and name it."""
    yield from _before(page, site)
    yield from _replies(page, site)
    yield from _dialogs(page)
    yield from _troubles(page, site)


def _before(page: Page, site: ScriptedSite) -> Iterator[str]:
    site.model(holds_at=0.42)
    open_page(page, site, "loading")
    expect(page.get_by_test_id("progress-detail")).to_contain_text("MB")
    yield "loading"
    site.model(notes=[NOTE])
    open_page(page, site)
    yield "first-visit"


def _replies(page: Page, site: ScriptedSite) -> Iterator[str]:
    say(page, site.reply("held", REPLY[:340], holds=True))
    expect(page.locator("[data-role=assistant]")).to_contain_text("iron clip")
    yield "streaming"
    page.get_by_test_id("stop").click()
    wait_until(page, "ready")
    page.get_by_test_id("new-chat").click()
    say(page, site.reply("thinking", THOUGHT[:40], holds=True))
    expect(page.get_by_test_id("thought")).to_contain_text("Thinking")
    yield "thinking"
    page.get_by_test_id("stop").click()
    wait_until(page, "ready")
    page.get_by_test_id("new-chat").click()
    ask(page, "How bright is a rushlight, compared with a candle?")
    ask(page, site.reply("thought", THOUGHT))
    yield "thought-folded"
    page.get_by_test_id("thought").locator("summary").click()
    yield "thought-open"
    page.get_by_test_id("new-chat").click()
    ask(page, site.reply("reply", REPLY))
    expect(page.locator(".hljs-keyword").first).to_be_visible()
    yield "chatting"
    files: list[FilePayload] = [
        {"name": "notes on light.md", "mimeType": "", "buffer": b"# Light\n" * 40},
        {"name": "photo.png", "mimeType": "", "buffer": b"\0"},
    ]
    page.get_by_test_id("attach-file").set_input_files(files)
    expect(page.get_by_test_id("attachment")).to_be_visible()
    page.get_by_test_id("input").fill("What do my notes say?")
    yield "attaching"
    page.get_by_test_id("send").click()
    wait_until(page, "ready")
    page.get_by_test_id("attached").last.locator("summary").click()
    yield "attached"


def _dialogs(page: Page) -> Iterator[str]:
    page.get_by_test_id("history-button").click()
    expect(page.get_by_test_id("thread").first).to_be_visible()
    yield "history"
    hide_history(page)
    page.get_by_test_id("settings-button").click()
    yield "settings"
    for details in page.locator("#settings-dialog summary").all():
        details.click()
    page.locator("#settings-dialog").evaluate("dialog => dialog.scrollTop = dialog.scrollHeight")
    yield "settings-below"
    page.get_by_test_id("settings-done").click()
    page.get_by_test_id("model-button").click()
    yield "model"
    page.keyboard.press("Escape")


def hide_history(page: Page) -> None:
    """Close the list: its own button on a phone, where it covers the page; else the bar's."""
    close = page.get_by_test_id("history-close")
    (close if close.is_visible() else page.get_by_test_id("history-button")).click()
    expect(page.get_by_test_id("history")).to_be_hidden()


def _troubles(page: Page, site: ScriptedSite) -> Iterator[str]:
    fault = {
        "code": "out_of_device_memory",
        "message": "The GPU refused a buffer of 178 MB for token_embd.",
        "hint": "Close other tabs that use the GPU, or choose a smaller model.",
    }
    say(page, site.reply("fault", "A rush", fault=fault))
    expect(page.get_by_test_id("alert")).to_be_visible()
    yield "reply-error"
    site.model(fault={**fault, "code": "model_format", "message": "rush.gguf is cut short."})
    open_page(page, site, "error")
    expect(page.get_by_test_id("alert")).to_be_visible()
    yield "error"
    site.model()
