"""Graph → one plan for the CPU kernels, for prompts and single tokens alike."""

from __future__ import annotations

from dataclasses import replace

from ..candidates import MAX_ADJUSTED
from ..gguf.reader import GgufFile
from ..graph.ir import Graph
from ..graph.rewrite import CPU_RULES, apply_rules
from ..graph.verify import output_cols, verify
from ..kernels import KernelTable
from ..ops.opdef import KvDtype
from .cpu_builder import CpuBuilder, CpuOptions
from .cpu_lower import LOWERINGS, TAIL_OPS
from .cpu_program import CpuPlan
from .plan import Binding, BufferSlot
from .weights import ReadTensor

OUTPUT_BYTES = 32 << 20
"""Most bytes of an output that one run of the head makes."""


def plan_cpu(
    graph: Graph,
    file: GgufFile,
    table: KernelTable,
    *,
    n_ctx: int,
    n_batch: int = 256,
    kv_dtype: KvDtype = "f16",
    is_exact: bool = False,
    read_tensor: ReadTensor,
) -> CpuPlan:
    """The plan of a model; ``is_exact`` keeps activations in float32.

    ``read_tensor`` gives the float32 values of a small tensor. Raises UnsupportedTypeError before
    any weight is read.
    """
    graph = apply_rules(graph, CPU_RULES)
    shapes = verify(graph)
    widths = output_cols(graph)
    n_batch = min(n_batch, n_ctx)
    n_out = max(1, min(n_batch, OUTPUT_BYTES // (max(widths.values()) * 4)))
    options = CpuOptions(n_batch, n_out, n_ctx, kv_dtype, is_exact)
    b = CpuBuilder(graph, shapes, file, options, table, read_tensor)
    for node in graph.nodes:
        if node.op in LOWERINGS:
            LOWERINGS[node.op](b, node)
        else:
            b.run_in_numpy(node)
    outputs = {name: b.pin(b.value(value), f"out.{name}") for name, value in graph.outputs.items()}
    body_stop, logits = len(b.calls), graph.outputs.get("logits")
    tails = _add_tails(b, logits, widths["logits"], outputs) if logits else {}
    return replace(b.finish(outputs, body_stop, widths), tails=tails)


def _add_tails(
    b: CpuBuilder, logits: str, n_vocab: int, outputs: dict[str, Binding]
) -> dict[str, tuple[int, int]]:
    """What turns logits into less to read: an argmax, or candidates for a draw."""
    x = b.value(logits)
    start = len(b.calls)
    best = b.pin(b.temp("argmax", b.max_rows(logits) * 4), "out.argmax")
    parts = b.zeroed("argmax.parts", n_vocab // 4096 + 16)
    b.emit("argmax", x=x, parts=parts, y=best, n_cols=n_vocab, uses_n_out=b.uses_n_out(logits))
    middle = len(b.calls)
    for name, n_words in (("sample", (2 + MAX_ADJUSTED) * 4), ("mask", -(-n_vocab // 32))):
        b.slots[name] = BufferSlot(name, n_words * 4, "input")
    sample, mask = Binding("sample"), Binding("mask")
    adjusted = b.pin(b.temp("adjusted", n_vocab * 4), "out.adjusted")
    b.emit("penalize", x=x, sample=sample, mask=mask, y=adjusted, n_cols=n_vocab)
    n_candidates = b.table.constants["N_CANDIDATES"]
    found = b.pin(b.temp("candidates", 16 + 8 * n_candidates), "out.candidates")
    parts = b.zeroed("top_k.parts", n_vocab // 32 + 64)
    b.emit("top_k", x=adjusted, sample=sample, parts=parts, y=found, n_cols=n_vocab)
    outputs |= {"argmax": best, "adjusted": adjusted, "candidates": found}
    return {"argmax": (start, middle), "candidates": (middle, len(b.calls))}


def accelerated_ops(plan: CpuPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(kernels that a plan calls, ops that numpy runs instead)."""
    kernels = dict.fromkeys(call.kernel for call in plan.calls if not call.node)
    return tuple(kernels), plan.numpy_ops


__all__ = ["LOWERINGS", "TAIL_OPS", "accelerated_ops", "plan_cpu"]
