"""What a decode step costs the host: the page beside native, on the same shaders and kernels.

Adapters differ (a browser's software adapter is not the native one), so the table compares counts
and the host's own time, not speed. "Python ms" is everything outside the calls that drive the
device; "calls ms" is those calls, JavaScript in the page and wgpu natively.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rushlight import Model, _sync
from rushlight.bench_steps import HEADER, StepCost, step_costs_async
from rushlight.cli.common import print_table
from space.tools import machine, wasm_builder
from tests.tools.parity_all import default_model

BACKENDS = ("browser-webgpu", "gpu", "browser-cpu", "cpu")
N_CTX = 256


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the numbers."""
    parser = argparse.ArgumentParser(prog="python build.py bench --steps", description=__doc__)
    parser.add_argument("--model", metavar="FILE", help="default: Gemma 3 270M")
    parser.add_argument("--backends", default=",".join(BACKENDS), metavar="A,B",
                        help=f"of {', '.join(BACKENDS)} (default: all)")  # fmt: skip
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="of each way")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    args = parser.parse_args(argv)
    model = args.model or default_model()
    found: list[StepCost] = []
    for backend in args.backends.split(","):
        machine.say(f"bench: {backend}")
        found += measure(backend, model, args.tokens)
    print_table(HEADER, [cost.cells() for cost in found], title=f"a decode step, {args.tokens} of")
    for backend, adapter in dict.fromkeys((cost.backend, cost.adapter) for cost in found):
        print(f"{backend}: {adapter}")
    if args.json:
        report = [cost.to_json() for cost in found]
        Path(args.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


def measure(backend: str, path: str, n_tokens: int) -> list[StepCost]:
    """One backend's costs, in a page of its own or in this process."""
    if backend.startswith("browser-"):
        from tests.browser.driver import Call, ask_worker, open_harness

        options = {"n_tokens": n_tokens, "n_ctx": N_CTX}
        with open_harness() as run:
            call = Call("step_costs", options, path)
            values: list[Any] = ask_worker(run, backend.removeprefix("browser-"), [call]).values[0]
        return [StepCost(**{**fields, "backend": backend}) for fields in values]
    if backend == "cpu":
        wasm_builder.build()  # the native engine takes what is there
    model = Model.load(path, backend, n_ctx=N_CTX)
    try:
        return _sync.run(step_costs_async(model, n_tokens))
    finally:
        model.close()


if __name__ == "__main__":
    raise SystemExit(main())
