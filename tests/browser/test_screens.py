"""Pictures of the page's main states in ``dist/screens``, for a person to look at.

Whether they are pretty only a person can say; that nothing is cut off, a test can.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from space.tools import machine
from tests.browser.screens import SCHEMES, SIZES, screen, states
from tests.browser.scripted import ScriptedSite, scripted_site

pytestmark = pytest.mark.browser

SCREENS = machine.ROOT / "dist" / "screens"
# Elements that stick out of the page at a side; what scrolls in its own frame may.
STICKING_OUT = """() => [...document.querySelectorAll("body *")]
  .filter((element) => {
    const { left, right, width } = element.getBoundingClientRect();
    const free = ".visually-hidden, .skip, .sprite, pre, .table, .network-table";
    if (width < 2 || element.closest(free)) return false;
    if (element.closest("dialog:not([open])")) return false;
    return left < -1 || right > document.documentElement.clientWidth + 1;
  })
  .map((element) => element.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """The page with the scripted engine."""
    with scripted_site(tmp_path_factory.mktemp("screen-site")) as found:
        yield found


@pytest.fixture(scope="module")
def sheet() -> Iterator[dict[str, list[str]]]:
    """Files of each size and scheme; they become one page at the end."""
    rows: dict[str, list[str]] = {}
    yield rows
    write_sheet(SCREENS, rows)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_no_state_is_cut_off(
    browser: Browser, site: ScriptedSite, sheet: dict[str, list[str]], size: str, scheme: str
) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    row = sheet.setdefault(f"{size}, {scheme}", [])
    cut_off: dict[str, list[str]] = {}
    with screen(browser, size, scheme) as page:
        for state in states(page, site):
            row.append(picture(page, f"{size}-{scheme}-{state}"))
            if found := page.evaluate(STICKING_OUT):
                cut_off[state] = found
    assert cut_off == {}


def picture(page: Page, name: str) -> str:
    """Write what the page shows; gives the file's name."""
    file = f"{name}.png"
    page.screenshot(path=SCREENS / file)
    return file


def write_sheet(folder: Path, rows: dict[str, list[str]]) -> None:
    """Write ``index.html``: all pictures, a row for each size and scheme."""
    parts = ["<!doctype html><meta charset=utf-8><title>Rushlight's screens</title>"]
    parts.append("<style>body{font:14px system-ui;background:#888}figure{display:inline-block;")
    parts.append("margin:4px;vertical-align:top}img{height:420px;display:block}</style>")
    for title, files in rows.items():
        parts.append(f"<h2>{html.escape(title)}</h2>")
        for file in files:
            name = html.escape(file.removesuffix(".png"))
            parts.append(f'<figure><img src="{name}.png" alt="{name}"><figcaption>{name}')
            parts.append("</figcaption></figure>")
    (folder / "index.html").write_text("\n".join(parts), encoding="utf-8")
