"""Axe finds nothing serious in any state of the page, light or dark, large or small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from space.tools import vendor
from tests.browser.screens import SCHEMES, screen, states
from tests.browser.scripted import ScriptedSite, ask, open_page, say, scripted_site

pytestmark = pytest.mark.browser

RUN_AXE = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, impact, nodes }) => ({
    id,
    impact,
    nodes: nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`),
  }));
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedSite]:
    """The page with the scripted engine."""
    with scripted_site(tmp_path_factory.mktemp("axe-site")) as found:
        yield found


@pytest.fixture(scope="session")
def axe() -> str:
    """The library's text."""
    return (vendor.ensure_npm("axe-core") / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, axe: str) -> list[dict[str, Any]]:
    """What axe finds in the page as it is."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe)
    found: list[dict[str, Any]] = page.evaluate(RUN_AXE)
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_no_state_has_a_serious_fault(
    browser: Browser, site: ScriptedSite, axe: str, size: str, scheme: str
) -> None:
    serious = []
    with screen(browser, size, scheme) as page:
        for state in states(page, site):
            for found in violations(page, axe):
                print(state, found)
                if found["impact"] in ("serious", "critical"):
                    serious.append((state, found["id"], found["nodes"][:3]))
    assert serious == []


def test_axe_would_find_a_fault(browser: Browser, site: ScriptedSite, axe: str) -> None:
    with screen(browser, "desktop", "light") as page:
        open_page(page, site)
        page.evaluate("document.getElementById('send').removeAttribute('aria-label')")
        page.evaluate("document.getElementById('send').disabled = false")
        assert "button-name" in [found["id"] for found in violations(page, axe)]


def test_a_reply_is_announced_once_and_whole(browser: Browser, site: ScriptedSite) -> None:
    """A screen reader hears the answer at its end: not each token, and not the thought."""
    with screen(browser, "desktop", "light") as page:
        open_page(page, site)
        page.evaluate(
            """() => {
              window.heard = [];
              const announcer = document.getElementById("announcer");
              new MutationObserver(() => window.heard.push(announcer.textContent))
                .observe(announcer, { childList: true, characterData: true, subtree: true });
            }"""
        )
        text = "<think>Hm.</think>It is bright, for a rush."
        ask(page, site.reply("spoken", text, per_second=40))
        assert page.evaluate("window.heard") == ["Reply: It is bright, for a rush."]


def test_everything_is_reached_by_keyboard(browser: Browser, site: ScriptedSite) -> None:
    name = """() => {
      const { dataset, className, tagName } = document.activeElement;
      return dataset.testid || className || tagName;
    }"""
    wanted = {"model-button", "new-chat", "settings-button", "edit", "PRE", "table", "regenerate"}
    with screen(browser, "desktop", "light") as page:
        open_page(page, site)
        ask(page, site.reply("keys", "```js\nlet a;\n```\n\n| a |\n|---|\n| 1 |\n"))
        page.evaluate("document.activeElement.blur()")
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate(name))
    assert wanted | {"attach", "input"} <= reached


def test_focus_is_always_visible(browser: Browser, site: ScriptedSite) -> None:
    with screen(browser, "desktop", "dark") as page:
        open_page(page, site)
        say(page, "hello")
        for _ in range(20):
            page.keyboard.press("Tab")
            hidden = page.evaluate(
                """() => {
                  const element = document.activeElement;
                  if (element === document.body || element.id === "input") return false;
                  const style = getComputedStyle(element);
                  return style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2;
                }"""
            )
            assert not hidden, page.evaluate("document.activeElement.outerHTML")
