"""The small vocabulary that architectures are written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import GraphError
from ..gguf.views import view_name, view_shape
from ..ops import OPS
from .ir import Attr, Graph, Node, StateDecl, Weight


class GraphBuilder:
    """Collects nodes in order; every method returns the name of the value it made.

    ``tensors`` maps the file's tensor names to numpy-order shapes; ``has`` asks it, so that a
    model can follow what the file holds.
    """

    def __init__(self, architecture: str, tensors: Mapping[str, tuple[int, ...]]) -> None:
        self.architecture = architecture
        self._tensors = tensors
        self._nodes: list[Node] = []
        self._weights: dict[str, Weight] = {}
        self._state: dict[str, StateDecl] = {}
        self._latest: dict[str, str] = {}

    def has(self, name: str) -> bool:
        """Whether the file holds this tensor."""
        return name in self._tensors

    def weight(self, name: str) -> str:
        """Declare a tensor of the file as read by this graph."""
        if name not in self._tensors:
            raise GraphError(
                f"G11: the model needs the tensor {name!r}, which the file lacks.",
                hint="The file may be truncated or converted for another engine.",
            )
        self._weights[name] = Weight(tuple(self._tensors[name]))
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor that the file holds, in numpy order."""
        return tuple(self._tensors[name])

    def rows(self, name: str, start: int, stop: int) -> str:
        """Declare rows of a tensor as a weight of its own; see ``gguf/views.py``."""
        shape = view_shape(self._tensors[name], start, stop) if self.has(name) else None
        if shape is None:
            raise GraphError(
                f"G11: the model needs rows {start} to {stop} of {name!r}, which the file lacks.",
                hint="The file may be truncated or converted for another engine.",
            )
        view = view_name(name, start, stop)
        self._weights[view] = Weight(shape)
        return view

    def optional(self, name: str) -> str | None:
        """``weight(name)`` if the file holds it, else None (the port stays unconnected)."""
        return self.weight(name) if self.has(name) else None

    def kv_state(self, name: str, width_k: int, width_v: int) -> str:
        """Declare a layer's key and value cache."""
        self._state[name] = StateDecl("kv", (width_k, width_v))
        return name

    def latest(self, state: str) -> str:
        """The version of a state that was written last."""
        return self._latest[state]

    def conv_state(self, name: str, n_kept: int, n_cols: int) -> str:
        """Declare the rows that a convolution looks back at."""
        self._state[name] = StateDecl("conv", (n_kept, n_cols))
        return name

    def node(self, op_name: str, inputs: Mapping[str, str | None], **attrs: Attr) -> str:
        """Add one node and name its only output."""
        op = OPS[op_name]
        outputs = {port: f"{port}{len(self._nodes)}" for port in op.outputs}
        for port in op.state:
            if port in outputs:
                outputs[port] = f"{inputs[port]}@{len(self._nodes)}"
                self._latest[str(inputs[port]).partition("@")[0]] = outputs[port]
        given = {port: value for port, value in inputs.items() if value is not None}
        self._nodes.append(Node(op_name, given, outputs, attrs))
        return next(iter(outputs.values()))

    @property
    def last_node(self) -> Node:
        """The node added most recently."""
        return self._nodes[-1]

    def embed(self, table: str, scale: float = 1.0) -> str:
        """Rows of the embedding table for the input tokens."""
        return self.node("get_rows", {"ids": "tokens", "table": self.weight(table)}, scale=scale)

    def rms_norm(self, x: str, weight: str | None, eps: float, n_group: int = 1) -> str:
        """Root mean square norm of each row (of each group of a row)."""
        return self.node("rms_norm", {"x": x, "weight": weight and self.weight(weight)},
                         eps=eps, n_group=n_group)  # fmt: skip

    def layer_norm(self, x: str, name: str, eps: float, n_group: int = 1) -> str:
        """Norm by mean and variance, with the weight and bias that the file has for it."""
        ports = {port: self.optional(f"{name}.{port}") for port in ("weight", "bias")}
        return self.node("layer_norm", {"x": x, **ports}, eps=eps, n_group=n_group)

    def linear(self, x: str, name: str, rows: tuple[int, int] | None = None) -> str:
        """``{name}.weight`` applied to x, with ``{name}.bias`` when the file has one.

        ``rows``: only rows from the first to before the second, of a fused tensor.
        """
        weight, bias = f"{name}.weight", f"{name}.bias"
        if rows:
            ports = {
                "weight": self.rows(weight, *rows),
                "bias": self.rows(bias, *rows) if self.has(bias) else None,
            }
        else:
            ports = {"weight": self.weight(weight), "bias": self.optional(bias)}
        return self.node("matmul", {"x": x, **ports})

    def rope(self, x: str, n_head: int, freq_factors: str | None, **attrs: Any) -> str:
        """Rotate q or k by position."""
        return self.node(
            "rope",
            {"x": x, "positions": "positions", "freq_factors": freq_factors},
            n_head=n_head,
            **attrs,
        )

    def attention(
        self, q: str, k: str, v: str, cache: str, sinks: str | None = None, **attrs: Any
    ) -> str:
        """Store k and v, then attend with q; ``sinks`` names a value per head, if there are any."""
        stored = self.node("kv_store", {"k": k, "v": v, "positions": "positions", "cache": cache})
        inputs = {"q": q, "positions": "positions", "cache": stored, "sinks": sinks}
        return self.node("attention", inputs, **attrs)

    def add(self, a: str, b: str) -> str:
        """Residual sum."""
        return self.node("add", {"a": a, "b": b})

    def select_outputs(self, x: str) -> str:
        """Keep only the rows that the caller wants logits for."""
        return self.node("select_rows", {"x": x, "rows": "out_rows"})

    def build(self, **outputs: str) -> Graph:
        """Freeze the document."""
        return Graph(self.architecture, tuple(self._nodes), self._weights, self._state, outputs)
