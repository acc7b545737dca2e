"""One token after the other: drawn from candidates, or greedy steps that a device ran ahead."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from .backends.base import ProgressFn
from .sampling import Sampler

if TYPE_CHECKING:
    from .session import Session

AHEAD_TARGET_MS = 50.0
"""What greedy steps encoded at once may take: text still flows, and a stop is not kept waiting."""


class RunAhead:
    """How many greedy steps to run at once: as many as the target time holds.

    The first one is alone and tells how long a step takes. ``forced`` is for tests.
    """

    def __init__(self, most: int, forced: int | None = None) -> None:
        self._most, self._forced = most, forced
        self._step_ms = math.inf

    def n_steps(self, n_wanted: int) -> int:
        """Steps of the next run, at most ``n_wanted``."""
        depth = self._forced or int(AHEAD_TARGET_MS / self._step_ms)
        return max(1, min(depth, self._most, n_wanted))

    def measured(self, n_steps: int, elapsed_ms: float) -> None:
        """Note that a run of ``n_steps`` took ``elapsed_ms``."""
        self._step_ms = max(elapsed_ms, 1e-3) / n_steps


class Decoder:
    """Next tokens for one generation. A session's ``tokens`` stay as if each step ran alone.

    Steps that ran ahead and are not wanted any more leave entries in the cache past the session's
    tokens; they are overwritten before anything reads them.
    """

    def __init__(self, session: Session, sampler: Sampler, turn: int, ahead: RunAhead) -> None:
        self._session, self._sampler, self._turn = session, sampler, turn
        self._ahead, self._is_plain = ahead, sampler.is_plain_argmax
        self._made: deque[int] = deque()

    async def first(
        self,
        ids: Sequence[int],
        history: Sequence[int],
        *,
        progress: ProgressFn | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> int | None:
        """The token after ``ids``, which end ``history``; None if cancelled between chunks."""
        if self._is_plain:
            best = await self._session.run(
                ids, "argmax", turn=self._turn, progress=progress, is_cancelled=is_cancelled
            )
            return None if best is None else int(best[0])
        found = await self._session.run(
            ids,
            self._sampler.inputs(history),
            turn=self._turn,
            progress=progress,
            is_cancelled=is_cancelled,
        )
        return None if found is None else self._sampler.draw(found)

    async def following(self, token: int, history: Sequence[int], n_wanted: int) -> int:
        """The token after ``token``, of which at most ``n_wanted`` more are wanted."""
        if not self._is_plain:
            inputs = self._sampler.inputs(history)
            return self._sampler.draw(await self._session.draw_from(token, inputs, self._turn))
        if not self._made:
            n_steps = self._ahead.n_steps(n_wanted)
            began = perf_counter()
            self._made.extend(await self._session.run_ahead(token, n_steps, self._turn))
            self._ahead.measured(n_steps, (perf_counter() - began) * 1e3)
        self._session.accept(token, self._turn)
        return self._made.popleft()
