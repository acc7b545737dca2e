"""How a kernel variant is tried on a device: op cases for its answers, a layer for its speed."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..gguf.quants import QUANTS
from ..gguf.reader import GgufFile, TensorInfo
from ..graph.ir import Attr, Graph, Node, Weight
from ..graph.rewrite import Phase, fuse
from ..ops import OPS, Case, OpDef
from ..ops.kv_cache import KV_FORMATS
from ..ops.opdef import KvDtype
from ..plan.plan import Plan
from ..plan.variant import PHASES, Variant
from .base import LoadOptions, Progress
from .webgpu_common import Device, WebGpuExecutor
from .webgpu_program import Program, compile_model
from .webgpu_step import choose_plan

if TYPE_CHECKING:
    from ..selftest import CaseResult

COMMON_OPS = frozenset(
    (
        *("get_rows", "select_rows", "add", "scale", "softcap", "glu", "rope", "kv_store"),
        *("matmul_add", "clamped_glu", "expert_sum", "add_row", "pool"),
    )
)
"""Ops with the same kernels in every variant (or, ``matmul_add``, with those of ``matmul``)."""
MAX_TIMED_VALUES = 1 << 29
"""Most weights of a layer that is timed: for a moment the device holds it beside the model."""
TIMED_TOKENS = 64
"""Length of the timed prompt."""
TIMED_CONTEXT = 256
TIMED_ROWS = 64
"""Rows kept of a table that is only looked up: its size makes no difference to the time."""
Ports = Mapping[str, Sequence[object]]
"""Shapes by port; empty for a computed value."""
MOST_STEPS = 80
"""A case that starts further on is not for the self-test: each token before it is a step."""
TIMED_MS, TIMED_RUNS = 60.0, 8
ONE = b"\x00\x00\x80\x3f"


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

    @property
    def chunks(self) -> set[int]:
        """How many tokens it runs at once: before those that are compared, and then."""
        n_tokens = n_tokens_of(self.op, self.case)
        return {n_tokens, max(self.case.position, 1)} if self.op.state else {n_tokens}

    async def failure(self, device: Device, variant: Variant) -> str:
        """What is wrong with the variant on this case; empty if it is right."""
        result = await self.result(device, variant)
        if result.ok:
            return ""
        return f"{self.name} is off by {result.nmse:.1e} (limit {result.limit:.1e}) {result.error}"

    async def result(self, device: Device, variant: Variant) -> CaseResult:
        """How far the variant is from the reference on this case."""
        from ..selftest import DRAW_OPS, check_case

        output = "candidates" if self.op.name in DRAW_OPS else self.op.name

        async def compile_case(*arguments: Any) -> Program:
            """Only the plans and the output that the case needs: each kernel takes its time."""
            program = await compile_model(*arguments)
            n_most = max(plan.n_tokens_max for plan in program.plans)
            names = [
                program.plans[choose_plan(program.plans, min(n, n_most))].name for n in self.chunks
            ]
            return _only(program, names, output)

        def executor() -> WebGpuExecutor:
            return WebGpuExecutor(device.fork(), compile_case)

        return await check_case(self.op, self.case, executor, variant.name)


def distinct_trials(variants: Iterable[Variant]) -> Iterator[tuple[Variant, Trial]]:
    """Every op case with each variant that has kernels for it unlike those of all before.

    A variant is left out of a phase that it is never chosen for.
    """
    seen = set()
    for variant in variants:
        for op in OPS.values():
            if variant.lanes == "subgroups" and op.name in COMMON_OPS:
                continue  # as in tiles
            for case in op.cases:
                phase: Phase = "decode" if n_tokens_of(op, case) == 1 else "prefill"
                key = variant.kernels_of(phase, op.name)[0], op.name, case.name
                if phase in variant.phases and key not in seen:
                    seen.add(key)
                    yield variant, Trial(phase, op, case)


def trials_for(graph: Graph, file: GgufFile, kv: KvDtype = "f32") -> tuple[Trial, ...]:
    """A small set of cases that stands for the model.

    They cover its fused ops with what is special about each (a window, sinks, a bias), and each
    type that it is stored in. Sizes vary with the case; the same cases serve every model, so that
    an adapter is tested once.
    """
    types = sorted({file.tensors[name].type.name for name in _factors(graph)})
    trials: list[Trial] = []
    for phase in PHASES:
        traits: dict[str, set[str]] = {"argmax": set(), "top_k": set()}
        for node in fuse(graph, phase).nodes:
            weights = {p: graph.weights.get(name) for p, name in node.inputs.items()}
            ports = {p: weight.shape if weight else () for p, weight in weights.items()}
            traits.setdefault(node.op, {"split"}).update(traits_of(OPS[node.op], ports, node.attrs))
        for name in sorted(set(traits) - COMMON_OPS - {"matmul"}):
            op = _with_kv(OPS[name], kv)
            trials += [Trial(phase, op, case) for case in _cover(phase, op, traits[name])]
        for name in types:
            trials += [Trial(phase, OPS["matmul"], c) for c in _cover(phase, OPS["matmul"], {name})]
    return tuple(trials)


def traits_of(op: OpDef, ports: Ports, attrs: Mapping[str, Attr]) -> set[str]:
    """What is special about a node or a case: optional ports, attributes that are not the default.

    A norm of heads counts with the shape that its weights have.
    """
    found = {port for port in op.optional if port in ports}
    for name, spec in op.attrs.items():
        value = attrs.get(name, spec.default)
        if spec.type is str:
            found.add(f"{name}={value}")
        elif spec.default is not None and value != spec.default:
            found.add(name)
    if "q_norm" in found:
        shape = ports["q_norm"]
        is_shared = len(shape) == 1 and shape[0] == attrs["head_dim"]
        found.add(f"q_norm of {'one head' if is_shared else f'{len(shape)} dimensions'}")
    return found


def _cover(phase: Phase, op: OpDef, wanted: set[str]) -> list[Case]:
    """The fewest cases of the phase that have what is wanted, as far as any has it; at least one.

    Of those that have as much, the first past position 0, since it reads what others wrote.
    """
    left = [
        (case, traits_of(op, case.shapes, case.attrs) | set(case.types.values()) | _split(case))
        for case in op.cases
        if (n_tokens_of(op, case) == 1) == (phase == "decode") and case.position <= MOST_STEPS
    ]
    left.sort(key=lambda each: each[0].position == 0)
    chosen: list[Case] = []
    while left:
        case, has = max(left, key=lambda each: len(each[1] & wanted))
        if chosen and not has & wanted:
            break
        if not chosen and not has & wanted and any(t in QUANTS for t in wanted):
            break  # a type that has no case of this phase
        chosen.append(case)
        wanted = wanted - has
    return chosen


def _split(case: Case) -> set[str]:
    """Whether a decoded token's keys are shared out, as in every context worth having."""
    return {"split"} if case.n_ctx > 256 else set()


def _with_kv(op: OpDef, kv: KvDtype) -> OpDef:
    """The op with those cases that the model's kind of cache can keep, on such caches."""
    if "cache" not in op.state:
        return op
    cases = []
    for case in op.cases:
        n_heads = int(case.attrs.get("n_head_kv", 1))  # type: ignore[arg-type]
        if all(width // n_heads % KV_FORMATS[kv].n_values == 0 for width in case.shapes["cache"]):
            name = case.name if case.kv == kv else f"{case.name}-{kv}"
            cases.append(replace(case, kv=kv, name=name, nmse=max(case.nmse, KV_FORMATS[kv].nmse)))
    return replace(op, cases=tuple(cases))


def n_tokens_of(op: OpDef, case: Case) -> int:
    """How many tokens a case runs at once."""
    fixed = (*op.weights, *op.state, "rows")
    return int(next(shape[0] for port, shape in case.shapes.items() if port not in fixed))


def _factors(graph: Graph) -> list[str]:
    products = ("matmul", "expert_matmul")
    return [node.inputs["weight"] for node in graph.nodes if node.op in products]


@dataclass(frozen=True)
class TimedLayer:
    """The model's first layer: what every other one costs too."""

    graph: Graph
    file: GgufFile

    @property
    def n_values(self) -> int:
        """Weights in it, lookup tables aside."""
        return sum(info.n_elements for info in self.file.tensors.values())

    def words(self) -> str:
        """How the memory calls it: the same for models of the same shapes and types."""
        parts = [f"{t.type.name} {list(t.shape)}" for t in self.file.tensors.values()]
        parts += [f"{node.op} {sorted(node.attrs.items())}" for node in self.graph.nodes]
        return f"{self.graph.architecture} {zlib.crc32(' '.join(parts).encode()):08x}"


def timed_layer(graph: Graph, file: GgufFile) -> TimedLayer | None:
    """The first layer as a model of its own; None if it is too large to be worth it."""
    nodes = list(graph.nodes)
    for i, node in enumerate(graph.nodes):
        if any(value.startswith(("blk.1.", "kv.1")) for value in node.inputs.values()):
            nodes = nodes[:i]
            break
    read = {value for node in nodes for value in node.inputs.values()}
    left = [v for node in nodes for v in node.outputs.values() if v not in read]
    outputs = {f"y{i}": value for i, value in enumerate(left[:-1])}
    nodes.append(Node("select_rows", {"x": left[-1], "rows": "out_rows"}, {"y": "last"}, {}))
    tables = {node.inputs["table"] for node in nodes if node.op == "get_rows"}
    tables -= {node.inputs.get("weight") for node in nodes}
    tensors = {
        name: _shortened(file.tensors[name]) if name in tables else file.tensors[name]
        for name in graph.weights
        if name in read
    }
    layer = Graph(
        graph.architecture,
        tuple(nodes),
        {name: Weight(info.shape) for name, info in tensors.items()},
        {name: state for name, state in graph.state.items() if name in read},
        {**outputs, "logits": "last"},
    )
    timed = TimedLayer(layer, GgufFile(3, {}, tensors, 0, 0))
    return None if timed.n_values > MAX_TIMED_VALUES else timed


def _shortened(info: TensorInfo) -> TensorInfo:
    rows = min(TIMED_ROWS, info.n_rows)
    return replace(info, shape=(rows, info.n_cols), n_bytes=rows * info.row_bytes)


async def time_variant(
    device: Device, variant: str, layer: TimedLayer, phases: Collection[Phase]
) -> dict[Phase, float]:
    """Milliseconds that the layer takes for one token ("decode"), and for a short prompt.

    Its weights are fresh buffers, all zeros: values make no difference to the time.
    """
    n = TIMED_TOKENS
    runs: dict[Phase, tuple[int, int]] = {"prefill": (n, 0), "decode": (1, TIMED_CONTEXT - 1)}

    async def compile_layer(*arguments: Any) -> Program:
        program = await compile_model(*arguments)
        names = [plan.name for plan in program.plans if plan.name.partition("_")[0] in phases]
        lean = _only(program, names, "logits")
        return replace(lean, model_plan=replace(lean.model_plan, uploads=()))

    executor = WebGpuExecutor(device.fork(), compile_layer)
    try:
        options = LoadOptions(TIMED_CONTEXT, n_batch=n, variant=variant, self_test=False)
        sources = [_Ones()] * (1 + max(info.part for info in layer.file.tensors.values()))
        await executor.load(layer.graph, layer.file, sources, options, _quiet)
        state = executor.new_state()
        return {phase: await _fastest(executor, state, *runs[phase]) for phase in phases}
    finally:
        executor.close()


async def _fastest(executor: WebGpuExecutor, state: Any, n_tokens: int, position: int) -> float:
    """The shortest of a few runs in milliseconds; the first one, which makes bind groups, aside."""
    times: list[float] = []
    for _ in range(TIMED_RUNS + 1):
        started = perf_counter()
        await executor.forward(state, [0] * n_tokens, position, [], "none")
        times.append((perf_counter() - started) * 1e3)
        if sum(times) > TIMED_MS and len(times) > 1:
            break
    return min(times[1:])


def _only(program: Program, names: Collection[str], output: str) -> Program:
    """The named plans with what every output needs, and of the rest only what this one does."""
    plans = tuple(_with_output(plan, output) for plan in program.plans if plan.name in names)
    used = {dispatch.kernel for plan in plans for dispatch in plan.dispatches}
    kernels = tuple(kernel for kernel in program.kernels if kernel.key in used)
    return replace(program, plans=plans, kernels=kernels)


def _with_output(plan: Plan, output: str) -> Plan:
    body, tail = plan.dispatches[: plan.body.stop], slice(*plan.tails.get(output, (0, 0)))
    dispatches = body + plan.dispatches[tail]
    tails = {output: (len(body), len(dispatches))}
    return replace(plan, dispatches=dispatches, body_stop=len(body), tails=tails)


class _Ones:
    """Stands for the file where planning reads a small tensor: rope factors must not be zero."""

    name, size = "ones", 0

    async def read(self, offset: int, n: int) -> bytes:
        """``n`` bytes of float32 ones."""
        return (ONE * (n // 4 + 1))[:n]

    async def close(self) -> None:
        """Nothing is held."""


def _quiet(progress: Progress) -> None:
    """Trials load without a listener."""
