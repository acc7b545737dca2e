"""The page's own thread has no task over 50 ms of work, while a model loads, reads and writes.

Measured by Chromium's trace as processor time of each task, not as time on the clock: on a machine
that does other things too, a thread that waits for its turn would look like one that works.
Tasks still take longer there (caches are shared), so the best of three tries has to keep the limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from space.tools import site_builder
from space.tools.server import SiteServer
from tests.browser.long_reply import long_reply
from tests.browser.scripted import ScriptedSite, ask, open_page, scripted_site, wait_until

pytestmark = pytest.mark.browser

LIMIT_MS = 50
TRIES = 3
ENGINE_MS = 120_000


@dataclass(frozen=True)
class Tasks:
    """Tasks of the page's main thread."""

    longest_ms: float
    """Of processor time."""
    total_ms: float
    count: int


def watched(browser: Browser, page: Page, action: Callable[[], None]) -> Tasks:
    """Do something and give the tasks that the page's main thread had meanwhile."""
    browser.start_tracing(page=page, categories=["toplevel"])
    try:
        action()
    finally:
        trace = browser.stop_tracing()
    events = json.loads(trace)["traceEvents"]
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    spent = [
        event["tdur"] / 1e3
        for event in events
        if event["name"] == "ThreadControllerImpl::RunTask"
        and (event["pid"], event["tid"]) in threads
        and "tdur" in event
    ]
    assert spent, "the trace has no tasks with processor times"
    return Tasks(max(spent), sum(spent), len(spent))


def best_of(name: str, attempt: Callable[[], Tasks]) -> Tasks:
    """The try with the shortest longest task; stops at the first within the limit."""
    found = []
    for _ in range(TRIES):
        found.append(attempt())
        if found[-1].longest_ms <= LIMIT_MS:
            break
    best = min(found, key=lambda tasks: tasks.longest_ms)
    print(
        f"{name}: longest task {best.longest_ms:.1f} ms of processor time, "
        f"{best.count} tasks, {best.total_ms:.0f} ms in all"
    )
    return best


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """The page with the scripted engine."""
    with scripted_site(tmp_path_factory.mktemp("smooth-site")) as found:
        yield found


@pytest.fixture(scope="module")
def small_url(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Iterator[str]:
    """A site with the real engine and a tiny model."""
    model = data_dir / "golden" / "llama-f32.gguf"
    folder = site_builder.build_site(tmp_path_factory.mktemp("small-site"), model=str(model))
    with SiteServer(folder) as server:
        yield server.url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh tab."""
    context = browser.new_context(service_workers="block")
    yield context.new_page()
    context.close()


def test_the_watch_sees_a_long_task(browser: Browser, page: Page, site: ScriptedSite) -> None:
    open_page(page, site)
    spin = "() => { const end = performance.now() + 150; while (performance.now() < end); }"
    assert watched(browser, page, lambda: page.evaluate(spin)).longest_ms > LIMIT_MS


def test_a_long_reply_streams_smoothly(browser: Browser, page: Page, site: ScriptedSite) -> None:
    """4,000 tokens at 400 a second, then the last pass over all of them."""
    message = site.reply("long", long_reply(4000), per_second=400)
    open_page(page, site)

    def attempt() -> Tasks:
        page.get_by_test_id("new-chat").click()
        return watched(browser, page, lambda: ask(page, message, timeout_ms=60_000))

    assert best_of("streaming", attempt).longest_ms <= LIMIT_MS


def test_a_long_thought_streams_smoothly(browser: Browser, page: Page, site: ScriptedSite) -> None:
    text = f"<think>{long_reply(2000)}</think>Done."
    message = site.reply("long-thought", text, per_second=400)
    open_page(page, site)

    def attempt() -> Tasks:
        page.get_by_test_id("new-chat").click()
        return watched(browser, page, lambda: ask(page, message, timeout_ms=60_000))

    assert best_of("thinking", attempt).longest_ms <= LIMIT_MS


def test_the_real_engine_leaves_the_page_alone(
    browser: Browser, page: Page, small_url: str
) -> None:
    """Start, load, a prompt, a reply."""

    def start() -> None:
        page.goto(f"{small_url}?backend=cpu")
        page.wait_for_selector("body[data-state=ready]", timeout=ENGINE_MS)

    def reply() -> None:
        page.get_by_test_id("new-chat").click()
        page.get_by_test_id("input").fill("word " * 12)
        page.get_by_test_id("input").press("Enter")
        expect(page.get_by_test_id("outcome")).to_contain_text("token", timeout=ENGINE_MS)
        wait_until(page, "ready")

    started = best_of("start and load", lambda: watched(browser, page, start))
    answered = best_of("prefill and reply", lambda: watched(browser, page, reply))
    assert max(started.longest_ms, answered.longest_ms) <= LIMIT_MS
