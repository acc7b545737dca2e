"""Times every dispatch of wgpu-py's submits: a compute pass each, between two timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from .profile import Profile
from .webgpu_step import Step

MAX_DISPATCHES = 2048
"""Most dispatches of one submit: a query set holds 4096 timestamps."""


class NativeTimer:
    """What ``NativeDevice`` calls around the dispatches of a submit while it is profiled."""

    def __init__(self, wgpu: Any, device: Any, profile: Profile) -> None:
        self._wgpu, self._device, self._profile = wgpu, device, profile
        self._times: list[float] = []
        self.step: Step | None = None
        if profile.has_timestamps:
            usage, n_bytes = wgpu.BufferUsage, MAX_DISPATCHES * 16
            self._queries = device.create_query_set(type="timestamp", count=2 * MAX_DISPATCHES)
            self._stamps = device.create_buffer(
                label="timestamps", size=n_bytes, usage=usage.QUERY_RESOLVE | usage.COPY_SRC
            )

    def encode(
        self, encoder: Any, pipelines: Sequence[Any], groups: Sequence[Any],
        grids: Sequence[tuple[int, int, int]], order: Sequence[int],
    ) -> None:  # fmt: skip
        """Encode the dispatches with a timestamp at each end; without the feature, run them."""
        self._times = []
        for k, i in enumerate(order):
            if not self._profile.has_timestamps:
                self._times.append(self._run_alone(pipelines[i], groups[i], grids[i]))
                continue
            stamps = {
                "query_set": self._queries,
                "beginning_of_pass_write_index": 2 * k,
                "end_of_pass_write_index": 2 * k + 1,
            }
            _dispatch(encoder, stamps, pipelines[i], groups[i], grids[i])
        if self._profile.has_timestamps and order:
            encoder.resolve_query_set(self._queries, 0, 2 * len(order), self._stamps, 0)

    def collect(self, order: Sequence[int]) -> None:
        """Note the times of the submit that has just been waited for."""
        if self.step is None or not order:
            return
        if self._profile.has_timestamps:
            raw = self._device.queue.read_buffer(self._stamps, 0, len(order) * 16)
            stamps = np.frombuffer(raw, np.uint64).reshape(-1, 2).astype(np.int64)
            ticks = np.maximum(stamps[:, 1] - stamps[:, 0], 0)
            self._times = (ticks * self._period_ns() / 1e6).tolist()
        words = self.step.input_words[:3].tolist()
        self._profile.add(self.step.plan, order, self._times, words)

    def close(self) -> None:
        """Give the query set and its buffer back."""
        if self._profile.has_timestamps:
            self._queries.destroy()
            self._stamps.destroy()

    def _run_alone(self, pipeline: Any, group: Any, grid: tuple[int, int, int]) -> float:
        started = perf_counter()
        encoder = self._device.create_command_encoder()
        _dispatch(encoder, None, pipeline, group, grid)
        self._device.queue.submit([encoder.finish()])
        self._device._poll_wait()  # wgpu-py has no public call that waits for submitted work
        return (perf_counter() - started) * 1e3

    def _period_ns(self) -> float:
        """Nanoseconds of a tick, which wgpu-py does not tell in its own terms."""
        from wgpu.backends.wgpu_native._api import libf

        return float(libf.wgpuQueueGetTimestampPeriod(self._device.queue._internal))


def _dispatch(
    encoder: Any, stamps: dict[str, Any] | None, pipeline: Any, group: Any, grid: Any
) -> None:
    compute = encoder.begin_compute_pass(timestamp_writes=stamps)
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(*grid)
    compute.end()
