"""Lowerings of products with a weight: get_rows, matmul and its fusions."""

from __future__ import annotations

from ..graph.ir import Node
from ..shaders import read_shader
from .builder import PlanBuilder
from .plan import Binding
from .weights import WeightChunk

ACTIVATIONS = {"silu": 0, "gelu_tanh": 1, "gelu": 2, "relu": 3, "relu2": 4}


def power_of_two(n: int, low: int, high: int) -> int:
    """The largest power of two at most ``n``, kept within low..high."""
    return min(high, max(low, 1 << max(0, n.bit_length() - 1)))


THREADS_WANTED = 32768
"""Threads that a matvec is spread over before a thread takes more columns: a large GPU's worth."""


def matvec_size(
    b: PlanBuilder, n_rows: int, n_cols: int, size: int = 64, n_z: int = 1
) -> tuple[dict[str, float], tuple[int, int, int]]:
    """Workgroup size, lanes and grid of a matvec kernel over ``n_rows`` rows, four to a unit.

    In the tiles family 8 lanes share a unit, which reads whole sectors of every plane; more only
    where the matrix is too small to keep a GPU busy otherwise, at most one per 16 columns. The
    kernel runs ``n_z`` times beside itself, for other rows.
    """
    units = -(-n_rows // 4)
    if b.is_rows:
        # Small enough that a few cores have several workgroups each.
        size = power_of_two(units // 8, 8, 64)
        return {"WG_SIZE": size}, b.fold(-(-units // size))
    lanes, n_groups = 8, -(-n_cols // 16)
    while lanes < size and units * n_z * lanes < THREADS_WANTED and lanes * 2 <= n_groups:
        lanes *= 2
    return {"WG_SIZE": size, **b.lane_sizes(lanes)}, b.fold(-(-units * lanes // size))


def lower_get_rows(b: PlanBuilder, node: Node) -> None:
    """``get_rows`` and ``position_rows``: each chunk of the table writes the rows it holds."""
    y, by_position = b.value(node.outputs["y"]), node.op == "position_rows"
    for chunk in b.weights.matrix(node.inputs["table"]):
        threads = b.options.n_tokens_max * -(-chunk.n_cols // 16)
        size = 16 if b.is_rows else 64
        b.emit(
            "get_rows",
            [b.value("tokens" if by_position else node.inputs["ids"]), chunk.binding, y],
            b.fold(-(-threads // size)),
            imports=[("W", chunk.quant)],
            overrides={
                "WG_SIZE": size,
                "N_ROWS": chunk.n_rows,
                "N_COLS": chunk.n_cols,
                "SCALE": float(b.attrs(node).get("scale", 1.0)),  # type: ignore[arg-type]
                "BY_POSITION": by_position,
                **chunk.overrides(),
            },
            params={"row_start": chunk.row_start},
            label=f"get_rows {chunk.binding.slot}",
        )


def lower_matmul(b: PlanBuilder, node: Node) -> None:
    """A product alone or with what follows it: matvec for one row, a tiled one for more."""
    activation = b.attrs(node).get("activation")
    product(
        b,
        node.inputs["x"],
        node.inputs["weight"],
        b.value(node.outputs["y"]),
        y_cols=b.n_cols(node.outputs["y"]),
        bias=node.inputs.get("bias"),
        residual=node.inputs.get("residual"),
        activation=ACTIVATIONS[str(activation)] if activation else None,
    )


def product(
    b: PlanBuilder,
    x: str,
    weight: str,
    y: Binding,
    *,
    y_cols: int,
    y_start: int = 0,
    bias: str | None = None,
    residual: str | None = None,
    activation: int | None = None,
) -> None:
    """``y[:, y_start..] = x @ weight.T (+ bias) (+ residual)``, one dispatch per chunk.

    ``activation`` is for one row: it is applied before the residual.
    """
    after = {} if activation is None else {"HAS_ACTIVATION": 1, "ACTIVATION": activation}
    symbol = b.rows_symbol(x)
    added = [
        b.weights.vector(bias) if bias else b.weights.zero(),
        b.value(residual) if residual else b.weights.zero(),
    ]
    n = b.max_rows(symbol)
    narrow = NARROW.get(b.options.variant.product) if n > 1 and symbol == "n_tokens" else None
    values = narrow(b, x) if narrow else [padded(b, x)]
    for chunk in b.weights.matrix(weight):
        file, sizes, grid = _product_kernel(b, chunk, n)
        if narrow:
            file = f"matmul_{b.options.variant.product}"
        else:
            sizes["USE_N_OUT"] = symbol == "n_out"
        imports, places = _weight_imports(b, chunk, file)
        b.emit(
            file,
            [*values, chunk.binding, *added, y],
            grid,
            imports=imports,
            overrides={
                "N_ROWS": chunk.n_rows,
                "N_COLS": chunk.n_cols_padded,
                "Y_COLS": y_cols,
                "HAS_BIAS": bias is not None,
                "HAS_RESIDUAL": residual is not None,
                **after,
                **sizes,
                **places,
            },
            consts={"N_QUAD": token_quads(n)} if file.startswith("matmul_tiles") else {},
            params={"row_start": chunk.row_start, "y_start": y_start + chunk.row_start},
            label=f"{file} {chunk.binding.slot}",
        )


def _weight_imports(
    b: PlanBuilder, chunk: WeightChunk, file: str
) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """The files that a product reads its weight with, and where its planes lie."""
    if file == "matmul_tiles_int8":
        how = "exact" if "fn W_codes16" in read_shader(f"{chunk.quant}.wgsl") else "rounded"
        return [("W", f"lib/codes_{how}"), ("Q", chunk.quant)], chunk.overrides("Q")
    lanes = [b.lanes()] if file == "matvec" else []
    return [("W", chunk.quant), *lanes], chunk.overrides()


def padded(b: PlanBuilder, x: str, n_part: int = 1) -> Binding:
    """A value with rows of whole fours: itself, or a copy with zeros at each row's end.

    ``n_part`` rows may lie side by side in one row of the value.
    """
    n_cols, symbol = b.n_cols(x) // n_part, b.rows_symbol(x)
    if n_cols % 4 == 0:
        return b.value(x)
    y_cols = -(-n_cols // 4) * 4
    sizes: dict[str, float] = {"N_COLS": n_cols, "Y_COLS": y_cols, "N_PART": n_part}

    def emit(y: Binding) -> None:
        emit_elementwise(b, "pad_rows", [b.value(x), y], n_part * y_cols, symbol, sizes)

    n_bytes = b.max_rows(symbol) * n_part * y_cols * 4
    return b.derived(x, f"padded.{n_part}", [n_bytes], emit)[0]


def trimmed(b: PlanBuilder, padded: Binding, y: str, n_part: int) -> None:
    """Undo ``padded``: the value ``y`` of rows that lie in whole fours."""
    n_cols, symbol = b.n_cols(y) // n_part, b.rows_symbol(y)
    sizes: dict[str, float] = {"X_COLS": -(-n_cols // 4) * 4, "N_COLS": n_cols, "N_PART": n_part}
    emit_elementwise(b, "columns", [padded, b.value(y)], n_part * n_cols, symbol, sizes)


def in_one(*weights: tuple[WeightChunk, ...]) -> bool:
    """Whether a fused kernel can read these weights: in one binding each, in whole fours."""
    return all(len(chunks) == 1 and chunks[0].n_cols % 4 == 0 for chunks in weights)


def narrow_f16(b: PlanBuilder, x: str) -> list[Binding]:
    """A value as float16 with a scale per row; made once for all products that read it."""
    n, n_cols = b.options.n_tokens_max, -(-b.n_cols(x) // 4) * 4

    def emit(values: Binding, scales: Binding) -> None:
        overrides = {"N_COLS": n_cols}
        b.emit("narrow_f16", [padded(b, x), values, scales], b.fold(n), overrides=overrides)

    return b.derived(x, "f16", (n * n_cols * 2, n * 4), emit)


def narrow_int8(b: PlanBuilder, x: str) -> list[Binding]:
    """A value as int8 with scale and sums per 32 columns; made once for all its products."""
    n_cols = -(-b.n_cols(x) // 4) * 4
    n_blocks = b.options.n_tokens_max * -(-n_cols // 32)

    def emit(codes: Binding, about: Binding) -> None:
        overrides = {"WG_SIZE": 64, "N_COLS": n_cols}
        grid = b.fold(-(-n_blocks // 64))
        b.emit("narrow_int8", [padded(b, x), codes, about], grid, overrides=overrides)

    return b.derived(x, "int8", (n_blocks * 32, n_blocks * 16), emit)


NARROW = {"tiles_f16": narrow_f16, "tiles_int8": narrow_int8}
"""What the products of these variants read instead of float32. The head keeps to float32: it has
few rows in a prefill, and an error of its logits is the answer's."""


def _product_kernel(
    b: PlanBuilder, chunk: WeightChunk, n: int
) -> tuple[str, dict[str, float], tuple[int, int, int]]:
    """File, its sizes and grid for a product with ``n`` rows of x."""
    if n == 1:
        return "matvec", *matvec_size(b, chunk.n_rows, chunk.n_cols)
    if not b.is_rows:
        tokens = 32 * token_quads(n)
        return "matmul_tiles", {}, b.fold(-(-chunk.n_rows // 64), -(-n // tokens))
    units = -(-chunk.n_rows // 4)
    size = power_of_two(units // 4, 8, 32)
    return "matmul_rows", {"WG_SIZE": size}, b.fold(-(-units // size), -(-n // 8))


def token_quads(n: int) -> int:
    """Quads of tokens per thread of matmul_tiles: half the tile for short prompts."""
    return 1 if n <= 32 else 2


def lower_qkv_matmul(b: PlanBuilder, node: Node) -> None:
    """Three weights in one dispatch; three dispatches if one of them is split or odd."""
    chunks = {p: b.weights.matrix(node.inputs[f"weight_{p}"]) for p in "qkv"}
    biases = {p: node.inputs.get(f"bias_{p}") for p in "qkv"}
    n_rows = {p: sum(c.n_rows for c in chunks[p]) for p in "qkv"}
    y, y_cols = b.value(node.outputs["y"]), sum(n_rows.values())
    has_bias = all(biases.values())
    one_each = in_one(*chunks.values())
    if not one_each or n_rows["q"] % 4 or n_rows["k"] % 4 or has_bias != any(biases.values()):
        start = 0
        for p in "qkv":
            weight = node.inputs[f"weight_{p}"]
            product(b, node.inputs["x"], weight, y, y_cols=y_cols, y_start=start, bias=biases[p])
            start += n_rows[p]
        return
    q, k, v = (chunks[p][0] for p in "qkv")
    sizes, grid = matvec_size(b, y_cols, q.n_cols)
    b.emit(
        "qkv_matvec",
        [
            b.value(node.inputs["x"]),
            *(c.binding for c in (q, k, v)),
            *(b.weights.vector(bias) if bias else b.weights.zero() for bias in biases.values()),
            y,
        ],
        grid,
        imports=qkv_imports(b, q, k, v),
        overrides={**sizes, **qkv_overrides(q, k, v), "HAS_BIAS": has_bias},
        has_step=False,
        label=f"qkv_matvec {q.binding.slot}",
    )


def qkv_imports(
    b: PlanBuilder, q: WeightChunk, k: WeightChunk, v: WeightChunk
) -> list[tuple[str, str]]:
    """What a kernel of three products imports."""
    return [("WQ", q.quant), ("WK", k.quant), ("WV", v.quant), b.lanes()]


def qkv_overrides(q: WeightChunk, k: WeightChunk, v: WeightChunk) -> dict[str, float]:
    """Sizes of three weights and where their planes lie."""
    return {
        "N_COLS": q.n_cols,
        "N_Q": q.n_rows,
        "N_K": k.n_rows,
        "N_V": v.n_rows,
        **q.overrides("WQ"),
        **k.overrides("WK"),
        **v.overrides("WV"),
    }


def lower_glu_matmul(b: PlanBuilder, node: Node) -> None:
    """Both products and the gate in one dispatch; three if a weight is split or odd."""
    x, y = node.inputs["x"], node.outputs["y"]
    names = [node.inputs["weight_gate"], node.inputs["weight_up"]]
    gate, up = (b.weights.matrix(name) for name in names)
    n_rows = b.n_cols(y)
    activation = ACTIVATIONS[str(b.attrs(node)["activation"])]
    if not in_one(gate, up):
        parts = [b.temp(f"{y}.part", b.value(y).n_bytes) for _ in names]
        for name, part in zip(names, parts, strict=True):
            product(b, x, name, part, y_cols=n_rows)
        emit_elementwise(
            b, "glu", [*parts, b.value(y)], n_rows, b.rows_symbol(x), {"ACTIVATION": activation}
        )
        return
    sizes, grid = matvec_size(b, n_rows, gate[0].n_cols)
    b.emit(
        "glu_matvec",
        [b.value(x), b.weights.zero(), gate[0].binding, up[0].binding, b.value(y)],
        grid,
        imports=[("WG", gate[0].quant), ("WU", up[0].quant), b.lanes()],
        overrides={
            **sizes,
            "N_ROWS": n_rows,
            "N_COLS": gate[0].n_cols,
            "ACTIVATION": activation,
            **gate[0].overrides("WG"),
            **up[0].overrides("WU"),
        },
        has_step=False,
        label=f"glu_matvec {gate[0].binding.slot}",
    )


def emit_elementwise(
    b: PlanBuilder,
    file: str,
    bindings: list[Binding],
    n_cols: int,
    symbol: str,
    overrides: dict[str, float],
) -> None:
    """One thread per value of rows counted by ``symbol``."""
    size = 64
    b.emit(
        file,
        bindings,
        b.fold(-(-b.max_rows(symbol) * n_cols // size)),
        overrides={"WG_SIZE": size, "N_COLS": n_cols, "USE_N_OUT": symbol == "n_out", **overrides},
    )
