"""Documents: built from metadata, verified rule by rule, digested, fused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rushlight.errors import EngineError, UnsupportedModelError
from rushlight.gguf import open_source, read_header
from rushlight.gguf.config import read_config
from rushlight.graph.ir import Graph, Node, Weight
from rushlight.graph.rewrite import fuse
from rushlight.graph.verify import verify
from rushlight.models import architectures, build_graph

GOLDEN = Path(__file__).parent.parent / "data" / "golden"


def graph_of(name: str) -> tuple[Graph, dict[str, tuple[int, ...]]]:
    source = open_source(GOLDEN / f"{name}.gguf")
    file = read_header(source)
    source.close()
    shapes = {tensor.name: tensor.shape for tensor in file.tensors.values()}
    return build_graph(read_config(file.metadata, file.tensors), shapes), shapes


def replaced(graph: Graph, name: str, /, **changes: Any) -> Graph:
    """The graph with its first node of that op changed."""
    index = next(i for i, node in enumerate(graph.nodes) if node.op == name)
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(graph, nodes=tuple(nodes))


def first(graph: Graph, op: str) -> Node:
    return next(node for node in graph.nodes if node.op == op)


def without(graph: Graph, op: str) -> Graph:
    return replace(graph, nodes=tuple(n for n in graph.nodes if n is not first(graph, op)))


def twice(graph: Graph, op: str) -> Graph:
    return replace(graph, nodes=(*graph.nodes, first(graph, op)))


BROKEN: list[tuple[str, Callable[[Graph], Graph]]] = [
    ("G01", lambda g: replaced(g, "glu", op="swoosh")),
    ("G02", lambda g: replaced(g, "glu", attrs={"activation": "silu", "speed": 3})),
    ("G02", lambda g: replaced(g, "glu", attrs={"activation": "relu"})),
    ("G02", lambda g: replaced(g, "rms_norm", attrs={"eps": "tiny"})),
    ("G03", lambda g: replaced(g, "glu", attrs={})),
    ("G04", lambda g: replaced(g, "glu", inputs={**first(g, "glu").inputs, "side": "y0"})),
    ("G04", lambda g: replaced(g, "glu", inputs={"gate": first(g, "glu").inputs["gate"]})),
    ("G05", lambda g: replaced(g, "glu", outputs={"z": "z"})),
    ("G06", lambda g: twice(g, "get_rows")),
    ("G07", lambda g: without(g, "get_rows")),
    ("G08", lambda g: replace(g, weights={**g.weights, "rope_freqs.weight": Weight((8,))})),
    ("G09", lambda g: replaced(g, "rms_norm", attrs={"eps": 1e-6, "n_group": 7})),
    ("G10", lambda g: replaced(g, "get_rows", inputs={"ids": "tokens", "table": "tokens"})),
    ("G11", lambda g: replace(g, weights={**g.weights, "output_norm.weight": Weight((5,))})),
    ("G12", lambda g: replace(g, outputs={**g.outputs, "hidden": "nowhere"})),
]


@pytest.mark.parametrize(("rule", "breaks"), BROKEN, ids=[f"{r}-{i}" for i, (r, _) in
                                                          enumerate(BROKEN)])  # fmt: skip
def test_a_broken_rule_is_cited(rule: str, breaks: Callable[[Graph], Graph]) -> None:
    graph, shapes = graph_of("llama-f32")
    shapes["rope_freqs.weight"] = (8,)
    verify(graph, shapes)
    with pytest.raises(EngineError, match=rf"{rule}: "):
        verify(breaks(graph), shapes)


def test_a_missing_tensor_is_named() -> None:
    source = open_source(GOLDEN / "llama-f32.gguf")
    file = read_header(source)
    source.close()
    shapes = {t.name: t.shape for t in file.tensors.values() if t.name != "blk.1.attn_q.weight"}
    with pytest.raises(EngineError, match=r"G11.*blk\.1\.attn_q\.weight"):
        build_graph(read_config(file.metadata, file.tensors), shapes)


def test_an_unknown_architecture_is_named_with_the_known_ones() -> None:
    source = open_source(GOLDEN / "llama-f32.gguf")
    file = read_header(source)
    source.close()
    config = replace(read_config(file.metadata, file.tensors), architecture="../evil")
    with pytest.raises(UnsupportedModelError, match=r"\.\./evil.*gemma3, .*qwen2, .*qwen3"):
        build_graph(config, {})
    assert not any(name.startswith("_") for name in architectures())


def test_the_document_is_plain_json_with_a_stable_digest() -> None:
    graph, _ = graph_of("gemma3-f32")
    document = graph.to_json()
    assert json.loads(json.dumps(document)) == document
    assert graph.digest() == graph_of("gemma3-f32")[0].digest()
    changed = replaced(graph, "rms_norm", attrs={"eps": 1e-5})
    assert changed.digest() != graph.digest()


@pytest.mark.parametrize(
    ("name", "per_layer"),
    [
        (
            "gemma3-f32",
            {
                "qkv_matmul": 1,
                "attention_step": 1,
                "matmul": 2,
                "sandwich_norm": 1,
                "joint_glu_matmul": 1,
            },
        ),
        (
            "llama-f32",
            {"norm_qkv_matmul": 1, "attention_step": 1, "matmul_add": 2, "norm_glu_matmul": 1},
        ),
        (
            "qwen2-q5",
            {
                "rms_norm": 1,
                "qkv_matmul": 1,
                "attention_step": 1,
                "matmul_add": 2,
                "norm_glu_matmul": 1,
            },
        ),
    ],
)
def test_decode_has_six_nodes_a_layer_at_most(name: str, per_layer: dict[str, int]) -> None:
    graph, _ = graph_of(name)
    n_layer = len(graph.state)
    ops = Counter(node.op for node in fuse(graph, "decode").nodes)
    # Six, since attention may be two dispatches, and a layer's budget is seven.
    assert sum(per_layer.values()) <= 6
    for op, count in per_layer.items():
        assert ops[op] in (count * n_layer, count * n_layer - 1, count * n_layer + 1), (op, ops)
    # Beside the layers: the embedding, the first or last norm, the wanted rows and the output.
    assert sum(ops.values()) <= 6 * n_layer + 5


def test_prefill_keeps_products_apart() -> None:
    graph, _ = graph_of("gemma3-f32")
    ops = {node.op for node in fuse(graph, "prefill").nodes}
    assert {"matmul", "attention", "kv_store", "glu", "rope"} <= ops
    assert not ops & {"qkv_matmul", "glu_matmul", "attention_step"}
