"""Whether a planned model fits a device, before any weight is read: the verdict and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from .errors import DeviceError
from .graph.ir import Graph

LEAST_CONTEXT = 512
"""Tokens: a shorter conversation is not worth offering."""
_WORK = ("constant", "scratch", "input", "params")
_KV_BYTES = {"f16": 2, "f32": 4}


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes that a planned model takes on its device, one session included."""

    weights: int
    context: int
    work: int
    n_ctx: int
    kv_per_token: int
    """Of ``context``, what grows with each token that it can hold."""

    @property
    def total(self) -> int:
        """Everything together."""
        return self.weights + self.context + self.work

    def with_context(self, n_ctx: int) -> MemoryNeed:
        """The same model with a context of fewer tokens; its scratch is left as it was."""
        saved = (self.n_ctx - n_ctx) * self.kv_per_token
        return replace(self, context=max(0, self.context - saved), n_ctx=n_ctx)

    def words(self) -> str:
        """The numbers for a person."""
        return (
            f"{shown_bytes(self.weights)} for the weights, {shown_bytes(self.context)} for a"
            f" context of {self.n_ctx:,} tokens, {shown_bytes(self.work)} to work in"
        )


def memory_need(by_kind: Mapping[str, int], graph: Graph, n_ctx: int, kv_dtype: str) -> MemoryNeed:
    """The need of a plan, given its bytes by the kind of slot (``Plan.bytes_by_kind``)."""
    rows = sum(sum(state.shape) for state in graph.state.values() if state.kind == "kv")
    return MemoryNeed(
        weights=by_kind.get("weight", 0),
        context=by_kind.get("state", 0),
        work=sum(by_kind.get(kind, 0) for kind in _WORK),
        n_ctx=n_ctx,
        kv_per_token=_KV_BYTES[kv_dtype] * rows,
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

    def __init__(self, message: str, *, hint: str, context: int, is_sure: bool) -> None:
        super().__init__(message, hint=hint)
        self.context = context
        """Tokens of context with which it fits; 0: it does not even so."""
        self.is_sure = is_sure
        """Whether the limit is the device's own, so that trying all the same cannot help."""


async def require_fit(need: MemoryNeed, held: int, room: Room, *, is_forced: bool = False) -> None:
    """Raise ``WillNotFitError`` unless the device has room.

    ``held`` are the bytes of the model before it, which will be given back. With ``is_forced``
    only a limit that is certain counts, not a trial.
    """
    if await _fits(need, held, room, is_forced):
        return
    context, n_ctx = 0, need.n_ctx // 2
    while n_ctx >= LEAST_CONTEXT and not context:
        if await _fits(need.with_context(n_ctx), held, room, is_forced):
            context = n_ctx
        n_ctx //= 2
    is_sure = 0 < room.most_bytes < need.total
    most = f"can hold {shown_bytes(room.most_bytes)}" if is_sure else "refused that much"
    hint = "Use a smaller model, or a smaller quantisation of this one."
    if context:
        hint = f"With a context of {context:,} tokens it fits."
    raise WillNotFitError(
        f"The model will not fit: it takes {shown_bytes(need.total)} ({need.words()}), and the"
        f" device {most}.",
        hint=hint,
        context=context,
        is_sure=is_sure,
    )


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
