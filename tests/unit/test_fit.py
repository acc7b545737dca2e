"""The verdict whether a planned model fits a device."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rushlight.fit import (
    LEAST_CONTEXT,
    MemoryNeed,
    WillNotFitError,
    memory_need,
    require_fit,
    shown_bytes,
)
from rushlight.graph.builder import GraphBuilder

MB = 10**6
NEED = MemoryNeed(weights=600 * MB, context=400 * MB, work=50 * MB, n_ctx=4096, kv_per_token=90_000)


class FakeRoom:
    """A device with so many bytes, which it tells or not."""

    def __init__(self, free: int, most_bytes: int = 0) -> None:
        self.free, self.most_bytes = free, most_bytes
        self.tried: list[int] = []

    async def takes(self, n_bytes: int) -> bool:
        self.tried.append(n_bytes)
        return n_bytes <= self.free


def refusal(
    room: FakeRoom, *, need: MemoryNeed = NEED, held: int = 0, is_forced: bool = False
) -> WillNotFitError:
    with pytest.raises(WillNotFitError) as caught:
        asyncio.run(require_fit(need, held, room, is_forced=is_forced))
    return caught.value


def test_what_fits_is_tried_once() -> None:
    room = FakeRoom(1050 * MB)
    asyncio.run(require_fit(NEED, 0, room))
    assert room.tried == [1050 * MB]


def test_memory_of_the_model_before_counts_as_free() -> None:
    room = FakeRoom(50 * MB)
    asyncio.run(require_fit(NEED, 1000 * MB, room))
    assert room.tried == [50 * MB]
    room = FakeRoom(0)
    asyncio.run(require_fit(NEED, 1050 * MB, room))
    assert room.tried == []


def test_a_smaller_context_is_offered_if_one_fits() -> None:
    fault = refusal(FakeRoom(900 * MB))
    assert fault.fitting and (fault.fitting.n_ctx, fault.is_sure) == (2048, False)
    assert "1.1 GB (600 MB for the weights, 400 MB for a context of 4,096" in fault.message
    assert "2,048 tokens it fits" in fault.hint
    least = refusal(FakeRoom(730 * MB)).fitting
    assert least and least.n_ctx == LEAST_CONTEXT


def test_a_compact_cache_is_offered_before_half_the_context() -> None:
    need = replace(NEED, compact_per_token=50_000)
    hints = {
        900: "With a compact cache (q8_0) it fits.",
        870: "With a context of 2,048 tokens it fits.",
        790: "With a context of 2,048 tokens and a compact cache (q8_0) it fits.",
    }
    for free, hint in hints.items():
        assert refusal(FakeRoom(free * MB), need=need).hint == hint
    assert need.reduced(4096, "q8_0").total == NEED.total - 4096 * 40_000
    assert need.reduced(1024, "q8_0").context == need.context - 4096 * 90_000 + 1024 * 50_000


@pytest.mark.parametrize(("n_head_kv", "compact"), [(2, 72), (3, 0)])
def test_a_compact_cache_is_counted_where_the_heads_are_whole_blocks(
    n_head_kv: int, compact: int
) -> None:
    g = GraphBuilder("case", {"table": (4, 64)})
    x = g.embed("table")
    store = {"k": x, "v": x, "positions": "positions", "cache": g.kv_state("kv.0", 64, 64)}
    cache = g.node("kv_store", store)
    heads = {"n_head": n_head_kv, "n_head_kv": n_head_kv, "head_dim": 64 // n_head_kv}
    y = g.node("attention", {"q": x, "positions": "positions", "cache": cache}, **heads, scale=1.0)
    need = memory_need({}, g.build(logits=g.select_outputs(y)), 512, "f16")
    assert (need.kv_per_token, need.compact_per_token) == (256, 2 * compact)


def test_weights_too_large_for_any_context() -> None:
    fault = refusal(FakeRoom(500 * MB))
    assert fault.fitting is None
    assert "smaller quantisation" in fault.hint


def test_a_certain_limit_cannot_be_forced_but_a_trial_can() -> None:
    asyncio.run(require_fit(NEED, 0, FakeRoom(0), is_forced=True))
    fault = refusal(FakeRoom(10**12, most_bytes=1000 * MB), is_forced=True)
    assert fault.is_sure and fault.fitting and fault.fitting.n_ctx == 2048
    assert "can hold 1.0 GB" in fault.message


def test_bytes_in_words() -> None:
    words = [shown_bytes(n) for n in (5, 1500, 84_000_000, 999_600_000, 1_440_000_000)]
    assert words == ["5 B", "1.5 kB", "84 MB", "1.0 GB", "1.4 GB"]
