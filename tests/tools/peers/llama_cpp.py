"""llama.cpp as built for this machine, from npm (node-llama-cpp carries the binaries)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from space.tools import machine
from tests.tools.peers.subject import N_CTX, Work, prompt_name

VERSION = "3.21.1"
PACKAGES = (f"@node-llama-cpp/linux-x64@{VERSION}", f"@node-llama-cpp/linux-x64-vulkan@{VERSION}")
SCRIPT = Path(__file__).with_name("llama_cpp.mjs")


def install() -> Path:
    """Put llama.cpp into the cache, once; give the folder that holds its node_modules."""
    folder = machine.cache_dir() / f"node-llama-cpp-{VERSION}"
    if not (folder / "done").exists():
        machine.say("peers: fetching llama.cpp (node-llama-cpp)")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
        subprocess.run([*npm, f"node-llama-cpp@{VERSION}", *PACKAGES], cwd=folder, check=True)
        (folder / "done").touch()
    return folder


class LlamaCpp:
    """A node process that holds the model and measures a round for each line it is sent."""

    name = "llama.cpp native"

    def __init__(self, process: subprocess.Popen[str], work: Work, n_threads: int) -> None:
        self._process, self._work, self.n_threads = process, work, n_threads
        self.device = str(self._read()["device"])

    def round(self) -> dict[str, float]:
        """See ``Subject``."""
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"decode": self._work.n_decode, "prefill": self._work.prefill}) + "\n"
        )
        self._process.stdin.flush()
        found = self._read()
        speeds = {prompt_name(int(n)): float(speed) for n, speed in found["prefill"].items()}
        return {"decode": float(found["decode"]), **speeds}

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise RuntimeError("llama.cpp has ended, see above")


@contextmanager
def llama_cpp(work: Work, n_threads: int, gpu: str = "cpu") -> Iterator[LlamaCpp]:
    """llama.cpp on "cpu" or "vulkan"; raises when it does not use the device asked for."""
    folder = install()
    script = folder / SCRIPT.name
    script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    # Without this, llama.cpp leaves out Vulkan devices that are software, and uses the CPU.
    environment = {**os.environ, "GGML_VK_VISIBLE_DEVICES": "0"}
    command = ["node", str(script), os.path.abspath(work.model), gpu, str(n_threads), str(N_CTX)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield LlamaCpp(process, work, n_threads)
    finally:
        process.kill()
        process.wait()
