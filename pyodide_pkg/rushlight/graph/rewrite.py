"""Fusions: named rules that replace a few nodes by one op whose reference calls those parts.

A rule looks at one node and returns a ``Match`` or None. Rules run in the order of ``RULES``;
the graph is verified after the last one. ``decode`` rules hold for one token only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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


def attention_step(node: Node, view: View) -> Match | None:
    """q/k/v products, their norms, rotations, the cache write and attention: two dispatches."""
    if node.op != "attention":
        return None
    store = view.only(node.inputs["cache"], "kv_store")
    q_rope = view.only(node.inputs["q"], "rope")
    k_rope = view.only(store.inputs["k"], "rope") if store else None
    v_mat = view.only(store.inputs["v"], "matmul") if store else None
    if not (store and q_rope and k_rope and v_mat) or not _same_turn(q_rope, k_rope):
        return None
    q_norm = view.only(q_rope.inputs["x"], "rms_norm")
    k_norm = view.only(k_rope.inputs["x"], "rms_norm")
    if (q_norm is None) != (k_norm is None):
        return None
    q_mat = view.only((q_norm or q_rope).inputs["x"], "matmul")
    k_mat = view.only((k_norm or k_rope).inputs["x"], "matmul")
    if not (q_mat and k_mat) or len({m.inputs["x"] for m in (q_mat, k_mat, v_mat)}) > 1:
        return None
    if q_norm and k_norm and q_norm.attrs["eps"] != k_norm.attrs["eps"]:
        return None
    mats = {"q": q_mat, "k": k_mat, "v": v_mat}
    joined = f"{node.outputs['y']}.qkv"
    inputs = {"x": q_mat.inputs["x"]} | {f"weight_{p}": m.inputs["weight"] for p, m in mats.items()}
    inputs |= {f"bias_{p}": m.inputs["bias"] for p, m in mats.items() if "bias" in m.inputs}
    step = {"qkv": joined, "positions": "positions", "cache": store.inputs["cache"]}
    attrs: dict[str, Attr] = {**q_rope.attrs, **node.attrs}
    if q_norm and k_norm:
        step |= {"q_norm": q_norm.inputs["weight"], "k_norm": k_norm.inputs["weight"]}
        attrs["eps"] = q_norm.attrs["eps"]
    if "freq_factors" in q_rope.inputs:
        step["freq_factors"] = q_rope.inputs["freq_factors"]
    if "sinks" in node.inputs:
        step["sinks"] = node.inputs["sinks"]
    outputs = {"y": node.outputs["y"], "cache": store.outputs["cache"]}
    removed = (*mats.values(), q_norm, k_norm, q_rope, k_rope, store, node)
    return Match(
        tuple(n for n in removed if n),
        node,
        (Node("qkv_matmul", inputs, {"y": joined}), Node("attention_step", step, outputs, attrs)),
    )


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


def sandwich_norm(node: Node, view: View) -> Match | None:
    """A branch's own norm, the residual add, and the next block's norm when it follows."""
    post = view.only(node.inputs["b"], "rms_norm") if node.op == "add" else None
    if not post or post.attrs.get("n_group", 1) != 1:
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
    if norm and norm.attrs.get("n_group", 1) == 1:
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


def _following_norm(node: Node, view: View, eps: Attr | None) -> Node | None:
    """The whole-row norm that reads this sum, with this eps where one is given."""
    for reader in view.readers.get(node.outputs["y"], ()):
        plain = reader.op == "rms_norm" and reader.attrs.get("n_group", 1) == 1
        if plain and eps in (None, reader.attrs["eps"]):
            return reader
    return None


RULES: tuple[tuple[Rule, tuple[Phase, ...]], ...] = (
    (attention_step, ("decode",)),
    (glu_matmul, ("decode",)),
    (matmul_add, ("decode", "prefill")),
    (sandwich_norm, ("decode", "prefill")),
    (add_rms_norm, ("decode", "prefill")),
    (norm_product, ("decode",)),
)


def fuse(graph: Graph, phase: Phase) -> Graph:
    """The graph with every rule of ``phase`` applied; verified."""
    for rule, phases in RULES:
        if phase in phases:
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
