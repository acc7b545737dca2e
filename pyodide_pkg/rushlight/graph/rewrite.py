"""Fusions: named rules that replace a few nodes by one op whose reference calls those parts.

A rule looks at one node and returns a ``Match`` or None. Rules run in the order of ``RULES``;
the graph is verified after the last one. ``decode`` rules hold for one token only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .ir import Attr, Graph, Node
from .verify import verify

Phase = Literal["decode", "prefill"]


@dataclass(frozen=True)
class Match:
    """Nodes to take out, and nodes to put in at the place of ``anchor``."""

    removed: tuple[Node, ...]
    anchor: Node
    added: tuple[Node, ...]


class View:
    """Who writes and who reads each value of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.writer: dict[str, Node] = {}
        self.readers: dict[str, list[Node]] = {}
        self.outputs = set(graph.outputs.values())
        for node in graph.nodes:
            for value in node.outputs.values():
                self.writer[value] = node
            for value in node.inputs.values():
                self.readers.setdefault(value, []).append(node)

    def written_by(self, value: str | None, op: str) -> Node | None:
        """The node of kind ``op`` that writes ``value``."""
        node = self.writer.get(value or "")
        return node if node is not None and node.op == op else None

    def only(self, value: str | None, op: str) -> Node | None:
        """Like ``written_by``, if nobody else reads the value."""
        node = self.written_by(value, op)
        alone = len(self.readers.get(value or "", ())) == 1 and value not in self.outputs
        return node if alone else None


Rule = Callable[[Node, View], Match | None]


@dataclass(frozen=True)
class Branch:
    """What q or k passes from its product to attention; absent parts are None."""

    product: Node
    norm: Node | None
    turn: Node | None
    tempered: Node | None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every part that is there."""
        parts = (self.product, self.norm, self.turn, self.tempered)
        return tuple(node for node in parts if node)


def branch(value: str, view: View, n_groups: Collection[Attr]) -> Branch | None:
    """The branch that ends in ``value``, if it has no other readers and no other parts.

    Its norm must be of one of these numbers of groups.
    """
    tempered = view.only(value, "position_scale")
    value = tempered.inputs["x"] if tempered else value
    turn = view.only(value, "rope")
    value = turn.inputs["x"] if turn else value
    norm = view.only(value, "rms_norm")
    if norm and ("weight" not in norm.inputs or norm.attrs.get("n_group", 1) not in n_groups):
        return None
    product = view.only(norm.inputs["x"] if norm else value, "matmul")
    return Branch(product, norm, turn, tempered) if product else None


def attention_step(node: Node, view: View) -> Match | None:
    """q/k/v products, their norms, rotations, the cache write and attention: two dispatches."""
    return _attention_step(node, view, is_wide=False)


def wide_attention_step(node: Node, view: View) -> Match | None:
    """The same, also with norms over all heads as one row, of values, and a cache for others."""
    return _attention_step(node, view, is_wide=True)


def _attention_step(node: Node, view: View, *, is_wide: bool) -> Match | None:
    cache = node.inputs.get("cache")
    store = view.written_by(cache, "kv_store") if node.op == "attention" else None
    readers = view.readers.get(cache or "", [])
    # Layers that share a cache read it later: the step stands where its own attention did.
    if store is None or readers[0] is not node or (len(readers) > 1 and not is_wide):
        return None
    rows: tuple[Attr, ...] = (1,) if is_wide else ()
    q = branch(node.inputs["q"], view, (node.attrs["n_head"], *rows))
    k = branch(store.inputs["k"], view, (node.attrs["n_head_kv"], *rows))
    v_norm = view.only(store.inputs["v"], "rms_norm") if is_wide else None
    if v_norm and not _is_plain_head_norm(v_norm, node, q):
        return None
    v_mat = view.only(v_norm.inputs["x"] if v_norm else store.inputs["v"], "matmul")
    if not (q and k and v_mat) or not _fit_together(q, k, node):
        return None
    mats = {"q": q.product, "k": k.product, "v": v_mat}
    if len({mat.inputs["x"] for mat in mats.values()}) > 1:
        return None
    joined = f"{node.outputs['y']}.qkv"
    inputs = {"x": v_mat.inputs["x"]} | {f"weight_{p}": m.inputs["weight"] for p, m in mats.items()}
    inputs |= {f"bias_{p}": m.inputs["bias"] for p, m in mats.items() if "bias" in m.inputs}
    step = {"qkv": joined, "positions": "positions", "cache": store.inputs["cache"]}
    attrs: dict[str, Attr] = {**(q.turn.attrs if q.turn else NO_TURN), **node.attrs}
    if q.norm and k.norm:
        step |= {"q_norm": q.norm.inputs["weight"], "k_norm": k.norm.inputs["weight"]}
        attrs["eps"] = q.norm.attrs["eps"]
    if v_norm:
        attrs["v_norm"] = True
    if q.turn and "freq_factors" in q.turn.inputs:
        step["freq_factors"] = q.turn.inputs["freq_factors"]
    if q.tempered:
        attrs |= q.tempered.attrs
    if "sinks" in node.inputs:
        step["sinks"] = node.inputs["sinks"]
    outputs = {"y": node.outputs["y"], "cache": store.outputs["cache"]}
    return Match(
        (*q.nodes, *k.nodes, *((v_norm,) if v_norm else ()), v_mat, store, node),
        node,
        (Node("qkv_matmul", inputs, {"y": joined}), Node("attention_step", step, outputs, attrs)),
    )


def _is_plain_head_norm(norm: Node, node: Node, q: Branch | None) -> bool:
    """Whether a norm of values is one the step can do: of each head, no weight, q's eps."""
    is_plain = "weight" not in norm.inputs and norm.attrs["n_group"] == node.attrs["n_head_kv"]
    return is_plain and bool(q and q.norm and q.norm.attrs["eps"] == norm.attrs["eps"])


NO_TURN: Mapping[str, Attr] = {"n_rot": 0, "base": 1.0, "layout": "norm"}
"""The attributes of ``attention_step`` where nothing is rotated."""


def _fit_together(q: Branch, k: Branch, node: Node) -> bool:
    """Whether one step can do both: the same parts, norms of one kind, and only q tempered."""
    if k.tempered or (q.norm is None) != (k.norm is None) or (q.turn is None) != (k.turn is None):
        return False
    if q.norm and k.norm:
        groups = (q.norm.attrs.get("n_group", 1), k.norm.attrs.get("n_group", 1))
        is_one_kind = groups in ((node.attrs["n_head"], node.attrs["n_head_kv"]), (1, 1))
        if q.norm.attrs["eps"] != k.norm.attrs["eps"] or not is_one_kind:
            return False
    return not (q.turn and k.turn) or _same_turn(q.turn, k.turn)


def _same_turn(a: Node, b: Node) -> bool:
    def rest(node: Node) -> Mapping[str, Attr]:
        return {k: v for k, v in node.attrs.items() if k != "n_head"}

    return rest(a) == rest(b) and a.inputs.get("freq_factors") == b.inputs.get("freq_factors")


def glu_matmul(node: Node, view: View) -> Match | None:
    """Both products of a gated MLP and the gate itself."""
    if node.op != "glu":
        return None
    gate, up = (view.only(node.inputs[port], "matmul") for port in ("gate", "up"))
    if not gate or not up or gate.inputs["x"] != up.inputs["x"]:
        return None
    if "bias" in gate.inputs or "bias" in up.inputs:
        return None
    inputs = {
        "x": gate.inputs["x"],
        "weight_gate": gate.inputs["weight"],
        "weight_up": up.inputs["weight"],
    }
    return Match((gate, up, node), node, (Node("glu_matmul", inputs, node.outputs, node.attrs),))


def expert_glu_matmul(node: Node, view: View) -> Match | None:
    """Both products of the chosen experts' gated MLPs and the gate itself."""
    if node.op not in ("glu", "clamped_glu"):
        return None
    gate, up = (view.only(node.inputs[port], "expert_matmul") for port in ("gate", "up"))
    if not gate or not up or any(gate.inputs[p] != up.inputs[p] for p in ("x", "experts")):
        return None
    inputs = {port: gate.inputs[port] for port in ("x", "experts")}
    for name, part in (("gate", gate), ("up", up)):
        inputs |= {f"{p}_{name}": part.inputs[p] for p in ("weight", "bias") if p in part.inputs}
    attrs = {"activation": "clamped", **node.attrs}
    fused = Node("expert_glu_matmul", inputs, node.outputs, attrs)
    return Match((gate, up, node), node, (fused,))


def expert_matmul_sum(node: Node, view: View) -> Match | None:
    """The chosen experts' last products and their weighted sum."""
    product = view.only(node.inputs["x"], "expert_matmul") if node.op == "expert_sum" else None
    if not product:
        return None
    inputs = {**product.inputs, "shares": node.inputs["shares"]}
    return Match((product, node), node, (Node("expert_matmul_sum", inputs, node.outputs),))


def expert_sum_add(node: Node, view: View) -> Match | None:
    """A sum over experts that is added to something else."""
    if node.op != "add":
        return None
    for port, other in (("b", "a"), ("a", "b")):
        total = view.only(node.inputs[port], "expert_matmul_sum")
        if total and "residual" not in total.inputs:
            inputs = {**total.inputs, "residual": node.inputs[other]}
            fused = Node("expert_matmul_sum", inputs, node.outputs)
            return Match((total, node), node, (fused,))
    return None


def matmul_add(node: Node, view: View) -> Match | None:
    """A product that is added to the residual stream."""
    if node.op != "add":
        return None
    for port, other in (("b", "a"), ("a", "b")):
        product = view.only(node.inputs[port], "matmul")
        if product:
            inputs = {**product.inputs, "residual": node.inputs[other]}
            return Match((product, node), node, (Node("matmul_add", inputs, node.outputs),))
    return None


def matmul_activate(node: Node, view: View) -> Match | None:
    """A product and the activation of its result."""
    product = view.only(node.inputs["x"], "matmul") if node.op == "activate" else None
    if product is None:
        return None
    fused = Node("matmul_activate", product.inputs, node.outputs, node.attrs)
    return Match((product, node), node, (fused,))


def sandwich_norm(node: Node, view: View) -> Match | None:
    """A branch's own norm, the residual add, and the next block's norm when it follows."""
    post = view.only(node.inputs["b"], "rms_norm") if node.op == "add" else None
    if not post or not _is_whole_row(post):
        return None
    total = node.outputs["y"]
    inputs = {
        "x": node.inputs["a"],
        "a": post.inputs["x"],
        "post_weight": post.inputs["weight"],
    }
    attrs = {"eps": post.attrs["eps"]}
    following = _following_norm(node, view, post.attrs["eps"])
    if following is None:
        return Match((post, node), node, (Node("norm_add", inputs, {"sum": total}, attrs),))
    inputs["weight"] = following.inputs["weight"]
    outputs = {"sum": total, "y": following.outputs["y"]}
    fused = Node("sandwich_norm", inputs, outputs, attrs)
    return Match((post, node, following), node, (fused,))


def add_rms_norm(node: Node, view: View) -> Match | None:
    """A residual add and the norm that reads it."""
    following = _following_norm(node, view, None) if node.op == "add" else None
    if following is None:
        return None
    inputs = {**node.inputs, "weight": following.inputs["weight"]}
    outputs = {"sum": node.outputs["y"], "y": following.outputs["y"]}
    fused = Node("add_rms_norm", inputs, outputs, {"eps": following.attrs["eps"]})
    return Match((node, following), node, (fused,))


def norm_product(node: Node, view: View) -> Match | None:
    """A norm that only a fused product reads, or the joint of two blocks before a gated MLP."""
    if node.op not in ("qkv_matmul", "glu_matmul") or any(
        p.startswith("bias") for p in node.inputs
    ):
        return None
    kind = node.op.removesuffix("_matmul")
    rest = {port: name for port, name in node.inputs.items() if port != "x"}
    norm = view.only(node.inputs["x"], "rms_norm")
    if norm and _is_whole_row(norm):
        inputs = {"x": norm.inputs["x"], "norm": norm.inputs["weight"], **rest}
        attrs = {**node.attrs, "eps": norm.attrs["eps"]}
        fused = Node(f"norm_{kind}_matmul", inputs, node.outputs, attrs)
        return Match((norm, node), node, (fused,))
    joint = view.only(node.inputs["x"], "sandwich_norm")
    if joint and kind == "glu" and joint.outputs["y"] == node.inputs["x"]:
        inputs = {"x": joint.inputs["x"], "a": joint.inputs["a"]}
        inputs |= {"post_norm": joint.inputs["post_weight"], "norm": joint.inputs["weight"], **rest}
        outputs = {"sum": joint.outputs["sum"], **node.outputs}
        attrs = {**node.attrs, "eps": joint.attrs["eps"]}
        return Match((joint, node), joint, (Node("joint_glu_matmul", inputs, outputs, attrs),))
    return None


def _is_whole_row(norm: Node) -> bool:
    """Whether a norm is of whole rows and has a weight, as the fused ops want it."""
    return norm.attrs.get("n_group", 1) == 1 and "weight" in norm.inputs


def _following_norm(node: Node, view: View, eps: Attr | None) -> Node | None:
    """The whole-row norm that reads this sum, with this eps where one is given."""
    for reader in view.readers.get(node.outputs["y"], ()):
        if reader.op == "rms_norm" and _is_whole_row(reader) and eps in (None, reader.attrs["eps"]):
            return reader
    return None


RULES: tuple[tuple[Rule, tuple[Phase, ...]], ...] = (
    (wide_attention_step, ("decode",)),
    (glu_matmul, ("decode",)),
    (expert_glu_matmul, ("decode",)),
    (expert_matmul_sum, ("decode",)),
    (expert_sum_add, ("decode",)),
    (matmul_activate, ("decode",)),
    (matmul_add, ("decode", "prefill")),
    (sandwich_norm, ("decode", "prefill")),
    (add_rms_norm, ("decode", "prefill")),
    (norm_product, ("decode",)),
)

CPU_RULES = (attention_step, matmul_add, sandwich_norm, add_rms_norm)
"""What the CPU kernels fuse, whatever the number of tokens."""


def fuse(graph: Graph, phase: Phase) -> Graph:
    """The graph with every rule of ``phase`` applied; verified."""
    return apply_rules(graph, [rule for rule, phases in RULES if phase in phases])


def apply_rules(graph: Graph, rules: Iterable[Rule]) -> Graph:
    """The graph with these rules applied, one after the other; verified."""
    for rule in rules:
        graph = apply_rule(graph, rule)
    verify(graph)
    return graph


def apply_rule(graph: Graph, rule: Rule) -> Graph:
    """Apply one rule wherever it matches; overlapping matches: the first wins."""
    view = View(graph)
    gone: set[int] = set()
    placed: dict[int, tuple[Node, ...]] = {}
    for node in graph.nodes:
        match = rule(node, view)
        if match is None or any(id(n) in gone for n in match.removed):
            continue
        gone |= {id(n) for n in match.removed}
        placed[id(match.anchor)] = match.added

    def result() -> Iterable[Node]:
        for node in graph.nodes:
            yield from placed.get(id(node), () if id(node) in gone else (node,))

    return replace(graph, nodes=tuple(result()))
