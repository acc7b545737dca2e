"""Models with experts as graphs and plans: dispatches, bytes, and files that are refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from rushlight.backends import stored_stack
from rushlight.backends.profile import moved_bytes
from rushlight.backends.variant_trials import trials_for
from rushlight.errors import GraphError, ModelFormatError, UnsupportedModelError
from rushlight.gguf import open_source, read_header
from rushlight.gguf.config import read_config
from rushlight.gguf.quants import QUANTS
from rushlight.gguf.reader import GgufFile, TensorInfo
from rushlight.graph.ir import Graph
from rushlight.inspection import inspect_model
from rushlight.models import build_graph
from rushlight.plan.plan import Plan
from rushlight.plan.webgpu import DeviceLimits, plan_model
from tests.tools.arch_files import model_bytes

Shape = tuple[int, ...]


@cache
def header(name: str, kind: str = "f32") -> GgufFile:
    source = open_source(model_bytes(name, kind))
    file = read_header(source)
    source.close()
    return file


def graph_of(
    name: str, kind: str = "f32", changed: Mapping[str, Shape | None] | None = None, **keys: Any
) -> Graph:
    """The graph of a model; ``changed`` are tensors of other shapes (None: not there)."""
    file = header(name, kind)
    shapes = {t.name: t.shape for t in file.tensors.values()} | dict(changed or {})
    prefix = file.metadata["general.architecture"]
    metadata = {**file.metadata, **{f"{prefix}.{key}": value for key, value in keys.items()}}
    config = read_config(metadata, file.tensors)
    return build_graph(config, {key: shape for key, shape in shapes.items() if shape is not None})


def plans(name: str, kind: str = "f32", **options: Any) -> dict[str, Plan]:
    file = header(name, kind)

    def read_tensor(tensor: str) -> Any:
        return np.ones(file.tensors[tensor].shape, np.float32)

    options = {"n_ctx": 128, "n_batch": 128, "read_tensor": read_tensor, **options}
    return plan_model(graph_of(name, kind), file, **options).plans


def kernels(plan: Plan) -> list[str]:
    return [dispatch.kernel.file for dispatch in plan.dispatches]


def layer_kernels(plan: Plan) -> list[str]:
    """What runs from one router to the next attention, in the first layer but not the last."""
    names = kernels(plan)
    first = names.index("expert_route")
    return names[first - 1 : names.index("attention_step_tiles", first)]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("qwen3moe", ["matvec", "expert_route", "expert_glu_matvec", "expert_matvec_sum"]),
        ("gpt-oss", ["matvec", "expert_route", "expert_glu_matvec", "expert_matvec_sum"]),
        (
            "qwen2moe",
            [
                *("matvec", "expert_route", "expert_glu_matvec"),
                *("glu_matvec", "matvec", "sigmoid_gate", "expert_matvec_sum"),
            ],
        ),
    ],
)
def test_a_routed_mlp_is_four_dispatches_of_a_decoded_token(name: str, wanted: list[str]) -> None:
    """Beside its norm; a shared expert has its own three."""
    found = layer_kernels(plans(name)["decode"])
    assert [k for k in found if not k.endswith(("norm", "qkv_matvec"))] == wanted


def test_slots_are_grouped_once_for_all_products_of_a_layer() -> None:
    plan = plans("qwen3moe")["prefill_128"]
    names = kernels(plan)
    assert names.count("expert_group") == 3 and names.count("expert_matmul_tiles") == 9
    assert names.count("expert_group") == names.count("expert_route")


@pytest.mark.parametrize("variant", ["rows", "tiles"])
@pytest.mark.parametrize(
    ("name", "kind", "share"), [("qwen3moe", "f32", 3 / 7), ("gpt-oss", "quant", 2 / 5)]
)
def test_a_decoded_token_moves_the_chosen_experts_bytes_alone(
    name: str, kind: str, share: float, variant: str
) -> None:
    """As the profile counts them; tests/backend counts what the kernels read."""
    plan = plans(name, kind, variant=variant)["decode"]
    stacks = {t.name: t.n_bytes for t in header(name, kind).tensors.values() if len(t.shape) == 3}
    stacks_alone = tuple(
        replace(d, bindings=tuple(b for b in d.bindings if b.slot in stacks))
        for d in plan.dispatches
    )
    plan = replace(plan, dispatches=stacks_alone)
    moved = sum(moved_bytes(plan, i, (1, 9, 1), 128) for i in range(len(stacks_alone)))
    assert moved == pytest.approx(share * sum(stacks.values()))


def test_trials_cover_the_expert_ops_and_their_storage_types() -> None:
    trials = {trial.name for trial in trials_for(graph_of("gpt-oss", "quant"),
                                                 header("gpt-oss", "quant"))}  # fmt: skip
    for op in ("expert_route", "expert_matmul", "expert_glu_matmul", "expert_matmul_sum"):
        assert any(name.startswith(f"{op}/") for name in trials), op
    assert any(name.startswith("matmul/MXFP4") for name in trials)


@pytest.mark.parametrize(
    ("changed", "keys", "error", "words"),
    [
        ({"blk.0.ffn_up_exps.weight": (6, 32, 64)}, {}, ModelFormatError, "for each expert"),
        ({"blk.1.ffn_down_exps.weight": (64, 32)}, {}, ModelFormatError, "blk.1.ffn_down_exps"),
        ({"blk.0.ffn_gate_exps.weight": None}, {}, GraphError, "blk.0.ffn_gate_exps.weight"),
        ({}, {"expert_used_count": 8}, GraphError, "n_used is 8 of 7"),
        ({}, {"expert_used_count": 0}, ModelFormatError, "qwen3moe.expert_used_count"),
        ({}, {"expert_weights_scale": -1.0}, ModelFormatError, "qwen3moe.expert_weights_scale"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_by_name(
    changed: dict[str, Shape | None], keys: dict[str, Any], error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        graph_of("qwen3moe", changed=changed, **keys)


def test_an_unknown_gating_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match=r"lfm2moe\.expert_gating_func is 1"):
        graph_of("lfm2moe", expert_gating_func=1)


def test_a_scale_of_zero_means_none() -> None:
    """Converters write it for models without one."""
    graph = graph_of("qwen3moe", expert_weights_scale=0.0)
    (first, *_) = [node for node in graph.nodes if node.op == "expert_route"]
    assert first.attrs["scale"] == 1.0


def test_inspection_names_the_experts_and_what_numpy_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = []
    for most in (stored_stack.STACK_BYTES, 100):
        monkeypatch.setattr(stored_stack, "STACK_BYTES", most)
        found = inspect_model(model_bytes("gpt-oss", "quant"))
        (numpy,) = [check for check in found.backends if check.name == "numpy"]
        held.append(numpy.memory_bytes["weight"])
    config = found.to_json()["config"]
    assert (config["n_expert"], config["n_expert_used"]) == (5, 2)
    stacks = [t for t in header("gpt-oss", "quant").tensors.values() if len(t.shape) == 3]
    assert held[0] - held[1] == sum(4 * t.n_elements - t.n_bytes for t in stacks)


def large_header(n_layer: int) -> GgufFile:
    """A header of the shapes of GPT-OSS 20B."""
    shapes: dict[str, tuple[Shape, str]] = {
        "token_embd.weight": ((201088, 2880), "Q8_0"),
        "output_norm.weight": ((2880,), "F32"),
    }
    for i in range(n_layer):
        layer: dict[str, tuple[Shape, str]] = {
            "attn_norm.weight": ((2880,), "F32"),
            "post_attention_norm.weight": ((2880,), "F32"),
            "attn_q.weight": ((4096, 2880), "Q8_0"),
            "attn_k.weight": ((512, 2880), "Q8_0"),
            "attn_v.weight": ((512, 2880), "Q8_0"),
            "attn_output.weight": ((2880, 4096), "Q8_0"),
            "attn_sinks.weight": ((64,), "F32"),
            "ffn_gate_inp.weight": ((32, 2880), "F32"),
            "ffn_gate_inp.bias": ((32,), "F32"),
        }
        for part in ("gate", "up", "down"):
            layer[f"ffn_{part}_exps.weight"] = ((32, 2880, 2880), "MXFP4")
            layer[f"ffn_{part}_exps.bias"] = ((32, 2880), "F32")
        shapes |= {f"blk.{i}.{name}": value for name, value in layer.items()}
    tensors, end = {}, 0
    for name, (shape, kind) in shapes.items():
        n_bytes = QUANTS[kind].row_bytes(shape[-1]) * math.prod(shape[:-1])
        tensors[name] = TensorInfo(name, shape, QUANTS[kind], end, n_bytes)
        end += n_bytes
    keys = {
        "block_count": n_layer,
        "embedding_length": 2880,
        "attention.head_count": 64,
        "attention.head_count_kv": 8,
        "attention.key_length": 64,
        "attention.value_length": 64,
        "context_length": 4096,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "expert_used_count": 4,
    }
    metadata = {f"gpt-oss.{key}": value for key, value in keys.items()}
    return GgufFile(3, {"general.architecture": "gpt-oss", **metadata}, tensors, 0, end)


@pytest.mark.parametrize("variant", ["rows", "tiles"])
def test_a_large_model_fits_the_floor_s_bindings(variant: str) -> None:
    """Stacks of 135 MiB in two parts each; nothing else over the limit, and no copy of anything."""
    file, limit = large_header(2), 128 << 20
    graph = build_graph(
        read_config(file.metadata, file.tensors), {t.name: t.shape for t in file.tensors.values()}
    )
    model = plan_model(
        graph,
        file,
        n_ctx=4096,
        limits=DeviceLimits(limit),
        variant=variant,
        read_tensor=lambda name: np.ones(file.tensors[name].shape, np.float32),
    )
    sizes = [up.source_bytes for up in model.uploads if up.tensor == "blk.1.ffn_up_exps.weight"]
    each = file.tensors["blk.1.ffn_up_exps.weight"].n_bytes // 32
    assert [size // each for size in sizes] == [16, 16]
    assert max(slot.n_bytes for slot in model.slots.values()) <= limit
    assert max(max(d.grid) for plan in model.plans.values() for d in plan.dispatches) <= 65535
    tensor_bytes = sum(t.n_bytes for t in file.tensors.values())
    assert model.bytes_by_kind()["weight"] <= 1.05 * tensor_bytes
