"""Products and look-ups of every storage type in the CPU kernels, one kernel at a time.

The references are the gguf package's dequantiser and float64 sums in numpy. Unpacked weights are
the same bits. The exact product sums in float32. The int8 product rounds activations to 8 bits per
32 columns: against the same rounding in numpy it is as exact as float32 sums, and against the
product without rounding the energy of its error stays under INT8_NMSE.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize as reference
from numpy.typing import NDArray

from rushlight import _sync
from rushlight.backends.simd_common import SimdExecutor
from rushlight.backends.simd_native import NativeKernels
from rushlight.gguf.quants import QUANTS, runnable_names
from rushlight.ops import Case, OpDef, experts
from rushlight.selftest import check_case, n_scales, put_scales, random_tensor
from tests.tools import wasm_grids
from tests.tools.kernel_bench import Call, KernelBench

Array = NDArray[Any]
TYPES = runnable_names()
FLOATS = ("F32", "F16", "BF16")
QUANTISED = [name for name in TYPES if name not in FLOATS]
BUILDS = ("simd", "relaxed")
#: Error of a float32 sum, relative to the sum of the sizes of its terms.
SUM_ERROR = 2e-6
#: Energy of what rounding activations to 8 bits adds, relative to that of products of as large but
#: unrelated vectors.
INT8_NMSE = 1e-4
#: Columns: a panel holds 1024, so the last of each line takes more than one.
COLS_1 = (36, 33, 896, 1)
COLS_32 = (32, 96, 896, 1152, 2080)
COLS_256 = (256, 768, 1280, 2304)
ROWS = (67, 3, 33, 1, 8)
TOKENS = (1, 7, 2, 33)
#: Halves that are zero, subnormal, ordinary, the greatest, infinite.
SPECIAL = (0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00)


class Product(NamedTuple):
    """A product in a program: its inputs, and where its result will lie."""

    x: Array
    weight: Array
    added: Array
    is_int8: bool
    y: int
    start: int


def every_path() -> Iterator[tuple[str, bool]]:
    """Types, each exact and where it has codes with int8 (True)."""
    yield from ((name, False) for name in TYPES)
    yield from ((name, True) for name in QUANTISED)


def columns(name: str) -> tuple[int, ...]:
    return {1: COLS_1, 32: COLS_32, 256: COLS_256}[QUANTS[name].block_size]


def weights(name: str, n_rows: int, n_cols: int, rng: Any) -> tuple[Array, Array]:
    """Raw rows, and their values by the gguf package."""
    raw = random_tensor(QUANTS[name], (n_rows, n_cols), rng)
    rows = np.frombuffer(raw, np.uint8).reshape(n_rows, -1)
    return rows, reference(rows, gguf.GGMLQuantizationType[name]).astype(np.float32)


def product(
    bench: KernelBench, name: str, shape: tuple[int, int, int], is_int8: bool, rng: Any,
    *, has_more: bool = False,
) -> tuple[list[Call], Product]:  # fmt: skip
    """Calls for tokens [n, n_cols] times a weight [n_rows, n_cols]; with `has_more`, a bias and a
    residual, into a part of longer rows."""
    n, n_rows, n_cols = shape
    raw, values = weights(name, n_rows, n_cols, rng)
    x = rng.standard_normal((n, n_cols)).astype(np.float32) * np.float32(3)
    y_cols, start = (n_rows + 9, 5) if has_more else (n_rows, 0)
    bias = rng.standard_normal(n_rows).astype(np.float32)
    residual = rng.standard_normal((n, y_cols)).astype(np.float32)
    added = bias + residual[:, start : start + n_rows] if has_more else np.zeros((n, n_rows))
    x_at, y, sizes = bench.put(x), bench.new((n, y_cols)), bench.table.constants
    codes = n * n_cols // sizes["XQ_BLOCK"] * sizes["XQ_BLOCK_BYTES"]
    xq = bench.new((codes,), np.uint8) if is_int8 else 0
    args = {
        "x": x_at, "xq": xq, "weight": bench.put(raw), "y": y, "n_rows": n_rows, "n_cols": n_cols,
        "bias": bench.put(bias) if has_more else 0,
        "residual": bench.put(residual) if has_more else 0,
        "y_cols": y_cols, "y_start": start, "type": QUANTS[name].id, "uses_n_out": int(has_more),
    }  # fmt: skip
    quantize = {"x": x_at, "xq": xq, "n_cols": n_cols, "uses_n_out": int(has_more)}
    calls: list[Call] = [("quantize", quantize)] if is_int8 else []
    return [*calls, ("matmul", args)], Product(x, values, added, is_int8, y, start)


def rounded(x: Array) -> Array:
    """Activations as the int8 path sees them, from the description in `quantize.c`."""
    parts = x.reshape(len(x), -1, 32)
    largest = np.abs(parts).max(axis=2, keepdims=True)
    codes = np.rint(parts * (np.float32(127) / largest)).astype(np.float64)
    assert np.abs(codes).max() <= 127
    values: Array = codes * (largest / np.float32(127))
    return values.reshape(x.shape)


def check(bench: KernelBench, made: list[Product]) -> None:
    errors, energies = zip(*(compare(bench, p) for p in made), strict=True)
    assert sum(errors) <= INT8_NMSE * sum(energies)


def compare(bench: KernelBench, p: Product) -> tuple[float, float]:
    """The energies of the error by rounding and of such a product."""
    y_cols = p.weight.shape[0] + (9 if p.start else 0)
    y = bench.get(p.y, (len(p.x), y_cols))[:, p.start : p.start + len(p.weight)] - p.added
    wide = p.weight.astype(np.float64)
    x = rounded(p.x) if p.is_int8 else p.x.astype(np.float64)
    sizes = np.abs(x) @ np.abs(wide).T + np.abs(p.added)
    # Codes less their offset: the terms before the subtraction are larger than the result's.
    limit = SUM_ERROR * sizes * (16 if p.is_int8 else 1)
    assert (np.abs(y - x @ wide.T) <= limit).all()
    error = np.square(y - p.x.astype(np.float64) @ wide.T).sum()
    energy = np.square(p.x).sum() * np.square(wide).sum() / p.x.shape[1]
    return float(error), float(energy)


@pytest.mark.parametrize(("build", "n_threads"), [("simd", 1), ("relaxed", 2)])
@pytest.mark.parametrize(("name", "is_int8"), list(every_path()), ids=str)
def test_products(name: str, is_int8: bool, build: str, n_threads: int) -> None:
    rng = np.random.default_rng(QUANTS[name].id)
    bench = KernelBench(build, n_threads)
    sizes = columns(name)
    for n, n_tokens in enumerate(TOKENS):
        calls: list[Call] = []
        made: list[Product] = []
        for i in range(len(ROWS)):
            shape = (n_tokens, ROWS[(i + n) % len(ROWS)], sizes[i % len(sizes)])
            more, p = product(bench, name, shape, is_int8, rng, has_more=i == n)
            calls, made = [*calls, *more], [*made, p]
        bench.plan(calls)
        bench.run(n_tokens=n_tokens, n_out=n_tokens)
        check(bench, made)
    bench.close()


@pytest.mark.parametrize("is_int8", [False, True])
def test_more_tokens_than_are_multiplied_at_once(is_int8: bool) -> None:
    bench = KernelBench("relaxed", 2)
    rng = np.random.default_rng(0)
    calls, p = product(bench, "Q4_1", (1029, 9, 64), is_int8, rng, has_more=True)
    bench.plan(calls)
    bench.run(n_tokens=1, n_out=1029)
    check(bench, [p])
    bench.close()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", TYPES)
def test_rows_are_the_same_bits(name: str, build: str) -> None:
    rng = np.random.default_rng(QUANTS[name].id)
    bench = KernelBench(build)
    for n_cols in columns(name):
        raw = np.array(weights(name, 5, n_cols, rng)[0])
        put_special(raw, name)
        with np.errstate(all="ignore"):
            values = reference(raw, gguf.GGMLQuantizationType[name]).astype(np.float32)
        ids = np.array([4, 0, 2, 2, 1, 3, 0], np.int32)
        got = look_up(bench, name, raw, ids, n_cols, 1.0)
        assert_same_bits(got, values[ids])
        scaled = look_up(bench, name, raw, ids[:1], n_cols, 2.5)
        with np.errstate(all="ignore"):
            assert_same_bits(scaled, values[ids[:1]] * np.float32(2.5))


def put_special(raw: Array, name: str) -> None:
    """Scales of every kind in some blocks."""
    fmt = QUANTS[name]
    for field in range(n_scales(fmt)):
        blocks = raw.reshape(-1, fmt.type_size)
        n = min(len(blocks), len(SPECIAL))
        some = np.resize(np.roll(np.array(SPECIAL, np.uint16), field * 3), n)
        put_scales(blocks[:n], fmt, field, some)
    if name == "MXFP4":
        raw.reshape(-1, fmt.type_size)[:4, 0] = 0, 1, 2, 255


def look_up(
    bench: KernelBench, name: str, raw: Array, ids: Array, n_cols: int, scale: float
) -> Array:
    y = bench.new((len(ids), n_cols))
    args = {
        "ids": bench.put(ids), "table": bench.put(raw), "y": y, "n_rows": len(raw),
        "n_cols": n_cols, "type": QUANTS[name].id, "scale": scale,
    }  # fmt: skip
    bench.plan([("get_rows", args)])
    bench.run(n_tokens=len(ids))
    return bench.get(y, (len(ids), n_cols))


def assert_same_bits(actual: Array, wanted: Array) -> None:
    same = actual.view("u4") == wanted.view("u4")
    assert (same | (np.isnan(actual) & np.isnan(wanted))).all()


EXPERT_CASES = [
    pytest.param(op, case, id=f"{op.name}/{case.name}") for op in experts.OPS for case in op.cases
]


@pytest.mark.parametrize(("op", "case"), EXPERT_CASES)
def test_experts_agree_with_their_reference(op: OpDef, case: Case) -> None:
    executor = SimdExecutor(NativeKernels(2))
    result = _sync.run(check_case(op, case, lambda: executor, variant="exact"))
    assert result.ok, result
    assert executor.plan is not None
    assert not executor.plan.numpy_ops


@pytest.mark.parametrize("n_tokens", [1, 40, 1800])
def test_experts_with_codes(n_tokens: int) -> None:
    """What the exact path leaves out: slots that share a token's codes, and slots of their own."""
    name, n_expert, n_used, n_rows, n_cols = "Q5_K", 5, 3, 14, 512
    rng = np.random.default_rng(n_tokens)
    raw, flat = weights(name, n_expert * n_rows, n_cols, rng)
    stack = flat.reshape(n_expert, n_rows, n_cols)
    chosen = np.argsort(rng.random((n_tokens, n_expert)), axis=1)[:, :n_used].astype(np.int32)
    bench = KernelBench("relaxed", 2)
    weight, at = bench.put(raw), bench.put(chosen)
    for has_own in (0, 1):
        width = n_cols * (n_used if has_own else 1)
        x = rng.standard_normal((n_tokens, width)).astype(np.float32)
        x_at, y = bench.put(x), bench.new((n_tokens, n_used * n_rows))
        xq = bench.new(
            (n_tokens * width // 32 * bench.table.constants["XQ_BLOCK_BYTES"],), np.uint8
        )
        quantize = {"x": x_at, "xq": xq, "n_cols": width, "uses_n_out": 0}
        args = {
            "x": x_at, "xq": xq, "experts": at, "weight": weight, "bias": 0, "y": y,
            "n_expert": n_expert, "n_used": n_used, "n_rows": n_rows, "n_cols": n_cols,
            "type": QUANTS[name].id, "has_own": has_own, "uses_n_out": 0,
        }  # fmt: skip
        bench.plan([("quantize", quantize), ("expert_matmul", args)])
        bench.run(n_tokens=n_tokens)
        wide = experts.expert_matmul(rounded(x).astype(np.float32), chosen, stack)
        got = bench.get(y, wide.shape)
        assert np.square(got - wide).sum() <= 1e-10 * np.square(wide).sum()
    bench.close()


@pytest.mark.parametrize("build", BUILDS)
def test_products_in_node(build: str, tmp_path: Path) -> None:
    for n_tokens in (1, 6):
        bench = KernelBench(build)
        rng = np.random.default_rng(n_tokens)
        calls: list[Call] = []
        made: list[Product] = []
        for name, is_int8 in every_path():
            shape = (n_tokens, 7, columns(name)[2])
            more, p = product(bench, name, shape, is_int8, rng)
            calls, made = [*calls, *more], [*made, p]
        bench.plan(calls)
        bench.run_in_node(tmp_path, n_tokens=n_tokens)
        check(bench, made)


@pytest.mark.parametrize("build", BUILDS)
def test_a_token_of_zeros_and_one_that_is_no_number(build: str) -> None:
    bench = KernelBench(build)
    rng = np.random.default_rng(0)
    x = np.zeros((3, 64), np.float32)
    x[1, 40] = np.nan
    x[2, 3] = 1e-38
    raw, _ = weights("Q8_0", 4, 64, rng)
    x_at, y, xq = bench.put(x), bench.new((3, 4)), bench.new((3, 160), np.uint8)
    args = {"x": x_at, "xq": xq, "weight": bench.put(raw), "bias": 0, "residual": 0, "y": y,
            "n_rows": 4, "n_cols": 64, "y_cols": 4, "y_start": 0, "type": QUANTS["Q8_0"].id,
            "uses_n_out": 0}  # fmt: skip
    quantize = {"x": x_at, "xq": xq, "n_cols": 64, "uses_n_out": 0}
    bench.plan([("quantize", quantize), ("matmul", args)])
    bench.run(n_tokens=3)
    got = bench.get(y, (3, 4))
    assert (got[0] == 0).all()
    assert np.isnan(got[1]).all()
    assert (np.abs(got[2]) < 1e-30).all()


def test_the_codebooks_are_those_of_the_engine() -> None:
    for file, names in wasm_grids.HEADERS.items():
        text = (wasm_grids.QUANTS / file).read_text(encoding="utf-8")
        assert text == wasm_grids.header(names)
