"""Which values share a buffer: lifetimes in, scratch slots out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ALIGN = 256


@dataclass(frozen=True)
class Lifetime:
    """A value's size and the first and last dispatch that touches it."""

    name: str
    n_bytes: int
    first: int
    last: int


def assign_scratch(lifetimes: Iterable[Lifetime]) -> tuple[dict[str, str], dict[str, int]]:
    """Value → slot name, and slot name → bytes.

    Greedy in the order of first use: the free slot that fits tightest, else the largest one
    grown, else a new one. A slot is free only after its value's last dispatch, so no dispatch
    reads and writes one buffer.
    """
    slots: dict[str, int] = {}
    busy_until: dict[str, int] = {}
    placed: dict[str, str] = {}
    for value in sorted(lifetimes, key=lambda v: (v.first, -v.n_bytes, v.name)):
        size = -(-value.n_bytes // ALIGN) * ALIGN
        free = [name for name, last in busy_until.items() if last < value.first]
        fitting = [name for name in free if slots[name] >= size]
        if fitting:
            slot = min(fitting, key=lambda name: slots[name])
        elif free:
            slot = max(free, key=lambda name: slots[name])
        else:
            slot = f"scratch.{len(slots)}"
        slots[slot] = max(slots.get(slot, 0), size)
        busy_until[slot] = value.last
        placed[value.name] = slot
    return placed, slots


def lifetimes_of(
    touched: Iterable[Iterable[str]], n_bytes: Mapping[str, int], head_start: int
) -> list[Lifetime]:
    """Lifetimes from the values that each dispatch touches.

    The head may run again on its own, for more rows of one chunk: what it reads from before
    ``head_start`` must outlive it.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    end = 0
    for index, names in enumerate(touched):
        end = index
        for name in names:
            first.setdefault(name, index)
            last[name] = index
    for name in first:
        if first[name] < head_start <= last[name]:
            last[name] = end
    return [Lifetime(name, n_bytes[name], first[name], last[name]) for name in first]
