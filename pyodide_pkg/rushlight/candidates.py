"""What a draw needs from a device: what to do to the logits, and the most likely ids after it.

A device answers with its ``N_CANDIDATES`` best ids and the softmax's total over all of them; few
settings need more, and ``keep`` says so instead of guessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .ops.sampling import F32, I64, LOWEST, U32, penalize, top_ids

N_CANDIDATES = 256
"""Ids that a device answers with, and those top-p looks at first when it has them all."""
MAX_ADJUSTED = 512
"""Most ids whose logits one draw may change."""
TOTAL_ERROR = 2e-5
"""Bound of the relative error of a device's float32 total: a thread's 128 additions, and an
``exp`` of 3 + 2|x| units in the last place where that still weighs in."""

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Cuts:
    """Which of the ids may be drawn; the fields are those of ``SamplingParams``."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float


@dataclass(frozen=True)
class SampleInputs:
    """One draw's cuts and changes to logits, as the op ``penalize`` defines them.

    ``ids`` ascend and are distinct. Bit i of ``mask`` (a word per 32 ids) allows id i.
    """

    cuts: Cuts
    ids: I64
    bias: F32
    minus: F32
    repeats: U32
    penalty: float = 1.0
    mask: U32 | None = None

    @cached_property
    def words(self) -> U32:
        """The device's copy: two head rows of four words, then a row per changed id."""
        rows = np.zeros((2 + len(self.ids), 4), np.uint32)
        numbers = rows.view(np.float32)
        rows[0, :2] = len(self.ids), self.mask is not None
        numbers[0, 2:] = np.float32(1) / np.float32(self.penalty), self.penalty
        numbers[1, 0] = 1 / self.cuts.temperature
        rows[2:, 0], rows[2:, 3] = self.ids, self.repeats
        numbers[2:, 1], numbers[2:, 2] = self.bias, self.minus
        return rows.reshape(-1)


@dataclass(frozen=True)
class Candidates:
    """The most likely ids, largest logit first and the lower id first on a tie.

    ``total`` is the sum of exp((logit - best) / temperature) over every id, those not here
    included. ``is_all``: no other id may be drawn. ``ids`` None: ``logits`` are those of the
    whole vocabulary in its order, and ``total`` is not used.
    """

    logits: F32
    ids: I64 | None = None
    total: float = 0.0
    is_all: bool = True

    @property
    def best(self) -> int:
        """The most likely id, the lowest on a tie; -1 if none may be drawn."""
        if not self.logits.size:
            return -1
        index = int(np.argmax(self.logits)) if self.ids is None else 0
        if self.logits[index] <= LOWEST:
            return -1
        return index if self.ids is None else int(self.ids[0])


def all_candidates(logits: F32, inputs: SampleInputs) -> Candidates:
    """Every id of ``logits`` float32 [n_vocab] as a candidate, after the changes asked for."""
    adjusted = penalize(
        logits[None],
        inputs.ids,
        inputs.bias,
        inputs.minus,
        inputs.repeats,
        inputs.mask,
        penalty=inputs.penalty,
    )
    return Candidates(adjusted[0])


def keep(found: Candidates, cuts: Cuts) -> tuple[I64, F64] | None:
    """Ids that may be drawn and their unnormalised probabilities (best = 1).

    None if the candidates do not decide it: more of them are needed, or the total lies so close
    to top-p's border that its rounding matters.
    """
    if found.ids is None:
        return _keep_of_all(found.logits, cuts)
    if not len(found.ids) or (cuts.top_k > len(found.ids) and not found.is_all):
        return (found.ids, np.zeros(0)) if found.is_all else None
    n = cuts.top_k or len(found.ids)
    ids, logits = found.ids[:n], found.logits[:n]
    weights = _weights(logits, float(logits[0]), cuts.temperature)
    n_likely = int(np.count_nonzero(weights >= cuts.min_p))
    if cuts.top_k > 0:
        n_kept = min(_nucleus(weights, float(weights.sum()), cuts.top_p), n_likely)
        return ids[:n_kept], weights[:n_kept]
    if n_likely == len(ids) and not found.is_all:
        n_likely += 1  # the next one may be likely as well
    low, high = (
        min(_nucleus(weights, found.total * factor, cuts.top_p), n_likely)
        for factor in (1 - TOTAL_ERROR, 1 + TOTAL_ERROR)
    )
    if cuts.top_p >= 1:
        low = high = n_likely
    if low != high or low > len(ids):
        return None
    if cuts.top_p < 1:
        return ids[:low], weights[:low]
    by_id = np.argsort(ids[:low])  # without an order of likelihood, ids are drawn in their own
    return ids[by_id], weights[by_id]


def is_decided(found: Candidates, cuts: Cuts) -> bool:
    """Whether ``keep`` has an answer."""
    if found.ids is not None and 0 < cuts.top_k <= len(found.ids):
        return True
    return keep(found, cuts) is not None


def _keep_of_all(logits: F32, cuts: Cuts) -> tuple[I64, F64]:
    best = float(logits.max())
    if cuts.top_k > 0:
        ids = top_ids(logits, cuts.top_k)
        weights = _weights(logits[ids], best, cuts.temperature)
        n_kept = _nucleus(weights, float(weights.sum()), cuts.top_p)
        ids, weights = ids[:n_kept], weights[:n_kept]
    elif cuts.top_p < 1.0:
        ids, weights = _nucleus_of_all(logits, best, cuts)
    else:
        ids = np.arange(len(logits))
        weights = _weights(logits, best, cuts.temperature)
    likely = weights >= cuts.min_p  # the best weight is 1, so min_p needs no scaling
    return ids[likely], weights[likely]


def _nucleus_of_all(logits: F32, best: float, cuts: Cuts) -> tuple[I64, F64]:
    """Top-p's candidates among all ids, by growing a partial selection."""
    total = float(_weights(logits, best, cuts.temperature).sum())
    n_selected = N_CANDIDATES
    while True:
        ids = top_ids(logits, n_selected)
        weights = _weights(logits[ids], best, cuts.temperature)
        n_kept = _nucleus(weights, total, cuts.top_p)
        if n_kept <= len(weights) or n_selected >= len(logits):
            return ids[:n_kept], weights[:n_kept]
        n_selected *= 8


def _nucleus(weights: F64, total: float, top_p: float) -> int:
    """How many of the sorted weights reach ``top_p`` of ``total``; one more if they do not."""
    if top_p >= 1.0:
        return len(weights)
    return int(np.searchsorted(np.cumsum(weights), top_p * total)) + 1


def _weights(logits: F32, best: float, temperature: float) -> F64:
    # float64: exp differs in the last bit between machines, which must not move a draw.
    weights: F64 = np.exp((logits.astype(np.float64) - best) / temperature)
    return weights
