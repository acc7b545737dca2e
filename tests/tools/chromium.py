"""How the tests, the parity table and the bench start Chromium with WebGPU."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from space.tools import machine

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

# SwiftShader computes WebGPU on the CPU, so every machine has the same adapter. The last four keep
# the browser from calling home while it is tested.
SOFTWARE_ADAPTER = "--use-webgpu-adapter=swiftshader"
ARGS = [
    "--enable-unsafe-webgpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def launch_options(*, is_real_gpu: bool = False) -> dict[str, Any]:
    """Keyword arguments for `chromium.launch`.

    The machine's own Chromium where there is one, else Playwright's. With `is_real_gpu` the
    browser picks the adapter itself.
    """
    args = list(ARGS)
    if not is_real_gpu:
        args.append(SOFTWARE_ADAPTER)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        args.append("--no-sandbox")  # Chromium's sandbox refuses to run as root
    options: dict[str, Any] = {"args": args}
    if (path := machine.find_chromium()) is not None:
        options["executable_path"] = path
    return options


def launch(playwright: Playwright, *, is_real_gpu: bool = False, **more: Any) -> Browser:
    """A headless Chromium with WebGPU."""
    return playwright.chromium.launch(**launch_options(is_real_gpu=is_real_gpu), **more)
