"""Measure every backend and the page in Chromium; print one table.

Each native backend runs in a process of its own, one after the other. Speeds are of this machine
at this moment: compare only the columns of one run. Software GPUs do less work (``--full``
overrides).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rushlight.bench import BenchResult, format_bytes, table_rows
from rushlight.cli.common import print_table
from space.tools import machine
from tests.tools.parity_all import BACKENDS, _backends, default_model, is_hardware_gpu

OTHERS = {
    "kernels": "time every op case instead",
    "peers": "measure llama.cpp beside us",
    "scaling": "plot time over length",
    "start": "time a fresh worker's first token, step by step",
    "steps": "count what a token costs the host, in the page and natively",
}
"""What else there is to measure, each by a program of its own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements; give the exit status."""
    given = sys.argv[1:] if argv is None else list(argv)
    for name in OTHERS:
        if f"--{name}" in given:
            other: Any = import_module(f"tests.tools.bench_{name}")
            status: int = other.main([word for word in given if word != f"--{name}"])
            return status
    parser = argparse.ArgumentParser(prog="python build.py bench", description=__doc__)
    for name, words in OTHERS.items():
        text = f"{words}; options: bench_{name}.py"
        parser.add_argument(f"--{name}", action="store_true", help=text)
    parser.add_argument("--model", metavar="FILE", help="default: Gemma 3 270M")
    parser.add_argument("--backends", type=_backends, default=BACKENDS, metavar="A,B",
                        help=f"of {', '.join(BACKENDS)} (default: all)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="little work everywhere")
    parser.add_argument("--full", action="store_true", help="all work, on software GPUs too")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    args = parser.parse_args(given)
    model = args.model or default_model()
    found: dict[str, dict[str, Any]] = {}
    for backend in args.backends:
        is_quick = args.quick or (not args.full and is_software(backend))
        machine.say(f"bench: {backend}{', less work' if is_quick else ''}")
        try:
            found[backend] = measure_backend(backend, model, is_quick=is_quick)
        except Exception as error:
            found[backend] = {"problem": f"{type(error).__name__}: {error}"}
    show(found)
    if args.json:
        report = {"model": Path(model).name, "machine": describe_machine(), "backends": found}
        Path(args.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 1 if any("problem" in result for result in found.values()) else 0


def is_software(backend: str) -> bool:
    """Whether a backend computes its GPU work on the CPU here."""
    return backend == "browser-webgpu" or (backend == "gpu" and not is_hardware_gpu())


def measure_backend(backend: str, model: str, *, is_quick: bool) -> dict[str, Any]:
    """One backend's numbers, in BenchResult's fields (the page has some of its own)."""
    if backend.startswith("browser-"):
        from tests.browser.driver import browser_bench

        numbers: dict[str, Any] = browser_bench(
            backend.removeprefix("browser-"), model, is_quick=is_quick
        )
        return numbers
    command = [sys.executable, "-m", "rushlight.cli", "bench", "-m", model, "--device", backend]
    command += ["--json", *(["--quick"] if is_quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return {"problem": f"exit status {done.returncode}, see above"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print the table, then what only the page measures, then what failed."""
    fields = BenchResult.__dataclass_fields__
    results, extras = [], []
    for name, values in found.items():
        if "problem" in values:
            continue
        result = BenchResult(**{k: v for k, v in values.items() if k in fields})
        result.backend = name
        # JSON made text of the prompt lengths.
        speeds = result.prefill_tokens_per_s
        result.prefill_tokens_per_s = {int(n): speed for n, speed in speeds.items()}
        results.append(result)
        extras += [(name, k, v) for k, v in values.items() if k not in fields]
    if results:
        header, *rows = table_rows(results)
        print_table(header, rows, title=f"bench on {describe_machine()}")
    for name, key, value in extras:
        shown = format_bytes(value) if key.endswith("_bytes") else value
        print(f"{name}: {key.removesuffix('_bytes').replace('_', ' ')}: {shown}")
    for name, values in found.items():
        if "problem" in values:
            print(f"{name}: NOT MEASURED: {values['problem']}")


def describe_machine() -> str:
    """The processor in words, and how many of its cores we may use."""
    import os
    import platform

    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
