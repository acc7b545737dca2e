"""How a kernel variant is tried on a device: op cases for its answers, large products for speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, get_args

from ..gguf.quants import QUANTS
from ..gguf.reader import GgufFile, TensorInfo
from ..graph.builder import GraphBuilder
from ..graph.ir import Graph
from ..graph.rewrite import Phase, fuse
from ..ops import OPS, Case, OpDef
from ..plan.builder import Variant
from .base import LoadOptions, Progress
from .webgpu_common import Device, WebGpuExecutor
from .webgpu_program import Program, compile_model

COMMON_OPS = frozenset(
    ("get_rows", "select_rows", "add", "scale", "softcap", "glu", "rope", "kv_store", "matmul_add")
)
"""Ops with the same kernels in every variant (or, the last one, with those of ``matmul``)."""
PHASES: tuple[Phase, ...] = get_args(Phase)
N_TIMED = 3
"""Weights that a variant is timed on: those that most of the model's bytes are shaped like."""
TIMED_VALUES = {True: 1 << 18, False: 1 << 24}
"""Values of each timed weight, by whether the adapter is software: a fraction of a second."""
TIMED_TOKENS = {True: 16, False: 64}
TIMED_MS, TIMED_RUNS = 60.0, 8


@dataclass(frozen=True)
class Trial:
    """One op case, and the phase whose kernels it runs."""

    phase: Phase
    op: OpDef
    case: Case

    @property
    def name(self) -> str:
        """How messages and the memory call it."""
        return f"{self.op.name}/{self.case.name}"

    async def failure(self, device: Device, variant: Variant) -> str:
        """What is wrong with the variant on this case; empty if it is right."""
        from ..selftest import check_case

        def executor() -> WebGpuExecutor:
            return WebGpuExecutor(device.fork())

        result = await check_case(self.op, self.case, executor, variant)
        if result.ok:
            return ""
        return f"{self.name} is off by {result.nmse:.1e} (limit {result.limit:.1e}) {result.error}"


def trials_for(graph: Graph, file: GgufFile) -> tuple[Trial, ...]:
    """A small set of cases that stands for the model: its fused ops, and each type it is stored in.

    Position, window and token count vary with the case; the same cases serve every model, so
    that an adapter is tested once.
    """
    types = sorted({file.tensors[name].type.name for name in _factors(graph)})
    trials: list[Trial] = []
    for phase in PHASES:
        ops = {node.op for node in fuse(graph, phase).nodes} | {"argmax"}
        found = [_first(phase, OPS[op]) for op in sorted(ops - COMMON_OPS - {"matmul"})]
        found += [_first(phase, OPS["matmul"], name) for name in types]
        trials += [Trial(phase, op, case) for op, case in filter(None, found)]
    return tuple(trials)


def _first(phase: Phase, op: OpDef, type_name: str = "") -> tuple[OpDef, Case] | None:
    """A case with the phase's number of tokens: the first past position 0, else the first."""
    fitting = [
        case
        for case in op.cases
        if (_n_tokens(op, case) == 1) == (phase == "decode")
        and type_name in ("", case.types.get("weight"))
        and case.position <= 40
    ]
    fitting.sort(key=lambda case: case.position == 0)
    return (op, fitting[0]) if fitting else None


def _n_tokens(op: OpDef, case: Case) -> int:
    fixed = (*op.weights, *op.state, "rows")
    return int(next(shape[0] for port, shape in case.shapes.items() if port not in fixed))


def _factors(graph: Graph) -> list[str]:
    return [node.inputs["weight"] for node in graph.nodes if node.op == "matmul"]


@dataclass(frozen=True)
class TimedWeight:
    """A weight like the model's: same type and row length, and as many rows as are worth it."""

    type_name: str
    n_rows: int
    n_cols: int

    def words(self) -> str:
        """How the memory calls it."""
        return f"{self.type_name} {self.n_rows}x{self.n_cols}"


def timed_weights(graph: Graph, file: GgufFile, is_software: bool) -> tuple[TimedWeight, ...]:
    """The shapes that most of the bytes a decode step reads have, largest first."""
    n_bytes: Counter[TimedWeight] = Counter()
    for name in _factors(graph):
        tensor = file.tensors[name]
        most = max(64, TIMED_VALUES[is_software] // tensor.n_cols)
        rows = min(tensor.n_rows, most)
        n_bytes[TimedWeight(tensor.type.name, rows, tensor.n_cols)] += tensor.n_bytes
    return tuple(weight for weight, _ in n_bytes.most_common(N_TIMED))


async def time_variant(
    device: Device, variant: Variant, weights: Sequence[TimedWeight]
) -> dict[Phase, float]:
    """Milliseconds that the products take for one token, and for a short chunk of a prompt.

    The weights are fresh buffers, all zeros: values make no difference to the time.
    """
    n = TIMED_TOKENS[device.is_software]
    executor = WebGpuExecutor(device.fork(), _compile_empty)
    try:
        options = LoadOptions(n_ctx=n, n_batch=n, variant=variant, self_test=False)
        await executor.load(*_products(weights), [], options, _quiet)
        state = executor.new_state()
        decode = await _fastest(executor, state, 1)
        prefill = await _fastest(executor, state, n)
        return {"decode": decode, "prefill": prefill}
    finally:
        executor.close()


async def _fastest(executor: WebGpuExecutor, state: Any, n_tokens: int) -> float:
    """The shortest of a few runs in milliseconds; the first one, which makes bind groups, aside."""
    times: list[float] = []
    for _ in range(TIMED_RUNS + 1):
        started = perf_counter()
        await executor.forward(state, [0] * n_tokens, 0, [], "none")
        times.append((perf_counter() - started) * 1e3)
        if sum(times) > TIMED_MS and len(times) > 1:
            break
    return min(times[1:])


def _products(weights: Sequence[TimedWeight]) -> tuple[Graph, GgufFile]:
    """A model that multiplies one row per token with every weight."""
    tensors: dict[str, TensorInfo] = {}
    for i, weight in enumerate(weights):
        shapes = {f"x{i}": ("F32", (1, weight.n_cols))}
        shapes[f"w{i}"] = (weight.type_name, (weight.n_rows, weight.n_cols))
        for name, (type_name, shape) in shapes.items():
            fmt = QUANTS[type_name]
            n_bytes = shape[0] * shape[1] // fmt.block_size * fmt.type_size
            tensors[name] = TensorInfo(name, shape, fmt, 0, n_bytes)
    g = GraphBuilder("products", {name: info.shape for name, info in tensors.items()})
    products = [
        g.node("matmul", {"x": g.embed(f"x{i}"), "weight": g.weight(f"w{i}")})
        for i in range(len(weights))
    ]
    outputs = {f"y{i}": y for i, y in enumerate(products[1:])}
    outputs["logits"] = g.select_outputs(products[0])
    return g.build(**outputs), GgufFile(3, {}, tensors, 0, 0)


async def _compile_empty(*arguments: Any) -> Program:
    """A program whose weights stay as the device made them."""
    program = await compile_model(*arguments)
    return replace(program, model_plan=replace(program.model_plan, uploads=()))


def _quiet(progress: Progress) -> None:
    """Trials load without a listener."""
