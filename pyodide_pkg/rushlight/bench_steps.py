"""What one decode step costs beyond the device: counted work, and the time of each layer of code.

It goes the way a reply goes: a session's generation with its sampler and text. Speeds of two
adapters do not compare; what the host spends and what a step submits, reads back and reads of the
weights do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .backends.base import RunStats
from .backends.profile import weight_bytes
from .backends.webgpu_common import WebGpuExecutor
from .backends.webgpu_step import choose_plan
from .bench import N_START, bench_ids

if TYPE_CHECKING:
    from .model import Model

N_WARM = 2
"""Steps that are not counted: the first ones allocate, and learn how long a step takes."""
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0, "run_ahead": 1},
    "drawn": {"seed": 1},
}


@dataclass(frozen=True)
class StepCost:
    """One way to decode on one backend: counts of a token, and medians in milliseconds."""

    backend: str
    adapter: str
    way: str
    dispatches: float
    submits: float
    bytes_read: float
    weight_bytes: float | None
    ms: float
    python_ms: float
    calls_ms: float
    """In the calls that drive the device: JavaScript in a page, wgpu natively."""

    def cells(self) -> tuple[str, ...]:
        """The line of the table."""
        counts = (f"{n:.0f}" for n in (self.dispatches, self.submits, self.bytes_read))
        times = (f"{ms:.3f}" for ms in (self.python_ms, self.calls_ms))
        mega = "-" if self.weight_bytes is None else f"{self.weight_bytes / 2**20:.2f}"
        return (self.backend, self.way, *counts, mega, *times, f"{self.ms:.1f}")

    def to_json(self) -> dict[str, Any]:
        """The cost as plain values."""
        return asdict(self)


HEADER = (
    "backend", "tokens", "dispatches", "submits", "bytes read", "weights MiB", "Python ms",
    "calls ms", "step ms",
)  # fmt: skip


async def step_costs_async(model: Model, n_tokens: int) -> list[StepCost]:
    """The cost of a step, tokens taken greedily one by one and drawn: ``n_tokens`` of each."""
    return [await _measure(model, way, n_tokens) for way in WAYS]


async def _measure(model: Model, way: str, n_tokens: int) -> StepCost:
    stats = model.executor.stats
    n_all = n_tokens + N_WARM + 1  # the prompt's own token, and those that warm up
    generation = model.session().generate(
        bench_ids(model, N_START), max_tokens=n_all, ignore_eos=True, **WAYS[way]
    )
    seen: list[tuple[float, ...]] = []
    async for _ in generation:  # a piece of text may be that of several tokens
        seen += [_now(stats)] * (len(generation.ids) - len(seen))
    seen += [_now(stats)] * (n_all - len(seen))
    steps = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(seen[N_WARM:])]
    dispatches, submits, bytes_read = (sum(step[i] for step in steps) / n_tokens for i in (3, 4, 5))
    return StepCost(
        model.device.backend,
        model.device.adapter,
        way,
        dispatches,
        submits,
        bytes_read,
        weights_of_step(model, way),
        median(step[0] for step in steps),
        median(step[0] - step[1] for step in steps),
        median(step[1] - step[2] for step in steps),
    )


def _now(stats: RunStats) -> tuple[float, ...]:
    times = perf_counter() * 1e3, stats.device_ms, stats.wait_ms
    return (*times, stats.dispatches, stats.submits, stats.bytes_read)


def weights_of_step(model: Model, way: str) -> float | None:
    """Bytes of weights that a step reads: of each matrix all, of an embedding one row.

    None where no plan says it.
    """
    executor = model.executor
    if isinstance(executor, WebGpuExecutor):
        assert executor.program is not None, "a loaded model has a program"
        plan = executor.program.plans[choose_plan(executor.program.plans, 1)]
        tail = plan.tails.get("argmax" if way == "greedy" else "candidates", (0, 0))
        order = [*range(plan.body.start, plan.body.stop), *range(*tail)]
        return weight_bytes(plan, order, (1, N_START, 1), model.n_ctx)
    return None
