"""`build.py site --check` passes a good site and names what is wrong with a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from space.tools import site_builder
from tests.tools import site_check
from tests.tools.faulty_models import GOLDEN

pytestmark = pytest.mark.browser


def test_a_good_site_passes_from_a_plain_host(browser: Browser, tmp_path: Path) -> None:
    model = str(GOLDEN / "qwen2-q5.gguf")
    site = site_builder.build_site(tmp_path / "site", model=model, model_hosts=[])
    told: list[str] = []
    site_check.check_site(site, browser, told.append)
    assert sum("is ready after" in line for line in told) == 2
    assert told[-1].startswith("check: offline, a reply of")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("worker/sources.js", None, "no model was loaded"),
        ("js/theme.js", "// changed", "not kept for offline use"),
    ],
)
def test_a_bad_site_is_named(
    browser: Browser, tmp_path: Path, name: str, text: str | None, words: str
) -> None:
    model = str(GOLDEN / "llama-f32.gguf")
    site = site_builder.build_site(tmp_path / "site", model=model)
    if text is None:
        (site / name).unlink()
    else:
        (site / name).write_text(text)
    with pytest.raises(site_check.SiteError, match=words):
        site_check.check_site(site, browser, print)
