"""Choose the next token from logits: greedy, or penalty → temperature → top-k → top-p → min-p.

The same seed gives the same tokens on CPython and in Pyodide: one PCG64 draw a token, ties broken
by the lower id, and no step whose result depends on how numpy sorts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import EngineError, InvalidInputError

PENALTY_WINDOW = 64
"""How many of the last tokens the repetition penalty looks at."""

FIRST_SELECTION = 256
"""Candidates that top-p looks at first when top-k is off; it grows until they hold ``top_p``."""


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn. ``temperature`` 0 or ``top_k`` 1 is greedy.

    ``top_k`` 0, ``top_p`` 1, ``min_p`` 0 and ``repetition_penalty`` 1 switch that step off.
    Raises InvalidInputError for a value out of bounds.
    """

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.9
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _check_int("top_k", self.top_k, 2**31 - 1)
        if self.seed is not None:
            _check_int("seed", self.seed, 2**64 - 1)

    @property
    def is_greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.temperature <= 0 or self.top_k == 1

    @property
    def needs_logits(self) -> bool:
        """False if the device's own argmax is enough: greedy with no penalty."""
        return not self.is_greedy or self.repetition_penalty != 1.0


class Sampler:
    """Draws tokens with one set of parameters; holds the state of the random generator."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        # numpy.random takes a while to import in Pyodide: only drawing pays for it.
        self._random = None if params.is_greedy else np.random.Generator(_bits(params.seed))

    @property
    def is_greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.params.is_greedy

    @property
    def needs_logits(self) -> bool:
        """False if the device's own argmax is enough: greedy with no penalty."""
        return self.params.needs_logits

    def sample(self, logits: NDArray[np.float32], history: Sequence[int]) -> int:
        """Return the next token for ``logits`` float32 [n_vocab] after the ids in ``history``.

        A NaN counts as impossible. Raises EngineError if no logit is a number.
        """
        if self.params.repetition_penalty != 1.0:
            logits = penalise(logits, history, self.params.repetition_penalty)
        best = argmax(logits)
        if self._random is None or logits[best] == np.inf:
            return best
        ids, weights = _candidates(logits, float(logits[best]), self.params)
        cumulative = np.cumsum(weights)
        drawn = np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right")
        return int(ids[min(int(drawn), len(ids) - 1)])


def argmax(logits: NDArray[np.float32]) -> int:
    """Return the lowest index of the largest logit, passing over NaN.

    Raises EngineError if there is none above minus infinity.
    """
    best = int(np.argmax(logits)) if logits.size else -1
    if best >= 0 and np.isnan(logits[best]):  # numpy's argmax answers with the first NaN
        best = int(np.argmax(np.where(np.isnan(logits), -np.inf, logits)))
    if best < 0 or np.isnan(logits[best]) or logits[best] == -np.inf:
        raise EngineError(
            f"The model gave no usable logits: none of {logits.size} values is a finite number.",
            hint="Check the file for damage, or try another backend with --device cpu.",
            code="bad_logits",
        )
    return best


def penalise(
    logits: NDArray[np.float32], history: Sequence[int], penalty: float
) -> NDArray[np.float32]:
    """Return logits with the recent ids made less likely (CTRL: divide if positive, else multiply).

    Each distinct id of the last ``PENALTY_WINDOW`` counts once.
    """
    n_vocab = len(logits)
    recent = {int(i) for i in history[-PENALTY_WINDOW:] if 0 <= i < n_vocab}
    if not recent:
        return logits
    ids = np.fromiter(sorted(recent), dtype=np.int64, count=len(recent))
    result = logits.copy()
    values = result[ids]
    result[ids] = np.where(values > 0, values / np.float32(penalty), values * np.float32(penalty))
    return result


def top_ids(logits: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the ids of the ``k`` largest logits, largest first, the lower id first on a tie.

    Partitions rather than sorts: a vocabulary of 262 144 is only passed over.
    """
    if k >= len(logits):
        chosen = np.arange(len(logits))
    else:
        kth = np.partition(logits, len(logits) - k)[len(logits) - k]
        above = np.flatnonzero(logits > kth)
        # Which of several equal logits a partition keeps differs between machines; take the first.
        ties = np.flatnonzero(logits == kth)[: k - len(above)]
        chosen = np.sort(np.concatenate([above, ties]))
    return chosen[np.argsort(-logits[chosen], kind="stable")]


def _candidates(
    logits: NDArray[np.float32], best: float, params: SamplingParams
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return ids and unnormalised probabilities (best = 1) of what may be drawn."""
    if np.isnan(logits).any():
        logits = np.where(np.isnan(logits), np.float32(-np.inf), logits)
    if params.top_k > 0:
        ids = top_ids(logits, params.top_k)
        weights = _weights(logits[ids], best, params.temperature)
        kept = _nucleus(weights, float(weights.sum()), params.top_p)
        assert kept is not None  # the sum is theirs, so top_p is always reached
        ids, weights = ids[:kept], weights[:kept]
    elif params.top_p < 1.0:
        ids, weights = _nucleus_of_all(logits, best, params)
    else:
        ids = np.arange(len(logits))
        weights = _weights(logits, best, params.temperature)
    likely = weights >= params.min_p  # the best weight is 1, so min_p needs no scaling
    return ids[likely], weights[likely]


def _nucleus_of_all(
    logits: NDArray[np.float32], best: float, params: SamplingParams
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return top-p's candidates among all ids by growing a partial selection."""
    total = float(_weights(logits, best, params.temperature).sum())
    n_selected = FIRST_SELECTION
    while True:
        ids = top_ids(logits, n_selected)
        weights = _weights(logits[ids], best, params.temperature)
        kept = _nucleus(weights, total, params.top_p)
        if kept is None and n_selected >= len(logits):
            kept = len(ids)
        if kept is not None:
            return ids[:kept], weights[:kept]
        n_selected *= 8


def _nucleus(weights: NDArray[np.float64], total: float, top_p: float) -> int | None:
    """Return how many of the sorted weights reach ``top_p`` of ``total``; None if they do not."""
    if top_p >= 1.0:
        return len(weights)
    index = int(np.searchsorted(np.cumsum(weights), top_p * total))
    return index + 1 if index < len(weights) else None


def _weights(logits: NDArray[np.float32], best: float, temperature: float) -> NDArray[np.float64]:
    # float64: exp differs in the last bit between machines, which must not move a draw.
    return np.exp((logits.astype(np.float64) - best) / temperature)


def _bits(seed: int | None) -> np.random.PCG64:
    return np.random.PCG64(seed)


def _check_number(name: str, value: float, low: float, high: float) -> None:
    usable = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(
        value, bool
    )
    if not usable or not math.isfinite(value) or not low <= value <= high:
        raise InvalidInputError(
            f"{name} is {value!r}; it must be a number from {low:g} to {high:g}.",
            hint=f"Choose {name} within those bounds.",
        )


def _check_int(name: str, value: int, high: int) -> None:
    try:
        usable = not isinstance(value, bool) and 0 <= operator.index(value) <= high
    except TypeError:
        usable = False
    if not usable:
        raise InvalidInputError(
            f"{name} is {value!r}; it must be a whole number from 0 to {high}.",
            hint=f"Choose {name} within those bounds.",
        )


GREEDY = SamplingParams(temperature=0.0)
"""Always the most likely token, with no penalty: the device's own argmax is enough."""
