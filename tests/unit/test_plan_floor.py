"""Plans within what every WebGPU device grants: bindings, grids, workgroups, and no overlap."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest

from rushlight.backends.webgpu_common import FLOOR_LIMITS
from rushlight.gguf.config import read_config
from rushlight.gguf.quants import QUANTS
from rushlight.gguf.reader import GgufFile, TensorInfo
from rushlight.models import build_graph
from rushlight.plan.plan import KernelKey, ModelPlan
from rushlight.plan.variant import BY_NAME
from rushlight.plan.webgpu import DeviceLimits, plan_model
from rushlight.shaders import binding_modes, link

FLOOR_BINDING = FLOOR_LIMITS["max-storage-buffer-binding-size"]
SIZE = re.compile(r"@workgroup_size\(([^)]*)\)")
N_VOCAB, N_EMBD, N_FF = 262144, 1152, 6912


@cache
def large_table() -> GgufFile:
    """A header with the shapes of Gemma 3 1B, two layers of it: a table of 306 MiB."""
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "token_embd.weight": ((N_VOCAB, N_EMBD), "Q8_0"),
        "output_norm.weight": ((N_EMBD,), "F32"),
    }
    for i in range(2):
        for name, shape, kind in (
            *((f"{n}.weight", (N_EMBD,), "F32") for n in ("attn_norm", "ffn_norm")),
            *((f"post_{n}_norm.weight", (N_EMBD,), "F32") for n in ("attention", "ffw")),
            *((f"attn_{n}_norm.weight", (256,), "F32") for n in "qk"),
            ("attn_q.weight", (1024, N_EMBD), "Q4_0"),
            *((f"attn_{n}.weight", (256, N_EMBD), "Q4_0") for n in "kv"),
            ("attn_output.weight", (N_EMBD, 1024), "Q4_0"),
            *((f"ffn_{n}.weight", (N_FF, N_EMBD), "Q4_0") for n in ("gate", "up")),
            ("ffn_down.weight", (N_EMBD, N_FF), "Q4_0"),
        ):
            shapes[f"blk.{i}.{name}"] = (shape, kind)
    tensors, end = {}, 0
    for name, (shape, kind) in shapes.items():
        n_bytes = QUANTS[kind].row_bytes(shape[-1]) * math.prod(shape[:-1])
        tensors[name] = TensorInfo(name, shape, QUANTS[kind], end, n_bytes)
        end += n_bytes
    keys = {
        "block_count": 2,
        "embedding_length": N_EMBD,
        "feed_forward_length": N_FF,
        "attention.head_count": 4,
        "attention.head_count_kv": 1,
        "attention.key_length": 256,
        "attention.value_length": 256,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": 512,
        "context_length": 32768,
    }
    metadata = {f"gemma3.{key}": value for key, value in keys.items()}
    return GgufFile(3, {"general.architecture": "gemma3", **metadata}, tensors, 0, end)


@cache
def plans(variant: str) -> ModelPlan:
    file = large_table()
    graph = build_graph(
        read_config(file.metadata, file.tensors), {t.name: t.shape for t in file.tensors.values()}
    )
    return plan_model(
        graph,
        file,
        n_ctx=32768,
        limits=DeviceLimits(FLOOR_BINDING),
        variant=variant,
        read_tensor=lambda name: np.ones(file.tensors[name].shape, np.float32),
    )


def workgroup(key: KernelKey) -> tuple[int, int, int]:
    """The threads of a workgroup in each direction, with this key's constants."""
    code = link(key).code
    (text,) = SIZE.findall(code)
    known = dict(re.findall(r"override (\w+): u32 = (\d+)u", code)) | dict(key.overrides)
    sizes = [int(float(known.get(word.strip(), word.strip("u ")))) for word in text.split(",")]
    return tuple([*sizes, 1, 1][:3])  # type: ignore[return-value]


@pytest.mark.parametrize("variant", BY_NAME)
def test_a_large_table_is_cut_and_everything_fits(variant: str) -> None:
    model = plans(variant)
    sizes = [up.source_bytes for up in model.uploads if up.tensor == "token_embd.weight"]
    assert len(sizes) == 3 and sum(sizes) == large_table().tensors["token_embd.weight"].n_bytes
    slots = model.slots.values()
    assert max(slot.n_bytes for slot in slots) <= FLOOR_BINDING
    assert max(slot.n_bytes for slot in slots) <= FLOOR_LIMITS["max-buffer-size"]


@pytest.mark.parametrize("variant", BY_NAME)
def test_grids_and_workgroups_keep_the_limits(variant: str) -> None:
    keys = set()
    for plan in plans(variant).plans.values():
        for dispatch in plan.dispatches:
            assert all(1 <= n <= 65535 for n in dispatch.grid), dispatch
            keys.add(dispatch.kernel)
    assert len(keys) > 10
    for key in keys:
        x, y, z = workgroup(key)
        most = FLOOR_LIMITS["max-compute-invocations-per-workgroup"]
        assert x * y * z <= most and x <= 256 and y <= 256 and z <= 64, key
        assert sum(mode != "uniform" for mode in binding_modes(link(key).code)) <= 8, key


@pytest.mark.parametrize("variant", BY_NAME)
def test_no_dispatch_reads_what_it_writes(variant: str) -> None:
    """WebGPU counts usage by whole buffers, unlike Vulkan."""
    n_written = 0
    for plan in plans(variant).plans.values():
        for dispatch in plan.dispatches:
            modes = binding_modes(link(dispatch.kernel).code)
            bound = list(zip(dispatch.bindings, modes, strict=True))
            written = [binding.slot for binding, mode in bound if mode == "read_write"]
            others = {binding.slot for binding, mode in bound if mode != "read_write"}
            assert not set(written) & others and len(written) == len(set(written)), dispatch
            n_written += len(written)
    assert n_written > 100
