"""A model from the web is kept on this device, whatever its host or the disk does to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.tools.faulty_host import FaultyHost
from tests.tools.faulty_models import GOLDEN
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

pytestmark = pytest.mark.browser
START_MS = 120_000
CHUNK = 4 << 20


@cache
def model_bytes() -> bytes:
    """A tiny model with a tensor that nobody reads, so that the file has several chunks."""
    metadata, tensors = unpack_gguf((GOLDEN / "qwen2-q5.gguf").read_bytes())
    ballast = bytes(range(256)) * (9 << 12)
    extra = {"ballast": (ballast, (len(ballast) // 1024, 256), "F32")}
    return write_gguf(None, metadata, {**extra, **tensors})


@pytest.fixture
def host() -> Iterator[FaultyHost]:
    with FaultyHost(model_bytes()) as host:
        yield host


def load(page: Page, site_url: str, host: FaultyHost) -> None:
    page.goto(f"{site_url}?backend=cpu&model={host.url}")
    page.wait_for_selector("body[data-state=ready]", timeout=START_MS)


def chats(page: Page) -> None:
    page.get_by_test_id("input").fill("hello")
    page.get_by_test_id("input").press("Enter")
    page.wait_for_selector("[data-testid=message][data-status=done]", timeout=START_MS)


def test_a_second_load_reads_the_stored_copy(tab: Page, site_url: str, host: FaultyHost) -> None:
    load(tab, site_url, host)
    assert host.n_fetched >= len(model_bytes())
    host.requests.clear()
    load(tab, site_url, host)
    assert host.n_fetched <= 64, "only the question whether the file is still the same"
    chats(tab)


def test_an_interrupted_download_goes_on(tab: Page, site_url: str, host: FaultyHost) -> None:
    host.set("down", after_bytes=CHUNK + 1)
    tab.goto(f"{site_url}?backend=cpu&model={host.url}")
    expect(tab.get_by_test_id("alert")).to_contain_text("Cannot read", timeout=START_MS)
    host.set("none")
    host.requests.clear()
    load(tab, site_url, host)
    assert all(first >= CHUNK or last < 64 for first, last in host.requests), host.requests
    chats(tab)


@pytest.mark.parametrize("fault", ["busy", "too_many", "down", "cut"])
def test_a_passing_fault_heals_by_itself(
    tab: Page, site_url: str, host: FaultyHost, fault: str
) -> None:
    host.set(fault, n_faults=2, after_bytes=1000)
    load(tab, site_url, host)
    chats(tab)


@pytest.mark.parametrize("fault", ["slow", "redirect", "no_range", "no_etag"])
def test_an_odd_host_will_do(tab: Page, site_url: str, host: FaultyHost, fault: str) -> None:
    host.set(fault)
    load(tab, site_url, host)
    chats(tab)


def test_a_file_that_changed_on_its_host_starts_anew(
    tab: Page, site_url: str, host: FaultyHost
) -> None:
    load(tab, site_url, host)
    host.version = "three"
    host.requests.clear()
    load(tab, site_url, host)
    assert host.n_fetched >= len(model_bytes())
    expect(tab.get_by_test_id("notes")).to_contain_text("has changed on its host")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("html", "page"),
        ("no_cors", "Cannot read"),
        ("changed", "has changed"),
        ("long", "were asked for"),
    ],
)
def test_a_lasting_fault_is_named_and_heals_later(
    tab: Page, site_url: str, host: FaultyHost, fault: str, words: str
) -> None:
    host.set(fault, after_bytes=0 if fault == "long" else 1000)
    tab.goto(f"{site_url}?backend=cpu&model={host.url}")
    expect(tab.get_by_test_id("alert")).to_contain_text(words, timeout=START_MS)
    host.set("none")
    load(tab, site_url, host)
    chats(tab)


DAMAGE = """async () => {
  const root = await navigator.storage.getDirectory();
  const models = await root.getDirectoryHandle("models");
  for await (const folder of models.values()) {
    const data = await folder.getFileHandle("data");
    const out = await data.createWritable({ keepExistingData: true });
    await out.write({ type: "write", position: 5000000, data: new Uint8Array([1, 2, 3]) });
    await out.close();
  }
}"""


def test_a_rotten_chunk_is_fetched_again(tab: Page, site_url: str, host: FaultyHost) -> None:
    load(tab, site_url, host)
    tab.goto(site_url + "site.json")  # of the same origin, without the page's worker
    tab.evaluate(DAMAGE)
    host.requests.clear()
    load(tab, site_url, host)
    assert any(first == CHUNK for first, _ in host.requests), host.requests
    assert host.n_fetched < len(model_bytes())
    chats(tab)


def test_a_host_that_is_gone_leaves_the_copy(tab: Page, site_url: str, host: FaultyHost) -> None:
    load(tab, site_url, host)
    host.set("down")
    load(tab, site_url, host)
    expect(tab.get_by_test_id("notes")).to_contain_text("the copy on this device is used")
    chats(tab)


def test_without_storage_the_model_is_fetched_each_time(
    tab: Page, site_url: str, host: FaultyHost
) -> None:
    tab.context.route("**/storage/model_store.js", without_opfs)
    load(tab, site_url, host)
    expect(tab.get_by_test_id("notes")).to_contain_text("keeps no files for this page")
    chats(tab)


def without_opfs(route: Any) -> None:
    """The store as a browser without a private file system would have it."""
    answer = route.fetch()
    body = answer.text().replace("navigator.storage.getDirectory()", "Promise.reject()")
    route.fulfill(response=answer, body=body)


QUOTA = ("navigator.storage.estimate()", "Promise.resolve({ usage: 0, quota: 1000000 })")
FULL = ("if (this.data.write(", "if (this.data.getSize() > 1e6 || this.data.write(")
FULL_ONCE = (
    "if (this.data.write(",
    "if (!self.wasFull && (self.wasFull = true) || this.data.write(",
)


def patch_store(page: Page, change: tuple[str, str]) -> None:
    """The store in a browser whose disk is short of room."""

    def answer(route: Any) -> None:
        response = route.fetch()
        body = response.text().replace(*change)
        assert change[1] in body
        route.fulfill(response=response, body=body)

    page.context.route("**/storage/model_store.js", answer)


@pytest.mark.parametrize(
    ("change", "words"), [(QUOTA, "there is room for 1 MB"), (FULL, "there is no room for it")]
)
def test_a_full_disk_means_no_storage(
    tab: Page, site_url: str, host: FaultyHost, change: tuple[str, str], words: str
) -> None:
    patch_store(tab, change)
    load(tab, site_url, host)
    expect(tab.get_by_test_id("notes")).to_contain_text(words)
    chats(tab)


def test_the_least_recently_used_model_makes_room(
    browser: Browser, site_url: str, host: FaultyHost
) -> None:
    context = browser.new_context(service_workers="block")
    page = context.new_page()
    for query in ("?old", "?new"):
        page.goto(f"{site_url}?backend=cpu&model={host.url}{query}")
        page.wait_for_selector("body[data-state=ready]", timeout=START_MS)
    patch_store(page, FULL_ONCE)
    load(page, site_url, host)
    expect(page.get_by_test_id("notes")).to_contain_text("To make room, model.gguf was deleted")
    page.get_by_test_id("model-button").click()
    expect(page.get_by_test_id("stored-list").locator("li")).to_have_count(2)
    context.unroute_all()
    host.requests.clear()
    page.goto(f"{site_url}?backend=cpu&model={host.url}?new")
    page.wait_for_selector("body[data-state=ready]", timeout=START_MS)
    assert host.n_fetched <= 64, "the newer of the two is still there"
    context.close()


def test_two_tabs_load_one_model(
    context_of_two: BrowserContext, site_url: str, host: FaultyHost
) -> None:
    host.set("slow")
    pages = [context_of_two.new_page() for _ in range(2)]
    for page in pages:
        page.goto(f"{site_url}?backend=cpu&model={host.url}")
    for page in pages:
        page.wait_for_selector("body[data-state=ready]", timeout=START_MS)
        chats(page)
    host.set("none")
    host.requests.clear()
    load(pages[0], site_url, host)
    assert host.n_fetched <= 64


@pytest.fixture
def context_of_two(browser: Any) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def test_what_is_stored_can_be_seen_and_deleted(tab: Page, site_url: str, host: FaultyHost) -> None:
    load(tab, site_url, host)
    tab.get_by_test_id("model-button").click()
    rows = tab.get_by_test_id("stored-list").locator("li")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("9.6 MB")
    rows.get_by_text("Delete").click()
    expect(tab.get_by_test_id("stored")).to_be_hidden()
    host.requests.clear()
    load(tab, site_url, host)
    assert host.n_fetched >= len(model_bytes())


def test_the_whole_file_is_held_to_the_hash_of_its_host(
    tab: Page, site_url: str, site_dir: Path
) -> None:
    """The site's own model has a known hash: a copy that differs is refused and forgotten."""
    data = model_bytes()
    (site_dir / "models").mkdir(exist_ok=True)
    (site_dir / "models" / "own.gguf").write_bytes(data)
    entry = {"name": "own.gguf", "url": "models/own.gguf", "n_bytes": len(data), "sha256": "0" * 64}
    tab.context.route("**/site.json", lambda route: with_model(route, entry))
    tab.goto(f"{site_url}?backend=cpu")
    expect(tab.get_by_test_id("alert")).to_contain_text("SHA-256", timeout=START_MS)
    entry["sha256"] = hashlib.sha256(data).hexdigest()
    tab.goto(f"{site_url}?backend=cpu")
    tab.wait_for_selector("body[data-state=ready]", timeout=START_MS)
    chats(tab)


def with_model(route: Any, entry: dict[str, Any]) -> None:
    """The site's description with another default model."""
    answer = route.fetch()
    route.fulfill(response=answer, json={**answer.json(), "default_model": entry})
