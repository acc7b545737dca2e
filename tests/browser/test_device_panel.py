"""The device panel on the real engine: what it says, live timings, and a report free of text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from space.tools import site_builder
from space.tools.server import SiteServer
from tests.tools.faulty_host import FaultyHost

pytestmark = pytest.mark.browser

WAIT_MS = 120_000
SECRET = "tungsten-heron"
MODEL = Path(__file__).parent.parent / "data" / "golden" / "llama-f32.gguf"
REQUESTS: list[Request] = []
"""What the page and its worker asked for, up to the first reply."""
RANGES: list[tuple[int, int]] = []
"""The first and last byte of each request for the model."""
GROUPS = ["In use", "Graphics adapter", "Kernels", "Memory", "Browser", "Version and start"]


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One tab with the panel beside the conversation, after a reply to a message with a secret."""
    folder = tmp_path_factory.mktemp("panel-site")
    site = site_builder.build_site(folder / "site", model=str(MODEL))
    with SiteServer(site) as server, FaultyHost(MODEL.read_bytes()) as host:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        tab = context.new_page()
        tab.on("console", lambda message: print("console:", message.text))
        context.on("request", lambda request: REQUESTS.append(request))
        # The address is what a person may have typed too.
        tab.goto(f"{server.url}?backend=webgpu&debug=1&model={host.url}?{SECRET}")
        until(tab, "ready")
        tab.get_by_test_id("input").fill(f"My password is {SECRET}.")
        tab.get_by_test_id("input").press("Enter")
        done = tab.locator("[data-testid=message][data-role=assistant][data-status=done]")
        expect(done).to_have_count(1, timeout=WAIT_MS)
        RANGES.extend(host.requests)
        yield tab
        context.close()


def until(page: Page, state: str) -> None:
    page.wait_for_selector(f"body[data-state={state}]", timeout=WAIT_MS)


def facts(page: Page, part: str = "device-facts") -> dict[str, str]:
    lists = page.get_by_test_id(part)
    names, values = (lists.locator(tag).all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def copied(page: Page) -> str:
    page.get_by_test_id("report-copy").click()
    expect(page.get_by_test_id("report-copy")).to_have_text("Copied")
    text: str = page.evaluate("() => navigator.clipboard.readText()")
    return text


def test_it_says_where_and_how_the_model_runs(page: Page) -> None:
    assert page.get_by_test_id("device-facts").locator("h3").all_inner_texts() == GROUPS
    found = facts(page)
    assert found["Runs on"].startswith("WebGPU, google")
    assert found["Model"].startswith("llama, F32")
    assert found["Chosen"] == "rows" and "tiles" in found["Possible here"]
    assert re.fullmatch(r"\d+ right, none wrong", found["Self-test"])
    assert found["Kind"].startswith("software")
    assert int(found["Threads of a workgroup"].replace(",", "")) >= 256
    assert found["Cut to fit"] == "nothing"
    assert found["Browser"] == page.evaluate("() => navigator.userAgent")
    assert "quota" not in found["Storage"] and " of " in found["Storage"]


def test_memory_adds_up(page: Page) -> None:
    report: dict[str, Any] = json.loads(page.get_by_test_id("report-text").inner_text())
    details = report["details"]
    kinds = details["memoryBytes"]
    assert {"weight", "state", "scratch"} <= set(kinds)
    assert report["deviceBytes"] == sum(kinds.values())
    held = details["device"]["bufferBytes"]
    assert kinds["weight"] <= held and held <= 1.5 * report["deviceBytes"]
    assert details["largestBuffer"]["nBytes"] <= held
    assert report["heapBytes"] > 10 << 20


def test_the_reply_is_timed_while_it_is_written(page: Page) -> None:
    live = facts(page, "device-live-facts")
    # Of a short reply one look sees all, its message included.
    speed = re.fullmatch(r"([\d.]+) tokens/s", live.get("Speed") or live["Message and reply"])
    assert speed and float(speed[1]) > 0
    for name in ("Waiting for the GPU", "JavaScript", "Python", "Text and the rest"):
        assert re.fullmatch(r"[\d.]+ ms", live[name]), live
    assert float(live["Waiting for the GPU"].split()[0]) > 0
    assert live["Read back"].endswith("a token") and live["Submits"].endswith("a token")


def test_the_report_holds_nothing_that_was_written(page: Page) -> None:
    reply = page.locator("[data-role=assistant] .body").last.inner_text().strip()
    text = copied(page)
    assert text.startswith("## Rushlight device report") and "| Self-test |" in text
    assert [line[4:] for line in text.splitlines() if line.startswith("### ")] == GROUPS
    for whole in (text, page.get_by_test_id("report-text").inner_text()):
        assert SECRET not in whole and "password" not in whole
        assert len(reply) > 8 and reply[:8] not in whole
        assert "http://" not in whole  # nor where the model came from
    with page.expect_download() as download:
        page.get_by_test_id("report-save").click()
    assert re.fullmatch(r"rushlight-report-\d{4}-\d\d-\d\d\.md", download.value.suggested_filename)
    saved = Path(download.value.path()).read_text(encoding="utf-8")
    moving = re.compile(r"\| (Python|Storage) \|.*")  # memory that goes on being used
    assert moving.sub("", saved) == moving.sub("", text)


def test_each_large_file_was_fetched_once(page: Page) -> None:
    """A download with a progress bar is one download, bar a question or two for its start."""
    urls = [each.url for each in REQUESTS]
    large = [url for url in urls if url.endswith((".wasm", ".whl", ".zip"))]
    assert len(large) >= 4 and len(large) == len(set(large)), large
    size = MODEL.stat().st_size
    assert size <= sum(last + 1 - first for first, last in RANGES) < 1.5 * size, RANGES


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_it_fits_the_window(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    dock = page.get_by_test_id("device-dock")
    box = dock.bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= height
    wide = (
        "e => [...e.querySelectorAll('dd, dt, p')].filter(c => c.scrollWidth > c.clientWidth + 1)"
    )
    assert dock.evaluate(f"e => ({wide})(e).map(c => c.textContent)") == []
    assert page.get_by_test_id("input").is_visible()
    reply = page.locator("[data-role=assistant] .body").last.bounding_box()
    assert reply and (
        reply["x"] + reply["width"] <= box["x"] or reply["y"] >= box["y"] + box["height"]
    )


def test_a_message_that_is_read_is_no_speed_of_the_reply(page: Page) -> None:
    found = page.evaluate("""async () => {
      const { countersOf, liveFacts } = await import("/js/device_live.js");
      const at = (atMs, sessionTokens, replyTokens) =>
        countersOf({ details: { atMs, sessionTokens, replyTokens } });
      return [
        liveFacts(at(0, 0, 0), at(4000, 80, 0))[0],
        liveFacts(at(0, 0, 0), at(5000, 81, 2))[0],
        liveFacts(at(5000, 81, 2), at(6000, 85, 6))[0],
        liveFacts(at(0, 0, 0), at(1000, 0, 0)),
      ];
    }""")
    assert found == [
        ["Reading the message", "20.0 tokens/s"],
        ["Message and reply", "16.2 tokens/s"],
        ["Speed", "4.00 tokens/s"],
        None,
    ]


def test_it_can_be_put_away(page: Page) -> None:
    page.locator("#device-dock-close").click()
    expect(page.get_by_test_id("device-dock")).to_be_hidden()
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("report").locator("summary").click()
    expect(page.get_by_test_id("device-facts").locator("h3").first).to_be_visible()
    page.get_by_test_id("settings-done").click()
