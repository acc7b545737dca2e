"""Op name → the kernel calls that compute it on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..graph.ir import Node
from ..ops.rope import TABLE_ATTRS, frequencies
from .cpu_builder import CpuBuilder
from .cpu_experts import EXPERT_LOWERINGS
from .cpu_products import activation, product
from .cpu_rows import ROW_LOWERINGS, emit_position_scale
from .plan import Binding

Lowering = Callable[[CpuBuilder, Node], None]


# ----- products


def lower_get_rows(b: CpuBuilder, node: Node) -> None:
    """Rows of a table by token id."""
    table, tensor = b.matrix(node.inputs["table"])
    b.emit(
        "get_rows",
        ids=b.value(node.inputs["ids"]),
        table=table,
        y=b.value(node.outputs["y"]),
        n_rows=tensor.n_rows,
        n_cols=tensor.n_cols,
        type=tensor.type.id,
        scale=b.attrs(node)["scale"],
    )


def lower_matmul(b: CpuBuilder, node: Node) -> None:
    """A product, with a bias and a residual where given."""
    y = node.outputs["y"]
    product(
        b,
        node.inputs["x"],
        node.inputs["weight"],
        b.value(y),
        y_cols=b.n_cols(y),
        bias=node.inputs.get("bias"),
        residual=node.inputs.get("residual"),
    )


def lower_qkv_matmul(b: CpuBuilder, node: Node) -> None:
    """Three products side by side."""
    emit_qkv(b, node, node.inputs["x"])


def emit_qkv(b: CpuBuilder, node: Node, x: str) -> None:
    """Queries, keys and values of ``x`` into one row."""
    y, at = node.outputs["y"], 0
    for part in "qkv":
        weight, bias = node.inputs[f"weight_{part}"], node.inputs.get(f"bias_{part}")
        at = product(b, x, weight, b.value(y), y_cols=b.n_cols(y), y_start=at, bias=bias)


def lower_glu_matmul(b: CpuBuilder, node: Node) -> None:
    """Both products of a gated MLP, then the gate."""
    emit_glu_matmul(b, node, node.inputs["x"])


def emit_glu_matmul(b: CpuBuilder, node: Node, x: str) -> None:
    """The gated product of ``x``."""
    y = node.outputs["y"]
    parts = {}
    for port in ("gate", "up"):
        parts[port] = b.rows_temp(y, b.n_cols(y))
        product(b, x, node.inputs[f"weight_{port}"], parts[port], y_cols=b.n_cols(y))
    emit_glu(b, node, parts["gate"], parts["up"])


def emit_glu(b: CpuBuilder, node: Node, gate: Binding, up: Binding) -> None:
    """``activation(gate) * up``."""
    y = node.outputs["y"]
    b.emit(
        "glu",
        gate=gate,
        up=up,
        y=b.value(y),
        n_cols=b.n_cols(y),
        activation=activation(b, node),
        uses_n_out=b.uses_n_out(y),
    )


# ----- rows


def emit_norm(
    b: CpuBuilder, x: str, weight: str | None, y: Binding, eps: Any, n_group: Any = 1
) -> None:
    """``rms_norm`` of each group of each row."""
    b.emit(
        "rms_norm",
        x=b.value(x),
        weight=b.vector(weight) if weight else None,
        y=y,
        n_cols=b.n_cols(x),
        n_group=n_group,
        n_weights=n_sets(b, weight),
        uses_n_out=b.uses_n_out(x),
        eps=eps,
    )


def n_sets(b: CpuBuilder, weight: str | None) -> int:
    """How many groups of a row have a norm weight, or bias, of their own; 1: they share one."""
    shape = b.graph.weights[weight].shape if weight else ()
    return shape[0] if len(shape) > 1 else 1


def emit_joint(
    b: CpuBuilder,
    x: str,
    a: str,
    total: Binding,
    *,
    eps: Any,
    post: str | None = None,
    weight: str | None = None,
    y: Binding | None = None,
) -> None:
    """A residual add, with the branch's norm before it and the next block's after it."""
    b.require_scratch(b.n_cols(x), "A row")
    b.emit(
        "joint_norm",
        x=b.value(x),
        a=b.value(a),
        post_weight=b.vector(post) if post else None,
        weight=b.vector(weight) if weight else None,
        sum=total,
        y=y,
        n_cols=b.n_cols(x),
        uses_n_out=b.uses_n_out(x),
        eps=eps,
    )


def lower_rms_norm(b: CpuBuilder, node: Node) -> None:
    """Norm of whole rows, or of each group of a row."""
    attrs = b.attrs(node)
    y = b.value(node.outputs["y"])
    weight = node.inputs.get("weight")
    emit_norm(b, node.inputs["x"], weight, y, attrs["eps"], attrs["n_group"])


def lower_layer_norm(b: CpuBuilder, node: Node) -> None:
    """Norm of whole rows, or of each group of a row, by mean and variance."""
    x, attrs = node.inputs["x"], b.attrs(node)
    added = {port: node.inputs.get(port) for port in ("weight", "bias")}
    b.emit(
        "layer_norm",
        x=b.value(x),
        **{port: b.vector(name) if name else None for port, name in added.items()},
        y=b.value(node.outputs["y"]),
        n_cols=b.n_cols(x),
        n_group=attrs["n_group"],
        n_weights=n_sets(b, added["weight"]),
        n_biases=n_sets(b, added["bias"]),
        uses_n_out=b.uses_n_out(x),
        eps=attrs["eps"],
    )


def lower_joint_norm(b: CpuBuilder, node: Node) -> None:
    """``add_rms_norm``, ``sandwich_norm`` and ``norm_add``."""
    ports, outputs = node.inputs, node.outputs
    x, a = list(ports.values())[:2]
    emit_joint(
        b,
        x,
        a,
        b.value(outputs["sum"]),
        eps=b.attrs(node)["eps"],
        post=ports.get("post_weight"),
        weight=ports.get("weight"),
        y=b.value(outputs["y"]) if "y" in outputs else None,
    )


def lower_norm_product(b: CpuBuilder, node: Node) -> None:
    """A norm, or a joint of two blocks, and the products that read it."""
    ports, x, eps = node.inputs, node.inputs["x"], b.attrs(node)["eps"]
    h = b.new_name(x)
    if "a" in ports:
        total, y = b.value(node.outputs["sum"]), b.value(h)
        emit_joint(
            b, x, ports["a"], total, eps=eps, post=ports["post_norm"], weight=ports["norm"], y=y
        )
    else:
        emit_norm(b, x, ports["norm"], b.value(h), eps)
    (emit_qkv if "weight_q" in ports else emit_glu_matmul)(b, node, h)


def lower_elementwise(b: CpuBuilder, node: Node) -> None:
    """``add``, ``scale``, ``softcap``: the kernel's arguments are the op's ports and attributes."""
    y = node.outputs["y"]
    values = {port: b.value(name) for port, name in node.inputs.items()}
    attrs: dict[str, Any] = b.attrs(node)
    b.emit(node.op, **values, **attrs, y=b.value(y), n_cols=b.n_cols(y),
           uses_n_out=b.uses_n_out(y))  # fmt: skip


def lower_activate(b: CpuBuilder, node: Node) -> None:
    """An activation without a gate."""
    x = node.inputs["x"]
    b.emit(
        "activate",
        x=b.value(x),
        y=b.value(node.outputs["y"]),
        n_cols=b.n_cols(x),
        activation=activation(b, node),
        uses_n_out=b.uses_n_out(x),
    )


def lower_glu(b: CpuBuilder, node: Node) -> None:
    """The gate of a gated MLP on its own."""
    emit_glu(b, node, b.value(node.inputs["gate"]), b.value(node.inputs["up"]))


def lower_select_rows(b: CpuBuilder, node: Node) -> None:
    """The rows whose output is wanted: the head begins here."""
    b.head_start = b.head_start or len(b.calls)
    x, y = node.inputs["x"], b.value(node.outputs["y"])
    b.emit("select_rows", x=b.value(x), rows=b.value(node.inputs["rows"]), y=y, n_cols=b.n_cols(x))


# ----- attention


def angles(b: CpuBuilder, node: Node) -> Binding:
    """Cosine and sine of each token's angles, made once per step for all layers that share them."""
    attrs = b.attrs(node)
    factors = node.inputs.get("freq_factors")
    key = ("angles", *(attrs[name] for name in TABLE_ATTRS), factors)
    if key not in b.made:
        values = frequencies(attrs, b.read_tensor(factors) if factors else None)
        freqs = b.constant(f"freqs.{len(b.constants)}", values)
        n_rot = int(attrs["n_rot"])  # type: ignore[arg-type]
        b.made[key] = b.temp("angles", b.options.n_batch * n_rot * 4)
        factor = float(attrs["attn_factor"])  # type: ignore[arg-type]
        b.emit("angles", freqs=freqs, y=b.made[key], n_rot=n_rot, factor=factor)
    return b.made[key]


def rope_layout(b: CpuBuilder, node: Node) -> int:
    """The kernels' number for a pairing of values."""
    return b.table.constants[f"ROPE_{str(b.attrs(node)['layout']).upper()}"]


def lower_rope(b: CpuBuilder, node: Node) -> None:
    """Rotation of each head."""
    attrs: dict[str, Any] = b.attrs(node)
    b.emit(
        "rope",
        x=b.value(node.inputs["x"]),
        angles=angles(b, node),
        y=b.value(node.outputs["y"]),
        n_head=attrs["n_head"],
        head_dim=attrs["head_dim"],
        n_rot=attrs["n_rot"],
        layout=rope_layout(b, node),
    )


def cache_kind(b: CpuBuilder) -> int:
    """How the caches keep values, as the kernels call it."""
    return b.table.constants[f"KV_{b.options.kv_dtype.upper()}"]


def lower_kv_store(b: CpuBuilder, node: Node) -> None:
    """Keys and values of each token to the cache."""
    k_cache, v_cache = b.state(node.inputs["cache"])
    k, v = node.inputs["k"], node.inputs["v"]
    b.emit(
        "kv_store",
        k=b.value(k),
        v=b.value(v),
        k_cache=k_cache,
        v_cache=v_cache,
        k_cols=b.n_cols(k),
        v_cols=b.n_cols(v),
        kv=cache_kind(b),
    )


def lower_attention(b: CpuBuilder, node: Node) -> None:
    """Attention over the cache."""
    emit_attention(b, node, b.value(node.inputs["q"]))


def emit_attention(b: CpuBuilder, node: Node, q: Binding) -> None:
    """Attention of the queries ``q``."""
    attrs: dict[str, Any] = b.attrs(node)
    k_cache, v_cache = b.state(node.inputs["cache"])
    n_head, head_dim_v = attrs["n_head"], value_dim(b, node)
    sizes = b.table.constants
    # Rows of keys and values, and at least four of queries and sums, some numbers beside each.
    widths = attrs["head_dim"] + head_dim_v + 16
    b.require_scratch(
        (sizes["TILE_KEYS"] + 4) * (widths + 20), f"Attention to {widths - 16} wide heads"
    )
    part = n_head * (sizes["PART_HEAD"] + head_dim_v + -head_dim_v % 4)
    b.emit(
        "attention",
        q=q,
        k_cache=k_cache,
        v_cache=v_cache,
        sinks=b.vector(node.inputs["sinks"]) if "sinks" in node.inputs else None,
        parts=b.zeroed(f"attention.parts.{n_head}x{head_dim_v}", sizes["MAX_PARTS"] * part),
        y=b.value(node.outputs["y"]),
        n_head=n_head,
        n_head_kv=attrs["n_head_kv"],
        head_dim=attrs["head_dim"],
        head_dim_v=head_dim_v,
        window=attrs["window"],
        is_causal=attrs["causal"],
        kv=cache_kind(b),
        scale=attrs["scale"],
        softcap=attrs["softcap"],
    )


def value_dim(b: CpuBuilder, node: Node) -> int:
    """Width of a value head, as the cache has it."""
    width = b.graph.state[node.inputs["cache"].partition("@")[0]].shape[1]
    return width // int(b.attrs(node)["n_head_kv"])  # type: ignore[arg-type]


def lower_attention_step(b: CpuBuilder, node: Node) -> None:
    """What lies between the q/k/v product and attention in one call, then attention."""
    attrs: dict[str, Any] = b.attrs(node)
    norms = {port: node.inputs.get(port) for port in ("q_norm", "k_norm")}
    is_wide = norms["q_norm"] and b.graph.weights[norms["q_norm"]].shape != (attrs["head_dim"],)
    if is_wide or attrs["v_norm"] or attrs["is_centred"] or attrs["clamp"]:
        # No rule of CPU_RULES makes such a node: the norms are calls of their own here.
        b.run_in_numpy(node)
        return
    k_cache, v_cache = b.state(node.inputs["cache"])
    q = b.rows_temp(node.inputs["qkv"], attrs["n_head"] * attrs["head_dim"])
    b.require_scratch(attrs["n_head_kv"] * attrs["head_dim"], "A token's keys")
    b.emit(
        "heads",
        qkv=b.value(node.inputs["qkv"]),
        **{port: b.vector(name) if name else None for port, name in norms.items()},
        angles=angles(b, node) if attrs["n_rot"] else None,
        y=q,
        k_cache=k_cache,
        v_cache=v_cache,
        **{name: attrs[name] for name in ("n_head", "n_head_kv", "head_dim", "n_rot", "eps")},
        head_dim_v=value_dim(b, node),
        layout=rope_layout(b, node),
        kv=cache_kind(b),
    )
    if attrs["slope"]:
        emit_position_scale(b, node, q, q, attrs["n_head"] * attrs["head_dim"])
    emit_attention(b, node, q)


LOWERINGS: Mapping[str, Lowering] = {
    "get_rows": lower_get_rows,
    "matmul": lower_matmul,
    "matmul_add": lower_matmul,
    "qkv_matmul": lower_qkv_matmul,
    "glu_matmul": lower_glu_matmul,
    "norm_qkv_matmul": lower_norm_product,
    "norm_glu_matmul": lower_norm_product,
    "joint_glu_matmul": lower_norm_product,
    "rms_norm": lower_rms_norm,
    "layer_norm": lower_layer_norm,
    "add_rms_norm": lower_joint_norm,
    "sandwich_norm": lower_joint_norm,
    "norm_add": lower_joint_norm,
    "add": lower_elementwise,
    "scale": lower_elementwise,
    "softcap": lower_elementwise,
    "glu": lower_glu,
    "activate": lower_activate,
    "select_rows": lower_select_rows,
    "rope": lower_rope,
    "kv_store": lower_kv_store,
    "attention": lower_attention,
    "attention_step": lower_attention_step,
    **EXPERT_LOWERINGS,
    **ROW_LOWERINGS,
}
"""Ops of a graph that have kernels; others run in numpy between them."""
TAIL_OPS = ("argmax", "penalize", "top_k")
"""Ops behind a model's logits, which the planner adds itself."""
