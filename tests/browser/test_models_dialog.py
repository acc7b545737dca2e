"""Choosing a model: the list, repositories of the hub, files from this device, and verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.scripted import START_MS, ScriptedSite, open_page, scripted_site, wait_until
from tests.tools.fake_hub import FakeHub

pytestmark = pytest.mark.browser
MB = 10**6


class Sized(bytes):
    """A file of which only the size is told."""

    size = 0

    def __len__(self) -> int:
        return self.size


def sized(n_bytes: int) -> bytes:
    file = Sized()
    file.size = n_bytes
    return file


FILES = {
    "tiny-Q8_0.gguf": sized(800 * MB),
    "tiny-Q4_K_M.gguf": sized(500 * MB),
    "tiny-NVFP4.gguf": sized(450 * MB),
    "tiny-IQ2_XS.gguf": sized(300 * MB),
    "mmproj-tiny-F16.gguf": sized(90 * MB),
    "F16/tiny-F16-00001-of-00002.gguf": sized(900 * MB),
    "F16/tiny-F16-00002-of-00002.gguf": sized(700 * MB),
    "BF16/tiny-BF16-00001-of-00002.gguf": sized(900 * MB),
    "README.md": sized(2000),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    with scripted_site(tmp_path_factory.mktemp("models")) as site:
        yield site


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub(FILES) as hub:
        yield hub


@pytest.fixture
def page(browser: Browser, site: ScriptedSite, hub: FakeHub) -> Iterator[Page]:
    """The page with its model dialog open, and the hub in the place of the public one."""
    site.model()
    context = browser.new_context(service_workers="block", reduced_motion="reduce")
    listed = {
        "hub": hub.url,
        "models": [
            {"name": "Tiny", "repo": hub.repo, "file": "tiny-Q4_K_M.gguf", "n_bytes": 500 * MB},
            {
                **{"name": "Gem", "repo": "maker/gem", "file": "gem-Q8_0.gguf", "about_mb": 290},
                "licence": {"name": "Gem Terms", "url": "https://example.org/terms"},
            },
        ],
    }
    context.route("**/models.json", lambda route: route.fulfill(json=listed))
    page = context.new_page()
    page.on("console", lambda message: print("console:", message.text))
    open_page(page, site)
    page.get_by_test_id("model-button").click()
    yield page
    context.close()


def type_address(page: Page, text: str) -> None:
    page.get_by_test_id("model-url").fill(text)
    page.get_by_test_id("model-url").press("Enter")


def test_the_list_names_type_size_and_licence(page: Page, hub: FakeHub) -> None:
    rows = page.get_by_test_id("catalogue-model")
    expect(rows).to_have_text(["TinyQ4_K_M · 500 MB", "GemQ8_0 · about 290 MB · Gem Terms"])
    assert hub.hub_requests == [], "nobody is asked before a model is chosen"
    rows.first.click()
    expect(page.get_by_test_id("model-dialog")).to_be_hidden()
    wait_until(page, "ready")
    wanted = re.compile(re.escape("model=http") + ".*resolve%2Fmain%2Ftiny-Q4_K_M.gguf")
    expect(page).to_have_url(wanted)


@pytest.mark.parametrize("typed", ["{repo}", "{hub}/{repo}", "{hub}/{repo}/tree/main"])
def test_a_repository_lists_what_can_be_read(page: Page, hub: FakeHub, typed: str) -> None:
    type_address(page, typed.format(repo=hub.repo, hub=hub.url))
    expect(page.get_by_test_id("hub-file")).to_have_text(
        [
            re.compile(r"Q4_K_M\s*a good choice\s*500 MB"),
            re.compile(r"IQ2_XS.*300 MB"),
            re.compile(r"Q8_0.*800 MB"),
            re.compile(r"BF16.*tiny-BF16-00002-of-00002\.gguf is missing"),
            re.compile(r"F16.*2 files · 1\.6 GB"),
        ]
    )
    expect(page.get_by_test_id("hub-words")).to_contain_text("1 more is of a type")
    expect(page.get_by_text("a good choice")).to_have_count(5)
    expect(page.locator("#hub-list .mark-current:visible")).to_have_count(1)
    page.get_by_test_id("hub-file").nth(4).click()
    expect(page).to_have_url(re.compile("F16%2Ftiny-F16-00001-of-00002.gguf"))


def test_a_repository_in_the_address_offers_its_files(
    page: Page, site: ScriptedSite, hub: FakeHub
) -> None:
    page.goto(f"{site.url}?model={hub.repo}")
    expect(page.get_by_test_id("hub-file")).to_have_count(5)
    page.get_by_test_id("hub-file").first.click()
    wait_until(page, "ready")
    expect(page.get_by_test_id("alert")).to_be_hidden()


def test_what_the_hub_refuses_is_said(page: Page, hub: FakeHub) -> None:
    words = page.get_by_test_id("hub-words")
    type_address(page, "maker/nothing")
    expect(words).to_contain_text("There is no repository maker/nothing")
    hub.api_status = 503
    type_address(page, hub.repo)
    expect(words).to_contain_text("answered 503. Try again later")
    hub.api_status = 401
    type_address(page, hub.repo)
    expect(words).to_contain_text("private, or asks you to accept")
    expect(page.get_by_test_id("token-form")).to_be_visible()
    hub.api_status = 200
    page.get_by_test_id("token").fill("hf_secret")
    page.get_by_test_id("token-use").click()
    expect(page.get_by_test_id("hub-file")).to_have_count(5)
    assert hub.hub_requests[-1][1] == "Bearer hf_secret"
    assert page.evaluate("JSON.stringify(localStorage)").find("hf_secret") < 0


def test_a_token_is_kept_only_if_asked(page: Page, site: ScriptedSite, hub: FakeHub) -> None:
    refused = {"code": "forbidden", "message": "The server does not give it out.", "hint": ""}
    site.model(fault={**refused, "isModelKept": True})
    page.get_by_test_id("catalogue-model").first.click()
    page.get_by_test_id("alert-remedy").click()
    form = page.get_by_test_id("token-form")
    expect(form).to_contain_text("only to people it knows")
    page.get_by_test_id("token").fill("hf_kept")
    page.get_by_test_id("token-keep").check()
    site.model()
    page.get_by_test_id("token-use").click()
    wait_until(page, "ready")
    assert page.evaluate("localStorage.getItem('rushlight.hubToken')") == "hf_kept"
    site.model(fault={**refused, "isModelKept": True})
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("catalogue-model").first.click()
    page.get_by_test_id("alert-remedy").click()
    expect(form).to_contain_text("refused the token")
    page.get_by_test_id("token-forget").click()
    assert page.evaluate("localStorage.getItem('rushlight.hubToken')") is None


def test_the_browser_is_asked_to_keep_a_large_model_that_was_chosen(
    page: Page, site: ScriptedSite
) -> None:
    page.evaluate("""() => {
      window.nAsked = 0;
      StorageManager.prototype.persisted = async () => window.nAsked > 0;
      StorageManager.prototype.persist = async () => { window.nAsked += 1; return true; };
    }""")
    for n_mb, n_asked in ((20, 0), (500, 1), (600, 1)):
        site.model(nBytes=n_mb * MB)
        page.get_by_test_id("catalogue-model").first.click()
        expect(page.get_by_test_id("model-dialog")).to_be_hidden()
        expect(page.locator("#model-size")).to_contain_text(f"{n_mb} MB")
        assert page.evaluate("window.nAsked") == n_asked
        page.get_by_test_id("model-button").click()


def test_a_verdict_offers_what_fits(page: Page, site: ScriptedSite) -> None:
    site.model(fault=TOO_LARGE)
    page.get_by_test_id("catalogue-model").first.click()
    alert = page.get_by_test_id("alert")
    expect(alert).to_contain_text("will not fit")
    assert page.locator("body").get_attribute("data-state") == "ready", "the model before it stays"
    expect(page.get_by_test_id("alert-retry")).to_have_text("Load anyway")
    site.model(echoes_options=True)
    page.get_by_test_id("alert-remedy").click()
    expect(page.get_by_test_id("notes")).to_contain_text('"context":2048')
    compact = {**TOO_LARGE["fit"], "kvDtype": "q8_0"}
    site.model(fault={**TOO_LARGE, "fit": compact})
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("catalogue-model").first.click()
    expect(page.get_by_test_id("alert-remedy")).to_have_text("Use 2,048 tokens, compact")
    site.model(echoes_options=True)
    page.get_by_test_id("alert-remedy").click()
    expect(page.get_by_test_id("notes")).to_contain_text('"kvDtype":"q8_0"')
    site.model(fault=TOO_LARGE)
    page.get_by_test_id("model-button").click()
    page.get_by_test_id("catalogue-model").first.click()
    expect(alert).to_contain_text("will not fit")
    site.model(echoes_options=True)
    page.get_by_test_id("alert-retry").click()
    expect(page.get_by_test_id("notes")).to_contain_text('"isForced":true')


TOO_LARGE: dict[str, Any] = {
    "code": "will_not_fit",
    "message": "The model will not fit: it takes 1.1 GB (600 MB for the weights, 400 MB for a"
    " context of 4,096 tokens, 50 MB to work in), and the device refused that much.",
    "hint": "With a context of 2,048 tokens it fits.",
    "fit": {"context": 2048, "kvDtype": "f16", "canForce": True},
    "isModelKept": True,
}


def files(*names: str) -> list[dict[str, object]]:
    return [{"name": name, "mimeType": "", "buffer": b"GGUF"} for name in names]


def part(number: int, count: int = 3, stem: str = "split") -> str:
    return f"{stem}-{number:05d}-of-{count:05d}.gguf"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([part(3), part(1)], f"1 of the model's 3 files is missing: {part(2)}."),
        ([part(2)], "2 of the model's 3 files are missing"),
        (["a.gguf", "b.gguf"], "2 models were chosen"),
        ([part(1, 1), part(1, 1, "other")], "several models"),
        (["a.txt", "b.txt"], "None of these files"),
    ],
)
def test_files_that_are_no_model_are_named(page: Page, names: list[str], words: str) -> None:
    page.get_by_test_id("model-file").set_input_files(files(*names))
    expect(page.get_by_test_id("alert-message")).to_contain_text(words, timeout=START_MS)


SHOTS = Path("dist/screens")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_screens(
    page: Page, site: ScriptedSite, hub: FakeHub, size: tuple[int, int], scheme: str
) -> None:
    """The dialog's states, written for a person to look at; nothing sticks out to the side."""
    name = f"{'phone' if size[0] < 500 else 'desktop'}-{scheme}"
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    dialog = page.get_by_test_id("model-dialog")

    def shot(state: str) -> None:
        page.screenshot(path=SHOTS / f"models-{state}-{name}.png")
        assert dialog.evaluate("box => box.scrollWidth <= box.clientWidth")

    shot("list")
    type_address(page, hub.repo)
    expect(page.get_by_test_id("hub-file")).to_have_count(5)
    shot("hub")
    hub.api_status = 401
    type_address(page, hub.repo)
    expect(page.get_by_test_id("token-form")).to_be_visible()
    shot("token")
    site.model(fault=TOO_LARGE)
    page.get_by_test_id("catalogue-model").first.click()
    expect(page.get_by_test_id("alert")).to_be_visible()
    page.screenshot(path=SHOTS / f"models-verdict-{name}.png")
