"""wllama: llama.cpp as WebAssembly, in the same browser, from the same server as our page."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from space.tools import machine
from tests.tools.peers.subject import N_CTX, Work, prompt_name

VERSION = "3.8.1"
HERE = Path(__file__).parent


def install() -> Path:
    """Put wllama into the cache, once; give the folder with its index.js."""
    folder = machine.cache_dir() / f"wllama-{VERSION}"
    if not (folder / "done").exists():
        machine.say("peers: fetching wllama")
        folder.mkdir(parents=True, exist_ok=True)
        npm = machine.find_npm()
        assert npm is not None, "npm is missing: python build.py setup"
        command: list[str | Path] = [npm, "pack", "--silent", f"@wllama/wllama@{VERSION}"]
        machine.run_quiet(command, what="npm pack wllama", cwd=folder, env=machine.node_env())
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        (folder / "done").touch()
    return folder / "package" / "esm"


def add_to_site(site_dir: Path) -> str:
    """Put wllama and a page that runs it beside a test's site; give its path below it."""
    folder = site_dir / "peers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    esm = install()
    shutil.copy2(esm / "index.js", folder / "wllama.mjs")
    shutil.copy2(esm / "wasm" / "wllama.wasm", folder / "wllama.wasm")
    for path in HERE.glob("wllama.*"):
        if path.suffix in (".html", ".js"):
            shutil.copy2(path, folder / path.name)
    return "peers/wllama.html"


class Wllama:
    """A tab that holds the model."""

    name = "wllama"

    def __init__(self, tab: Page, work: Work, n_threads: int) -> None:
        self._tab, self._work, self.n_threads = tab, work, n_threads
        self.device = ""

    def open(self, model_url: str) -> None:
        """Load the model; raises when it got other threads than asked for."""
        options = {"url": model_url, "nThreads": self.n_threads, "nCtx": N_CTX}
        n_threads = self._tab.evaluate("(options) => window.openModel(options)", options)
        assert n_threads == self.n_threads, f"wllama runs {n_threads} threads"
        self.device = "WebAssembly"

    def round(self) -> dict[str, float]:
        """See ``Subject``."""
        options = {"nDecode": self._work.n_decode, "prefill": list(self._work.prefill)}
        found = self._tab.evaluate("(options) => window.round(options)", options)
        speeds = {prompt_name(int(n)): float(speed) for n, speed in found["prefill"].items()}
        return {"decode": float(found["decode"]), **speeds}


@contextmanager
def wllama(
    browser: Browser, site_url: str, path: str, model_url: str, work: Work, n_threads: int
) -> Iterator[Wllama]:
    """wllama on the CPU with so many threads."""
    context = browser.new_context()
    try:
        tab = context.new_page()
        tab.set_default_timeout(600_000)
        tab.goto(site_url + path)
        subject = Wllama(tab, work, n_threads)
        subject.open(model_url)
        yield subject
    finally:
        context.close()
