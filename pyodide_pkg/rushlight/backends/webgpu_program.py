"""From a graph to a program: plans, linked kernels, and all that a device needs to replay them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..gguf.reader import GgufFile
from ..gguf.source import AsyncSource
from ..graph.ir import Graph
from ..plan.builder import DeviceLimits
from ..plan.plan import Binding, KernelKey, ModelPlan, Plan, WeightUpload
from ..plan.variant import default_variant
from ..plan.webgpu import check_ops, plan_model
from ..shaders import link
from .base import LoadOptions
from .numpy_executor import read_tensor

VECTOR_OPS = ("rms_norm", "layer_norm", "sigmoid_gate", "short_conv", "scale_by", "add_row")
"""Ops whose weights kernels read as float32, whatever the file stores."""


class Adapter(Protocol):
    """What planning needs to know of a device."""

    limits: Mapping[str, int]
    is_software: bool
    implied_features: frozenset[str]
    min_subgroup: int


@dataclass(frozen=True)
class Kernel:
    """A linked shader: code, pipeline constants and a function from its lines to our files."""

    key: KernelKey
    code: str
    constants: Mapping[str, float]
    locate: Callable[[int], str]


@dataclass(frozen=True)
class Program:
    """Everything a device needs to replay a model: plans in order, kernels, shared slots."""

    model_plan: ModelPlan
    plans: tuple[Plan, ...]
    kernels: tuple[Kernel, ...]

    def kernel_index(self) -> dict[KernelKey, int]:
        """Where each kernel stands in ``kernels``."""
        return {kernel.key: i for i, kernel in enumerate(self.kernels)}


async def compile_model(
    graph: Graph,
    file: GgufFile,
    sources: Sequence[AsyncSource],
    device: Adapter,
    options: LoadOptions,
) -> Program:
    """The program of a model on a device: its plans, and the text of every kernel they use."""
    check_ops(graph)
    small = await read_small_tensors(graph, file, sources)
    limits = DeviceLimits(
        min(device.limits["max-storage-buffer-binding-size"], device.limits["max-buffer-size"]),
        device.limits["max-compute-workgroups-per-dimension"],
        device.min_subgroup,
    )
    variant = options.variant
    if variant in ("auto", "exact"):
        variant = default_variant(is_software=device.is_software).name
    model_plan = plan_model(
        graph,
        file,
        n_ctx=options.n_ctx,
        n_batch=options.n_batch,
        kv_dtype=options.kv_dtype,
        limits=limits,
        variant=variant,
        read_tensor=small.__getitem__,
    )
    plans = tuple(model_plan.plans.values())
    keys = dict.fromkeys(d.kernel for plan in plans for d in plan.dispatches)
    linked = {key: link(key, device.implied_features) for key in keys}
    kernels = tuple(Kernel(k, s.code, s.constants, s.locate) for k, s in linked.items())
    return Program(model_plan, plans, kernels)


async def read_small_tensors(
    graph: Graph, file: GgufFile, sources: Sequence[AsyncSource]
) -> dict[str, NDArray[np.float32]]:
    """What planning needs the values of: rope factors, and vectors that are not float32."""
    factors = {node.inputs["freq_factors"] for node in graph.nodes if "freq_factors" in node.inputs}
    vectors = {
        value
        for node in graph.nodes
        for port, value in node.inputs.items()
        if port.startswith("bias") or (port != "x" and node.op in VECTOR_OPS)
    }
    values = {}
    for name in graph.weights:
        info = file.tensors[name]
        is_vector = len(info.shape) == 1 or name in vectors
        is_odd_vector = is_vector and info.type.name != "F32"
        if (name in factors or is_odd_vector) and info.type.is_runnable:
            values[name] = await read_tensor(sources[info.part], info)
    return values


def program_json(program: Program) -> str:
    """A program as the one string that ``worker/gpu.js`` takes; constants go apart, as bytes."""

    def encode(data: bytes) -> str:
        return base64.b64encode(data).decode()

    def bind(binding: Binding) -> list[Any]:
        return [binding.slot, binding.offset, binding.n_bytes]

    index = program.kernel_index()
    model_plan = program.model_plan
    return json.dumps(
        {
            "slots": [[s.name, s.n_bytes, s.kind] for s in model_plan.slots.values()],
            "kernels": [
                {"name": k.key.file, "code": k.code, "constants": dict(k.constants)}
                for k in program.kernels
            ],
            "plans": [
                {
                    "name": p.name,
                    "n_tokens_max": p.n_tokens_max,
                    "slots": [[s.name, s.n_bytes, s.kind] for s in p.slots],
                    "params": encode(p.params),
                    "dispatches": [
                        [index[d.kernel], [bind(b) for b in d.bindings], list(d.grid), d.label]
                        for d in p.dispatches
                    ],
                    "input_bytes": p.input_layout.n_bytes,
                    "outputs": {name: bind(b) for name, b in p.outputs.items()},
                }
                for p in program.plans
            ],
        },
        separators=(",", ":"),
    )


def uploads_json(uploads: Sequence[WeightUpload]) -> str:
    """Uploads as the string that ``worker/weights.js`` takes."""
    rows = [
        [u.tensor, u.slot, u.part, u.source_offset, u.source_bytes, u.type_size, u.planes]
        for u in sorted(uploads, key=lambda u: (u.part, u.source_offset))
    ]
    return json.dumps(rows, separators=(",", ":"))
