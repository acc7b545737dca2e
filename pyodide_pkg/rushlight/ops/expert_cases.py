"""Cases of the expert ops. ``experts`` and ``shares`` come from a router over the case's tokens."""

from __future__ import annotations

from ..gguf.quants import QUANTS, runnable_names
from ..graph.ir import Attr
from .opdef import Case

_CLAMPED: dict[str, Attr] = {"activation": "clamped", "alpha": 1.7, "limit": 0.75}


def _matmul(
    name: str,
    n: int,
    stack: tuple[int, int, int],
    n_used: int,
    *,
    own: bool = False,
    bias: bool = False,
) -> Case:
    """``own``: each slot has an input of its own."""
    n_expert, n_rows, n_cols = stack
    shapes: dict[str, tuple[int, ...]] = {"x": (n, n_cols * (n_used if own else 1))}
    shapes |= {"experts": (n, n_used), "weight": stack}
    if bias:
        shapes["bias"] = (n_expert, n_rows)
    words = f"{'-own' if own else ''}{'-bias' if bias else ''}"
    label = f"{name}-{n}x{n_used}of{n_expert}x{n_rows}x{n_cols}{words}"
    return Case(label, shapes, types={"weight": name})


def _n_cols(name: str) -> int:
    return 256 if QUANTS[name].block_size == 256 else 96


MATMUL = (
    *(
        _matmul(name, n, (5, 10, _n_cols(name)), 2, own=n == 1)
        for name in runnable_names()
        for n in (1, 3)
    ),
    _matmul("F32", 1, (4, 7, 36), 3),
    _matmul("Q8_0", 1, (6, 67, 160), 4, bias=True),
    _matmul("MXFP4", 70, (4, 70, 96), 2, own=True, bias=True),
    _matmul("Q8_0", 19, (9, 33, 32), 4, bias=True),
    _matmul("F16", 140, (1, 5, 48), 1),
    _matmul("F32", 1, (3, 6, 35), 2, own=True),
    _matmul("BF16", 5, (3, 6, 35), 2, own=True),
    _matmul("F32", 5, (3, 6, 35), 2),
)


def _route(
    name: str, n: int, n_expert: int, n_used: int, *, bias: bool = False, **attrs: Attr
) -> Case:
    shapes: dict[str, tuple[int, ...]] = {"logits": (n, n_expert)}
    if bias:
        shapes["bias"] = (n_expert,)
    return Case(f"{name}-{n}x{n_used}of{n_expert}", shapes, {"n_used": n_used, **attrs})


ROUTE = (
    _route("softmax", 1, 8, 2, gating="softmax"),
    _route("softmax-normalized", 9, 60, 5, gating="softmax", normalize=True),
    _route("softmax-scaled", 3, 128, 8, gating="softmax", normalize=True, scale=2.5),
    _route("sigmoid-bias", 7, 12, 3, bias=True, gating="sigmoid", normalize=True),
    _route("sigmoid-bias", 1, 72, 4, bias=True, gating="sigmoid", scale=0.5),
    _route("chosen", 5, 32, 4, gating="softmax_chosen"),
    _route("all", 2, 4, 4, gating="softmax"),
    _route("chosen", 1, 32, 4, gating="softmax_chosen"),
    _route("softmax-normalized", 1, 60, 5, gating="softmax", normalize=True),
)

SUM = tuple(
    Case(f"{n}x{n_used}x{n_cols}", {"x": (n, n_used * n_cols), "shares": (n, n_used)})
    for n, n_used, n_cols in [(1, 2, 33), (7, 4, 96), (33, 1, 160)]
)


def _glu(
    gate: str, up: str, stack: tuple[int, int, int], attrs: dict[str, Attr], *, bias: bool = False
) -> Case:
    shapes: dict[str, tuple[int, ...]] = {"x": (1, stack[2]), "experts": (1, 3)}
    shapes |= {"weight_gate": stack, "weight_up": stack}
    if bias:
        shapes |= {"bias_gate": stack[:2], "bias_up": stack[:2]}
    words = f"{attrs['activation']}{'-bias' if bias else ''}"
    types = {"weight_gate": gate, "weight_up": up}
    return Case(f"{gate}-{up}-{words}", shapes, attrs, types)


GLU = (
    _glu("F32", "F32", (5, 9, 36), {"activation": "silu"}),
    _glu("F32", "F16", (4, 5, 33), {"activation": "silu"}),
    _glu("Q4_K", "Q6_K", (4, 34, 256), {"activation": "silu"}),
    _glu("Q8_0", "Q5_0", (4, 20, 96), {"activation": "gelu_tanh"}),
    _glu("MXFP4", "MXFP4", (6, 40, 160), _CLAMPED, bias=True),
)


def _matmul_sum(
    name: str,
    stack: tuple[int, int, int],
    n_used: int,
    *,
    bias: bool = False,
    residual: bool = False,
) -> Case:
    n_expert, n_rows, n_cols = stack
    shapes: dict[str, tuple[int, ...]] = {"x": (1, n_used * n_cols), "experts": (1, n_used)}
    shapes |= {"shares": (1, n_used), "weight": stack}
    if bias:
        shapes["bias"] = (n_expert, n_rows)
    if residual:
        shapes["residual"] = (1, n_rows)
    words = f"{'-bias' if bias else ''}{'-residual' if residual else ''}"
    return Case(f"{name}-{n_used}x{n_rows}x{n_cols}{words}", shapes, types={"weight": name})


MATMUL_SUM = (
    _matmul_sum("F32", (5, 9, 36), 2),
    _matmul_sum("F32", (3, 6, 33), 2, residual=True),
    _matmul_sum("Q4_K", (4, 34, 256), 3, residual=True),
    _matmul_sum("MXFP4", (6, 40, 96), 4, bias=True, residual=True),
    _matmul_sum("Q8_0", (3, 130, 320), 1, bias=True),
)

CLAMPED = tuple(
    Case(f"{t}x{n}", {"gate": (t, n), "up": (t, n)}, {"alpha": 1.7, "limit": 0.75})
    for t, n in [(1, 33), (7, 160)]
)

GATE = tuple(
    Case(f"{t}x{n_a}by{n}", {"a": (t, n_a), "x": (t, n), "weight": weight})
    for t, n_a, n, weight in [(1, 33, 96, (96,)), (7, 130, 35, (1, 35)), (33, 16, 64, (64,))]
)
