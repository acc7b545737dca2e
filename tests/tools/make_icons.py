"""Draws the installed page's icons from `web/icons/rushlight.svg`: `python -m tests.tools.make_icons`.

The results are committed, so only a change of the drawing needs this (and Chromium).
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from space.tools.machine import ROOT
from tests.tools import chromium

ICONS = ROOT / "web" / "icons"
SIZES = {"rushlight-192": 192, "rushlight-512": 512, "rushlight-maskable-512": 512}
MASKABLE_SHARE = 0.72
"""A mask may cut away all but the inner 80 %; the flame keeps clear of it on a full ground."""


def draw(browser: Browser, name: str) -> bytes:
    """One icon as PNG."""
    size = SIZES[name]
    drawing = (ICONS / "rushlight.svg").read_text(encoding="utf-8")
    if "maskable" in name:
        margin = 24 * (1 - MASKABLE_SHARE) / 2
        ground, _, rest = drawing.partition("/>")
        square = ground.replace(' rx="6"', "") + "/>"
        shapes = rest.removesuffix("</svg>\n")
        place = f"translate({margin} {margin}) scale({MASKABLE_SHARE})"
        drawing = f'{square}<g transform="{place}">{shapes}</g></svg>'
    page = browser.new_page(viewport={"width": size, "height": size})
    style = "<style>body { margin: 0 } svg { display: block; width: 100vw }</style>"
    page.set_content(style + drawing)
    picture = page.screenshot(omit_background=True)
    page.close()
    return picture


def main() -> None:
    """Writes them all."""
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        for name in SIZES:
            path: Path = ICONS / f"{name}.png"
            path.write_bytes(draw(browser, name))
            print(f"wrote {path.relative_to(ROOT)} ({path.stat().st_size} bytes)")
        browser.close()


if __name__ == "__main__":
    main()
