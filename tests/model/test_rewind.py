"""Prefix reuse with convolutions: a session goes on from what its ring still holds."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.backends.rewind import Held
from rushlight.ops.conv import PERIOD, RING
from tests.model.test_architectures import load
from tests.tools.arch_files import golden

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("device", ["numpy", "cpu-exact", "gpu-rows"])
@pytest.mark.parametrize(
    ("n_shared", "n_reused"),
    [(97, 97), (70, 70), (40, 40), (39, 32), (33, 32), (32, 32), (20, 0), (1, 0)],
)
def test_an_edited_prompt_says_what_a_fresh_one_does(
    device: str, n_shared: int, n_reused: int
) -> None:
    model = load("lfm2", "f32", device)
    ids = golden("lfm2", "f32")[2]["ids"].tolist()
    options = {"max_tokens": 6, "temperature": 0, "ignore_eos": True}
    session = model.session()
    session.generate(ids, **options).text()
    edited = [*ids[:n_shared], 2, 5, 9, 33, 12, 7]  # no prompt holds a 2
    again = session.generate(edited, **options)
    again.text()
    fresh = model.session().generate(edited, **options)
    fresh.text()
    assert again.ids == fresh.ids
    assert again.stats.n_reused == n_reused
    model.close()


def test_a_graph_without_convolutions_rewinds_anywhere() -> None:
    model = load("gemma", "f32", "numpy")
    held = Held(model.graph)
    held.ran(0, 1000)
    assert [held.rewind(p) for p in (0, 1, 77, 1000)] == [0, 1, 77, 1000]


def test_what_the_ring_lost_is_never_gone_on_from() -> None:
    """Every position that ``rewind`` allows has its rows, after any history of chunks."""
    held, n_kept = Held(load("lfm2", "f32", "numpy").graph), 2
    ring: dict[int, int] = {}
    position = 0
    for _ in range(2000):
        n = int(RNG.integers(1, 100))
        for p in range(position, position + n):
            ring[p % RING] = p
        held.ran(position, n)
        position = held.rewind(int(RNG.integers(0, position + n + 1)))
        if position % PERIOD:
            for p in range(max(0, position - n_kept), position):
                assert p % PERIOD >= PERIOD - n_kept or ring[p % RING] == p
