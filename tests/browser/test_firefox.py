"""The chat page on the CPU kernels in Firefox: it must not depend on what Chromium alone does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from space.tools import machine, site_builder
from space.tools.server import SiteServer
from tests.tools.firefox import Firefox, open_firefox

pytestmark = pytest.mark.browser

WAIT_FOR = """
const [states, test] = args;
const began = performance.now();
const isThere = () => states.includes(document.body.dataset.state)
  && (!test || document.querySelector(test));
while (!isThere() && performance.now() - began < 100000) {
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const all = (id) => [...document.querySelectorAll(`[data-testid=${id}]`)];
const text = (id) => all(id).map((element) => element.textContent);
return {
  state: document.body.dataset.state,
  isIsolated: crossOriginIsolated,
  alert: text("alert-message").join(),
  chip: text("backend-chip").join(),
  notes: text("note"),
  outcome: text("outcome").join(),
};
"""
ASK = """
const input = document.querySelector("[data-testid=input]");
input.value = args[0];
input.dispatchEvent(new Event("input", { bubbles: true }));
document.querySelector("[data-testid=composer]").requestSubmit();
"""


@pytest.fixture(scope="module")
def firefox() -> Iterator[Firefox]:
    if machine.find_firefox() is None:
        pytest.skip("no Firefox on this machine")
    with open_firefox() as browser:
        yield browser


@pytest.fixture(scope="module")
def small_site(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("small-site")
    return site_builder.build_site(folder, model=str(data_dir / "golden" / "llama-kquants.gguf"))


@pytest.mark.parametrize("is_isolated", [True, False], ids=["isolated", "alone"])
def test_a_reply_on_the_cpu(firefox: Firefox, small_site: Path, is_isolated: bool) -> None:
    with SiteServer(small_site, is_isolated=is_isolated) as server:
        firefox.goto(f"{server.url}?backend=cpu&threads=2")
        page = firefox.evaluate(WAIT_FOR, ["ready", "error"], "")
        assert page["state"] == "ready", page
        assert page["isIsolated"] == is_isolated
        assert page["chip"] == ("CPU · 2 threads" if is_isolated else "CPU · 1 thread")
        assert any("isolated" in note for note in page["notes"]) != is_isolated
        firefox.evaluate(ASK, "Hi")
        page = firefox.evaluate(WAIT_FOR, ["ready", "error"], "[data-testid=outcome]:not(:empty)")
        assert page["state"] == "ready" and "token" in page["outcome"], page


def test_isolated_by_the_service_worker(firefox: Firefox, tmp_path: Path, data_dir: Path) -> None:
    """A host without headers: the page reloads once, and has its threads."""
    model = str(data_dir / "golden" / "llama-kquants.gguf")
    site = site_builder.build_site(tmp_path / "site", model=model, is_isolating=True)
    with SiteServer(site, is_isolated=False, has_policy=False, prefix="some/path/") as server:
        firefox.goto(f"{server.url}?backend=cpu&threads=2")
        page = {"state": ""}
        for _ in range(50):  # the reload ends the page that was asked, and takes its time
            with suppress(RuntimeError):
                page = firefox.evaluate(WAIT_FOR, ["ready", "error"], "")
                break
            time.sleep(0.1)
        assert page["state"] == "ready" and page["isIsolated"], page
        assert page["chip"] == "CPU · 2 threads"
        assert sum("threads=2" in path for path in server.requests) == 2
