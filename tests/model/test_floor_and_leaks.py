"""The floor gives the same text, and nothing grows: threads, memory, device buffers."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight import Model
from tests.tools.backends import gpu_executor

pytestmark = pytest.mark.gpu

N_CYCLES, N_TOKENS = 50, 1000
MAX_GROWTH = 48 << 20
"""Generous: one leaked device is 30 MiB, and fifty of them would show."""


@pytest.fixture(autouse=True)
def gpu() -> None:
    gpu_executor().close()  # skips where there is no adapter


def resident_bytes() -> int:
    """Memory of this process that is in RAM now, without what the allocator keeps for later."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only the C library of Linux has it
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        pytest.skip("not applicable: this system does not tell a process its memory now")
    return pages * 4096


def growth(action: Callable[[], Any], n_before: int, n_runs: int) -> tuple[int, int]:
    """(bytes, threads) that ``n_runs`` of an action add after the first few."""
    for _ in range(n_before):
        action()
    n_bytes, n_threads = resident_bytes(), threading.active_count()
    for _ in range(n_runs):
        action()
    return resident_bytes() - n_bytes, threading.active_count() - n_threads


@pytest.mark.parametrize("name", ["gemma3-linear-q8q4", "llama3-rope-q8_0"])
def test_the_floor_says_the_same(data_dir: Path, name: str) -> None:
    path = data_dir / "golden" / f"{name}.gguf"
    with np.load(path.with_suffix(".npz")) as golden:
        ids, expected = golden["p1_ids"].tolist(), golden["p1_greedy"].tolist()
    texts = []
    for device in ("gpu", "floor"):
        model = Model.load(path, device, n_ctx=len(ids) + len(expected) + 1, kv_dtype="f32")
        try:
            options = {"max_tokens": len(expected), "temperature": 0.0, "ignore_eos": True}
            made = model.generate(ids, **options)
            texts.append("".join(made))
            is_floor = device == "floor"
            assert ("Limited to the WebGPU floor." in model.device.notes) == is_floor
            if is_floor:
                assert model.executor.device.features == frozenset()
            assert model.argmax(ids + expected)[len(ids) - 1 : -1].tolist() == expected
        finally:
            model.close()
    assert texts[0] and texts[0] == texts[1]


@pytest.mark.slow
def test_loading_and_closing_leaves_nothing(data_dir: Path) -> None:
    kept = []

    def cycle() -> None:
        model = Model.load(data_dir / "golden" / "llama-f32.gguf", "gpu", n_ctx=32)
        model.argmax([1, 2, 3])
        kept.append(model.executor.device)  # closed, it costs nothing though somebody has it
        model.close()

    n_bytes, n_threads = growth(cycle, 5, N_CYCLES)
    assert n_threads <= 0
    assert n_bytes < MAX_GROWTH, f"{N_CYCLES} loads took {n_bytes >> 20} MiB"


@pytest.mark.slow
def test_generating_takes_no_memory(data_dir: Path) -> None:
    model = Model.load(data_dir / "golden" / "llama-f32.gguf", "gpu", n_ctx=128)
    states = model.executor.device._states
    try:

        def reply() -> None:
            session = model.session()
            options = {"max_tokens": 100, "ignore_eos": True, "session": session}
            n_new = len(list(model.generate([1, 2, 3], temperature=0.0, **options)))
            assert n_new > 10
            assert len(states) <= 2

        n_bytes, n_threads = growth(reply, 2, N_TOKENS // 100)
        gc.collect()
        assert not states, "a dropped session keeps its KV cache on the device"
        assert n_threads <= 0
        assert n_bytes < MAX_GROWTH, f"{N_TOKENS} tokens took {n_bytes >> 20} MiB"
    finally:
        model.close()
