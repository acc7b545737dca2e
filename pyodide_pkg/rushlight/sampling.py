"""Choose the next token: bias → penalties → mask → temperature → top-k → top-p → min-p.

The first three change logits (``ops/sampling.py``), on the device where it can; the others decide
which ids may be drawn (``candidates.py``). The same seed gives the same tokens on CPython and in
Pyodide, and from a device's candidates as from all logits: one PCG64 draw a token, ties broken by
the lower id, and no step whose result depends on how numpy sorts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .candidates import MAX_ADJUSTED, Candidates, Cuts, SampleInputs, all_candidates, keep
from .errors import EngineError, InvalidInputError
from .ops.sampling import top_ids

__all__ = ["GREEDY", "PENALTY_WINDOW", "Sampler", "SamplingParams", "default_sampling", "top_ids"]

PENALTY_WINDOW = 64
"""How many of the last tokens, prompt included, the penalties look at."""
MAX_BIASED = MAX_ADJUSTED - PENALTY_WINDOW
"""Most ids that ``logit_bias`` may name."""


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn. ``temperature`` 0 or ``top_k`` 1 is greedy.

    ``top_k`` 0, ``top_p`` 1, ``min_p`` 0 and ``repetition_penalty`` 1 switch that step off.
    ``presence_penalty`` is taken off the logit of each id among the last ``PENALTY_WINDOW``
    tokens, ``frequency_penalty`` once for each time it stands there; ``logit_bias`` (id → number)
    is added before them. Raises InvalidInputError for a value out of bounds.
    """

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.9
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_number("temperature", self.temperature, 0.0, 100.0)
        _check_number("top_p", self.top_p, 0.0, 1.0)
        _check_number("min_p", self.min_p, 0.0, 1.0)
        _check_number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _check_number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _check_number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _check_int("top_k", self.top_k, 2**31 - 1)
        if self.seed is not None:
            _check_int("seed", self.seed, 2**64 - 1)
        if len(self.logit_bias) > MAX_BIASED:
            raise InvalidInputError(
                f"logit_bias names {len(self.logit_bias)} ids.", hint=f"At most {MAX_BIASED}."
            )
        for token, value in self.logit_bias.items():
            _check_int("an id of logit_bias", token, 2**31 - 1)
            _check_number(f"logit_bias of {token}", value, -100.0, 100.0)

    @property
    def is_greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.temperature <= 0 or self.top_k == 1

    @property
    def has_penalty(self) -> bool:
        """True if what was said changes what may be said."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    @property
    def is_plain_argmax(self) -> bool:
        """True if the largest logit as the model gives it decides: nothing changes logits."""
        return self.is_greedy and not self.has_penalty and not self.logit_bias

    def cuts(self) -> Cuts:
        """Which ids may be drawn; greedy is the one best."""
        if self.is_greedy:
            return Cuts(1.0, 1, 1.0, 0.0)
        return Cuts(self.temperature, self.top_k, self.top_p, self.min_p)


FILE_KEYS = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}
"""Our options by what a GGUF file calls them, below ``general.sampling``."""


def default_sampling(metadata: Mapping[str, Any], *, is_chat: bool) -> SamplingParams:
    """Return how a model is sampled unless a person says otherwise.

    Greedy for plain text. In a chat with a model that was made for it (``is_chat``) what its file
    asks for, and the engine's defaults for the rest; a value out of bounds counts as none.
    """
    if not is_chat:
        return GREEDY
    params = SamplingParams()
    for name, key in FILE_KEYS.items():
        if (value := metadata.get(f"general.sampling.{key}")) is not None:
            try:
                params = replace(params, **{name: type(getattr(params, name))(value)})
            except (InvalidInputError, TypeError, ValueError):
                continue
    return params


class Sampler:
    """Draws tokens with one set of parameters; holds the state of the random generator."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self._cuts = params.cuts()
        self._biased = np.array(sorted(params.logit_bias), np.int64)
        self._bias = np.array([params.logit_bias[i] for i in self._biased], np.float32)
        # numpy.random takes a while to import in Pyodide: only drawing pays for it.
        self._random = None if params.is_greedy else np.random.Generator(_bits(params.seed))

    @property
    def is_greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.params.is_greedy

    @property
    def is_plain_argmax(self) -> bool:
        """True if the device's own argmax is enough."""
        return self.params.is_plain_argmax

    def inputs(
        self, history: Sequence[int], mask: NDArray[np.uint32] | None = None
    ) -> SampleInputs:
        """What a device does to the logits after the ids in ``history``.

        Bit i of ``mask``'s words allows id i; without a mask every id is allowed.
        """
        if mask is None and not self.params.has_penalty:
            return self._fixed
        return self._inputs(history, mask)

    @cached_property
    def _fixed(self) -> SampleInputs:
        """The inputs of every draw where what was said does not matter."""
        return self._inputs((), None)

    def _inputs(self, history: Sequence[int], mask: NDArray[np.uint32] | None) -> SampleInputs:
        params, ids = self.params, self._biased
        seen = counted = np.zeros(0, np.int64)
        if params.has_penalty:
            recent = np.asarray(history[-PENALTY_WINDOW:], np.int64)
            seen, counted = np.unique(recent[recent >= 0], return_counts=True)
            ids = np.union1d(seen, self._biased)
        counts, bias = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.float32)
        counts[np.searchsorted(ids, seen)] = counted
        bias[np.searchsorted(ids, self._biased)] = self._bias
        repeats = (counts > 0).astype(np.uint32)
        minus = params.presence_penalty * repeats + params.frequency_penalty * counts
        return SampleInputs(
            self._cuts,
            ids,
            bias,
            minus.astype(np.float32),
            repeats,
            params.repetition_penalty,
            mask,
        )

    def draw(self, found: Candidates) -> int:
        """Return the next token out of candidates that decide it (``keep``).

        Raises EngineError if none may be drawn.
        """
        best = found.best
        if best < 0:
            raise EngineError(
                f"The model gave no usable logits: none of {len(found.logits)} values is a finite "
                "number that may be drawn.",
                hint="Check the file for damage, or try another backend with --device cpu.",
                code="bad_logits",
            )
        if self._random is None:
            return best
        kept = keep(found, self._cuts)
        assert kept is not None, "the device answers with all logits where candidates are too few"
        ids, weights = kept
        cumulative = np.cumsum(weights)
        drawn = np.searchsorted(cumulative, self._random.random() * cumulative[-1], side="right")
        return int(ids[min(int(drawn), len(ids) - 1)])

    def sample(
        self,
        logits: NDArray[np.float32],
        history: Sequence[int],
        mask: NDArray[np.uint32] | None = None,
    ) -> int:
        """Return the next token for ``logits`` float32 [n_vocab] after the ids in ``history``.

        A NaN counts as impossible. Raises EngineError if no logit is a number.
        """
        return self.draw(all_candidates(logits, self.inputs(history, mask)))


def require_known_options(given: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise ``InvalidInputError`` for an option that neither sampling nor ``others`` has."""
    sampling = [each.name for each in fields(SamplingParams)]
    for name in set(given).difference(sampling):
        from difflib import get_close_matches

        close = get_close_matches(name, [*sampling, *others], n=1)
        hint = f"Did you mean {close[0]}?" if close else f"For sampling: {', '.join(sampling)}."
        raise InvalidInputError(f"There is no option {name!r}.", hint=hint)


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
