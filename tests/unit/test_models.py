"""What architectures make of metadata: refusals by name, and the numbers that graphs carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rushlight.errors import GraphError, ModelFormatError, UnsupportedModelError
from rushlight.gguf import open_source, read_header
from rushlight.gguf.config import ModelConfig, read_config
from rushlight.gguf.reader import GgufFile
from rushlight.graph.builder import GraphBuilder
from rushlight.graph.ir import Graph
from rushlight.graph.rewrite import CPU_RULES, apply_rules, fuse
from rushlight.models import build_graph
from rushlight.plan.webgpu import plan_model
from tests.tools.arch_files import entries, model_bytes
from tests.unit.gguf_bytes import unpack_gguf, write_gguf


def opened(name: str, change: Mapping[str, Any] | None = None, drop: str = "") -> GgufFile:
    """A tiny model's header, with keys changed (None: taken out) and a tensor left out."""
    metadata, tensors = unpack_gguf(model_bytes(name))
    prefix = metadata["general.architecture"]
    for key, value in (change or {}).items():
        metadata[f"{prefix}.{key}"] = value
    metadata = {key: value for key, value in metadata.items() if value is not None}
    tensors = {key: value for key, value in tensors.items() if key != drop}
    return read_header(open_source(write_gguf(None, metadata, tensors)))


def config_of(file: GgufFile) -> ModelConfig:
    return read_config(file.metadata, file.tensors)


def graph_of(file: GgufFile, **config: Any) -> Graph:
    shapes = {name: info.shape for name, info in file.tensors.items()}
    return build_graph(replace(config_of(file), **config), shapes)


def rope_attrs(graph: Graph) -> dict[str, Any]:
    return dict(next(node.attrs for node in graph.nodes if node.op == "rope"))


def test_the_window_follows_the_family_the_period_or_the_flags() -> None:
    config = config_of(opened("exaone4"))
    assert config.window_layers(4) == (True, True, True, False)
    config = config_of(opened("exaone4", {"attention.sliding_window_pattern": 2}))
    assert config.window_layers(4) == (True, False, True, False)
    flags = np.array([False, True, True, False])
    config = config_of(opened("exaone4", {"attention.sliding_window_pattern": flags}))
    assert config.window_layers(4) == (False, True, True, False)
    config = config_of(opened("exaone4", {"attention.sliding_window": None}))
    assert config.window_layers(4) == (False,) * 4
    short = opened("exaone4", {"attention.sliding_window_pattern": flags[:3]})
    with pytest.raises(ModelFormatError, match="sliding_window_pattern"):
        config_of(short).window_layers(4)


def test_yarn_is_worked_out_as_published() -> None:
    """Pairs that make fewer turns than beta_slow are scaled, more than beta_fast kept."""
    attrs = rope_attrs(graph_of(opened("llama-yarn")))
    n_rot, n_old = attrs["n_rot"], 16
    turns = [n_old / (2 * math.pi * 10000 ** (2 * i / n_rot)) for i in range(n_rot // 2)]
    assert all(turns[i] >= 4.0 for i in range(int(attrs["yarn_low"])))
    assert all(turns[i] <= 1.0 for i in range(int(attrs["yarn_high"]), n_rot // 2))
    assert attrs["freq_scale"] == 0.25
    assert attrs["attn_factor"] == pytest.approx(0.1 * math.log(4) + 1)


def test_yarn_without_its_mix_is_linear() -> None:
    attrs = rope_attrs(graph_of(opened("llama-yarn", {"rope.scaling.yarn_ext_factor": 0.0})))
    assert attrs["freq_scale"] == 0.25 and "yarn_mix" not in attrs


def test_the_loaded_context_chooses_longrope_s_factors() -> None:
    file = opened("phi3")
    for n_ctx, kind in ((32, "short"), (33, "long")):
        graph = graph_of(file, n_ctx=n_ctx)
        assert {n for n in graph.weights if "rope" in n} == {f"rope_factors_{kind}.weight"}


def test_an_unknown_rope_scaling_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModelError, match=r"rope\.scaling\.type is 'spiral'"):
        graph_of(opened("llama-yarn", {"rope.scaling.type": "spiral"}))


def test_temperature_keys_have_two_spellings() -> None:
    change = {"attention.temperature_scale": None, "attention.temp_scale": 0.5,
              "attention.temp_floor_scale": 7}  # fmt: skip
    graph = graph_of(opened("mistral3", change))
    scales = [dict(node.attrs) for node in graph.nodes if node.op == "position_scale"]
    assert scales == [{"slope": 0.5, "length": 7}] * 2


def test_a_residual_multiplier_costs_no_node() -> None:
    ops = [node.op for node in graph_of(opened("granite")).nodes]
    assert ops.count("scale") == 1  # the logits


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("baichuan", {"block_count": 40}, "40 layers"),
        ("gpt2", {"context_length": 4096}, "position_embd.weight has 128 rows"),
        ("gemma4", {"attention.shared_kv_layers": 4}, "shares the cache"),
        ("nanbeige", {"num_loops": 0}, "num_loops"),
        ("granite", {"logit_scale": 0.0}, "logit_scale"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(
    name: str, change: dict[str, Any], words: str
) -> None:
    with pytest.raises((UnsupportedModelError, ModelFormatError), match=words):
        graph_of(opened(name, change))


def test_a_missing_tensor_is_named() -> None:
    with pytest.raises(GraphError, match=r"blk\.1\.post_attention_norm\.weight"):
        graph_of(opened("olmo2", drop="blk.1.post_attention_norm.weight"))


def test_a_view_is_rows_of_the_file() -> None:
    file = opened("phi3")
    fused = file.tensors["blk.0.attn_qkv.weight"]
    view = file.tensors["blk.0.attn_qkv.weight[96:128]"]
    assert view.shape == (32, 96) and view.n_bytes == 32 * fused.row_bytes
    assert view.offset == fused.offset + 96 * fused.row_bytes
    assert "blk.0.attn_qkv.weight[96:128]" not in list(file.tensors)
    for wrong in ("blk.0.attn_qkv.weight[96:161]", "blk.0.attn_qkv.weight[5:5]", "nothing[0:1]"):
        with pytest.raises(KeyError):
            file.tensors[wrong]


def test_rows_that_a_tensor_lacks_are_refused() -> None:
    g = GraphBuilder("made-up", {"w": (4, 8)})
    with pytest.raises(GraphError, match="rows 2 to 5"):
        g.rows("w", 2, 5)


def test_fused_tensors_reach_the_graph_as_views() -> None:
    weights = graph_of(opened("phi3")).weights
    assert weights["blk.0.ffn_up.weight[64:128]"].shape == (64, 96)
    assert "blk.0.ffn_up.weight" not in weights


def attention_graph(q_groups: int, k_groups: int) -> Graph:
    """One attention layer of 4 heads on 2 with norms of q and k over so many groups."""
    widths = {"q": 64, "k": 32, "v": 32}
    shapes = {f"{part}.weight": (n, 32) for part, n in widths.items()}
    shapes |= {"embd": (9, 32), "head.weight": (9, 64)}
    shapes |= {"q_norm": (64 // q_groups,), "k_norm": (32 // k_groups,)}
    g = GraphBuilder("made-up", shapes)
    x = g.embed("embd")
    q, k, v = (g.linear(x, part) for part in widths)
    q, k = g.rms_norm(q, "q_norm", 1e-6, q_groups), g.rms_norm(k, "k_norm", 1e-6, k_groups)
    heads = {"n_head": 4, "n_head_kv": 2, "head_dim": 16, "scale": 0.25}
    y = g.attention(q, k, v, g.kv_state("kv.0", 32, 32), **heads)
    return g.build(logits=g.linear(g.select_outputs(y), "head"))


@pytest.mark.parametrize(
    ("groups", "is_fused"), [((4, 2), True), ((1, 1), True), ((4, 1), False), ((1, 2), False)]
)
def test_a_step_takes_norms_of_one_kind_only(groups: tuple[int, int], is_fused: bool) -> None:
    ops = [node.op for node in fuse(attention_graph(*groups), "decode").nodes]
    assert ("attention_step" in ops) is is_fused
    cpu = [node.op for node in apply_rules(attention_graph(*groups), CPU_RULES).nodes]
    assert ("attention_step" in cpu) is (groups == (4, 2))


def test_layers_that_share_a_cache_read_it_after_the_step_that_writes_it() -> None:
    nodes = fuse(graph_of(opened("gemma4")), "decode").nodes
    steps = {n.outputs["cache"]: i for i, n in enumerate(nodes) if n.op == "attention_step"}
    shared = [(i, n.inputs["cache"]) for i, n in enumerate(nodes) if n.op == "attention"]
    assert len(steps) == len(shared) == 2
    assert all(steps[cache] < i for i, cache in shared)


EDGES = 3
"""The embedding, that of positions, and the norm before the first layer."""


@pytest.mark.parametrize("name", [entry["name"] for entry in entries()])
def test_a_dense_layer_is_at_most_seven_dispatches_of_a_decoded_token(name: str) -> None:
    file = opened(name)
    graph = graph_of(file)
    ops = {node.op for node in graph.nodes}
    # Experts take four more, and so does gemma4's own embedding for each layer; heads that are not
    # whole fours go by their parts, copies with zeros among them.
    most = 13 if "expert_route" in ops else 15 if "columns" in ops else 7
    if any(node.attrs.get("head_dim", 4) % 4 for node in graph.nodes):  # type: ignore[operator]
        most = 20
    plans = plan_model(
        graph, file, n_ctx=256, read_tensor=lambda n: np.ones(file.tensors[n].shape, np.float32)
    ).plans
    n_layers = sum(node.op in ("attention", "short_conv") for node in graph.nodes)
    assert plans["decode"].head_start <= most * n_layers + EDGES
