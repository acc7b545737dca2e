"""What a loaded model holds and runs on a device, as plain facts for the device panel.

Sizes, counts, names of kernels and of the file's own tensors: nothing that a person wrote, and
nothing that the model wrote.
"""

from __future__ import annotations

from typing import Any

from .backends.variants import Choice
from .backends.webgpu_program import Program
from .gguf.mix import mix_name
from .model import Model
from .plan.plan import ModelPlan


def model_facts(model: Model, n_session_tokens: int) -> dict[str, Any]:
    """Counters and memory of any backend; plans, kernels and their choice where it has them."""
    stats, info = model.executor.stats, model.device
    facts: dict[str, Any] = {
        "architecture": model.config.architecture,
        "model": {
            "nBytes": model.file.n_bytes,
            "nParams": sum(tensor.n_elements for tensor in model.file.tensors.values()),
            "quantisation": mix_name(model.file),
            "nCtx": model.n_ctx,
            "kvDtype": model.kv_dtype,
        },
        "memoryBytes": stats.memory_bytes,
        "submits": stats.submits,
        "dispatches": stats.dispatches,
        "bytesRead": stats.bytes_read,
        "fullReads": stats.full_reads,
        "forwardMs": stats.host_ms,
        "deviceMs": stats.device_ms,
        "sessionTokens": n_session_tokens,
        "notes": list(info.notes),
    }
    program = getattr(model.executor, "program", None)
    if isinstance(program, Program):
        facts |= _program_facts(program)
        facts |= {"variants": info.kernels, "variantsOffered": info.kernel_names}
    choice = getattr(model.executor, "choice", None)
    if isinstance(choice, Choice):
        facts["choice"] = {
            "phases": dict(choice.phases),
            "dropped": list(choice.notes),
            "timesMs": {phase: dict(times) for phase, times in choice.times_ms.items()},
        }
    return facts


def _program_facts(program: Program) -> dict[str, Any]:
    slots = program.model_plan.slots.values()
    largest = max(slots, key=lambda slot: slot.n_bytes)
    return {
        "plans": {plan.name: len(plan.dispatches) for plan in program.plans},
        "kernels": len(program.kernels),
        "largestBuffer": {"name": largest.name, "nBytes": largest.n_bytes},
        "splitTensors": split_tensors(program.model_plan),
    }


def split_tensors(plan: ModelPlan) -> dict[str, int]:
    """Tensors too large for one binding, and into how many parts each was cut."""
    parts: dict[str, int] = {}
    for upload in plan.uploads:
        parts[upload.tensor] = parts.get(upload.tensor, 0) + 1
    return {tensor: n for tensor, n in parts.items() if n > 1}
