"""Models through the real engine: from a hub, in several files, behind a token, and too large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.tools.fake_hub import FIRST, SECOND, FakeHub
from tests.tools.faulty_models import GOLDEN
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

pytestmark = pytest.mark.browser
START_MS = 120_000
PARTS = [f"split-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]


@cache
def whole() -> bytes:
    return (GOLDEN / "qwen2-q5.gguf").read_bytes()


@cache
def split() -> dict[str, bytes]:
    """The same model in three files."""
    metadata, tensors = unpack_gguf(whole())
    names = list(tensors)
    files = {}
    for part, name in enumerate(PARTS):
        own = {"split.no": part, "split.count": 3, "split.tensors.count": len(names)}
        held = {key: tensors[key] for key in names[part::3]}
        files[name] = write_gguf(None, {**(metadata if part == 0 else {}), **own}, held)
    return files


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub({"tiny-Q5_K_M.gguf": whole(), **split()}) as hub:
        yield hub


@pytest.fixture
def page(browser: Browser, hub: FakeHub) -> Iterator[Page]:
    """A fresh tab whose site names ``hub`` as the hub."""
    context = browser.new_context(service_workers="block")
    context.route(
        "**/models.json", lambda route: route.fulfill(json={"hub": hub.url, "models": []})
    )
    page = context.new_page()
    page.on("console", lambda message: print("console:", message.text))
    yield page
    context.close()


def show(page: Page, site_url: str, hub: FakeHub, name: str = "tiny-Q5_K_M.gguf") -> None:
    page.goto(f"{site_url}?backend=cpu&model={hub.url}/{hub.repo}/resolve/main/{name}")


def wait(page: Page) -> None:
    page.wait_for_selector("body[data-state=ready]", timeout=START_MS)


def chats(page: Page) -> None:
    page.get_by_test_id("input").fill("hello")
    page.get_by_test_id("input").press("Enter")
    page.wait_for_selector("[data-testid=message][data-status=done]", timeout=START_MS)


def asked(hub: FakeHub) -> list[str]:
    return [path for path, _ in hub.hub_requests]


def test_a_file_is_pinned_to_a_commit_and_stays_there(
    page: Page, site_url: str, hub: FakeHub
) -> None:
    show(page, site_url, hub)
    wait(page)
    resolve = f"/{hub.repo}/resolve"
    assert asked(hub)[:2] == [
        f"/api/models/{hub.repo}/revision/main",
        f"/api/models/{hub.repo}/tree/{FIRST}",
    ]
    assert {path for path in asked(hub) if "/resolve/" in path} == {
        f"{resolve}/{FIRST}/tiny-Q5_K_M.gguf"
    }
    hub.commit, hub.hub_requests[:] = SECOND, []
    page.reload()
    wait(page)
    assert hub.hub_requests == [], "a verified copy of a pinned commit needs no question"
    chats(page)


def test_a_file_is_held_to_the_hash_that_the_hub_names(
    page: Page, site_url: str, hub: FakeHub
) -> None:
    hub.is_lying = True
    show(page, site_url, hub)
    expect(page.get_by_test_id("alert")).to_contain_text("SHA-256", timeout=START_MS)


def test_without_an_answer_the_branch_is_read_with_a_note(
    page: Page, site_url: str, hub: FakeHub
) -> None:
    hub.api_status = 503
    show(page, site_url, hub)
    wait(page)
    expect(page.get_by_test_id("notes")).to_contain_text("did not say which version")
    assert f"/{hub.repo}/resolve/main/tiny-Q5_K_M.gguf" in asked(hub)
    chats(page)


def test_a_token_goes_to_the_hub_alone(page: Page, site_url: str, hub: FakeHub) -> None:
    hub.token = "hf_secret"
    show(page, site_url, hub)
    alert = page.get_by_test_id("alert")
    expect(alert).to_contain_text("does not give out", timeout=START_MS)
    page.get_by_test_id("alert-remedy").click()
    page.get_by_test_id("token").fill("hf_secret")
    page.get_by_test_id("token-use").click()
    wait(page)
    assert ("Bearer hf_secret") in {token for _, token in hub.hub_requests}
    assert hub.cdn_requests and {token for _, token in hub.cdn_requests} == {""}
    assert "hf_secret" not in page.evaluate("JSON.stringify({...localStorage}) + location.href")
    chats(page)


def test_a_split_model_from_the_hub(page: Page, site_url: str, hub: FakeHub) -> None:
    show(page, site_url, hub, PARTS[1])  # any part stands for all
    wait(page)
    assert {path.rsplit("/", 1)[1] for path in asked(hub) if "/resolve/" in path} == set(PARTS)
    chats(page)
    page.get_by_test_id("model-button").click()
    row = page.get_by_test_id("stored-list").locator("li")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("split")
    row.get_by_text("Delete").click()
    expect(page.get_by_test_id("stored")).to_be_hidden()


def test_a_split_model_from_this_device_and_one_too_large(
    page: Page, site_url: str, hub: FakeHub
) -> None:
    """A model without room is refused and the one before it stays; parts come in any order."""
    page.context.route("**/worker/cpu_memory.js", refuse_second_trial)
    page.goto(f"{site_url}?backend=cpu&model={hub.url}/nothing.gguf")
    alert = page.get_by_test_id("alert")
    expect(alert).to_contain_text("no file at", timeout=START_MS)
    page.get_by_test_id("model-file").set_input_files(GOLDEN / "llama-f32.gguf")
    wait(page)
    files = [
        {"name": name, "mimeType": "", "buffer": split()[name]}
        for name in (PARTS[2], PARTS[0], PARTS[1])
    ]
    page.get_by_test_id("model-file").set_input_files(files)  # type: ignore[arg-type]
    expect(alert).to_contain_text("will not fit: it takes 1.3 MB", timeout=START_MS)
    expect(alert).to_contain_text("for the weights")
    wait(page)  # the model before it is still there to chat with
    page.get_by_test_id("alert-retry").click()  # "Load anyway"
    page.wait_for_selector("body[data-state=loading]")
    wait(page)
    expect(alert).to_be_hidden()
    chats(page)


def refuse_second_trial(route: Route) -> None:
    """The CPU's memory as in a browser that has room for the first model only."""
    answer = route.fetch()
    body = answer.text().replace(
        "return true;", "return (self.nTrials = (self.nTrials ?? 0) + 1) < 2;"
    )
    assert "nTrials" in body
    route.fulfill(response=answer, body=body)


def test_the_catalogue_is_part_of_the_site(site_dir: Any) -> None:
    models = json.loads((site_dir / "models.json").read_text())["models"]
    assert len(models) >= 9
