"""This engine natively, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rushlight import Model
from rushlight.bench import BenchOptions, measure
from tests.tools.peers.subject import N_CTX, Work, prompt_name


class RushlightNative:
    """A model on a device of this machine."""

    name = "rushlight native"

    def __init__(self, model: Model, work: Work, n_threads: int) -> None:
        self._model, self._work, self.n_threads = model, work, n_threads
        self.device = f"{model.device.adapter}, {model.device.kernels}"

    def round(self) -> dict[str, float]:
        """See ``Subject``."""
        found = measure(self._model, BenchOptions(self._work.prefill, self._work.n_decode))
        speeds = found.prefill_tokens_per_s.items()
        return {
            "decode": found.decode_tokens_per_s,
            **{prompt_name(n): speed for n, speed in speeds},
        }


@contextmanager
def rushlight_native(work: Work, n_threads: int, device: str = "cpu") -> Iterator[RushlightNative]:
    """Our engine on "cpu" or "gpu"."""
    model = Model.load(work.model, device, n_ctx=N_CTX, threads=n_threads)
    try:
        yield RushlightNative(model, work, n_threads)
    finally:
        model.close()
