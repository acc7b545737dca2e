"""Inside the worker: tokens from a device's candidates, and greedy steps that ran ahead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.driver import Call, ask_worker

pytestmark = pytest.mark.browser

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
N_TOKENS = 9
SAMPLINGS: list[dict[str, Any]] = [
    {"seed": 5},
    {"seed": 5, "top_k": 0, "top_p": 0.8, "presence_penalty": 0.7},
    {"temperature": 0, "repetition_penalty": 1.4, "frequency_penalty": 0.3},
]


@pytest.mark.parametrize("backend", ["cpu", "webgpu"])
def test_draws_and_greedy_steps_are_the_same(harness: Any, backend: str) -> None:
    with np.load(GOLDEN / "llama-f32.npz") as data:
        ids, greedy = data["p0_ids"].tolist(), data["p0_greedy"].tolist()[:N_TOKENS]
    options = {"ids": ids, "samplings": SAMPLINGS, "n_tokens": N_TOKENS}
    call = Call("check_draws", options, GOLDEN / "llama-f32.gguf")
    (answer,) = ask_worker(harness, backend, [call]).values
    for candidates, one_by_one in answer["drawn"]:
        assert candidates == one_by_one
    assert answer["greedy"] == [greedy, greedy]
    if backend == "webgpu":
        *drawn, alone, ahead = answer["costs"]
        for _submits, _dispatches, n_bytes in drawn[::2]:
            assert n_bytes <= 4096 * N_TOKENS
        assert alone[0] - ahead[0] == N_TOKENS - 2  # eight steps in one submit
        assert ahead[1] == alone[1] + N_TOKENS - 1  # and a dispatch that feeds each
        assert alone[2] == ahead[2] == N_TOKENS * 4
