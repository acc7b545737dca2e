"""What a model file holds, and which backends can run it: answered from the header alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _sync
from .backends.base import LoadOptions
from .errors import EngineError, UnsupportedOpError
from .gguf.config import ModelConfig, read_architecture, read_config
from .gguf.reader import GgufFile
from .gguf.source import Source, SyncAsAsync
from .gguf.splits import open_parts
from .graph.ir import Graph
from .model import DEFAULT_N_CTX, ModelSource
from .models import build_graph, require_known
from .ops import OPS
from .ops.kv_cache import require_cache
from .ops.opdef import KvDtype
from .ops.state import state_parts
from .tokenizer import Tokenizer, load_tokenizer

CONFIG_FIELDS = ("n_layer", "n_embd", "n_ff", "n_head", "n_head_kv", "head_dim", "n_vocab")
EXPERT_KEYS = ("expert", "expert_used")


@dataclass(frozen=True)
class BackendCheck:
    """Whether one backend can run the file, why not, and the memory it would take."""

    name: str
    can_run: bool
    reason: str = ""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    """SIMD kernels that it calls."""
    in_numpy: tuple[str, ...] = ()
    """Ops without a kernel there, which numpy runs instead."""


@dataclass
class Inspection:
    """A file's contents; parts that could not be read are None and named in ``problems``."""

    file: GgufFile
    config: ModelConfig | None
    tokenizer: Tokenizer | None
    graph: Graph | None
    options: LoadOptions
    backends: list[BackendCheck]
    problems: list[EngineError]

    def graph_json(self) -> Any:
        """The graph document; raises what kept it from being built."""
        if self.graph is None:
            raise self.problems[0]
        return self.graph.to_json()

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        file, metadata = self.file, self.file.metadata
        template = metadata.get("tokenizer.chat_template")
        return {
            "name": str(metadata.get("general.name") or file.parts[0].name),
            "files": [part.name for part in file.parts],
            "n_bytes": file.n_bytes,
            "gguf_version": file.version,
            "architecture": str(metadata.get("general.architecture", "unknown")),
            "n_params": sum(math.prod(t.shape) for t in file.tensors.values()),
            "config": self._config(),
            "n_ctx": self.options.n_ctx,
            "tokenizer": self._tokenizer(),
            "outputs": sorted(self.graph.outputs) if self.graph else [],
            "chat_template_chars": len(template) if isinstance(template, str) else 0,
            "tensor_bytes": file.tensor_bytes,
            "types": self._types(),
            "backends": [vars(backend) for backend in self.backends],
            "problems": [f"{p.message} {p.hint}".strip() for p in self.problems],
            "tensors": [
                {
                    "name": t.name,
                    "type": t.type.name,
                    "shape": list(t.shape),
                    "n_bytes": t.n_bytes,
                    "part": t.part,
                }
                for t in file.tensors.values()
            ],
        }

    def _config(self) -> dict[str, Any]:
        if self.config is None:
            return {}
        found = {"context": self.config.n_ctx_train}
        found |= {name: getattr(self.config, name) for name in CONFIG_FIELDS}
        experts = {f"n_{key}": self.config.value(f"{key}_count") for key in EXPERT_KEYS}
        return found | {name: n for name, n in experts.items() if n}

    def _tokenizer(self) -> dict[str, Any]:
        tokenizer = self.tokenizer
        if tokenizer is None:
            return {"unusable": str(self.problems[-1]) if self.problems else ""}
        return {
            "kind": tokenizer.kind,
            **({"pre": tokenizer.pre} if tokenizer.pre else {}),
            "tokens": tokenizer.n_vocab,
            "bos": tokenizer.bos_id,
            "eos": tokenizer.eos_id,
            "ends at": sorted(tokenizer.eos_ids),
            "adds bos": tokenizer.add_bos,
        }

    def _types(self) -> list[dict[str, Any]]:
        """Tensors by type, the largest share first."""
        rows: dict[str, dict[str, Any]] = {}
        for t in self.file.tensors.values():
            empty = {"type": t.type.name, "n_tensors": 0, "n_elements": 0, "n_bytes": 0}
            row = rows.setdefault(t.type.name, empty)
            row["n_tensors"] += 1
            row["n_elements"] += math.prod(t.shape)
            row["n_bytes"] += t.n_bytes
        return sorted(rows.values(), key=lambda row: -int(row["n_bytes"]))


def inspect_model(
    source: ModelSource, *, n_ctx: int | None = None, kv_dtype: KvDtype = "f16"
) -> Inspection:
    """Read a file's header and ask every backend about it.

    Raises what the header reader raises. What fails later (an unknown architecture, a missing
    vocabulary) is part of the answer.
    """
    file, sources = open_parts(source)  # type: ignore[arg-type]  # async sources are the page's
    try:
        return _inspect(file, sources, n_ctx, kv_dtype)
    finally:
        for opened in sources:
            opened.close()


def _inspect(
    file: GgufFile, sources: Sequence[Source], n_ctx: int | None, kv_dtype: KvDtype
) -> Inspection:
    problems: list[EngineError] = []
    _try(problems, lambda: require_known(read_architecture(file.metadata)))
    # An unknown architecture has its own keys: that some are missing here is not its fault.
    is_known = not problems
    config = _try(problems if is_known else [], lambda: read_config(file.metadata, file.tensors))
    shapes = {name: t.shape for name, t in file.tensors.items()}
    trained = config.n_ctx_train if config else DEFAULT_N_CTX
    options = LoadOptions(min(n_ctx or DEFAULT_N_CTX, trained), kv_dtype)
    graph = None
    if config and is_known:
        loaded = replace(config, n_ctx=options.n_ctx)
        graph = _try(problems, lambda: build_graph(loaded, shapes))
    if graph:
        options = replace(options, n_batch=graph.chunk_size(options.n_ctx, options.n_batch))
    backends = [
        _check(
            "webgpu", graph, kv_dtype, problems, lambda g: _check_webgpu(g, file, options, sources)
        ),
        _check("cpu", graph, kv_dtype, problems, lambda g: _check_cpu(g, file, options, sources)),
        _check("numpy", graph, kv_dtype, problems, lambda g: _check_numpy(g, file, options)),
    ]
    tokenizer = _try(problems, lambda: load_tokenizer(file.metadata))
    return Inspection(file, config, tokenizer, graph, options, backends, problems)


def _try(problems: list[EngineError], read: Callable[[], Any]) -> Any:
    try:
        return read()
    except EngineError as error:
        problems.append(error)
        return None


def _check(
    name: str,
    graph: Graph | None,
    kv_dtype: KvDtype,
    problems: list[EngineError],
    check: Callable[[Graph], dict[str, Any]],
) -> BackendCheck:
    if graph is None:
        return BackendCheck(name, False, str(problems[0]))
    try:
        require_cache(graph, kv_dtype)
        return BackendCheck(name, True, **check(graph))
    except EngineError as error:
        return BackendCheck(name, False, str(error))


def _check_numpy(graph: Graph, file: GgufFile, options: LoadOptions) -> dict[str, Any]:
    """Return the memory numpy needs; raises if an op or a type is beyond it."""
    from .backends.numpy_executor import unsupported_type
    from .backends.stored_stack import stored_stacks

    for node in graph.nodes:
        if node.op not in OPS:
            raise UnsupportedOpError(f"The numpy backend has no operation {node.op!r}.")
    needed = [file.tensors[name] for name in graph.weights]
    for tensor in needed:
        if tensor.type.dequantize is None:
            raise unsupported_type(tensor, "numpy")
    stacks = stored_stacks(graph, needed)
    n_bytes = sum(t.n_bytes if t.name in stacks else 4 * t.n_elements for t in needed)
    return {"memory_bytes": {"weight": n_bytes, "state": _state_bytes(graph, options)}}


def _state_bytes(graph: Graph, options: LoadOptions) -> int:
    parts = [state_parts(s, options.n_ctx, options.kv_dtype) for s in graph.state.values()]
    return sum(part.n_bytes for each in parts for part in each)


def _check_webgpu(
    graph: Graph, file: GgufFile, options: LoadOptions, sources: Sequence[Source]
) -> dict[str, Any]:
    """Return the memory planned for a device at the floor; raises if the plan cannot be made."""
    from .plan.webgpu import plan_model

    plan = plan_model(
        graph,
        file,
        n_ctx=options.n_ctx,
        n_batch=options.n_batch,
        kv_dtype=options.kv_dtype,
        read_tensor=_reader(file, sources),
    )
    return {"memory_bytes": plan.bytes_by_kind()}


def _check_cpu(
    graph: Graph, file: GgufFile, options: LoadOptions, sources: Sequence[Source]
) -> dict[str, Any]:
    """Return the memory planned for the CPU kernels, and which ops have one."""
    from .kernels import kernel_table
    from .plan.cpu import accelerated_ops, plan_cpu

    plan = plan_cpu(
        graph,
        file,
        kernel_table(),
        n_ctx=options.n_ctx,
        n_batch=options.n_batch,
        kv_dtype=options.kv_dtype,
        read_tensor=_reader(file, sources),
    )
    kernels, in_numpy = accelerated_ops(plan)
    return {"memory_bytes": plan.bytes_by_kind(), "kernels": kernels, "in_numpy": in_numpy}


def _reader(file: GgufFile, sources: Sequence[Source]) -> Callable[[str], NDArray[np.float32]]:
    """Values of small tensors, for planning."""
    from .backends.numpy_executor import read_tensor

    def read(name: str) -> NDArray[np.float32]:
        info = file.tensors[name]
        return _sync.run(read_tensor(SyncAsAsync(sources[info.part]), info))

    return read
