"""One replay of a plan: its input words, which dispatches run, and what is read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..candidates import Candidates, SampleInputs
from ..errors import InvalidInputError
from ..plan.lower_sampling import FOUND
from ..plan.plan import Binding, Plan
from .base import Want


@dataclass(frozen=True)
class Step:
    """One replay: a range of a plan's dispatches, its input words, and what to read back."""

    plan: int
    start: int
    stop: int
    input_words: NDArray[np.uint32]
    output: str | None
    read_bytes: int
    tail: tuple[int, int] = (0, 0)
    """A second range, replayed right after the first one, in its last submit."""
    n_repeats: int = 1
    """How often both ranges are replayed in that submit (for plans of one token)."""
    writes: tuple[tuple[str, NDArray[np.uint32]], ...] = ()
    """Words for the start of further slots."""

    @property
    def n_dispatches(self) -> int:
        """How many dispatches the whole step replays."""
        return (self.stop - self.start + self.tail[1] - self.tail[0]) * self.n_repeats

    def order(self, start: int, stop: int) -> Sequence[int]:
        """Indices of the dispatches of a submit of ``start..stop``, in order."""
        if stop < self.stop:
            return range(start, stop)
        return [*range(start, stop), *range(*self.tail)] * self.n_repeats


def choose_plan(plans: Sequence[Plan], n_tokens: int) -> int:
    """Index of the smallest plan that holds ``n_tokens``."""
    fitting = [(p.n_tokens_max, i) for i, p in enumerate(plans) if p.n_tokens_max >= n_tokens]
    if not fitting:
        largest = max(p.n_tokens_max for p in plans)
        raise InvalidInputError(
            f"A chunk of {n_tokens} tokens is larger than the largest plan ({largest} tokens).",
            hint="Split the prompt into smaller chunks.",
        )
    return min(fitting)[1]


def pack_input(
    plan: Plan, tokens: Sequence[int], position: int, out_rows: Sequence[int]
) -> NDArray[np.uint32]:
    """The words of the input slot: ``Step{n_tokens, pos, n_out, 0}``, token ids, rows."""
    layout = plan.input_layout
    words = np.zeros(layout.n_bytes // 4, np.uint32)
    step, token0, row0 = layout.step // 4, layout.tokens // 4, layout.out_rows // 4
    words[step : step + 3] = (len(tokens), position, len(out_rows))
    words[token0 : token0 + len(tokens)] = tokens
    words[row0 : row0 + len(out_rows)] = out_rows
    return words


def step_for(
    plan: Plan, index: int, words: NDArray[np.uint32], want: str, n_bytes: int, start: int = 0
) -> Step:
    """The step that reads ``want``: the body from ``start`` on, and the output's tail."""
    return Step(
        index, start, plan.body.stop, words, want, n_bytes, tail=plan.tails.get(want, (0, 0))
    )


class TokenSteps:
    """The steps of one token, each made once: then only its token and position change."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self._index = choose_plan(plans, 1)
        self._plan = plans[self._index]
        self._steps: dict[tuple[str, int], Step] = {}

    def greedy(self, token: int, position: int, n_steps: int) -> Step:
        """So many steps, each fed with the argmax of the one before."""
        return self._step("argmax" if n_steps == 1 else "ahead", token, position, n_steps)

    def draw(self, token: int, position: int) -> Step:
        """The step whose candidates are read back."""
        return self._step("candidates", token, position, 1)

    def _step(self, want: str, token: int, position: int, n_steps: int) -> Step:
        plan, step = self._plan, self._steps.get((want, n_steps))
        if step is None:
            words = pack_input(plan, [token], position, [0])
            n_bytes = n_steps * 4
            if want == "candidates":
                n_bytes = binding_bytes(plan, plan.outputs[want])
            step = step_for(plan, self._index, words, want, n_bytes)
            step = self._steps[want, n_steps] = replace(step, n_repeats=n_steps)
        step.input_words[plan.input_layout.step // 4 + 1] = position
        step.input_words[plan.input_layout.tokens // 4] = token
        return step


def sample_writes(inputs: SampleInputs) -> tuple[tuple[str, NDArray[np.uint32]], ...]:
    """What the sampling kernels read, by slot."""
    writes = (("sample", inputs.words),)
    return writes if inputs.mask is None else (*writes, ("mask", inputs.mask))


def read_candidates(words: NDArray[np.uint32], n_vocab: int) -> Candidates | None:
    """What ``top_k.wgsl`` wrote; None if more values reached the border than there was room."""
    count = int(words[0])
    if count > FOUND:
        return None
    k = (len(words) - 4) // 3
    pairs = words[4 : 4 + 2 * min(count, k)].reshape(-1, 2)
    total = float(words[4 + 2 * k :].view(np.float32).sum(dtype=np.float64))
    ids, logits = pairs[:, 0].astype(np.int64), pairs[:, 1].copy().view(np.float32)
    return Candidates(logits, ids, total, is_all=count < k or n_vocab <= k)


def output_rows(plan: Plan, want: Want) -> tuple[int, int]:
    """(rows the head can do at once, bytes per row) of an output."""
    return plan.n_out_max, binding_bytes(plan, plan.outputs[want]) // plan.n_out_max


def binding_bytes(plan: Plan, binding: Binding) -> int:
    """Length of a binding: its own, or the rest of its slot."""
    if binding.n_bytes:
        return binding.n_bytes
    return plan.slot_bytes[binding.slot] - binding.offset
