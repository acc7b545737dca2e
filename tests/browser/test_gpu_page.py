"""The page's GPU side on a tiny model: forced kernels, the profile, and what unloading leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from space.tools.server import SiteServer
from tests.browser.driver import Call, ask_worker
from tests.browser.test_page import wait_until_ready

pytestmark = pytest.mark.browser

MODEL = "llama-f32.gguf"
WAIT_MS = 60_000
READ_KEPT = """async () => {
  const cache = await caches.open("rushlight-adapters");
  const answers = await cache.matchAll();
  return Promise.all(answers.map((answer) => answer.json()));
}"""


@pytest.fixture
def page_url(site_url: str, data_dir: Path) -> Iterator[str]:
    """The page with a tiny model, on WebGPU."""
    with SiteServer(data_dir / "golden", is_shared=True) as server:
        yield f"{site_url}?backend=webgpu&model={server.url}{MODEL}"


def device_report(page: Page) -> dict[str, Any]:
    page.get_by_test_id("report").locator("summary").click()
    text = page.get_by_test_id("report-text")
    expect(text).to_contain_text("userAgent", timeout=WAIT_MS)
    report: dict[str, Any] = json.loads(text.inner_text())
    return report


def test_a_variant_is_forced_by_the_address_and_a_reply_is_profiled(
    tab: Page, page_url: str
) -> None:
    tab.goto(f"{page_url}&variant=rows")
    wait_until_ready(tab)
    tab.locator("#settings-button").click()
    details = device_report(tab)["details"]
    assert details["variants"] == "rows"
    assert {"tiles", "subgroups", "tiles_int8", "rows"} <= set(details["variantsOffered"])
    kept = tab.evaluate(READ_KEPT)
    assert [text["adapter"].split(" | ")[0] for text in kept] == ["google"]
    assert kept[0]["tests"] and not any(kept[0]["tests"].values())
    tab.get_by_test_id("profile-button").click()
    text = tab.get_by_test_id("profile-text")
    expect(text).to_contain_text("GB/s", timeout=WAIT_MS)
    lines = text.inner_text().splitlines()
    assert any(line.startswith("decode") and "attention_step" in line for line in lines), lines
    assert any(line.startswith("prefill") and "matmul" in line for line in lines), lines


def test_an_unknown_variant_is_refused_by_name(tab: Page, page_url: str) -> None:
    tab.goto(f"{page_url}&variant=columns")
    tab.wait_for_selector("body[data-state=error]", timeout=WAIT_MS)
    expect(tab.get_by_test_id("alert")).to_contain_text("'columns' is unknown")


def test_unloading_destroys_every_buffer(harness: Any, data_dir: Path) -> None:
    call = Call("reload", {"n": 3}, data_dir / "golden" / MODEL)
    (rounds,) = ask_worker(harness, "webgpu", [call]).values
    assert len(rounds) == 3
    for loaded, unloaded in rounds:
        assert loaded["nBuffers"] > 10 and loaded["bufferBytes"] > 100_000
        assert unloaded["nBuffers"] == unloaded["bufferBytes"] == 0
    assert rounds[0] == rounds[-1]
