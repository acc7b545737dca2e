"""What every backend offers: the whole contract between a model and a device."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..candidates import Candidates, SampleInputs
from ..gguf.reader import GgufFile
from ..gguf.source import AsyncSource
from ..graph.ir import Graph
from ..ops.opdef import KvDtype

Want = Literal["none", "argmax", "logits", "hidden", "embedding"]
"""An output of the graph (float32 rows), what is made of one (``argmax``), or nothing."""
ID_OUTPUTS = ("argmax", "ahead")
"""Outputs that are token ids; all others are rows of float32."""


@dataclass(frozen=True)
class DeviceInfo:
    """The device in words: which backend, which adapter, and every fall-back taken on the way."""

    backend: str
    adapter: str
    notes: tuple[str, ...] = ()
    kernels: str = ""
    """Which kernel variants run, where a device has several."""
    kernel_names: tuple[str, ...] = ()
    """The variants that the device has the features for."""


@dataclass(frozen=True)
class Progress:
    """One step of a long operation; ``total`` 0 means its length is unknown."""

    step: Literal["header", "plan", "weights", "compile", "prefill", "ready"]
    label: str
    done: int = 0
    total: int = 0


ProgressFn = Callable[[Progress], None]


@dataclass(frozen=True)
class LoadOptions:
    """What a caller decides about a loaded model's device memory and precision."""

    n_ctx: int
    kv_dtype: KvDtype = "f16"
    n_batch: int = 256
    """Most tokens in one prefill chunk."""
    variant: str | Mapping[Any, Any] = "auto"
    """Kernel variant, one for all or by phase; "auto" lets the device be tested and timed, "exact"
    too but without the kernels that compute in fewer bits than float32."""
    self_test: bool = True
    """Whether kernels are tested on the device before they are used; see backends/variants.py."""
    before_memory: Callable[[Mapping[str, int]], Awaitable[None]] | None = None
    """Awaited once memory is planned, by kind of slot, and before any is asked for; may refuse."""


@dataclass
class RunStats:
    """Counters an executor keeps, for the bench and the device panel."""

    submits: int = 0
    dispatches: int = 0
    bytes_read: int = 0
    full_reads: int = 0
    """Draws that no candidates decided, so that every logit was read."""
    host_ms: float = 0.0
    device_ms: float = 0.0
    """Of ``host_ms``, what the device and the calls that drive it took (JavaScript in a page, wgpu
    natively); the rest is Python's own."""
    wait_ms: float = 0.0
    """Of ``device_ms``, waiting for the device; the rest is those calls."""
    memory_bytes: dict[str, int] = field(default_factory=dict)


def shaped(values: NDArray[Any], want: str, n_rows: int) -> NDArray[Any]:
    """Words read from a device as the output that they are: ids, or rows of float32."""
    if want in ID_OUTPUTS:
        return values.view(np.int32)
    return values.view(np.float32).reshape(n_rows, -1)


class Executor(Protocol):
    """Runs one model's graph on one device.

    A state handle is the device's KV storage for one session. Positions are explicit, so
    rewinding is running again with a smaller ``position``; state that cannot be rewound by
    position alone (recurrent layers) would say so in ``rewind``.
    """

    info: DeviceInfo
    stats: RunStats
    max_ahead: int
    """Most steps of one ``run_ahead``; 1 where it gains nothing."""

    async def load(
        self,
        graph: Graph,
        file: GgufFile,
        sources: Sequence[AsyncSource],
        options: LoadOptions,
        progress: ProgressFn,
    ) -> None:
        """Plan the graph and stream the weights to the device. Raises before reading a weight
        if an op or a tensor type cannot be run."""

    def new_state(self) -> Any:
        """Device storage for one session's KV cache."""

    async def forward(
        self,
        state: Any,
        tokens: Sequence[int],
        position: int,
        out_rows: Sequence[int],
        want: Want,
    ) -> NDArray[np.float32] | NDArray[np.int32] | None:
        """Run one chunk (at most ``n_batch`` tokens) at ``position``.

        Returns argmax int32 [n_out], rows of an output of the graph float32 [n_out, n_cols]
        (``n_vocab`` columns of logits), or None.
        """

    async def candidates(
        self, state: Any, tokens: Sequence[int], position: int, inputs: SampleInputs
    ) -> Candidates:
        """Run one chunk and change the last token's logits as asked.

        The candidates decide ``inputs.cuts`` (``keep``): where the best few do not, they are all.
        """

    async def run_ahead(self, state: Any, token: int, position: int, n_steps: int) -> list[int]:
        """Greedy steps from ``token`` at ``position``, each fed the one before.

        The state then holds what every step but the last gave; rewind if fewer are wanted.
        """

    def rewind(self, state: Any, position: int) -> int:
        """The largest position <= ``position`` from which ``state`` can go on."""

    def close(self) -> None:
        """Give back everything held on the device; calling it twice is fine."""


async def one_by_one(
    executor: Executor, state: Any, token: int, position: int, n_steps: int
) -> list[int]:
    """``Executor.run_ahead`` where a step is fed by hand: for devices that gain nothing by it."""
    made = [token]
    for step in range(n_steps):
        best = await executor.forward(state, made[-1:], position + step, [0], "argmax")
        assert best is not None
        made.append(int(best[0]))
    return made[1:]
