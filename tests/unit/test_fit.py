"""The verdict whether a planned model fits a device."""

from __future__ import annotations

import asyncio

import pytest

from rushlight.fit import LEAST_CONTEXT, MemoryNeed, WillNotFitError, require_fit, shown_bytes

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


def refusal(room: FakeRoom, *, held: int = 0, is_forced: bool = False) -> WillNotFitError:
    with pytest.raises(WillNotFitError) as caught:
        asyncio.run(require_fit(NEED, held, room, is_forced=is_forced))
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
    assert (fault.context, fault.is_sure) == (2048, False)
    assert "1.1 GB (600 MB for the weights, 400 MB for a context of 4,096" in fault.message
    assert "2,048 tokens it fits" in fault.hint
    assert refusal(FakeRoom(730 * MB)).context == LEAST_CONTEXT


def test_weights_too_large_for_any_context() -> None:
    fault = refusal(FakeRoom(500 * MB))
    assert fault.context == 0
    assert "smaller quantisation" in fault.hint


def test_a_certain_limit_cannot_be_forced_but_a_trial_can() -> None:
    asyncio.run(require_fit(NEED, 0, FakeRoom(0), is_forced=True))
    fault = refusal(FakeRoom(10**12, most_bytes=1000 * MB), is_forced=True)
    assert fault.is_sure and fault.context == 2048
    assert "can hold 1.0 GB" in fault.message


def test_bytes_in_words() -> None:
    words = [shown_bytes(n) for n in (5, 1500, 84_000_000, 999_600_000, 1_440_000_000)]
    assert words == ["5 B", "1.5 kB", "84 MB", "1.0 GB", "1.4 GB"]
