"""Lowerings of ops that work within a row: norms, elementwise, row selection, argmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..graph.ir import Node
from ..ops.conv import PERIOD, RING
from .builder import PlanBuilder
from .lower_matmul import ACTIVATIONS, emit_elementwise, power_of_two
from .plan import Binding

ARGMAX_SHARE = 64
"""Values per thread of the first argmax stage; the same number stands in argmax_part.wgsl."""


def emit_norm(
    b: PlanBuilder,
    node: Node,
    bindings: Sequence[Binding],
    row: str,
    n_group: int = 1,
    more: Mapping[str, float] | None = None,
) -> None:
    """A kernel that normalises each group of each row of ``row``."""
    n_cols = b.n_cols(row) // n_group
    symbol = b.rows_symbol(row)
    rows = b.max_rows(symbol) * n_group
    is_odd = n_cols % 4 != 0
    alone = b.is_rows or is_odd
    size = 8 if alone else power_of_two(n_cols // 8, 32, 256)
    overrides: dict[str, float] = {
        "WG_SIZE": size,
        **({} if alone else b.lane_sizes(size)),
        "N_COLS": n_cols,
        "EPS": float(b.attrs(node)["eps"]),  # type: ignore[arg-type]
        "USE_N_OUT": symbol == "n_out",
        **(more or {}),
    }
    grid = b.fold(-(-rows // size) if alone else rows)
    if is_odd:
        b.emit("norm_odd", bindings, grid, overrides=overrides)
        return
    b.emit(node.op, bindings, grid, imports=[b.lanes()], overrides=overrides)


def lower_norm(b: PlanBuilder, node: Node) -> None:
    """``rms_norm`` and ``layer_norm`` of whole rows, or of each group of a row."""
    bindings = [b.value(node.inputs["x"])]
    n_group = int(b.attrs(node)["n_group"])  # type: ignore[arg-type]
    sizes: dict[str, float] = {"N_GROUP": n_group}
    is_centred = node.op == "layer_norm"
    is_odd = b.n_cols(node.inputs["x"]) // n_group % 4 != 0
    for port in ("weight", "bias") if is_centred or is_odd else ("weight",):
        name = node.inputs.get(port)
        bindings.append(b.weights.vector(name) if name else b.weights.zero())
        is_each = name and len(b.graph.weights[name].shape) > 1
        sizes[f"N_{port.upper()}"] = (n_group if is_each else 1) if name else 0
    if is_odd:
        sizes["IS_CENTRED"] = is_centred
    bindings.append(b.value(node.outputs["y"]))
    emit_norm(b, node, bindings, node.inputs["x"], n_group, sizes)


def lower_joint_norm(b: PlanBuilder, node: Node) -> None:
    """``add_rms_norm``, ``sandwich_norm`` and ``norm_add``: two rows in, then the weights."""
    first, second, *weights = node.inputs.values()
    if b.n_cols(first) % 4:
        _lower_joint_parts(b, node)
        return
    bindings = [b.value(first), b.value(second)]
    bindings += [b.weights.vector(name) for name in weights]
    bindings += [b.value(name) for name in node.outputs.values()]
    emit_norm(b, node, bindings, first)


def _lower_joint_parts(b: PlanBuilder, node: Node) -> None:
    """The same as norms and a sum of their own, for rows that are not whole fours."""
    first, second, *weights = node.inputs.values()
    attrs = {"eps": b.attrs(node)["eps"]}
    total = node.outputs["sum"]
    if node.op != "add_rms_norm":
        normed = f"{total}.normed"
        b.shapes = {**b.shapes, normed: b.shapes[second]}
        inputs = {"x": second, "weight": weights.pop(0)}
        lower_norm(b, Node("rms_norm", inputs, {"y": normed}, attrs))
        second = normed
    lower_elementwise(b, Node("add", {"a": first, "b": second}, {"y": total}))
    if "y" in node.outputs:
        inputs = {"x": total, "weight": weights.pop(0)}
        lower_norm(b, Node("rms_norm", inputs, {"y": node.outputs["y"]}, attrs))


ELEMENTWISE: Mapping[str, tuple[str, ...]] = {
    "add": (),
    "scale": ("factor",),
    "softcap": ("cap",),
    "clamp": ("limit",),
    "position_scale": ("slope", "length"),
    "glu": ("activation",),
    "activate": ("activation",),
}
"""Ops of one thread per value, and the attributes that become overrides."""


def lower_elementwise(b: PlanBuilder, node: Node) -> None:
    """An op of ``ELEMENTWISE``: the output is shaped like the inputs."""
    attrs = b.attrs(node)
    overrides = {
        name.upper(): float(ACTIVATIONS[str(attrs[name])] if name == "activation" else attrs[name])  # type: ignore[arg-type]
        for name in ELEMENTWISE[node.op]
    }
    y = node.outputs["y"]
    # A value that is read twice is bound twice: both reads.
    bindings = [b.value(name) for name in node.inputs.values() if name != "positions"]
    symbol = b.rows_symbol(y)
    emit_elementwise(b, node.op, [*bindings, b.value(y)], b.n_cols(y), symbol, overrides)


def lower_with_weight(b: PlanBuilder, node: Node) -> None:
    """``scale_by`` and ``add_row``: with the one number, or the one row, of a tensor."""
    y = node.outputs["y"]
    bindings = [b.value(node.inputs["x"]), b.weights.vector(node.inputs["weight"]), b.value(y)]
    emit_elementwise(b, node.op, bindings, b.n_cols(y), b.rows_symbol(y), {})


def lower_columns(b: PlanBuilder, node: Node) -> None:
    """Some columns of each row."""
    x, y = node.inputs["x"], node.outputs["y"]
    sizes = {"X_COLS": b.n_cols(x), "START": int(b.attrs(node)["start"])}  # type: ignore[arg-type]
    bindings = [b.value(x), b.value(y)]
    emit_elementwise(b, "columns", bindings, b.n_cols(y), b.rows_symbol(y), dict(sizes))


def lower_select_rows(b: PlanBuilder, node: Node) -> None:
    """Rows whose output is wanted; with one token there is only one to select."""
    x, y = node.inputs["x"], node.outputs["y"]
    b.head_start = len(b.dispatches)
    if b.options.n_tokens_max == 1:
        b.alias(y, x)
        return
    size, n_cols = 64, b.n_cols(y)
    b.emit(
        "select_rows",
        [b.value(x), b.value(node.inputs["rows"]), b.value(y)],
        b.fold(-(-b.options.n_out_max * n_cols // size)),
        overrides={"WG_SIZE": size, "N_COLS": n_cols},
    )


def lower_pool(b: PlanBuilder, node: Node) -> None:
    """One vector for the tokens up to each wanted row; part of the head."""
    x, y = node.inputs["x"], node.outputs["y"]
    b.head_start = b.head_start or len(b.dispatches)
    size, n_cols = 64, b.n_cols(y)
    b.emit(
        "pool",
        [b.value(x), b.value(node.inputs["rows"]), b.value(y)],
        b.fold(-(-b.options.n_out_max * n_cols // size)),
        overrides={"WG_SIZE": size, "N_COLS": n_cols, "IS_CLS": b.attrs(node)["kind"] == "cls"},
    )


def lower_short_conv(b: PlanBuilder, node: Node) -> None:
    """The convolution, then its state: what one dispatch reads the next one writes."""
    x, (rows,) = b.value(node.inputs["x"]), b.state(node.inputs["state"])
    weight = node.inputs["weight"]
    n_cols, n_taps = b.graph.weights[weight].shape
    size = 64
    grid = b.fold(-(-b.options.n_tokens_max * n_cols // size))
    sizes = {"WG_SIZE": size, "N_COLS": n_cols, "N_KEPT": n_taps - 1, "RING": RING}
    sizes["PERIOD"] = PERIOD
    y = b.value(node.outputs["y"])
    b.emit("short_conv", [x, b.weights.vector(weight), rows, y], grid, overrides=sizes)
    b.emit("short_conv_store", [x, rows], grid, overrides=sizes)


def lower_argmax(b: PlanBuilder, x: Binding, y: Binding, n_cols: int, symbol: str) -> None:
    """Index of the largest value of each row, in two stages."""
    size = 16 if b.is_rows else 64
    n_groups = -(-n_cols // (size * ARGMAX_SHARE))
    n_parts = n_groups * size
    rows = b.max_rows(symbol)
    parts = b.temp("argmax.parts", rows * n_parts * 8)
    use_n_out = symbol == "n_out"
    b.emit(
        "argmax_part",
        [x, parts],
        b.fold(n_groups, rows),
        overrides={"WG_SIZE": size, "N_COLS": n_cols, "N_PARTS": n_parts, "USE_N_OUT": use_n_out},
    )
    b.emit(
        "argmax",
        [parts, y],
        (rows, 1, 1),
        overrides={"WG_SIZE": 1 if b.is_rows else 64, "N_PARTS": n_parts, "USE_N_OUT": use_n_out},
    )


def lower_argmax_node(b: PlanBuilder, node: Node) -> None:
    """An ``argmax`` that the graph itself asks for."""
    x = node.inputs["x"]
    symbol = b.rows_symbol(x)
    y = b.temp(node.outputs["y"], b.max_rows(symbol) * 4)
    lower_argmax(b, b.value(x), y, b.n_cols(x), symbol)
