"""The page names each fault of a model file or its address, and stays usable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from space.tools.server import SiteServer
from tests.tools.faulty_models import GOLDEN, faulty_models

pytestmark = pytest.mark.browser
START_MS = 120_000


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A model host of another origin that has the faulty files, and a good one."""
    folder = tmp_path_factory.mktemp("host")
    for name, data, _ in faulty_models():
        (folder / f"{name}.gguf").write_bytes(data)
    (folder / "good.gguf").write_bytes((GOLDEN / "qwen2-q5.gguf").read_bytes())
    with SiteServer(folder, is_shared=True) as server:
        yield server.url


def load_address(page: Page, url: str) -> None:
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("model-url").fill(url)
    page.get_by_test_id("model-url-load").click()


def test_faults_are_named_and_the_page_goes_on(tab: Page, site_url: str, host: str) -> None:
    tab.goto(f"{site_url}?backend=cpu&model={host}nothing.gguf")
    alert = tab.get_by_test_id("alert")
    expect(alert).to_contain_text("no file at", timeout=START_MS)
    for name, _, words in faulty_models():
        load_address(tab, f"{host}{name}.gguf")
        expect(alert).to_contain_text(words, timeout=START_MS)
        assert tab.get_by_test_id("alert-hint").inner_text().strip()
    load_address(tab, f"{host}good.gguf")
    tab.wait_for_selector("body[data-state=ready]", timeout=START_MS)
    load_address(tab, f"{host}truncated.gguf")  # a refused file does not cost the loaded one
    expect(alert).to_contain_text("missing", timeout=START_MS)
    tab.get_by_test_id("input").fill("hello")
    tab.get_by_test_id("input").press("Enter")
    tab.wait_for_selector("[data-testid=message][data-status=done]", timeout=START_MS)


def test_a_host_that_ignores_range_is_noted(tab: Page, site_url: str, tmp_path: Path) -> None:
    (tmp_path / "good.gguf").write_bytes((GOLDEN / "qwen2-q5.gguf").read_bytes())
    with SiteServer(tmp_path, has_ranges=False, is_shared=True) as server:
        tab.goto(f"{site_url}?backend=cpu&model={server.url}good.gguf")
        tab.wait_for_selector("body[data-state=ready]", timeout=START_MS)
        expect(tab.get_by_test_id("notes")).to_contain_text("ignores Range")
