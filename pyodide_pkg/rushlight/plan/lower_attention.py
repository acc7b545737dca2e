"""Lowerings of rope, the cache and attention."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedOpError
from ..graph.ir import Attr, Node
from ..ops.kv_cache import KV_FORMATS
from ..ops.rope import TABLE_ATTRS, TABLE_DEFAULTS, cos_sin_table
from .builder import PlanBuilder
from .lower_matmul import padded, trimmed
from .plan import Binding

MOST_FOURS = 128
"""Most quarters of a head in the attention kernels of the tiles family; rows takes wider heads."""


def rope_table(b: PlanBuilder, attrs: Mapping[str, Attr], freq_factors: str | None) -> Binding:
    """The constant slot with cosines and sines, shared by every node that turns alike."""
    plain, special = TABLE_ATTRS[:3], TABLE_ATTRS[3:]
    key = "_".join(f"{attrs[name]}" for name in plain)
    key += "".join(f"_{n}{attrs[n]}" for n in special if attrs[n] != TABLE_DEFAULTS[n])
    name = f"rope.{key}" + (f".{freq_factors}" if freq_factors else "")
    if name in b.weights.slots:
        return Binding(name)
    n_bytes = b.options.n_ctx * _int(attrs, "n_rot") * 4
    if n_bytes > b.options.limits.max_binding_bytes:
        raise UnsupportedOpError(
            f"The rotation table of a context of {b.options.n_ctx} needs {n_bytes} bytes; the "
            f"adapter binds at most {b.options.limits.max_binding_bytes}.",
            hint="Load the model with a smaller context.",
        )
    factors = b.weights.read_tensor(freq_factors) if freq_factors else None
    return b.weights.constant(name, cos_sin_table(b.options.n_ctx, attrs, factors))


def lower_rope(b: PlanBuilder, node: Node) -> None:
    """One thread per value."""
    attrs, x, y = b.attrs(node), node.inputs["x"], node.outputs["y"]
    size = 64
    b.emit(
        "rope",
        [b.value(x), rope_table(b, attrs, node.inputs.get("freq_factors")), b.value(y)],
        b.fold(-(-b.options.n_tokens_max * b.n_cols(x) // size)),
        overrides={
            "WG_SIZE": size,
            "N_HEAD": _int(attrs, "n_head"),
            "HEAD_DIM": _int(attrs, "head_dim"),
            "N_ROT": _int(attrs, "n_rot"),
            "NEOX": attrs["layout"] == "neox",
        },
    )


def lower_kv_store(b: PlanBuilder, node: Node) -> None:
    """Keys and values to the cache; the state's new name is the same slots."""
    k, v = node.inputs["k"], node.inputs["v"]
    cache = node.inputs["cache"]
    n_head = b.cache_heads.get(cache.partition("@")[0], 1)
    fours = max(1, KV_FORMATS[b.options.kv_dtype].n_values // 4)  # in a block of the cache
    k_blocks, v_blocks = (n_head * _fours(b.n_cols(x) // n_head) // fours for x in (k, v))
    size = 64
    b.emit(
        "kv_store",
        [padded(b, k, n_head), padded(b, v, n_head), *b.state(cache)],
        b.fold(-(-b.options.n_tokens_max * (k_blocks + v_blocks) // size)),
        imports=[b.kv_import()],
        overrides={"WG_SIZE": size, "K_BLOCKS": k_blocks, "V_BLOCKS": v_blocks},
    )


def lower_attention(b: PlanBuilder, node: Node) -> None:
    """Attention of a chunk over the cache."""
    attrs = b.attrs(node)
    (d4, v4), n_head = _head_fours(b, node, attrs), _int(attrs, "n_head")
    overrides = _head_overrides(attrs) | _sinks_override(node)
    overrides["IS_CAUSAL"] = bool(attrs["causal"])  # one token alone sees the same either way
    bindings = [padded(b, node.inputs["q"], n_head), *b.state(node.inputs["cache"])]
    n, name = b.options.n_tokens_max, node.outputs["y"]
    is_odd = b.n_cols(name) != n_head * v4 * 4
    y = b.temp(f"{name}.padded", n * n_head * v4 * 16) if is_odd else b.value(name)
    bindings += [_sinks(b, node), y]
    _emit_attention(b, bindings, (d4, v4), n_head, overrides)
    if is_odd:
        trimmed(b, y, name, n_head)


def _emit_attention(
    b: PlanBuilder,
    bindings: list[Binding],
    fours: tuple[int, int],
    n_head: int,
    overrides: dict[str, float],
) -> None:
    n, (d4, v4), most = b.options.n_tokens_max, fours, max(fours)
    if b.is_rows or most > MOST_FOURS:
        overrides["WG_SIZE"] = size = 8 if n <= 64 else 16
        b.emit(
            "attention_prefill_rows",
            bindings,
            (-(-n // size), n_head, 1),
            imports=[b.kv_import()],
            consts={"D4": d4, "V4": v4},
            overrides=overrides,
        )
        return
    n_acc = 8 if most <= 64 else 4
    n_team = max(n for n in (1, 2, 4) if n == 1 or n * most <= 64)
    b.emit(
        "attention_prefill_tiles",
        bindings,
        (-(-n // (n_acc * n_team)), n_head, 1),
        imports=[b.kv_import()],
        consts={
            "D4": d4,
            "V4": v4,
            "N_TEAM": n_team,
            "N_COL": -(-v4 // 64),
            "N_ACC": n_acc,
            "N_KEY": 64 if n_team == 1 else 32,
        },
        overrides=overrides,
    )


def lower_attention_step(b: PlanBuilder, node: Node) -> None:
    """Everything between the q/k/v product and the output product of one token."""
    attrs = b.attrs(node)
    fours = _head_fours(b, node, attrs)
    n_head, n_head_kv = _int(attrs, "n_head"), _int(attrs, "n_head_kv")
    if b.n_cols(node.inputs["qkv"]) != 4 * ((n_head + n_head_kv) * fours[0] + n_head_kv * fours[1]):
        raise UnsupportedOpError(
            "attention_step with heads that are no multiple of 4 is not supported by the webgpu"
            " backend.",
            hint="Write it as its parts: rope, kv_store and attention.",
        )
    has_norm = "q_norm" in node.inputs
    norms = [
        b.weights.vector(node.inputs[port]) if has_norm else b.weights.zero()
        for port in ("q_norm", "k_norm")
    ]
    has_turn = _int(attrs, "n_rot") > 0
    factors = node.inputs.get("freq_factors")
    table = rope_table(b, attrs, factors) if has_turn else b.weights.zero()
    bindings = [b.value(node.inputs["qkv"]), table, *norms, _sinks(b, node)]
    bindings += [*b.state(node.inputs["cache"]), b.value(node.outputs["y"])]
    overrides = _head_overrides(attrs) | {
        **_sinks_override(node),
        "N_ROT": _int(attrs, "n_rot"),
        "NEOX": attrs["layout"] == "neox",
        "HAS_NORM": has_norm,
        **_norm_overrides(b, node, attrs),
        "CLAMP": float(attrs["clamp"]),  # type: ignore[arg-type]
        "EPS": float(attrs["eps"]),  # type: ignore[arg-type]
        "SLOPE": float(attrs["slope"]),  # type: ignore[arg-type]
        "LENGTH": _int(attrs, "length"),
    }
    if b.is_rows or max(fours) > MOST_FOURS:
        b.emit(
            "attention_step_rows",
            bindings,
            (-(-n_head // 8), 1, 1),
            imports=[b.kv_import()],
            consts=dict(zip(("D4", "V4"), fours, strict=True)),
            overrides={**overrides, "WG_SIZE": 8},
        )
        return
    _emit_split_step(b, node, bindings, fours, overrides)


def _norm_overrides(b: PlanBuilder, node: Node, attrs: Mapping[str, Attr]) -> dict[str, float]:
    """What the norms of q and k are over, whether each head has weights of its own, v's norm."""
    name = node.inputs.get("q_norm")
    shape = b.graph.weights[name].shape if name else ()
    is_row = len(shape) == 1 and shape[0] > _int(attrs, "head_dim")
    return {
        "ROW_NORM": is_row,
        "EACH_NORM": is_row or len(shape) > 1,
        "IS_CENTRED": bool(attrs["is_centred"]),
        "V_NORM": bool(attrs["v_norm"]),
    }


def _emit_split_step(
    b: PlanBuilder,
    node: Node,
    bindings: list[Binding],
    fours: tuple[int, int],
    overrides: dict[str, float],
) -> None:
    """A workgroup per group of heads and split of the keys; a second dispatch joins the splits."""
    attrs, (d4, v4) = b.attrs(node), fours
    n_head, window = _int(attrs, "n_head"), _int(attrs, "window")
    group = head_group(n_head // _int(attrs, "n_head_kv"), d4)
    n_groups = n_head // group
    n_split = split_count(min(b.options.n_ctx, window or b.options.n_ctx), n_groups)
    y = bindings[-1]
    if n_split > 1:
        parts = b.temp("attention.parts", n_split * n_head * (v4 + 1) * 16)
        bindings = [*bindings[:-1], parts]
    b.emit(
        "attention_step_tiles",
        bindings,
        (n_groups, n_split, 1),
        imports=[b.kv_import(), ("S", f"lib/scores_{score_lanes(b)}")],
        consts={"D4": d4, "V4": v4, "GROUP": group},
        overrides={**overrides, "N_SPLIT": n_split},
    )
    if n_split > 1:
        size = 64
        b.emit(
            "attention_join",
            [parts, _sinks(b, node), y],
            (-(-n_head * v4 // size), 1, 1),
            consts={"V4": v4},
            overrides={
                "WG_SIZE": size,
                "N_HEAD": n_head,
                "N_SPLIT": n_split,
                "WINDOW": window,
                **_sinks_override(node),
            },
        )


def score_lanes(b: PlanBuilder) -> str:
    """How the eight threads of a quad of keys add up: by shuffles where they are one subgroup."""
    is_one = b.options.variant.lanes == "subgroups" and b.options.limits.min_subgroup >= 8
    return "subgroups" if is_one else "tiles"


def head_group(group: int, d4: int) -> int:
    """Heads of a kv group that one workgroup takes: at most 4, and 4 KiB of queries."""
    most = min(4, 256 // d4)
    return max(n for n in range(1, most + 1) if group % n == 0)


def split_count(n_keys: int, n_groups: int) -> int:
    """Splits of at most ``n_keys`` keys: none below 257, else down to 64 keys each.

    As many as give a large GPU 256 workgroups, and at most 64, which the join reads one by one.
    """
    if n_keys <= 256:
        return 1
    return min(-(-n_keys // 64), 64, -(-256 // n_groups))


def _int(attrs: Mapping[str, Attr], name: str) -> int:
    return int(attrs[name])  # type: ignore[arg-type]


def _fours(n: int) -> int:
    """Fours that hold so many values of a head; the last one may be filled up with zeros."""
    return -(-n // 4)


def _head_fours(b: PlanBuilder, node: Node, attrs: Mapping[str, Attr]) -> tuple[int, int]:
    """A quarter of a key's and of a value's size within a head; the kernels read fours."""
    name = node.inputs["cache"].partition("@")[0]
    _, width_v = b.graph.state[name].shape
    head_dim_v = width_v // _int(attrs, "n_head_kv")
    return _fours(_int(attrs, "head_dim")), _fours(head_dim_v)


def _sinks(b: PlanBuilder, node: Node) -> Binding:
    return b.weights.vector(node.inputs["sinks"]) if "sinks" in node.inputs else b.weights.zero()


def _sinks_override(node: Node) -> dict[str, float]:
    return {"HAS_SINKS": "sinks" in node.inputs}


def _head_overrides(attrs: Mapping[str, Attr]) -> dict[str, float]:
    return {
        "N_HEAD": _int(attrs, "n_head"),
        "N_HEAD_KV": _int(attrs, "n_head_kv"),
        "WINDOW": _int(attrs, "window"),
        "SCALE": float(attrs["scale"]),  # type: ignore[arg-type]
        "SOFTCAP": float(attrs["softcap"]),  # type: ignore[arg-type]
    }
