"""What stands behind a model's logits: the way to one token, without reading them all back."""

from __future__ import annotations

from dataclasses import replace

from ..candidates import MAX_ADJUSTED, N_CANDIDATES
from ..errors import UnsupportedOpError
from ..graph.ir import Node
from .builder import PlanBuilder
from .plan import Binding, BufferSlot

MAX_AHEAD = 8
"""Most greedy steps of one run."""
MAX_SHARES = 2048
"""Threads that the vocabulary is shared out to: far more than candidates, so that the border
between them lets few others through, and few enough to be compared pairwise."""
FOUND = 1024
"""Room for values that reach the border: the candidates, and what shares a thread with them."""
CANDIDATE_WORDS = 4 + 3 * N_CANDIDATES


def lower_advance(b: PlanBuilder, best: Binding) -> Binding:
    """Feed the most likely token to the next step; gives where the tokens are collected."""
    ahead = b.pin(b.temp("ahead", MAX_AHEAD * 4), "out.ahead")
    layout = b.input_layout()
    bindings = [best, Binding("input", 0, layout.n_bytes), ahead]
    overrides = {"TOKENS_AT": layout.tokens // 4}
    b.emit("advance", bindings, (1, 1, 1), overrides=overrides, has_step=False)
    return ahead


def lower_candidates(b: PlanBuilder, logits: Binding, n_cols: int) -> tuple[Binding, Binding]:
    """``penalize``, then ``top_k``, of the first row; gives (all changed logits, candidates)."""
    row = replace(logits, n_bytes=n_cols * 4)
    sample, mask = _inputs(b, n_cols)
    adjusted = b.pin(b.temp("adjusted", n_cols * 4), "out.adjusted")
    size = 16 if b.is_rows else 64
    b.emit(
        "penalize",
        [row, sample, mask, adjusted],
        b.fold(-(-n_cols // (size * 4))),
        overrides={"WG_SIZE": size, "N_COLS": n_cols},
        has_step=False,
    )
    found = b.pin(b.temp("candidates", CANDIDATE_WORDS * 4), "out.candidates")
    _lower_top_k(b, adjusted, sample, found, n_cols, size)
    return adjusted, found


def _lower_top_k(
    b: PlanBuilder, x: Binding, sample: Binding, y: Binding, n_cols: int, size: int
) -> None:
    share = -(-n_cols // MAX_SHARES)
    n_groups = -(-n_cols // (size * share))
    n_parts = n_groups * size
    parts, found = b.temp("top_k.parts", n_parts * 8), b.temp("top_k.found", FOUND * 8)
    cut, count = b.temp("top_k.cut", 8), b.temp("top_k.count", 4)
    shared = {"WG_SIZE": size, "N_COLS": n_cols, "SHARE": share}
    grid = b.fold(n_groups)
    b.emit("top_k_part", [x, sample, parts], grid, overrides=shared, has_step=False)
    each = {"WG_SIZE": size, "K": N_CANDIDATES}
    b.emit("top_k_cut", [parts, cut, count], (n_groups, 1, 1), overrides=each, has_step=False)
    bindings = [x, parts, cut, count, found]
    b.emit("top_k_gather", bindings, grid, overrides=shared, has_step=False)
    sum_share = -(-n_parts // N_CANDIDATES)
    b.emit(
        "top_k",
        [parts, sample, cut, count, found, y],
        (FOUND // size, 1, 1),
        overrides={**each, "SUM_SHARE": sum_share},
        has_step=False,
    )


def _inputs(b: PlanBuilder, n_cols: int) -> tuple[Binding, Binding]:
    sizes = {"sample": (2 + MAX_ADJUSTED) * 16, "mask": -(-n_cols // 32) * 4}
    for name, n_bytes in sizes.items():
        b.slots[name] = BufferSlot(name, n_bytes, "input")
    return Binding("sample", 0, sizes["sample"]), Binding("mask", 0, sizes["mask"])


def lower_between(b: PlanBuilder, node: Node) -> None:
    """``penalize`` and ``top_k`` stand behind the logits, never between a graph's nodes."""
    raise UnsupportedOpError(f"The webgpu backend makes {node.op!r} itself, of a model's logits.")
