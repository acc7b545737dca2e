"""Lowerings to CPU kernels of ops over rows: short convolutions, positions, columns, factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph.ir import Node
from ..ops.conv import PERIOD, RING
from .cpu_builder import CpuBuilder
from .plan import Binding


def lower_short_conv(b: CpuBuilder, node: Node) -> None:
    """A gated convolution, with what it has read before in a state."""
    weight = node.inputs["weight"]
    (state,) = b.state(node.inputs["state"])
    b.emit(
        "short_conv",
        x=b.value(node.inputs["x"]),
        weight=b.vector(weight),
        state=state,
        y=b.value(node.outputs["y"]),
        n_cols=b.graph.weights[weight].shape[0],
        n_taps=b.graph.weights[weight].shape[1],
        ring=RING,
        period=PERIOD,
    )


def lower_with_weight(b: CpuBuilder, node: Node) -> None:
    """``scale_by`` and ``add_row``: values with the one number, or the one row, of a tensor."""
    weight = b.vector(node.inputs["weight"])
    b.emit(node.op, **_map(b, node), weight=weight)


def lower_pool(b: CpuBuilder, node: Node) -> None:
    """One vector for the tokens up to each wanted row; part of the head."""
    b.head_start = b.head_start or len(b.calls)
    x, y = node.inputs["x"], node.outputs["y"]
    is_cls = b.attrs(node)["kind"] == "cls"
    b.emit("pool", x=b.value(x), rows=b.value(node.inputs["rows"]), y=b.value(y),
           n_cols=b.n_cols(x), is_cls=is_cls)  # fmt: skip


def lower_clamp(b: CpuBuilder, node: Node) -> None:
    """Values kept within a limit."""
    b.emit("clamp", **_map(b, node), limit=b.attrs(node)["limit"])


def lower_columns(b: CpuBuilder, node: Node) -> None:
    """Some columns of each row."""
    start = b.attrs(node)["start"]
    b.emit("columns", **_map(b, node), x_cols=b.n_cols(node.inputs["x"]), start=start)


def _map(b: CpuBuilder, node: Node) -> dict[str, Any]:
    """What kernels from ``x`` to ``y`` share."""
    y = node.outputs["y"]
    return {
        "x": b.value(node.inputs["x"]),
        "y": b.value(y),
        "n_cols": b.n_cols(y),
        "uses_n_out": b.uses_n_out(y),
    }


def lower_position_scale(b: CpuBuilder, node: Node) -> None:
    """Rows times a factor of their position."""
    x, y = node.inputs["x"], b.value(node.outputs["y"])
    emit_position_scale(b, node, b.value(x), y, b.n_cols(x))


def emit_position_scale(b: CpuBuilder, node: Node, x: Binding, y: Binding, n_cols: int) -> None:
    """``position_scale`` of rows of ``n_cols``, by the node's slope and length."""
    attrs = b.attrs(node)
    b.emit("position_scale", x=x, y=y, n_cols=n_cols, length=attrs["length"], slope=attrs["slope"])


def lower_position_rows(b: CpuBuilder, node: Node) -> None:
    """Rows of a table by position."""
    table, tensor = b.matrix(node.inputs["table"])
    if "positions" not in b.made:
        b.made["positions"] = b.temp("positions", b.options.n_batch * 4)
        b.emit("positions", y=b.made["positions"])
    b.emit(
        "get_rows",
        ids=b.made["positions"],
        table=table,
        y=b.value(node.outputs["y"]),
        n_rows=tensor.n_rows,
        n_cols=tensor.n_cols,
        type=tensor.type.id,
        scale=1.0,
    )


ROW_LOWERINGS: dict[str, Callable[[CpuBuilder, Node], None]] = {
    "short_conv": lower_short_conv,
    "scale_by": lower_with_weight,
    "add_row": lower_with_weight,
    "pool": lower_pool,
    "clamp": lower_clamp,
    "columns": lower_columns,
    "position_scale": lower_position_scale,
    "position_rows": lower_position_rows,
}
