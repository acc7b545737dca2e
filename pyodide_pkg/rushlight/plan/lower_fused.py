"""Lowerings of a norm fused into the products that read it (decode).

The tiles family runs one dispatch. The rows family and weights that are split or odd run
the parts: there a norm of its own costs less than one in every thread.
"""

from __future__ import annotations

from ..graph.ir import Node
from .builder import PlanBuilder
from .lower_matmul import (
    ACTIVATIONS,
    in_one,
    lower_glu_matmul,
    lower_qkv_matmul,
    matvec_size,
    qkv_imports,
    qkv_overrides,
)
from .lower_rows import lower_joint_norm, lower_norm
from .weights import WeightChunk

JOINT_SIZE = 128
"""Threads of a workgroup that first reads a whole row: more rows share that reading."""


def lower_norm_qkv_matmul(b: PlanBuilder, node: Node) -> None:
    """A norm and the three products of attention."""
    chunks = [b.weights.matrix(node.inputs[f"weight_{p}"]) for p in "qkv"]
    rows = [sum(chunk.n_rows for chunk in each) for each in chunks]
    if b.is_rows or not in_one(*chunks) or rows[0] % 4 or rows[1] % 4:
        lower_qkv_matmul(b, _after_norm(b, node, "qkv_matmul"))
        return
    q, k, v = (each[0] for each in chunks)
    sizes, grid = matvec_size(b, sum(rows), q.n_cols)
    b.emit(
        "norm_qkv_matvec",
        [
            b.value(node.inputs["x"]),
            b.weights.vector(node.inputs["norm"]),
            *(c.binding for c in (q, k, v)),
            b.value(node.outputs["y"]),
        ],
        grid,
        imports=qkv_imports(b, q, k, v),
        overrides={**sizes, **qkv_overrides(q, k, v), **_eps(b, node), "HAS_NORM": 1},
        has_step=False,
        label=f"norm_qkv_matvec {q.binding.slot}",
    )


def lower_norm_glu_matmul(b: PlanBuilder, node: Node) -> None:
    """A norm and the gated product that reads it."""
    gate, up = _glu_factors(b, node)
    if b.is_rows or not in_one(gate, up):
        lower_glu_matmul(b, _after_norm(b, node, "glu_matmul"))
        return
    _emit_glu(b, node, "glu_matvec", ["x", "norm"], gate[0], up[0], {"HAS_NORM": 1})


def lower_joint_glu_matmul(b: PlanBuilder, node: Node) -> None:
    """A residual add between two norms, and the gated product that reads the second."""
    gate, up = _glu_factors(b, node)
    if b.is_rows or not in_one(gate, up):
        normed = _new_value(b, node)
        inputs = {port: node.inputs[port] for port in ("x", "a", "post_norm", "norm")}
        outputs = {"sum": node.outputs["sum"], "y": normed}
        lower_joint_norm(b, Node("sandwich_norm", inputs, outputs, _eps_attr(b, node)))
        lower_glu_matmul(b, _product_of(b, node, "glu_matmul", normed))
        return
    _emit_glu(b, node, "joint_glu_matvec", ["x", "a", "post_norm", "norm"], gate[0], up[0], {})


def _emit_glu(
    b: PlanBuilder,
    node: Node,
    file: str,
    ports: list[str],
    gate: WeightChunk,
    up: WeightChunk,
    extra: dict[str, float],
) -> None:
    sizes, grid = matvec_size(b, gate.n_rows, gate.n_cols, JOINT_SIZE if "a" in ports else 64)
    inputs = [
        b.weights.vector(node.inputs[p]) if p.endswith("norm") else b.value(node.inputs[p])
        for p in ports
    ]
    outputs = [b.value(node.outputs[p]) for p in ("sum", "y") if p in node.outputs]
    b.emit(
        file,
        [*inputs, gate.binding, up.binding, *outputs],
        grid,
        imports=[("WG", gate.quant), ("WU", up.quant), b.lanes()],
        overrides={
            **sizes,
            **extra,
            **_eps(b, node),
            "N_ROWS": gate.n_rows,
            "N_COLS": gate.n_cols,
            "ACTIVATION": ACTIVATIONS[str(b.attrs(node)["activation"])],
            **gate.overrides("WG"),
            **up.overrides("WU"),
        },
        has_step=False,
        label=f"{file} {gate.binding.slot}",
    )


def _glu_factors(
    b: PlanBuilder, node: Node
) -> tuple[tuple[WeightChunk, ...], tuple[WeightChunk, ...]]:
    return b.weights.matrix(node.inputs["weight_gate"]), b.weights.matrix(node.inputs["weight_up"])


def _after_norm(b: PlanBuilder, node: Node, op: str) -> Node:
    """The norm as a dispatch of its own; the node that is left."""
    normed = _new_value(b, node)
    inputs = {"x": node.inputs["x"], "weight": node.inputs["norm"]}
    lower_norm(b, Node("rms_norm", inputs, {"y": normed}, _eps_attr(b, node)))
    return _product_of(b, node, op, normed)


def _product_of(b: PlanBuilder, node: Node, op: str, x: str) -> Node:
    weights = {port: name for port, name in node.inputs.items() if port.startswith("weight_")}
    attrs = {name: value for name, value in b.attrs(node).items() if name == "activation"}
    return Node(op, {"x": x, **weights}, {"y": node.outputs["y"]}, attrs)


def _new_value(b: PlanBuilder, node: Node) -> str:
    """A value shaped like the node's input, which the graph does not name."""
    name = f"{node.outputs['y']}.normed"
    b.shapes = {**b.shapes, name: b.shapes[node.inputs["x"]]}
    return name


def _eps_attr(b: PlanBuilder, node: Node) -> dict[str, float]:
    return {"eps": float(b.attrs(node)["eps"])}  # type: ignore[arg-type]


def _eps(b: PlanBuilder, node: Node) -> dict[str, float]:
    return {"EPS": _eps_attr(b, node)["eps"]}
