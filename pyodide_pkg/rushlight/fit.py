"""Whether a planned model fits a device, before any weight is read: the verdict and its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from .errors import DeviceError
from .graph.ir import Graph
from .ops.opdef import KvDtype
from .ops.state import cache_choices

LEAST_CONTEXT = 512
"""Tokens: a shorter conversation is not worth offering."""
COMPACT: KvDtype = "q8_0"
"""The cache that takes the least memory."""
_WORK = ("constant", "scratch", "input", "params")


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that a planned model takes on its device, one session included."""

    weights: int
    context: int
    work: int
    n_ctx: int
    kv_per_token: int
    """Of ``context``, what grows with each token that it can hold."""
    kv_dtype: KvDtype = "f16"
    compact_per_token: int = 0
    """The same in a cache of ``COMPACT``; 0: the model cannot have one, or has it already."""

    @property
    def total(self) -> int:
        """Everything together."""
        return self.weights + self.context + self.work

    def reduced(self, n_ctx: int, kv_dtype: KvDtype) -> MemoryNeed:
        """The same model with a smaller context; its scratch is left as it was."""
        per_token = self.kv_per_token if kv_dtype == self.kv_dtype else self.compact_per_token
        saved = self.n_ctx * self.kv_per_token - n_ctx * per_token
        context = max(0, self.context - saved)
        return replace(self, context=context, n_ctx=n_ctx, kv_dtype=kv_dtype)

    def smaller(self) -> Iterator[MemoryNeed]:
        """What may fit in its place: half the tokens each time, compact last."""
        kinds: list[KvDtype] = [self.kv_dtype]
        if self.compact_per_token:
            kinds.append(COMPACT)
        n_ctx = self.n_ctx
        while n_ctx >= LEAST_CONTEXT or n_ctx == self.n_ctx:
            for kv_dtype in kinds:
                if (n_ctx, kv_dtype) != (self.n_ctx, self.kv_dtype):
                    yield self.reduced(n_ctx, kv_dtype)
            n_ctx //= 2

    def words(self) -> str:
        """The numbers for a person."""
        return (
            f"{shown_bytes(self.weights)} for the weights, {shown_bytes(self.context)} for a"
            f" context of {self.n_ctx:,} tokens, {shown_bytes(self.work)} to work in"
        )


def memory_need(
    by_kind: Mapping[str, int], graph: Graph, n_ctx: int, kv_dtype: KvDtype
) -> MemoryNeed:
    """The need of a plan, given its bytes by the kind of slot (``Plan.bytes_by_kind``)."""
    per_token = cache_choices(graph)
    return MemoryNeed(
        weights=by_kind.get("weight", 0),
        context=by_kind.get("state", 0),
        work=sum(by_kind.get(kind, 0) for kind in _WORK),
        n_ctx=n_ctx,
        kv_per_token=per_token[kv_dtype],
        kv_dtype=kv_dtype,
        compact_per_token=per_token.get(COMPACT, 0) if kv_dtype != COMPACT else 0,
    )


class Room(Protocol):
    """What a device can say about its memory."""

    most_bytes: int
    """All that it can ever hold; 0: it does not say."""

    async def takes(self, n_bytes: int) -> bool:
        """Whether so much could be had beside what is held now: a trial that gives all back."""


class WillNotFitError(DeviceError):
    """The device has no room for a model; says how much there is, and what context would fit."""

    code = "will_not_fit"

    def __init__(
        self, message: str, *, hint: str, fitting: MemoryNeed | None, is_sure: bool
    ) -> None:
        super().__init__(message, hint=hint)
        self.fitting = fitting
        """The same model with a context that fits; None: none does."""
        self.is_sure = is_sure
        """Whether the limit is the device's own, so that trying all the same cannot help."""


async def require_fit(need: MemoryNeed, held: int, room: Room, *, is_forced: bool = False) -> None:
    """Raise ``WillNotFitError`` unless the device has room.

    ``held`` are the bytes of the model before it, which will be given back. With ``is_forced``
    only a limit that is certain counts, not a trial.
    """
    if await _fits(need, held, room, is_forced):
        return
    fitting = None
    for smaller in need.smaller():
        if await _fits(smaller, held, room, is_forced):
            fitting = smaller
            break
    is_sure = 0 < room.most_bytes < need.total
    most = f"can hold {shown_bytes(room.most_bytes)}" if is_sure else "refused that much"
    hint = "Use a smaller model, or a smaller quantisation of this one."
    if fitting:
        hint = f"With {_difference(need, fitting)} it fits."
    raise WillNotFitError(
        f"The model will not fit: it takes {shown_bytes(need.total)} ({need.words()}), and the"
        f" device {most}.",
        hint=hint,
        fitting=fitting,
        is_sure=is_sure,
    )


def _difference(need: MemoryNeed, fitting: MemoryNeed) -> str:
    words = []
    if fitting.n_ctx < need.n_ctx:
        words.append(f"a context of {fitting.n_ctx:,} tokens")
    if fitting.kv_dtype != need.kv_dtype:
        words.append(f"a compact cache ({fitting.kv_dtype})")
    return " and ".join(words)


async def _fits(need: MemoryNeed, held: int, room: Room, is_forced: bool) -> bool:
    if room.most_bytes and need.total > room.most_bytes:
        return False
    return is_forced or need.total <= held or await room.takes(need.total - held)


def shown_bytes(n_bytes: int) -> str:
    """Bytes as the page writes them: "84 MB", "1.4 GB"."""
    value, units = float(n_bytes), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return (
        f"{value:.0f} {units[0]}" if value >= 10 or units[0] == "B" else f"{value:.1f} {units[0]}"
    )
