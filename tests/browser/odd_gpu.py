"""The real page on a GPU that is odd on purpose; see ``odd_gpu.js``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from space.tools import machine, site_builder
from space.tools.server import SiteServer

SCRIPT = Path(__file__).parent / "odd_gpu.js"
MODEL = machine.ROOT / "tests" / "data" / "golden" / "llama-f32.gguf"
FLOOR = {"maxStorageBufferBindingSize": 128 << 20, "maxBufferSize": 256 << 20}
"""What a phone grants."""


class OddSite:
    """A built site; ``odd`` says how the next worker's GPU is."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self._file = folder / "worker" / "odd_gpu.json"
        self.odd()

    def odd(self, **how: Any) -> None:
        """Set the oddities of the next worker, in place of all before."""
        self._file.write_text(json.dumps(how), encoding="utf-8")


@contextmanager
def odd_site(folder: Path) -> Iterator[OddSite]:
    """Build a site in ``folder`` whose worker sees the GPU through ``odd_gpu.js``, and serve it."""
    site_builder.build_site(folder, model=str(MODEL))
    shutil.copy2(SCRIPT, folder / "worker" / SCRIPT.name)
    worker = folder / "worker" / "worker.js"
    worker.write_text(f'import "./{SCRIPT.name}";\n' + worker.read_text("utf-8"), "utf-8")
    with SiteServer(folder) as server:
        yield OddSite(folder, server.url)


def lose_device(page: Page, n_submits: int) -> None:
    """Let the page's GPU device go away at the ``n_submits``-th submit from now."""
    (worker,) = [w for w in page.workers if w.url.endswith("worker/worker.js")]
    worker.evaluate(f"() => {{ oddGpu.losesAt = oddGpu.nSubmits + {n_submits}; }}")
