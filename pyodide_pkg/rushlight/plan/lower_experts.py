"""Lowerings of the expert ops: which experts, and products with the chosen ones' rows alone.

One token: a kernel reads, slot by slot, the rows of the expert that the slot chose. More tokens:
``expert_group`` sorts the slots by expert on the device and cuts them into tiles, and each tile
multiplies an expert's rows with all its slots at once. Nothing is read back in between.
"""

from __future__ import annotations

from ..graph.ir import Node
from .builder import PlanBuilder
from .lower_matmul import (
    ACTIVATIONS,
    emit_elementwise,
    in_one,
    matvec_size,
    padded,
    power_of_two,
)
from .plan import Binding

GATINGS = {"softmax": 0, "sigmoid": 1, "softmax_chosen": 2}
ROWS_TILE = 8
MAX_QUADS = 4
"""Quads of 32 slots in a tile of the tiles family: 128, above which an expert's rows are read
again."""


def _n_used(b: PlanBuilder, node: Node) -> int:
    return b.n_cols(node.inputs["experts"])


def _bias(b: PlanBuilder, node: Node, port: str = "bias") -> Binding:
    return b.weights.vector(node.inputs[port]) if port in node.inputs else b.weights.zero()


def lower_route(b: PlanBuilder, node: Node) -> None:
    """Which experts each token takes, and the share of each."""
    attrs, logits = b.attrs(node), node.inputs["logits"]
    n_expert, n_used = b.n_cols(logits), int(attrs["n_used"])  # type: ignore[arg-type]
    symbol = b.rows_symbol(logits)
    outputs = [b.value(node.outputs[port]) for port in ("experts", "shares")]
    b.emit(
        "expert_route",
        [b.value(logits), _bias(b, node), *outputs],
        (b.max_rows(symbol), 1, 1),
        overrides={
            "WG_SIZE": 1 if b.is_rows else 64,
            "N_EXPERT": n_expert,
            "N_USED": n_used,
            "GATING": GATINGS[str(attrs["gating"])],
            "NORMALIZE": bool(attrs["normalize"]),
            "SCALE": float(attrs["scale"]),  # type: ignore[arg-type]
            "HAS_BIAS": "bias" in node.inputs,
            "USE_N_OUT": symbol == "n_out",
        },
    )


def _tile(b: PlanBuilder, n: int) -> int:
    """Slots of a tile: an expert takes a token once, so ``n`` are the most it has."""
    return ROWS_TILE if b.is_rows else 32 * _quads(n)


def _quads(n: int) -> int:
    return 1 if n <= 32 else 2 if n <= 64 else MAX_QUADS


def _n_tiles(n: int, n_used: int, n_expert: int, tile: int) -> int:
    """Most tiles there can be: each expert may have one that is not full."""
    return min(n * n_used, min(n * n_used, n_expert) + n * n_used // tile)


def _groups(b: PlanBuilder, experts: str, n_expert: int) -> tuple[Binding, int]:
    """The slots of several tokens sorted by expert, and how many tiles they are cut into at most.

    Made once for all products that read the choice.
    """
    n_used, symbol = b.n_cols(experts), b.rows_symbol(experts)
    n = b.max_rows(symbol)
    tile = _tile(b, n)
    n_tiles = _n_tiles(n, n_used, n_expert, tile)

    def emit(groups: Binding) -> None:
        b.emit(
            "expert_group",
            [b.value(experts), groups],
            (1, 1, 1),
            overrides={
                "WG_SIZE": 64,
                "N_EXPERT": n_expert,
                "N_USED": n_used,
                "TILE": tile,
                "N_TILES": n_tiles,
                "USE_N_OUT": symbol == "n_out",
            },
        )

    (groups,) = b.derived(experts, "groups", [(4 * n_tiles + n * n_used) * 4], emit)
    return groups, n_tiles


def lower_matmul(b: PlanBuilder, node: Node) -> None:
    """``expert_matmul``: one dispatch per chunk; each writes the rows it holds."""
    product(b, node, "weight", "bias", b.value(node.outputs["y"]))


def product(b: PlanBuilder, node: Node, weight: str, bias: str, y: Binding) -> None:
    """The product of every slot with its expert's rows of ``weight``, written to ``y``."""
    x, experts = node.inputs["x"], node.inputs["experts"]
    name = node.inputs[weight]
    n_expert, n_rows, n_cols = b.graph.weights[name].shape
    n, n_used = b.max_rows(b.rows_symbol(x)), _n_used(b, node)
    own_x = _own_x(b, node, n_cols)
    first, added = padded(b, x, n_used if own_x else 1), _bias(b, node, bias)
    for chunk in b.weights.matrix(name):
        overrides: dict[str, float] = {
            "N_EXPERT": n_expert,
            "N_ROWS": n_rows,
            "N_COLS": chunk.n_cols_padded,
            "N_CHUNK": chunk.n_rows,
            "N_USED": n_used,
            "OWN_X": own_x,
            "HAS_BIAS": bias in node.inputs,
            **chunk.overrides(),
        }
        if n == 1:
            file, sizes, (wide, high, _) = (
                "expert_matvec",
                *matvec_size(b, n_rows, n_cols, n_z=n_used),
            )
            grid, second = (wide, high, n_used), b.value(experts)
        else:
            second, n_tiles = _groups(b, experts, n_expert)
            file, sizes, grid = _prefill_kernel(b, n_rows, n_tiles)
            sizes["N_TILES"] = n_tiles
        b.emit(
            file,
            [first, second, chunk.binding, added, y],
            grid,
            imports=[("W", chunk.quant), *([b.lanes()] if n == 1 else [])],
            overrides={**overrides, **sizes},
            consts={"N_QUAD": _quads(n)} if file == "expert_matmul_tiles" else {},
            params={"row_start": chunk.row_start},
            has_step=False,
            label=f"{file} {chunk.binding.slot}",
        )


def _own_x(b: PlanBuilder, node: Node, n_cols: int) -> bool:
    """Whether each slot has an input of its own."""
    return b.n_cols(node.inputs["x"]) != n_cols


def _prefill_kernel(
    b: PlanBuilder, n_rows: int, n_tiles: int
) -> tuple[str, dict[str, float], tuple[int, int, int]]:
    if not b.is_rows:
        return "expert_matmul_tiles", {}, b.fold(-(-n_rows // 64), n_tiles)
    units = -(-n_rows // 4)
    size = power_of_two(units // 4, 8, 32)
    return "expert_matmul_rows", {"WG_SIZE": size}, b.fold(-(-units // size), n_tiles)


def lower_glu_matmul(b: PlanBuilder, node: Node) -> None:
    """Both products and the gate in one dispatch; three if a weight is split or odd."""
    attrs, y = b.attrs(node), node.outputs["y"]
    gate, up = (b.weights.matrix(node.inputs[f"weight_{part}"]) for part in ("gate", "up"))
    gating: dict[str, float] = {
        "ACTIVATION": ACTIVATIONS.get(str(attrs["activation"]), 0),
        "CLAMPED": attrs["activation"] == "clamped",
        "ALPHA": float(attrs["alpha"]),  # type: ignore[arg-type]
        "LIMIT": float(attrs["limit"]),  # type: ignore[arg-type]
    }
    has_bias = "bias_gate" in node.inputs
    if not in_one(gate, up) or has_bias != ("bias_up" in node.inputs):
        parts = [b.temp(f"{y}.part", b.value(y).n_bytes) for _ in "gu"]
        for part, to in zip(("gate", "up"), parts, strict=True):
            product(b, node, f"weight_{part}", f"bias_{part}", to)
        _emit_gate(b, [*parts, b.value(y)], b.n_cols(y), b.rows_symbol(y), gating)
        return
    n_expert, n_rows, n_cols = b.graph.weights[node.inputs["weight_gate"]].shape
    sizes, (wide, high, _) = matvec_size(b, n_rows, n_cols, n_z=_n_used(b, node))
    b.emit(
        "expert_glu_matvec",
        [
            b.value(node.inputs["x"]),
            b.value(node.inputs["experts"]),
            gate[0].binding,
            up[0].binding,
            _bias(b, node, "bias_gate"),
            _bias(b, node, "bias_up"),
            b.value(y),
        ],
        (wide, high, _n_used(b, node)),
        imports=[("WG", gate[0].quant), ("WU", up[0].quant), b.lanes()],
        overrides={
            **sizes,
            "N_EXPERT": n_expert,
            "N_ROWS": n_rows,
            "N_CHUNK": n_expert * n_rows,
            "N_COLS": n_cols,
            "N_USED": _n_used(b, node),
            "OWN_X": _own_x(b, node, n_cols),
            "HAS_BIAS": has_bias,
            **gating,
            **gate[0].overrides("WG"),
            **up[0].overrides("WU"),
        },
        has_step=False,
        label=f"expert_glu_matvec {gate[0].binding.slot}",
    )


def _emit_gate(
    b: PlanBuilder, bindings: list[Binding], n_cols: int, symbol: str, gating: dict[str, float]
) -> None:
    """The gate alone, by the file that knows it."""
    is_clamped = bool(gating["CLAMPED"])
    names = ("CLAMPED", "ALPHA", "LIMIT") if is_clamped else ("ACTIVATION",)
    file = "clamped_glu" if is_clamped else "glu"
    emit_elementwise(b, file, bindings, n_cols, symbol, {name: gating[name] for name in names})


def lower_clamped_glu(b: PlanBuilder, node: Node) -> None:
    """GPT-OSS's gate, value by value."""
    attrs, y = b.attrs(node), node.outputs["y"]
    bindings = [b.value(node.inputs["gate"]), b.value(node.inputs["up"]), b.value(y)]
    gating = {name.upper(): float(attrs[name]) for name in ("alpha", "limit")}  # type: ignore[arg-type]
    _emit_gate(b, bindings, b.n_cols(y), b.rows_symbol(y), {"CLAMPED": 1, **gating})


def lower_matmul_sum(b: PlanBuilder, node: Node) -> None:
    """The product of a token's slots and their sum in one dispatch; the parts if that cannot be."""
    x, y = node.inputs["x"], node.outputs["y"]
    chunks = b.weights.matrix(node.inputs["weight"])
    n_used = _n_used(b, node)
    if not in_one(chunks):
        _matmul_then_sum(b, node)
        return
    n_expert, n_rows, n_cols = b.graph.weights[node.inputs["weight"]].shape
    sizes, grid = matvec_size(b, n_rows, n_cols * n_used)
    residual = node.inputs.get("residual")
    b.emit(
        "expert_matvec_sum",
        [
            b.value(x),
            b.value(node.inputs["experts"]),
            b.value(node.inputs["shares"]),
            chunks[0].binding,
            _bias(b, node),
            b.value(residual) if residual else b.weights.zero(),
            b.value(y),
        ],
        grid,
        imports=[("W", chunks[0].quant), b.lanes()],
        overrides={
            **sizes,
            "N_EXPERT": n_expert,
            "N_ROWS": n_rows,
            "N_CHUNK": n_expert * n_rows,
            "N_COLS": n_cols,
            "N_USED": n_used,
            "OWN_X": _own_x(b, node, n_cols),
            "HAS_BIAS": "bias" in node.inputs,
            "HAS_RESIDUAL": residual is not None,
            **chunks[0].overrides(),
        },
        has_step=False,
        label=f"expert_matvec_sum {chunks[0].binding.slot}",
    )


def _matmul_then_sum(b: PlanBuilder, node: Node) -> None:
    y, n_used, residual = node.outputs["y"], _n_used(b, node), node.inputs.get("residual")
    n_cols, symbol, n_bytes = b.n_cols(y), b.rows_symbol(y), b.value(y).n_bytes
    part = b.temp(f"{y}.part", n_bytes * n_used)
    product(b, node, "weight", "bias", part)
    total = b.temp(f"{y}.sum", n_bytes) if residual else b.value(y)
    _emit_sum(b, part, b.value(node.inputs["shares"]), total, n_cols, n_used, symbol)
    if residual:
        emit_elementwise(b, "add", [b.value(residual), total, b.value(y)], n_cols, symbol, {})


def lower_sum(b: PlanBuilder, node: Node) -> None:
    """``expert_sum``: slots times their shares."""
    x, shares, y = node.inputs["x"], node.inputs["shares"], node.outputs["y"]
    values = (b.value(x), b.value(shares), b.value(y))
    _emit_sum(b, *values, b.n_cols(y), b.n_cols(shares), b.rows_symbol(y))


def _emit_sum(
    b: PlanBuilder,
    x: Binding,
    shares: Binding,
    y: Binding,
    n_cols: int,
    n_used: int,
    symbol: str,
) -> None:
    emit_elementwise(b, "expert_sum", [x, shares, y], n_cols, symbol, {"N_USED": n_used})


def lower_sigmoid_gate(b: PlanBuilder, node: Node) -> None:
    """A row's dot product with one weight row, and the row it gates."""
    a, x, y = node.inputs["a"], node.inputs["x"], node.outputs["y"]
    n_cols, symbol = b.n_cols(x), b.rows_symbol(x)
    size = 8 if b.is_rows else power_of_two(n_cols // 8, 32, 256)
    rows = b.max_rows(symbol)
    b.emit(
        "sigmoid_gate",
        [b.value(a), b.value(x), b.weights.vector(node.inputs["weight"]), b.value(y)],
        b.fold(-(-rows // size) if b.is_rows else rows),
        imports=[b.lanes()],
        overrides={
            "WG_SIZE": size,
            **b.lane_sizes(size),
            "N_COLS": n_cols,
            "N_A": b.n_cols(a),
            "USE_N_OUT": symbol == "n_out",
        },
    )
