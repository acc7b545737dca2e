"""The page without its host, installed, isolated by its service worker, and its network log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from space.tools import site_builder
from space.tools.server import SiteServer
from tests.tools.faulty_host import FaultyHost
from tests.tools.faulty_models import GOLDEN

pytestmark = pytest.mark.browser
START_MS = 120_000
PREFIX = "some/path/"
READY = "body[data-state=ready]"
NO_MODEL = "body[data-state=error]"
KEPT = "[data-testid=offline-status][data-state=ready]"


def plain_host(site: Path, **options: Any) -> SiteServer:
    """A static host that sends no header of ours, with the site under a sub-path."""
    return SiteServer(site, is_isolated=False, has_policy=False, prefix=PREFIX, **options)


@pytest.fixture(scope="module")
def small_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a tiny model, and a service worker that isolates."""
    folder = tmp_path_factory.mktemp("small-site")
    model = str(GOLDEN / "llama-kquants.gguf")
    return site_builder.build_site(folder, model=model, is_isolating=True)


@pytest.fixture
def bare_site(tmp_path: Path) -> Path:
    """A site without a model, so that no engine starts."""
    return site_builder.build_site(tmp_path / "bare-site", model="none")


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[tuple[BrowserContext, Page]]:
    """A tab whose console holds what the page's policy refused."""
    context = browser.new_context(**options)
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda m: refused.append(m.text) if "Content Security" in m.text else None)
    yield context, page
    context.close()
    assert not refused


def show(page: Page, url: str, selector: str = READY) -> None:
    page.goto(url)
    page.wait_for_selector(selector, timeout=START_MS)


def chat(page: Page) -> str:
    done = page.locator("[data-role=assistant][data-status=done]")
    n_before = done.count()
    page.get_by_test_id("settings-button").click()
    page.get_by_test_id("setting-maxTokens").fill("4")
    page.get_by_test_id("settings-done").click()
    page.get_by_test_id("input").fill("Hi")
    page.get_by_test_id("input").press("Enter")
    done.nth(n_before).wait_for(timeout=START_MS)
    return done.nth(n_before).get_by_test_id("outcome").inner_text()


def wait_until_kept(page: Page) -> None:
    page.wait_for_selector(KEPT, state="attached", timeout=START_MS)


def logged(page: Page) -> tuple[str, Counter[str], set[str]]:
    """The network log: its sentence, how often each address was asked, and where from."""
    page.get_by_test_id("settings-button").click()
    words = page.get_by_test_id("network-summary").inner_text()
    page.get_by_test_id("network-open").click()
    rows = page.get_by_test_id("network-rows").locator("tr")
    found = rows.evaluate_all(
        "rows => rows.map((row) => [row.dataset.url, Number(row.dataset.count),"
        " row.children[3].textContent])"
    )
    page.locator("#network-dialog [data-close]").click()
    page.locator("#settings-dialog [data-close]").click()
    counts: Counter[str] = Counter()
    for url, count, _ in found:
        counts[url] += count
    return words, counts, {where for _, _, where in found}


# --- offline -------------------------------------------------------------------------------------


def test_without_its_host_the_page_loads_and_its_model_chats(
    browser: Browser, small_site: Path
) -> None:
    with opened(browser) as (context, page):
        with plain_host(small_site) as server:
            show(page, f"{server.url}?backend=cpu&threads=2")
            assert "token" in chat(page)
            wait_until_kept(page)
            asked = [urlsplit(url).path for url in server.requests]
            assert asked.count(f"/{PREFIX}") == 3, "the page, its one reload, and the copy"
        again = context.new_page()
        show(again, f"{server.url}?backend=cpu&threads=2")
        assert again.evaluate("crossOriginIsolated")
        expect(again.get_by_test_id("backend-chip")).to_have_text("CPU · 2 threads")
        assert "token" in chat(again)
        words, counts, origins = logged(again)
        assert origins == {"offline copy"}
        assert words == f"{counts.total()} requests, all to this site."
        kept = again.evaluate(
            """async () => {
              const names = await caches.keys();
              const copy = await caches.open(names[0]);
              return [names, (await copy.keys()).map((request) => request.url)];
            }"""
        )
        assert len(kept[0]) == 1
        assert not [url for url in kept[1] if "/models/" in url], "models are in OPFS"


def test_a_new_version_waits_until_a_person_agrees(browser: Browser, bare_site: Path) -> None:
    with opened(browser) as (context, page), plain_host(bare_site) as server:
        show(page, server.url, NO_MODEL)
        wait_until_kept(page)
        policy = page.locator("meta[http-equiv]")
        old = policy.get_attribute("content")
        site_builder.build_site(bare_site, model="none", model_hosts=["example.org"])
        server.requests.clear()
        show(page, server.url, NO_MODEL)
        expect(page.get_by_test_id("update")).to_be_visible(timeout=START_MS)
        assert policy.get_attribute("content") == old, "the old version works on"
        assert not [url for url in server.requests if "pyodide" in url], "unchanged: not fetched"
        other = context.new_page()
        show(other, server.url, NO_MODEL)
        page.get_by_test_id("update-reload").click()
        page.wait_for_selector("meta[content*='https://example.org']", state="attached")
        expect(other.get_by_test_id("update")).to_be_visible(timeout=START_MS)
        assert policy.get_attribute("content") != old
        server.close()
        show(page, server.url, NO_MODEL)
        expect(page.get_by_test_id("update")).to_be_hidden()
        assert len(page.evaluate("caches.keys()")) == 1


def test_a_host_with_a_damaged_file_keeps_the_page_usable(
    browser: Browser, bare_site: Path
) -> None:
    """A copy is whole or not used: the file on the host is not the one that the list names."""
    (bare_site / "js" / "about.js").write_text("// changed\nexport const showTerms = () => {};\n")
    with opened(browser) as (_, page), plain_host(bare_site) as server:
        show(page, server.url, NO_MODEL)
        status = page.locator("[data-testid=offline-status][data-state=unavailable]")
        status.wait_for(state="attached", timeout=START_MS)
        assert "needs a network each time" in (status.text_content() or "")
        show(page, server.url, NO_MODEL)
        assert "// changed" in page.evaluate("fetch('js/about.js').then((r) => r.text())")


def test_without_service_workers_the_page_says_so_in_the_settings_only(
    browser: Browser, bare_site: Path
) -> None:
    with (
        opened(browser, service_workers="block") as (_, page),
        plain_host(bare_site) as server,
    ):
        show(page, server.url, NO_MODEL)
        status = page.locator("[data-testid=offline-status][data-state=unavailable]")
        status.wait_for(state="attached", timeout=START_MS)
        expect(page.get_by_test_id("alert-message")).to_have_text(
            "This site has no model of its own."
        )


def test_the_page_can_be_installed(browser: Browser, bare_site: Path) -> None:
    with opened(browser) as (_, page), plain_host(bare_site) as server:
        show(page, server.url, NO_MODEL)
        wait_until_kept(page)
        assert page.evaluate("navigator.serviceWorker.controller?.state") == "activated"
        link = page.locator("link[rel=manifest]").evaluate("(link) => link.href")
        manifest = json.loads(page.evaluate("(url) => fetch(url).then((r) => r.text())", link))
        assert manifest["name"] and manifest["short_name"] and manifest["display"] == "standalone"
        base = "(path) => new URL(path, document.querySelector('link[rel=manifest]').href).href"
        for field in ("start_url", "scope", "id"):
            assert page.evaluate(base, manifest[field]) == server.url
        for icon in manifest["icons"]:
            size = page.evaluate(
                """async (url) => {
                  const image = new Image();
                  image.src = url;
                  await image.decode();
                  return `${image.naturalWidth}x${image.naturalHeight}`;
                }""",
                page.evaluate(base, icon["src"]),
            )
            assert icon["sizes"] in (size, "any")
        purposes = {(i["sizes"], i.get("purpose", "any")) for i in manifest["icons"]}
        assert {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")} <= purposes
        themes = page.locator("meta[name=theme-color]")
        assert len(set(themes.evaluate_all("(all) => all.map((meta) => meta.content)"))) == 2
        session = page.context.new_cdp_session(page)
        assert session.send("Page.getInstallabilityErrors")["installabilityErrors"] in (
            [],
            [{"errorId": "in-incognito", "errorArguments": []}],
        )


# --- isolation -----------------------------------------------------------------------------------


def test_isolated_by_the_service_worker_with_a_model_of_another_host(
    browser: Browser, small_site: Path
) -> None:
    """Threads on a plain host, one reload; and the network log equals what both hosts saw."""
    model = (GOLDEN / "qwen2-q5.gguf").read_bytes()
    with (
        opened(browser) as (_, page),
        plain_host(small_site) as server,
        FaultyHost(model) as host,
    ):
        host.set("redirect")
        show(page, f"{server.url}?backend=cpu&threads=2&model={host.url}")
        expect(page.get_by_test_id("backend-chip")).to_have_text("CPU · 2 threads")
        assert page.evaluate("crossOriginIsolated")
        wait_until_kept(page)
        documents = [i for i, path in enumerate(server.requests) if "&threads" in path]
        assert len(documents) == 2, "one reload"
        words, counts, origins = logged(page)
        n_all = counts.total()
        here = f"{urlsplit(server.url).scheme}://{urlsplit(server.url).netloc}"
        seen = Counter(here + path for path in server.requests[documents[-1] :])
        other = urlsplit(host.url).netloc
        of_other = {url for url in counts if urlsplit(url).netloc == other}
        assert of_other == {host.url, f"{host.url}?moved"}
        assert sum(counts.pop(url) for url in of_other) == len(host.requests) > 1
        for log in (counts, seen):  # when the browser looks for a new one is its own business
            del log[f"{server.url}service_worker.js"]
        assert counts == seen
        n_other = len(host.requests)
        n_here = n_all - n_other
        assert words == f"{n_here} requests to this site, and {n_other} to {other} for the model."
        assert origins == {"network", "sent on to"}


@pytest.mark.parametrize("fault", ["no service worker", "one that does not isolate"])
def test_no_reload_loop(browser: Browser, bare_site: Path, fault: str) -> None:
    script = bare_site / "service_worker.js"
    old = script.read_text()
    site_builder.build_site(bare_site, model="none", is_isolating=True)
    if fault == "no service worker":
        script.unlink()
    else:
        script.write_text(old)
    with opened(browser) as (_, page), plain_host(bare_site) as server:
        for _ in range(2):
            show(page, server.url, NO_MODEL)
        page.wait_for_timeout(500)
        n_pages = sum(url == f"/{PREFIX}" for url in server.requests)
        assert n_pages == (2 if fault == "no service worker" else 3)
        assert not page.evaluate("crossOriginIsolated")


# --- the policy and the log ----------------------------------------------------------------------


def test_hosts_that_the_site_was_not_built_for_are_refused(
    browser: Browser, tmp_path: Path
) -> None:
    """By the page, by the worker where its file carries the policy, and the log says so."""
    with FaultyHost((GOLDEN / "qwen2-q5.gguf").read_bytes()) as allowed, FaultyHost(b"") as other:
        site = site_builder.build_site(tmp_path / "site", model=allowed.url, model_hosts=[])
        context = browser.new_context()
        page = context.new_page()
        with SiteServer(site) as server:
            show(page, f"{server.url}?backend=cpu")
            assert allowed.n_fetched
            outcome = page.evaluate("(url) => fetch(url).then(() => '', String)", other.url)
            assert "Failed to fetch" in outcome
            page.get_by_test_id("model-button").click()
            page.get_by_test_id("model-url").fill(other.url)
            page.get_by_test_id("model-url-load").click()
            expect(page.get_by_test_id("alert")).to_contain_text("Cannot read", timeout=START_MS)
            assert not other.requests
            page.wait_for_selector(READY)
            _, counts, origins = logged(page)
            assert "refused by this page" in origins and other.url in counts
        context.close()


def test_the_log_has_what_failed(browser: Browser, bare_site: Path) -> None:
    with opened(browser) as (context, page), plain_host(bare_site) as server:
        requests: list[Request] = []
        context.on("request", lambda request: requests.append(request))
        show(page, server.url, NO_MODEL)
        with FaultyHost(b"GGUF") as host:
            host.set("no_cors")
            page.evaluate("(url) => fetch(url).then(() => '', String)", host.url)
        page.evaluate("fetch('nowhere').then((r) => r.status)")
        wait_until_kept(page)
        _, counts, origins = logged(page)
        assert counts == Counter(request.url for request in requests)
        assert {"failed", "failed (404)"} <= origins
