"""Graphs lowered to dispatches: budgets, chunks, memory, and golden plans to read."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.errors import DeviceError, EngineError, UnsupportedOpError, UnsupportedTypeError
from rushlight.gguf import open_source, read_header
from rushlight.gguf.config import read_config
from rushlight.gguf.quants import QUANTS
from rushlight.gguf.reader import GgufFile
from rushlight.graph.ir import Graph
from rushlight.models import build_graph
from rushlight.plan.plan import ModelPlan, Plan
from rushlight.plan.variant import BY_NAME
from rushlight.plan.webgpu import LOWERINGS, DeviceLimits, check_ops, plan_model
from rushlight.shaders import binding_modes, link

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
PLANS = Path(__file__).parent / "plans"
MODELS = sorted(p.stem for p in GOLDEN.glob("*.gguf"))
VARIANTS = tuple(BY_NAME)


@cache
def model(name: str) -> tuple[Graph, GgufFile]:
    source = open_source(GOLDEN / f"{name}.gguf")
    file = read_header(source)
    source.close()
    shapes = {tensor.name: tensor.shape for tensor in file.tensors.values()}
    return build_graph(read_config(file.metadata, file.tensors), shapes), file


def plan(name: str, variant: str = "tiles", **options: Any) -> ModelPlan:
    graph, file = model(name)
    options = {"n_ctx": 128, "n_batch": 32, **options}

    def read_tensor(tensor: str) -> Any:
        return np.ones(file.tensors[tensor].shape, np.float32)

    return plan_model(graph, file, variant=variant, read_tensor=read_tensor, **options)


def n_layer(name: str) -> int:
    return len(model(name)[0].state)


def described(plan: Plan) -> str:
    """A plan as text: a line per dispatch, slots that are written after the arrow."""
    lines = [f"{plan.name}: {plan.n_tokens_max} tokens, {plan.n_out_max} rows out"]
    for i, dispatch in enumerate(plan.dispatches):
        modes = binding_modes(link(dispatch.kernel).code)
        names: dict[str, list[str]] = {"read": [], "read_write": [], "uniform": []}
        for binding, mode in zip(dispatch.bindings, modes, strict=True):
            names[mode].append(binding.slot)
        imports = " ".join(path.rpartition("/")[2] for _, path in dispatch.kernel.imports)
        lines.append(
            f"{'head ' if i >= plan.head_start else ''}{dispatch.kernel.file} [{imports}] "
            f"{'x'.join(map(str, dispatch.grid))}: "
            f"{', '.join(names['read'])} -> {', '.join(names['read_write'])}"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MODELS)
def test_bindings_fit_their_shaders(name: str, variant: str) -> None:
    for one in plan(name, variant).plans.values():
        slots = {slot.name: slot for slot in one.slots}
        for dispatch in one.dispatches:
            modes = binding_modes(link(dispatch.kernel).code)
            assert len(modes) == len(dispatch.bindings), dispatch
            bound = list(zip(dispatch.bindings, modes, strict=True))
            written = {binding.slot for binding, mode in bound if mode == "read_write"}
            read = {binding.slot for binding, mode in bound if mode != "read_write"}
            assert not written & read, dispatch
            assert sum(m == "read_write" for m in modes) == len(written), dispatch
            assert link(dispatch.kernel).features <= set(BY_NAME[variant].features), dispatch
            for binding in dispatch.bindings:
                assert binding.offset % 256 == 0
                assert binding.offset + binding.n_bytes <= slots[binding.slot].n_bytes, dispatch


@pytest.mark.parametrize("name", MODELS)
def test_decode_keeps_the_dispatch_budget(name: str) -> None:
    # A context so long that attention is split over it and joined again.
    decode = plan(name, n_ctx=4096).plans["decode"]
    outside = Counter(d.kernel.file for d in decode.dispatches[decode.head_start :])
    n_layers = decode.head_start - 1  # the embedding
    assert n_layers <= 7 * n_layer(name) + 1, decode.dispatches
    assert outside["argmax"] == 1


@pytest.mark.parametrize("name", MODELS)
def test_uploads_cover_every_tensor_that_is_bound(name: str) -> None:
    graph, file = model(name)
    whole = plan(name)
    by_tensor: Counter[str] = Counter()
    for upload in whole.uploads:
        by_tensor[upload.tensor] += upload.source_bytes
        assert sum(n for _, n, _ in upload.planes) == upload.type_size
    for tensor in graph.weights:
        if tensor in by_tensor:
            assert by_tensor[tensor] == file.tensors[tensor].n_bytes
    loaded = whole.bytes_by_kind()["weight"]
    assert loaded <= 1.05 * sum(file.tensors[t].n_bytes for t in by_tensor) + 4096


def test_tensors_over_the_binding_limit_are_split_by_rows() -> None:
    name = MODELS[0]
    whole, split = plan(name), plan(name, limits=DeviceLimits(32 << 10), n_ctx=32)
    assert len(split.uploads) > len(whole.uploads)
    for slot in split.slots.values():
        if slot.kind == "weight":
            assert slot.n_bytes <= 32 << 10
    table = [u for u in split.uploads if u.tensor == "token_embd.weight"]
    assert [u.slot for u in table] == [f"token_embd.weight#{i}" for i in range(len(table))]
    ends = [u.source_offset + u.source_bytes for u in table]
    assert ends[:-1] == [u.source_offset for u in table[1:]]


def test_a_grid_folds_at_the_limit_per_dimension() -> None:
    for one in plan(MODELS[0], limits=DeviceLimits(max_workgroups=3)).plans.values():
        for dispatch in one.dispatches:
            if dispatch.kernel.file.startswith(("matvec", "matmul", "get_rows", "glu")):
                assert dispatch.grid[0] <= 3


def test_one_row_of_a_tensor_over_the_limit_is_refused() -> None:
    with pytest.raises(DeviceError, match="largest binding"):
        plan(MODELS[0], limits=DeviceLimits(1 << 10), n_ctx=2)


def test_a_cache_over_the_limit_is_refused_with_the_context_named() -> None:
    with pytest.raises(EngineError, match="context of 100000000"):
        plan(MODELS[0], n_ctx=100_000_000)


def test_an_op_without_lowering_is_refused_by_name() -> None:
    graph, _ = model(MODELS[0])
    nodes = (replace(graph.nodes[0], op="fourier"), *graph.nodes[1:])
    with pytest.raises(UnsupportedOpError, match="fourier"):
        check_ops(replace(graph, nodes=nodes))


def test_a_type_without_kernel_is_refused_by_tensor_and_type() -> None:
    graph, file = model(MODELS[0])
    name = "blk.0.attn_q.weight"
    tensors = {**file.tensors, name: replace(file.tensors[name], type=QUANTS["NVFP4"])}
    with pytest.raises(UnsupportedTypeError, match=f"{name} has type NVFP4"):
        plan_model(
            graph, replace(file, tensors=tensors), n_ctx=8, read_tensor=lambda name: np.ones(1)
        )


def test_every_op_has_a_lowering() -> None:
    from rushlight.ops import OPS

    assert set(OPS) == set(LOWERINGS)


def test_plans_are_json_and_equal_when_made_twice() -> None:
    one, two = plan(MODELS[0]), plan(MODELS[0])
    assert one == two
    for each in one.plans.values():
        json.dumps({**each.to_json(), "kernels": None})


@pytest.mark.parametrize("name", ["llama-kquants", "gemma3-linear-q8q4"])
@pytest.mark.parametrize(("phase", "variant"), [("decode", "tiles"), ("prefill_32", "rows")])
def test_plan_reads_as_frozen(name: str, phase: str, variant: str) -> None:
    """The texts in ``plans/`` show what a change does; ``PLANS=freeze`` rewrites them."""
    file = PLANS / f"{name}.{phase}.{variant}.txt"
    text = described(plan(name, variant, n_ctx=1024).plans[phase])
    if os.environ.get("PLANS") == "freeze":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
