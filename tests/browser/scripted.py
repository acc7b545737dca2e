"""The real page with a worker that says what a test wrote: no engine starts, replies come at once.

``scripted/worker.js`` stands in for ``worker/worker.js`` and speaks ``worker/protocol.js``. Only a
site that a test builds for itself has it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from space.tools import machine, site_builder
from space.tools.server import SiteServer

WORKER = Path(__file__).parent / "scripted" / "worker.js"
START_MS = 20_000
INFO: dict[str, Any] = {
    "name": "Tiny Lantern 1B Instruct",
    "architecture": "llama",
    "nBytes": 812_000_000,
    "nParams": 1_100_000_000,
    "nCtx": 4096,
    "nCtxTrained": 32768,
    "kvDtype": "f16",
    "kvBytesPerToken": {"f32": 65536, "f16": 32768, "q8_0": 18432},
    "license": "apache-2.0",
    "licenseLink": "",
    "quantisation": "Q4_K_M",
    "hasChatTemplate": True,
    "sampling": {
        "temperature": 0.8,
        "topK": 40,
        "topP": 0.95,
        "minP": 0.05,
        "repetitionPenalty": 1,
    },
    "maxTokens": 1024,
    "backend": "webgpu",
    "adapter": "scripted",
    "notes": [],
}


class ScriptedSite:
    """A built site whose engine plays what is put here."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self._scripts = folder / "scripted"
        (self._scripts / "replies").mkdir(parents=True, exist_ok=True)
        self.model()

    def model(self, **changes: Any) -> None:
        """What the next load gives: fields of ModelInfo; ``fault``, ``boot_fault``, ``holds_at``.

        ``holds_at`` stops the load at that share of the weights; ``echoes_options`` puts the load's
        options into its notes; ``stored`` are kept models.
        """
        special = {"fault": "fault", "boot_fault": "bootFault", "holds_at": "holdsAt"}
        special["echoes_options"] = "echoesOptions"
        script = {name: changes.pop(key) for key, name in special.items() if key in changes}
        script["stored"] = changes.pop("stored", [])
        self._write("model", {**script, "info": {**INFO, **changes}})

    def reply(
        self,
        name: str,
        text: str,
        *,
        per_second: float = 0,
        wait_ms: int = 0,
        holds: bool = False,
        fault: dict[str, str] | None = None,
    ) -> str:
        """Put down a reply; gives the message that asks for it."""
        script = {"text": text, "perSecond": per_second, "waitMs": wait_ms}
        self._write(f"replies/{name}", {**script, "holds": holds, "fault": fault})
        return f"play {name}"

    def _write(self, name: str, value: dict[str, Any]) -> None:
        (self._scripts / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")


@contextmanager
def scripted_site(folder: Path) -> Iterator[ScriptedSite]:
    """Build a site in ``folder`` with the scripted engine, and serve it."""
    model = machine.ROOT / "tests" / "data" / "golden" / "llama-f32.gguf"
    site_builder.build_site(folder, model=str(model))
    shutil.copy2(WORKER, folder / "worker" / "worker.js")
    with SiteServer(folder) as server:
        yield ScriptedSite(folder, server.url)


def open_page(page: Page, site: ScriptedSite, state: str = "ready") -> None:
    """Show the page and wait until it is in a state."""
    page.goto(site.url)
    wait_until(page, state)


def wait_until(page: Page, state: str) -> None:
    """Wait for ``document.body.dataset.state``."""
    page.wait_for_selector(f"body[data-state={state}]", timeout=START_MS)


def say(page: Page, text: str) -> None:
    """Send a message."""
    page.get_by_test_id("input").fill(text)
    page.get_by_test_id("input").press("Enter")


def ask(page: Page, text: str, *, timeout_ms: int = START_MS) -> None:
    """Send a message and wait for the whole reply."""
    count = page.locator("[data-role=assistant][data-status=done]").count()
    say(page, text)
    done = page.locator("[data-role=assistant][data-status=done]")
    expect(done).to_have_count(count + 1, timeout=timeout_ms)
    wait_until(page, "ready")
