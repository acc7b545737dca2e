"""Graph → plans for WebGPU: one for decode, a few sizes for prefill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..errors import InvalidInputError, UnsupportedOpError
from ..gguf.reader import GgufFile
from ..graph.ir import Graph, Node
from ..graph.rewrite import Phase, fuse
from ..graph.verify import output_cols, verify
from ..ops.opdef import KvDtype
from . import lower_attention as attention
from . import lower_experts as experts
from . import lower_fused as fused
from . import lower_matmul as matmul
from . import lower_rows as rows
from . import lower_sampling as sampling
from .builder import DeviceLimits, PlanBuilder, PlanOptions
from .plan import Binding, ModelPlan, Plan
from .variant import BY_NAME
from .weights import ReadTensor, WeightStore

__all__ = ["LOWERINGS", "DeviceLimits", "check_ops", "plan_graph", "plan_model"]

Lowering = Callable[[PlanBuilder, Node], None]
LOWERINGS: Mapping[str, Lowering] = {
    "get_rows": matmul.lower_get_rows,
    "position_rows": matmul.lower_get_rows,
    "matmul": matmul.lower_matmul,
    "matmul_add": matmul.lower_matmul,
    "matmul_activate": matmul.lower_matmul,
    "qkv_matmul": matmul.lower_qkv_matmul,
    "glu_matmul": matmul.lower_glu_matmul,
    "norm_qkv_matmul": fused.lower_norm_qkv_matmul,
    "norm_glu_matmul": fused.lower_norm_glu_matmul,
    "joint_glu_matmul": fused.lower_joint_glu_matmul,
    "rms_norm": rows.lower_norm,
    "layer_norm": rows.lower_norm,
    "add_rms_norm": rows.lower_joint_norm,
    "sandwich_norm": rows.lower_joint_norm,
    "norm_add": rows.lower_joint_norm,
    **dict.fromkeys(rows.ELEMENTWISE, rows.lower_elementwise),
    "scale_by": rows.lower_with_weight,
    "add_row": rows.lower_with_weight,
    "columns": rows.lower_columns,
    "short_conv": rows.lower_short_conv,
    "select_rows": rows.lower_select_rows,
    "pool": rows.lower_pool,
    "argmax": rows.lower_argmax_node,
    "penalize": sampling.lower_between,
    "top_k": sampling.lower_between,
    "rope": attention.lower_rope,
    "kv_store": attention.lower_kv_store,
    "attention": attention.lower_attention,
    "attention_step": attention.lower_attention_step,
    "expert_route": experts.lower_route,
    "expert_matmul": experts.lower_matmul,
    "expert_sum": experts.lower_sum,
    "expert_glu_matmul": experts.lower_glu_matmul,
    "expert_matmul_sum": experts.lower_matmul_sum,
    "clamped_glu": experts.lower_clamped_glu,
    "sigmoid_gate": experts.lower_sigmoid_gate,
}
"""Every op that the WebGPU backend runs."""

OUTPUT_BYTES = 64 << 20
"""Most bytes of an output that one run of the head makes."""
SMALL_BATCHES = (16, 64)
"""Prefill sizes below ``n_batch`` that get a plan of their own, for short prompts."""


def check_ops(graph: Graph) -> None:
    """Raise UnsupportedOpError for the first node that this backend cannot run."""
    for node in graph.nodes:
        if node.op not in LOWERINGS:
            raise UnsupportedOpError(
                f"The webgpu backend has no kernel for {node.op!r}.",
                hint="Use the CPU backend for this model.",
            )


def plan_model(
    graph: Graph,
    file: GgufFile,
    *,
    n_ctx: int,
    n_batch: int = 256,
    kv_dtype: KvDtype = "f16",
    limits: DeviceLimits | None = None,
    variant: str | Mapping[Phase, str] = "tiles",
    read_tensor: ReadTensor,
) -> ModelPlan:
    """Plans "decode" and "prefill_N" for a model, with the weights and constants they share.

    ``variant`` names one of ``VARIANTS``, for all plans or by phase; ``read_tensor`` gives the
    float32 values of a small tensor (rope factors, a norm weight that is not float32).
    Raises UnsupportedOpError or UnsupportedTypeError before any weight is read.
    """
    if n_ctx < 1 or n_batch < 1:
        raise InvalidInputError(f"n_ctx is {n_ctx} and n_batch {n_batch}; both must be positive.")
    limits = limits or DeviceLimits()
    check_ops(graph)
    by_phase = (
        dict.fromkeys(("decode", "prefill"), variant) if isinstance(variant, str) else variant
    )
    store = WeightStore(file, read_tensor, limits.max_binding_bytes)
    n_batch = min(n_batch, n_ctx)
    sizes = sorted({n for n in (*SMALL_BATCHES, n_batch) if 1 < n <= n_batch})
    phases: list[tuple[str, Phase, int]] = [("decode", "decode", 1)]
    phases += [(f"prefill_{n}", "prefill", n) for n in sizes]
    row_bytes = max(output_cols(graph).values()) * 4
    plans = {}
    for name, phase, n in phases:
        n_out = max(1, min(n, min(OUTPUT_BYTES, limits.max_binding_bytes) // row_bytes))
        options = PlanOptions(name, n, n_out, n_ctx, kv_dtype, BY_NAME[by_phase[phase]], limits)
        plans[name] = plan_graph(fuse(graph, phase), store, options)
    return ModelPlan(plans, tuple(store.uploads), dict(store.constants))


def plan_graph(graph: Graph, store: WeightStore, options: PlanOptions) -> Plan:
    """One plan for a graph that has been fused for its phase."""
    check_ops(graph)
    builder = PlanBuilder(graph, verify(graph), options, store)
    for name in graph.state:
        builder.state(name)  # refuses a context that is too large before any table is made
    for node in graph.nodes:
        LOWERINGS[node.op](builder, node)
    outputs = {
        name: builder.pin(builder.value(value), f"out.{name}")
        for name, value in graph.outputs.items()
    }
    body_stop = len(builder.dispatches)
    logits = graph.outputs.get("logits")
    tails = _add_tails(builder, logits, outputs) if logits else {}
    return replace(builder.finish(outputs), body_stop=body_stop, tails=tails)


def _add_tails(
    b: PlanBuilder, logits: str, outputs: dict[str, Binding]
) -> dict[str, tuple[int, int]]:
    """What turns logits into less to read: an argmax, its way into the next step, candidates.

    Each is a range of dispatches that only a run that wants it replays.
    """
    tails = {}
    x, n_cols, symbol = b.value(logits), b.n_cols(logits), b.rows_symbol(logits)
    start = len(b.dispatches)
    outputs["argmax"] = b.pin(b.temp("argmax", b.max_rows(symbol) * 4), "out.argmax")
    rows.lower_argmax(b, x, outputs["argmax"], n_cols, symbol)
    tails["argmax"] = (start, len(b.dispatches))
    if b.options.n_tokens_max == 1:
        outputs["ahead"] = sampling.lower_advance(b, outputs["argmax"])
        tails["ahead"] = (start, len(b.dispatches))
    start = len(b.dispatches)
    outputs["adjusted"], outputs["candidates"] = sampling.lower_candidates(b, x, n_cols)
    tails["candidates"] = (start, len(b.dispatches))
    return tails
