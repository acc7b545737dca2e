"""Speed of the CPU kernels' products by storage type, in G weights a second on one thread.

    python -m tests.tools.bench_wasm --types Q8_0 Q4_K --engines wasmtime node

A product of one token counts its weights once, one of more tokens once per token. The least time
of a few runs counts, since a shared machine only ever adds to it; compare columns of one run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rushlight.cli.common import print_table
from rushlight.gguf.quants import QUANTS, runnable_names
from rushlight.kernels import BUILDS
from rushlight.selftest import random_tensor
from tests.tools.kernel_bench import Call, KernelBench

N_ROWS, N_COLS = 1024, 1024
N_CALLS = 8
FLOATS = ("F32", "F16", "BF16")
#: Runs before those that count: engines compile a function again once it is hot.
N_RUNS = 25


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench_wasm", description=__doc__)
    parser.add_argument("--types", nargs="+", default=runnable_names(), choices=runnable_names())
    parser.add_argument("--engines", nargs="+", default=["wasmtime", "node"])
    parser.add_argument("--builds", nargs="+", default=list(BUILDS), choices=list(BUILDS))
    parser.add_argument("--paths", nargs="+", default=["int8", "exact"])
    parser.add_argument("--tokens", nargs="+", type=int, default=[1, 64])
    args = parser.parse_args(argv)
    columns = [(e, b, n) for e in args.engines for b in args.builds for n in args.tokens]
    rows = []
    for name in args.types:
        for path in args.paths:
            if path == "int8" and name in FLOATS:
                continue
            speeds = [speed(name, path, *column) for column in columns]
            rows.append((name, path, *(f"{s:.2f}" for s in speeds)))
            print(*rows[-1], file=sys.stderr)
    header = ("type", "path", *(f"{e} {b} x{n}" for e, b, n in columns))
    print_table(header, rows, title="G weights a second, one thread")
    return 0


def speed(name: str, path: str, engine: str, build: str, n_tokens: int) -> float:
    """G weights a second of one type's product."""
    rng = np.random.default_rng(0)
    bench = KernelBench(build)
    raw = random_tensor(QUANTS[name], (N_ROWS, N_COLS), rng)
    x = bench.put(rng.standard_normal((n_tokens, N_COLS)).astype(np.float32))
    sizes = bench.table.constants
    n_bytes = n_tokens * N_COLS // sizes["XQ_BLOCK"] * sizes["XQ_BLOCK_BYTES"]
    xq = bench.new((n_bytes,), np.uint8) if path == "int8" else 0
    product = {
        "x": x, "xq": xq, "weight": bench.put(np.frombuffer(raw, np.uint8)), "bias": 0,
        "residual": 0, "y": bench.new((n_tokens, N_ROWS)), "n_rows": N_ROWS, "n_cols": N_COLS,
        "y_cols": N_ROWS, "y_start": 0, "type": QUANTS[name].id, "uses_n_out": 0,
    }  # fmt: skip
    quantize = {"x": x, "xq": xq, "n_cols": N_COLS, "uses_n_out": 0}
    n_calls = N_CALLS if n_tokens == 1 else 1
    first: list[Call] = [("quantize", quantize)] if xq else []
    bench.plan([*first, *[("matmul", product)] * n_calls])
    if engine == "node":
        with tempfile.TemporaryDirectory() as folder:
            ms = bench.run_in_node(Path(folder), N_RUNS, n_tokens=n_tokens)
    else:
        ms = min(bench.run(n_tokens=n_tokens) for _ in range(N_RUNS))
    return n_calls * n_tokens * N_ROWS * N_COLS / ms / 1e6


if __name__ == "__main__":
    sys.exit(main())
