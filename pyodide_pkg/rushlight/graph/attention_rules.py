"""Fusion of what lies between a layer's normed input and its attention: products and one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .ir import Attr, Node
from .matching import Match, View


@dataclass(frozen=True)
class Branch:
    """What q or k passes from its product to attention; absent parts are None."""

    product: Node
    clamp: Node | None
    norm: Node | None
    turn: Node | None
    tempered: Node | None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every part that is there."""
        parts = (self.product, self.clamp, self.norm, self.turn, self.tempered)
        return tuple(node for node in parts if node)


def branch(value: str, view: View, n_groups: Collection[Attr]) -> Branch | None:
    """The branch that ends in ``value``, if it has no other readers and no other parts.

    Its norm must be of one of these numbers of groups.
    """
    tempered = view.only(value, "position_scale")
    value = tempered.inputs["x"] if tempered else value
    turn = view.only(value, "rope")
    value = turn.inputs["x"] if turn else value
    norm = view.only(value, "rms_norm") or view.only(value, "layer_norm")
    if norm and (
        set(norm.inputs) != {"x", "weight"} or norm.attrs.get("n_group", 1) not in n_groups
    ):
        return None
    value = norm.inputs["x"] if norm else value
    clamp = view.only(value, "clamp")
    product = view.only(clamp.inputs["x"] if clamp else value, "matmul")
    return Branch(product, clamp, norm, turn, tempered) if product else None


def attention_step(node: Node, view: View) -> Match | None:
    """q/k/v products, their norms, rotations, the cache write and attention: two dispatches."""
    return _attention_step(node, view, is_wide=False)


def wide_attention_step(node: Node, view: View) -> Match | None:
    """The same with every kind of norm, a norm of values, clamped products, a cache for others."""
    return _attention_step(node, view, is_wide=True)


def _attention_step(node: Node, view: View, *, is_wide: bool) -> Match | None:
    cache = node.inputs.get("cache")
    store = view.written_by(cache, "kv_store") if node.op == "attention" else None
    readers = view.readers.get(cache or "", [])
    # Layers that share a cache read it later: the step stands where its own attention did.
    if store is None or readers[0] is not node or (len(readers) > 1 and not is_wide):
        return None
    q = branch(node.inputs["q"], view, (node.attrs["n_head"], 1))
    k = branch(store.inputs["k"], view, (node.attrs["n_head_kv"], 1))
    v = _value_branch(store.inputs["v"], view)
    if not (q and k and v) or not _fit_together(q, k, v, node):
        return None
    if not is_wide and not _is_narrow(q, v, node, view):
        return None
    if is_wide and not _are_fours(k, v, node, view):
        return None
    mats = {"q": q.product, "k": k.product, "v": v.product}
    joined = f"{node.outputs['y']}.qkv"
    inputs = {"x": v.product.inputs["x"]}
    inputs |= {f"weight_{p}": m.inputs["weight"] for p, m in mats.items()}
    inputs |= {f"bias_{p}": m.inputs["bias"] for p, m in mats.items() if "bias" in m.inputs}
    step = {"qkv": joined, "positions": "positions", "cache": store.inputs["cache"]}
    step |= _optional_inputs(q, k, node)
    outputs = {"y": node.outputs["y"], "cache": store.outputs["cache"]}
    return Match(
        (*q.nodes, *k.nodes, *v.nodes, store, node),
        node,
        (
            Node("qkv_matmul", inputs, {"y": joined}),
            Node("attention_step", step, outputs, _step_attrs(q, v, node)),
        ),
    )


def _are_fours(k: Branch, v: Branch, node: Node, view: View) -> bool:
    """Whether keys and values of a head are whole fours, as the one step's kernels read them."""
    n_head_kv = int(node.attrs["n_head_kv"])  # type: ignore[arg-type]
    rows = (view.weights[part.product.inputs["weight"]].shape[0] for part in (k, v))
    return all(n // n_head_kv % 4 == 0 for n in rows)


def _value_branch(value: str, view: View) -> Branch | None:
    """What v passes from its product to the cache: a clamp, a norm without a weight."""
    norm = view.only(value, "rms_norm")
    if norm and "weight" in norm.inputs:
        return None
    value = norm.inputs["x"] if norm else value
    clamp = view.only(value, "clamp")
    product = view.only(clamp.inputs["x"] if clamp else value, "matmul")
    return Branch(product, clamp, norm, None, None) if product else None


def _optional_inputs(q: Branch, k: Branch, node: Node) -> dict[str, str]:
    found = {"sinks": node.inputs["sinks"]} if "sinks" in node.inputs else {}
    if q.norm and k.norm:
        found |= {"q_norm": q.norm.inputs["weight"], "k_norm": k.norm.inputs["weight"]}
    if q.turn and "freq_factors" in q.turn.inputs:
        found["freq_factors"] = q.turn.inputs["freq_factors"]
    return found


def _step_attrs(q: Branch, v: Branch, node: Node) -> dict[str, Attr]:
    attrs: dict[str, Attr] = {**(q.turn.attrs if q.turn else NO_TURN), **node.attrs}
    if q.norm:
        attrs["eps"] = q.norm.attrs["eps"]
    if q.norm and q.norm.op == "layer_norm":
        attrs["is_centred"] = True
    if v.norm:
        attrs["v_norm"] = True
    if v.clamp:
        attrs["clamp"] = v.clamp.attrs["limit"]
    if q.tempered:
        attrs |= q.tempered.attrs
    return attrs


def _is_narrow(q: Branch, v: Branch, node: Node, view: View) -> bool:
    """Whether the only norms are of each head of q and k, by root mean square and one weight."""
    if v.norm or q.clamp:
        return False
    if q.norm is None:
        return True
    is_shared = len(view.weights[q.norm.inputs["weight"]].shape) == 1
    is_of_heads = q.norm.attrs.get("n_group", 1) == node.attrs["n_head"]
    return q.norm.op == "rms_norm" and is_shared and is_of_heads


NO_TURN: Mapping[str, Attr] = {"n_rot": 0, "base": 1.0, "layout": "norm"}
"""The attributes of ``attention_step`` where nothing is rotated."""


def _fit_together(q: Branch, k: Branch, v: Branch, node: Node) -> bool:
    """Whether one step can do all: one input, one clamp, norms of one kind, only q tempered."""
    if len({part.product.inputs["x"] for part in (q, k, v)}) > 1:
        return False
    limits = {part.clamp.attrs["limit"] if part.clamp else None for part in (q, k, v)}
    if k.tempered or len(limits) > 1 or (q.turn is None) != (k.turn is None):
        return False
    if not _norms_fit(q.norm, k.norm, v.norm, node):
        return False
    return not (q.turn and k.turn) or _same_turn(q.turn, k.turn)


def _norms_fit(q: Node | None, k: Node | None, v: Node | None, node: Node) -> bool:
    """Whether the norms are of one op and eps: of each head in all, or of whole rows in q and k."""
    if q is None or k is None:
        return q is k and v is None
    heads = (node.attrs["n_head"], node.attrs["n_head_kv"])
    if (q.attrs.get("n_group", 1), k.attrs.get("n_group", 1)) not in (heads, (1, 1)):
        return False
    if v and (v.attrs["n_group"] != node.attrs["n_head_kv"] or v.attrs["eps"] != q.attrs["eps"]):
        return False
    return q.op == k.op and q.attrs["eps"] == k.attrs["eps"]


def _same_turn(a: Node, b: Node) -> bool:
    def rest(node: Node) -> Mapping[str, Attr]:
        return {k: v for k, v in node.attrs.items() if k != "n_head"}

    return rest(a) == rest(b) and a.inputs.get("freq_factors") == b.inputs.get("freq_factors")
