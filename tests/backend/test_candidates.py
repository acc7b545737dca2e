"""Logits that a device's candidates cannot cover, and those that are no numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rushlight import _sync
from rushlight.backends.base import Executor, LoadOptions
from rushlight.errors import EngineError
from rushlight.gguf.source import BytesSource, SyncAsAsync
from rushlight.ops import OPS, Case
from rushlight.sampling import Sampler, SamplingParams
from rushlight.selftest import build_case
from tests.tools.backends import EXACT_VARIANTS, gpu_executor

N_VOCAB = 6000
RANDOM = np.random.default_rng(1).normal(size=N_VOCAB).astype(np.float32) * 3
CLUSTERED = np.where(np.arange(N_VOCAB) % 64 < 20, RANDOM + 30, RANDOM).astype(np.float32)
WITHOUT_NUMBERS = np.where(np.arange(N_VOCAB) % 3, np.float32(np.nan), RANDOM)
INFINITE = np.where(np.arange(N_VOCAB) % 5, RANDOM, np.float32(-np.inf))
LOGITS = {
    "random": (RANDOM, False),
    "equal": (np.zeros(N_VOCAB, np.float32), True),
    "rounded": (np.round(RANDOM), False),
    "clustered": (CLUSTERED, False),
    "few": (np.where(np.arange(N_VOCAB) % 500, np.float32(-np.inf), RANDOM), False),
    "NaN": (WITHOUT_NUMBERS, False),
    "infinite": (INFINITE, False),
}


@pytest.fixture(params=EXACT_VARIANTS)
def device(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """The GPU backend with one kernel family."""
    executor = gpu_executor(request.param)
    executor.variant = request.param  # type: ignore[attr-defined]
    yield executor
    executor.close()


def state_of(device: Any, logits: np.ndarray) -> Any:
    """The state of a model that answers token 0 with these logits."""
    model = build_case(OPS["top_k"], Case("given", {"x": (1, N_VOCAB)}))
    data = logits.astype(np.float32).tobytes() + model.data[N_VOCAB * 4 :]
    options = LoadOptions(8, "f32", 2, device.variant)
    source = SyncAsAsync(BytesSource(data, "given"))
    options = replace(options, self_test=False)
    _sync.run(device.load(model.graph, model.file, [source], options, lambda progress: None))
    return device.new_state()


@pytest.mark.parametrize("name", LOGITS)
def test_a_draw_is_the_one_from_all_logits(device: Any, name: str) -> None:
    logits, is_read_whole = LOGITS[name]
    state = state_of(device, logits)
    history = [int(i) for i in np.argsort(-logits)[:40]]
    for options in ({}, {"repetition_penalty": 1.7}, {"temperature": 0.0, "presence_penalty": 1.0}):
        params = SamplingParams(seed=4, **options)  # type: ignore[arg-type]
        sampler = Sampler(params)
        found = _sync.run(device.candidates(state, [0], 0, sampler.inputs(history)))
        assert (found.ids is None) is is_read_whole
        assert sampler.draw(found) == Sampler(params).sample(logits, history)
    assert device.stats.full_reads == (3 if is_read_whole else 0)


def test_no_number_and_no_allowed_id_are_errors(device: Any) -> None:
    state = state_of(device, np.full(N_VOCAB, np.nan, np.float32))
    for params in (SamplingParams(seed=1), SamplingParams(temperature=0, presence_penalty=1)):
        sampler = Sampler(params)
        found = _sync.run(device.candidates(state, [0], 0, sampler.inputs([])))
        with pytest.raises(EngineError, match="no usable logits"):
            sampler.draw(found)
    state = state_of(device, RANDOM)
    mask = np.zeros(-(-N_VOCAB // 32), np.uint32)
    found = _sync.run(device.candidates(state, [0], 0, Sampler(params).inputs([], mask)))
    with pytest.raises(EngineError, match="may be drawn"):
        sampler.draw(found)
