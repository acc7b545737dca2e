"""Op cases as tiny models, so that every backend runs them through its ordinary load and forward.

A case's value inputs are looked up from tables by token (``get_rows``), its weights are tensors
in the asked storage type, and the result leaves as the graph's output. The numpy executor's
answer on the same graph is the reference. Used by the tests, by the page's harness and by the
numeric self-test of an adapter.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backends.base import Executor, LoadOptions, Progress
from .backends.numpy_executor import NumpyExecutor
from .candidates import N_CANDIDATES, Candidates, Cuts, SampleInputs
from .gguf.quants import QUANTS, QuantFormat
from .gguf.reader import GgufFile, TensorInfo
from .gguf.source import BytesSource, SyncAsAsync
from .graph.builder import GraphBuilder
from .graph.ir import Graph, Node
from .ops import OPS, Case, OpDef
from .ops.opdef import KvDtype
from .ops.sampling import LOWEST, top_k
from .plan.variant import BY_NAME, PRODUCT_OPS

SCALE_FIELDS = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,),
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
    "IQ1_S": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,),
    "IQ4_NL": (0,), "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,),
}  # fmt: skip
"""Byte offsets of the float16 scales in a block; random bytes there could be NaN."""

DRAW_OPS = ("penalize", "top_k")
"""Run behind a model's logits, and compared by the candidates that come out."""

ROUTED = ("experts", "shares")
"""Ports that a router fills."""

ONE_TOKEN_OPS = (
    "qkv_matmul", "glu_matmul", "matmul_activate", "attention_step",
    "norm_qkv_matmul", "norm_glu_matmul", "joint_glu_matmul",
    "expert_glu_matmul", "expert_matmul_sum",
)  # fmt: skip


@dataclass(frozen=True)
class CaseResult:
    """How far a backend is from the reference on one case."""

    op: str
    case: str
    nmse: float
    limit: float
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the case ran and stayed within its limit."""
        return not self.error and self.nmse <= self.limit


@dataclass(frozen=True)
class CaseModel:
    """A case as a model: graph, file, and how to call it."""

    graph: Graph
    file: GgufFile
    data: bytes
    n_tokens: int
    position: int
    out_rows: tuple[int, ...]
    draw: SampleInputs | None = None
    n_ctx: int = 0
    kv: KvDtype = "f32"


def all_cases() -> Iterator[tuple[OpDef, Case]]:
    """Every case of every op."""
    for op in OPS.values():
        for case in op.cases:
            yield op, case


def n_scales(fmt: QuantFormat) -> int:
    """How many float16 scales a block has."""
    return 1 if fmt.name == "IQ1_M" else len(SCALE_FIELDS.get(fmt.name, ()))


def put_scales(
    blocks: NDArray[np.uint8], fmt: QuantFormat, field: int, halves: NDArray[np.uint16]
) -> None:
    """Set float16 scale ``field`` of every block [n, type_size] to these bits."""
    if fmt.name == "IQ1_M":
        # Nibble i of the scale is the top of 16-bit word i of the block's last eight bytes.
        for i in range(4):
            byte = blocks[:, 49 + 2 * i]
            byte[...] = (byte & 15) | (((halves >> (4 * i)) & 15) << 4).astype(np.uint8)
        return
    offset = SCALE_FIELDS[fmt.name][field]
    blocks[:, offset : offset + 2] = halves.astype("<u2").view(np.uint8).reshape(-1, 2)


def random_tensor(fmt: QuantFormat, shape: tuple[int, ...], rng: Any) -> bytes:
    """A tensor of any storage type with values of ordinary size; deterministic in ``rng``."""
    n_values = int(np.prod(shape))
    if fmt.block_size > 1:
        n_blocks = n_values // fmt.block_size
        blocks = rng.integers(0, 256, (n_blocks, fmt.type_size), dtype=np.uint8)
        for field in range(n_scales(fmt)):
            scales = (rng.standard_normal(n_blocks) * 0.02).astype(np.float16)
            put_scales(blocks, fmt, field, scales.view(np.uint16))
        if fmt.name == "MXFP4":
            blocks[:, 0] = rng.integers(116, 126, n_blocks)
        return bytes(blocks.tobytes())
    values = rng.standard_normal(n_values).astype(np.float32)
    if fmt.name == "F16":
        return bytes(values.astype(np.float16).tobytes())
    if fmt.name == "BF16":
        return bytes((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return bytes(values.tobytes())


def build_case(op: OpDef, case: Case) -> CaseModel:
    """The model that runs ``op`` on the case's inputs."""
    rng = np.random.default_rng(zlib.crc32(f"{op.name}/{case.name}".encode()))
    draw = _draw_inputs(op, case, rng) if op.name in DRAW_OPS else None
    if draw:
        case = replace(case, shapes={"x": case.shapes["x"]})
    routed = ROUTED if "experts" in op.inputs else ()
    given = (*op.weights, *op.state, *routed, "ids", "rows", "positions")
    value_ports = [p for p in case.shapes if p not in given]
    n_tokens = _token_count(op, case, value_ports)
    n_table = case.position + n_tokens
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for port in value_ports:
        tensors[f"table_{port}"] = ("F32", (n_table, case.shapes[port][-1]))
    for port in op.weights:
        if port in case.shapes:
            tensors[port] = (case.types.get(port, "F32"), case.shapes[port])
    if "experts" in (*op.inputs, *op.outputs):
        tensors |= _router_tensors(op, case, n_table)
    if op.name == "attention":
        width_k, width_v = case.shapes["cache"]
        tensors |= {"table_k": ("F32", (n_table, width_k)), "table_v": ("F32", (n_table, width_v))}
    file, data = _file(tensors, rng)
    graph = _graph(op, case, value_ports, {n: s for n, (_, s) in tensors.items()})
    rows = tuple(range(n_tokens))
    if "rows" in op.inputs:
        rows = tuple(int(r) for r in rng.integers(0, n_tokens, case.shapes["rows"][0]))
    place = case.position, rows, draw, case.n_ctx, case.kv
    return CaseModel(graph, file, data, n_tokens, *place)


def _draw_inputs(op: OpDef, case: Case, rng: Any) -> SampleInputs:
    """The draw that a case of ``DRAW_OPS`` prepares."""
    attrs: dict[str, Any] = dict(op.full_attrs(case.attrs))
    n_vocab = case.shapes["x"][-1]
    (n_ids,) = case.shapes.get("ids", (0,))
    ids = np.sort(rng.choice(n_vocab, min(n_ids, n_vocab), replace=False)).astype(np.int64)
    bias, minus = (rng.standard_normal((2, len(ids))) * 2).astype(np.float32)
    repeats = rng.integers(0, 2, len(ids), dtype=np.uint32)
    mask = None
    if "mask" in case.shapes:
        mask = rng.integers(0, 2**32, case.shapes["mask"], dtype=np.uint32)
    cuts = Cuts(attrs.get("temperature", 1.0), 40, 1.0, 0.0)
    return SampleInputs(cuts, ids, bias, minus, repeats, attrs.get("penalty", 1.0), mask)


def _token_count(op: OpDef, case: Case, value_ports: list[str]) -> int:
    counted = next(p for p in ("ids", "positions", *value_ports) if p in case.shapes)
    return case.shapes[counted][0]


def _file(tensors: dict[str, tuple[str, tuple[int, ...]]], rng: Any) -> tuple[GgufFile, bytes]:
    infos: dict[str, TensorInfo] = {}
    data = bytearray()
    for name, (type_name, shape) in tensors.items():
        raw = random_tensor(QUANTS[type_name], shape, rng)
        infos[name] = TensorInfo(name, shape, QUANTS[type_name], len(data), len(raw))
        data += raw + b"\0" * (-len(raw) % 32)
    return GgufFile(3, {}, infos, 0, len(data)), bytes(data)


def _graph(
    op: OpDef, case: Case, value_ports: list[str], shapes: dict[str, tuple[int, ...]]
) -> Graph:
    g = GraphBuilder("case", shapes)
    inputs: dict[str, str | None] = {port: g.embed(f"table_{port}") for port in value_ports}
    inputs |= {port: g.weight(port) for port in op.weights if port in shapes}
    for port, value in (("ids", "tokens"), ("rows", "out_rows"), ("positions", "positions")):
        if port in op.inputs:
            inputs[port] = value
    if "state" in op.state:
        inputs["state"] = g.conv_state("conv.0", *case.shapes["state"])
    elif op.state:
        inputs["cache"] = g.kv_state("kv.0", *case.shapes["cache"])
    if op.name == "attention":
        k, v = g.embed("table_k"), g.embed("table_v")
        store = {"k": k, "v": v, "positions": "positions", "cache": "kv.0"}
        inputs["cache"] = g.node("kv_store", store)
    if "experts" in op.inputs:
        router = {"logits": g.embed("table_router")}
        inputs |= _routed(g, router, n_used=case.shapes["experts"][-1], gating="softmax")
    if op.name == "argmax" or op.name in DRAW_OPS:
        return g.build(logits=g.select_outputs(str(inputs["x"])))
    if op.name == "expert_route":
        # Seen through products that differ from expert to expert.
        inputs = {"x": inputs["logits"], "weight": g.weight("probe")} | _routed(
            g, inputs, **case.attrs
        )
        op, case = OPS["expert_matmul"], replace(case, attrs={})
    shares = None if "shares" in op.inputs else inputs.pop("shares", None)
    y = g.node(op.name, inputs, **case.attrs)
    if shares:
        y = g.node("expert_sum", {"x": y, "shares": shares})
    if op.name == "kv_store":
        width = case.shapes["k"][-1]
        heads = {"n_head": 1, "n_head_kv": 1, "head_dim": width, "scale": 0.1}
        read = {"q": inputs["k"], "positions": "positions", "cache": y}
        y = g.node("attention", read, **heads)
    elif len(op.outputs) == 2 and not op.state:
        y = g.add(y, _second_output(g))
    return g.build(logits=y if "rows" in op.inputs else g.select_outputs(y))


def _router_tensors(op: OpDef, case: Case, n_table: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What a case needs around a router: its logits by token, or products that show its choice."""
    if op.name == "expert_route":
        n_expert = case.shapes["logits"][-1]
        return {"probe": ("F32", (n_expert, 4, n_expert))}
    n_expert = next(shape[0] for port, shape in case.shapes.items() if port.startswith("weight"))
    return {"table_router": ("F32", (n_table, n_expert))}


def _routed(
    g: GraphBuilder, inputs: Mapping[str, str | None], **attrs: Any
) -> dict[str, str | None]:
    """The experts and shares of a router over ``inputs``."""
    g.node("expert_route", inputs, **attrs)
    return dict(g.last_node.outputs)


def _second_output(g: GraphBuilder) -> str:
    last: Node = g.last_node
    return list(last.outputs.values())[1]


async def load_case(model: CaseModel, executor: Executor, variant: str = "auto") -> Any:
    """Load a case and run the tokens before it; the state it goes on from."""
    one = any(node.op in ONE_TOKEN_OPS for node in model.graph.nodes)
    n_tokens = model.position + model.n_tokens
    n_batch = 1 if one else max(n_tokens, 8)
    n_ctx = max(n_tokens, model.n_ctx, 8)
    options = LoadOptions(n_ctx, model.kv, n_batch, variant, self_test=False)
    source = SyncAsAsync(BytesSource(model.data, "case"))
    await executor.load(model.graph, model.file, [source], options, _quiet)
    state = executor.new_state()
    if model.graph.state:
        for before in _tokens_before(model, one_by_one=one):
            await executor.forward(state, list(before), before.start, [], "none")
    return state


def _tokens_before(model: CaseModel, *, one_by_one: bool) -> list[range]:
    """The chunks that fill a case's state.

    One by one, a cache is filled at every eighth position and at the last sixteen: a fresh cache
    is zero on every backend, a key of zeros weighs as much as any, and each step takes its time.
    """
    end = model.position
    if not one_by_one:
        return [range(end)] if end else []
    is_cache = all(state.kind == "kv" for state in model.graph.state.values())
    chosen = (p for p in range(end) if not is_cache or p % 8 == 0 or p >= end - 16)
    return [range(p, p + 1) for p in chosen]


async def ask_case(model: CaseModel, executor: Executor, state: Any, want: Any) -> NDArray[Any]:
    """The output of a loaded case."""
    tokens = list(range(model.position, model.position + model.n_tokens))
    if model.draw:
        found = await executor.candidates(state, tokens, model.position, model.draw)
        return _as_array(found, model.draw)
    result = await executor.forward(state, tokens, model.position, list(model.out_rows), want)
    assert result is not None
    return result


async def run_case(
    model: CaseModel, executor: Executor, want: Any, variant: str = "auto"
) -> NDArray[Any]:
    """The output of a case on one backend."""
    try:
        state = await load_case(model, executor, variant)
        return await ask_case(model, executor, state, want)
    finally:
        executor.close()


_references: dict[str, NDArray[Any]] = {}
"""Answers of the reference so far: one case is for many variants, and numpy is slow in a page."""


async def _reference(op: OpDef, case: Case, model: CaseModel, want: Any) -> NDArray[Any]:
    key = f"{op.name} {case}"
    if key not in _references:
        _references[key] = await run_case(model, NumpyExecutor(), want)
    return _references[key]


async def check_case(
    op: OpDef, case: Case, make_executor: Callable[[], Executor], variant: str = "auto"
) -> CaseResult:
    """Run one case on a backend and on the reference, and compare."""
    model = build_case(op, case)
    want = "argmax" if op.name == "argmax" else "logits"
    expected = np.asarray(await _reference(op, case, model, want), np.float64)
    got = np.asarray(await run_case(model, make_executor(), want, variant), np.float64)
    limit = max(case.nmse, product_tolerance(op, model, variant))
    if got.shape != expected.shape:
        return CaseResult(op.name, case.name, np.inf, limit, f"shape {got.shape}")
    if not np.isfinite(got).all():
        return CaseResult(op.name, case.name, np.inf, limit, "result is not finite")
    if model.draw:
        n_ids = len(expected) // 2
        if not np.array_equal(got[:n_ids], expected[:n_ids]):
            return CaseResult(op.name, case.name, np.inf, limit, "other candidates")
        got, expected = got[n_ids:], expected[n_ids:]
    nmse = float(np.square(got - expected).sum() / max(np.square(expected).sum(), 1e-30))
    return CaseResult(op.name, case.name, nmse, limit)


def product_tolerance(op: OpDef, model: CaseModel, variant: str) -> float:
    """The error that a variant states for its products of several tokens; 0 for all else."""
    is_product = op.name in PRODUCT_OPS and model.n_tokens > 1
    return BY_NAME[variant].tolerance if is_product and variant in BY_NAME else 0.0


def _as_array(found: Candidates, inputs: SampleInputs) -> NDArray[Any]:
    """Ids, logits and total of the best candidates, one after the other."""
    if found.ids is not None:
        return np.concatenate([found.ids, found.logits, [found.total]])
    n = min(N_CANDIDATES, int(np.count_nonzero(found.logits > LOWEST)))
    parts = top_k(found.logits[None], k=n, temperature=inputs.cuts.temperature)
    return np.concatenate([part.reshape(-1) for part in parts])


def _quiet(progress: Progress) -> None:
    """Cases load without a listener."""
