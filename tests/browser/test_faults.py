"""The page names each fault of a model file or its address, and stays usable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from space.tools.server import SiteServer
from tests.browser.driver import Call, ask_worker, runner
from tests.browser.odd_gpu import FLOOR, OddSite, lose_device, odd_site
from tests.tools.arch_files import model_bytes
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
    (folder / "encoder.gguf").write_bytes(model_bytes("bert"))
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
    load_address(tab, f"{host}encoder.gguf")
    expect(alert).to_contain_text("is an encoder", timeout=START_MS)
    expect(alert).to_contain_text("cannot chat")
    expect(tab.get_by_test_id("alert-hint")).to_contain_text("Choose another model")
    tab.get_by_test_id("input").fill("hello")
    tab.get_by_test_id("input").press("Enter")
    tab.wait_for_selector("[data-testid=message][data-status=done]", timeout=START_MS)


def test_a_host_that_ignores_range_is_noted(tab: Page, site_url: str, tmp_path: Path) -> None:
    (tmp_path / "good.gguf").write_bytes((GOLDEN / "qwen2-q5.gguf").read_bytes())
    with SiteServer(tmp_path, has_ranges=False, is_shared=True) as server:
        tab.goto(f"{site_url}?backend=cpu&model={server.url}good.gguf")
        tab.wait_for_selector("body[data-state=ready]", timeout=START_MS)
        expect(tab.get_by_test_id("notes")).to_contain_text("ignores Range")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddSite]:
    with odd_site(tmp_path_factory.mktemp("odd-site")) as site:
        yield site


def until(page: Page, state: str) -> None:
    page.wait_for_selector(f"body[data-state={state}]", timeout=START_MS)


def answered(page: Page) -> None:
    """Ask something, and see that a reply comes."""
    done = page.locator("[data-testid=message][data-role=assistant][data-status=done]")
    count = done.count()
    page.get_by_test_id("input").fill("hello")
    page.get_by_test_id("input").press("Enter")
    expect(done).to_have_count(count + 1, timeout=START_MS)
    until(page, "ready")
    expect(page.get_by_test_id("outcome").last).to_contain_text("token")


def test_a_device_lost_in_a_reply_comes_back_with_one_click(tab: Page, odd: OddSite) -> None:
    odd.odd()
    tab.goto(f"{odd.url}?backend=webgpu")
    until(tab, "ready")
    lose_device(tab, 4)
    tab.get_by_test_id("input").fill("hello")
    tab.get_by_test_id("input").press("Enter")
    alert = tab.locator("[data-testid=alert][data-code=device_lost]")
    expect(alert).to_be_visible(timeout=START_MS)
    expect(alert).to_contain_text("The GPU went away")
    expect(tab.get_by_test_id("alert-remedy")).to_have_text("Use the CPU")
    tab.get_by_test_id("alert-retry").click()
    until(tab, "ready")
    answered(tab)


def test_a_device_lost_at_its_first_submit_is_opened_again(tab: Page, odd: OddSite) -> None:
    odd.odd(losesAt=1)
    tab.goto(f"{odd.url}?backend=webgpu")
    alert = tab.locator("[data-testid=alert][data-code=device_lost]")
    expect(alert).to_be_visible(timeout=START_MS)
    tab.get_by_test_id("alert-retry").click()
    until(tab, "ready")
    answered(tab)
    tab.get_by_test_id("settings-button").click()
    tab.get_by_test_id("report").locator("summary").click()
    expect(tab.get_by_test_id("device-facts")).to_contain_text("once")  # "Went away"


def test_a_phone_s_gpu_with_kernels_that_do_not_compile(tab: Page, odd: OddSite) -> None:
    """No optional feature, 128 MiB bindings; the kernels made for it are refused by the driver."""
    odd.odd(hasNoFeatures=True, limits=FLOOR, refuses="^matmul_rows")
    tab.goto(f"{odd.url}?backend=webgpu")
    until(tab, "ready")
    note = tab.get_by_test_id("note").filter(has_text="rows kernels are not used for prefill here")
    expect(note).to_contain_text("VK_ERROR_UNKNOWN")
    answered(tab)
    tab.get_by_test_id("settings-button").click()
    tab.get_by_test_id("report").locator("summary").click()
    text = tab.get_by_test_id("report-text")
    expect(text).to_contain_text("userAgent", timeout=START_MS)
    report = json.loads(text.inner_text())
    limits = report["details"]["device"]["limits"]
    assert limits["max-storage-buffer-binding-size"] == 128 << 20
    assert limits["max-buffer-size"] == 256 << 20
    assert "shader-f16" not in report["details"]["device"]["features"]
    assert "tiles" in report["details"]["variants"]
    assert any("matmul" in failed for failed in report["details"]["kernelTests"]["failed"])


def test_where_no_kernel_compiles_the_cpu_is_one_click_away(tab: Page, odd: OddSite) -> None:
    odd.odd(refuses="^mat")
    tab.goto(f"{odd.url}?backend=webgpu")
    until(tab, "error")
    alert = tab.get_by_test_id("alert")
    expect(alert).to_contain_text("No kernels give right answers")
    tab.get_by_test_id("alert-remedy").click()
    until(tab, "ready")
    expect(tab.locator("#backend-chip")).to_have_attribute("data-backend", "cpu")
    answered(tab)


def test_twenty_loads_leave_nothing(browser: Browser, harness_url: str) -> None:
    """Neither buffers of the GPU nor Python's heap grow with the loads before."""
    context = browser.new_context()
    kept = runner(context.new_page(), harness_url, is_kept=True)
    call = Call("reload", {"n": 5}, GOLDEN / "llama-f32.gguf")
    try:
        answers = [ask_worker(kept, "webgpu", [call]) for _ in range(4)]
    finally:
        context.close()
    rounds = [each for answer in answers for each in answer.values[0]]
    assert len(rounds) == 20 and all(each == rounds[0] for each in rounds)
    assert rounds[0][0]["nBuffers"] > 10 and rounds[0][1] == {"nBuffers": 0, "bufferBytes": 0}
    assert [answer.heap_growth_bytes for answer in answers[1:]] == [0, 0, 0]
