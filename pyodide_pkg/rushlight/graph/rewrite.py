"""Fusions: named rules that replace a few nodes by one op whose reference calls those parts.

A rule looks at one node and returns a ``Match`` or None. Rules run in the order of ``RULES``;
the graph is verified after the last one. ``decode`` rules hold for one token only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from .attention_rules import attention_step, wide_attention_step
from .ir import Attr, Graph, Node
from .matching import Match, Rule, View
from .verify import verify

Phase = Literal["decode", "prefill"]


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
