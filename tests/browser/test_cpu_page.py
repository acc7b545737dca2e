"""The chat page on the CPU kernels: threads, notes, the device panel, a stop in a long prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from space.tools import site_builder
from space.tools.server import SiteServer
from tests.tools import chromium

pytestmark = pytest.mark.browser

READY_MS = 60_000
LOAD_MS = 240_000
STOP_MS = 200


@pytest.fixture(scope="module")
def small_site(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    """A site whose own model is a golden one."""
    folder = tmp_path_factory.mktemp("small-site")
    return site_builder.build_site(folder, model=str(data_dir / "golden" / "llama-kquants.gguf"))


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """A tab with a loaded model."""
    context = browser.new_context()
    tab = context.new_page()
    tab.on("console", lambda message: print("console:", message.text))
    tab.goto(url)
    tab.wait_for_selector("body[data-state=ready]", timeout=LOAD_MS)
    yield tab
    context.close()


def answer(tab: Page) -> None:
    """Ask for a short reply and wait for its end."""
    tab.get_by_test_id("settings-button").click()
    tab.get_by_test_id("setting-maxTokens").fill("8")
    tab.get_by_test_id("settings-done").click()
    tab.get_by_test_id("input").fill("Hi")
    tab.get_by_test_id("input").press("Enter")
    expect(tab.get_by_test_id("outcome")).to_contain_text("token", timeout=READY_MS)


def facts(tab: Page) -> dict[str, str]:
    """What the device panel says."""
    tab.get_by_test_id("settings-button").click()
    tab.get_by_test_id("report").locator("summary").click()
    expect(tab.get_by_test_id("device-facts").locator("dt").first).to_be_visible()
    names = tab.get_by_test_id("device-facts").locator("dt").all_inner_texts()
    values = tab.get_by_test_id("device-facts").locator("dd").all_inner_texts()
    tab.get_by_test_id("settings-done").click()
    return dict(zip(names, values, strict=True))


def profiled(tab: Page) -> str:
    """The profile of one reply, from the open page's settings."""
    tab.get_by_test_id("settings-button").click()
    tab.get_by_test_id("report").locator("summary").click()
    tab.get_by_test_id("profile-button").click()
    expect(tab.get_by_test_id("profile-text")).to_contain_text("decode", timeout=READY_MS)
    text = tab.get_by_test_id("profile-text").inner_text()
    tab.get_by_test_id("settings-done").click()
    return text


def test_threads_are_shown_and_can_be_set(browser: Browser, small_site: Path) -> None:
    with (
        SiteServer(small_site) as server,
        opened(browser, f"{server.url}?backend=cpu&threads=2") as tab,
    ):
        answer(tab)
        expect(tab.get_by_test_id("backend-chip")).to_have_text("CPU · 2 threads")
        found = facts(tab)
        assert found["Runs on"] == "CPU, 2 threads"
        assert "relaxed SIMD, 8-bit activations" in found["Kernels"]
        assert "matmul" in found["Accelerated"] and "attention" in found["Accelerated"]
        assert found["By numpy"] == "nothing"
        assert "matmul blk.*.ffn_up.weight" in profiled(tab)
        tab.get_by_test_id("settings-button").click()
        tab.get_by_test_id("setting-threads").fill("1")
        tab.get_by_test_id("setting-threads").blur()
        tab.get_by_test_id("threads-reload").click()
        expect(tab.get_by_test_id("backend-chip")).to_have_text("CPU · 1 thread", timeout=READY_MS)
        expect(tab.get_by_test_id("threads-reload")).to_be_hidden()


def test_the_address_asks_for_exact_products(browser: Browser, small_site: Path) -> None:
    with (
        SiteServer(small_site) as server,
        opened(browser, f"{server.url}?backend=cpu&variant=exact") as tab,
    ):
        assert facts(tab)["Kernels"].endswith("exact")


def test_without_isolation_the_note_says_how_to_get_threads(
    browser: Browser, small_site: Path
) -> None:
    with (
        SiteServer(small_site, is_isolated=False) as server,
        opened(browser, f"{server.url}?backend=cpu&threads=2") as tab,
    ):
        answer(tab)
        notes = tab.get_by_test_id("note")
        expect(notes.filter(has_text="Cross-Origin-Opener-Policy: same-origin")).to_be_visible()
        expect(tab.get_by_test_id("backend-chip")).to_have_text("CPU · 1 thread")


def test_without_simd_the_note_says_numpy(browser: Browser, small_site: Path) -> None:
    options = chromium.launch_options()
    options["args"] = [*options["args"], "--js-flags=--no-enable-sse4-1"]
    other = browser.browser_type.launch(**options)
    try:
        with SiteServer(small_site) as server, opened(other, f"{server.url}?backend=cpu") as tab:
            answer(tab)
            expect(tab.get_by_test_id("note").filter(has_text="numpy")).to_be_visible()
            assert facts(tab)["Runs on"].startswith("CPU, numpy")
    finally:
        other.close()


@pytest.mark.gemma
@pytest.mark.slow
def test_a_stop_is_heard_within_a_prompt(browser: Browser, site_url: str) -> None:
    """Of three tries the fastest counts: what else the machine does is not the page's."""
    with opened(browser, f"{site_url}?backend=cpu&threads=1") as tab:
        took = []
        for turn in range(3):
            words = " ".join(f"{turn}.{i}" for i in range(400))
            tab.get_by_test_id("input").fill(words)
            tab.get_by_test_id("input").press("Enter")
            tab.wait_for_timeout(1500)
            took.append(tab.evaluate(STOP_AND_MEASURE))
            expect(tab.get_by_test_id("outcome").last).to_have_text(re.compile("Stopped"))
        print("stopped after", took)
        assert min(took) < STOP_MS


# The page goes on at once; the line under the reply gets its tokens when the engine has ended.
STOP_AND_MEASURE = """() => new Promise((resolve) => {
  const began = performance.now();
  const outcome = [...document.querySelectorAll("[data-testid=outcome]")].at(-1);
  new MutationObserver(() => {
    if (/token/.test(outcome.textContent)) resolve(performance.now() - began);
  }).observe(outcome, { childList: true });
  document.querySelector("[data-testid=stop]").click();
})"""
