"""Time every op case on this machine's GPU, or on numpy; print one table.

A case's time is that of its own kernels, by the device's timestamps: the median of a few runs.
What every case needs around them (inputs from tables, the choice of rows) is left out. Cases are
small, so bytes per second say little; compare a kernel with itself, before and after a change.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rushlight import _sync
from rushlight.backends.base import Executor
from rushlight.backends.numpy_executor import NumpyExecutor
from rushlight.backends.webgpu_common import WebGpuExecutor
from rushlight.backends.webgpu_native import NativeDevice
from rushlight.cli.common import print_table
from rushlight.ops import Case, OpDef
from rushlight.plan.variant import BY_NAME, default_variant
from rushlight.selftest import all_cases, ask_case, build_case, load_case

HEADER = ("op", "case", "kernels", "ms", "MiB", "GB/s", "wall ms")
AROUND = ("get_rows table_", "select_rows")


@dataclass(frozen=True)
class Timing:
    """One case: the time of its kernels, None where only the whole step can be timed."""

    op: str
    case: str
    kernels: tuple[str, ...]
    ms: float | None
    n_bytes: float
    wall_ms: float

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        names = ", ".join(dict.fromkeys(name.partition(" ")[0] for name in self.kernels))
        if self.ms is None:
            return (self.op, self.case, names, "-", "-", "-", f"{self.wall_ms:.3f}")
        speed = self.n_bytes / self.ms / 1e6 if self.ms else 0.0
        numbers = (f"{self.ms:.4f}", f"{self.n_bytes / 2**20:.3f}", f"{speed:.2f}")
        return (self.op, self.case, names, *numbers, f"{self.wall_ms:.3f}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements; give the exit status."""
    parser = argparse.ArgumentParser(prog="python build.py bench --kernels", description=__doc__)
    parser.add_argument("--device", choices=("gpu", "numpy"), default="gpu")
    parser.add_argument("--variant", choices=("auto", *BY_NAME), default="auto", help="kernels")
    parser.add_argument("--only", metavar="OP", help="cases of one op")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="runs of each case")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    args = parser.parse_args(argv)
    adapter, variant, timings = run(args)
    print_table(HEADER, [t.cells() for t in timings], title=f"op cases on {adapter}, {variant}")
    if args.json:
        report = {"adapter": adapter, "variant": variant, "cases": [asdict(t) for t in timings]}
        Path(args.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


def run(args: argparse.Namespace) -> tuple[str, str, list[Timing]]:
    """(adapter, kernel variant, the timings)."""
    if args.device == "numpy":
        timings = [time_case(o, c, NumpyExecutor(), args.repeats) for o, c in chosen(args.only)]
        return "numpy", "reference", timings
    device = NativeDevice()
    variant = args.variant
    if variant == "auto":
        variant = default_variant(is_software=device.is_software).name
    try:
        timings = [
            time_case(op, case, WebGpuExecutor(device.fork()), args.repeats, variant)
            for op, case in chosen(args.only)
        ]
        return device.info.adapter, variant, timings
    finally:
        device.close()


def chosen(only: str | None) -> Iterator[tuple[OpDef, Case]]:
    """The cases of one op, or all of them."""
    return ((op, case) for op, case in all_cases() if only in (None, op.name))


def time_case(
    op: OpDef, case: Case, executor: Executor, n_repeats: int, variant: str = "auto"
) -> Timing:
    """The median of a few runs; one before them, which makes what is made once, aside."""
    model = build_case(op, case)
    want = "argmax" if op.name == "argmax" else "logits"
    wall: list[float] = []
    own: list[float] = []
    kernels: tuple[str, ...] = ()
    n_bytes = 0.0
    try:
        state = _sync.run(load_case(model, executor, variant))
        _sync.run(ask_case(model, executor, state, want))
        for _ in range(n_repeats):
            started = time.perf_counter()
            _sync.run(ask_case(model, executor, state, want))
            wall.append((time.perf_counter() - started) * 1e3)
            if isinstance(executor, WebGpuExecutor):
                profile = executor.start_profile()
                _sync.run(ask_case(model, executor, state, want))
                executor.stop_profile()
                rows = [r for r in profile.rows() if not r.kernel.startswith(AROUND)]
                own.append(sum(row.ms for row in rows))
                n_bytes = sum(row.n_bytes for row in rows)
                kernels = tuple(sorted(row.kernel for row in rows))
    finally:
        executor.close()
    return Timing(op.name, case.name, kernels, median(own) if own else None, n_bytes, median(wall))


if __name__ == "__main__":
    sys.exit(main())
