"""The graph document: what a model computes, as data.

A ``Graph`` is frozen and serialises to canonical JSON. Values are named; a node lists its
inputs and outputs by port. Weights carry their GGUF tensor names. Dimensions that change from
call to call are the symbols in ``SYMBOLS``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Dim = int | str
Shape = tuple[Dim, ...]
Attr = bool | int | float | str | tuple[float, ...]

SYMBOLS = ("n_tokens", "n_out")
GRAPH_INPUTS: Mapping[str, tuple[str, Shape]] = {
    "tokens": ("i32", ("n_tokens",)),
    "positions": ("i32", ("n_tokens",)),
    "out_rows": ("i32", ("n_out",)),
}
"""What every document may read: token ids, their positions, and the rows whose output is wanted."""

VERSION = 1


@dataclass(frozen=True)
class Weight:
    """A tensor the graph reads, in numpy order (``[n_rows, n_cols]``)."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class StateDecl:
    """State that lives from call to call.

    ``kind`` "kv": keys and values of each position, ``shape`` = (n_head_kv * head_dim_k,
    n_head_kv * head_dim_v). "conv": the rows that a causal convolution looks back at, ``shape`` =
    (n_taps - 1, n_cols). Other kinds (a recurrent tensor) give ``shape`` of one sequence's state
    and its initial value in ``init``.
    """

    kind: str
    shape: tuple[int, ...]
    init: float = 0.0


@dataclass(frozen=True)
class Node:
    """One operation: ports to value names on both sides, and attributes."""

    op: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    attrs: Mapping[str, Attr] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """A whole model. ``outputs`` maps a public name to a value name.

    ``logits`` [n_out, n_vocab] score the next token. Encoders give ``hidden`` [n_out, n_embd], a
    token's last state, and maybe ``embedding`` [n_out, n_embd], the text up to there in one vector.
    """

    architecture: str
    nodes: tuple[Node, ...]
    weights: Mapping[str, Weight]
    state: Mapping[str, StateDecl]
    outputs: Mapping[str, str]

    def chunk_size(self, n_ctx: int, n_batch: int) -> int:
        """Tokens of the largest chunk; where tokens see those behind them, the whole context."""
        is_causal = all(node.attrs.get("causal", True) for node in self.nodes)
        return min(n_batch, n_ctx) if is_causal else n_ctx

    def to_json(self) -> dict[str, Any]:
        """The document as plain JSON values."""
        return {
            "version": VERSION,
            "architecture": self.architecture,
            "inputs": {k: {"dtype": t, "shape": list(s)} for k, (t, s) in GRAPH_INPUTS.items()},
            "weights": {k: {"shape": list(w.shape)} for k, w in self.weights.items()},
            "state": {
                k: {"kind": s.kind, "shape": list(s.shape), "init": s.init}
                for k, s in self.state.items()
            },
            "nodes": [
                {
                    "op": n.op,
                    "inputs": dict(n.inputs),
                    "outputs": dict(n.outputs),
                    "attrs": {
                        k: list(v) if isinstance(v, tuple) else v for k, v in n.attrs.items()
                    },
                }
                for n in self.nodes
            ],
            "outputs": dict(self.outputs),
        }

    def digest(self) -> str:
        """SHA-256 of the canonical document (sorted keys, no spaces, prose keys left out)."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()
