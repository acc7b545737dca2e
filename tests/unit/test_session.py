"""Sessions and generation on a scripted device: no model, no arithmetic."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rushlight.candidates import Candidates, SampleInputs, all_candidates
from rushlight.decoding import RunAhead
from rushlight.errors import ContextFullError, EngineError, InvalidInputError
from rushlight.generate import GenerateOptions, Generation
from rushlight.sampling import Sampler, SamplingParams
from rushlight.session import Session, check_ids

EOS = 0


class CountingExecutor:
    """Answers token + 1, and remembers every call."""

    def __init__(self, max_ahead: int = 1) -> None:
        self.calls: list[tuple[list[int], int, str]] = []
        self.max_ahead = max_ahead

    def new_state(self) -> dict[str, int]:
        return {}

    async def forward(
        self, state: Any, tokens: Sequence[int], position: int, out_rows: Sequence[int], want: str
    ) -> Any:
        self.calls.append((list(tokens), position, want))
        if want == "none":
            return None
        following = np.array([(tokens[row] + 1) % 50 for row in out_rows], np.int32)
        return following if want == "argmax" else np.eye(50, dtype=np.float32)[following] * 30

    async def candidates(
        self, state: Any, tokens: Sequence[int], position: int, inputs: SampleInputs
    ) -> Candidates:
        self.calls.append((list(tokens), position, "candidates"))
        logits = np.eye(50, dtype=np.float32)[(tokens[-1] + 1) % 50] * 30
        return all_candidates(logits, inputs)

    async def run_ahead(self, state: Any, token: int, position: int, n_steps: int) -> list[int]:
        self.calls.append(([token], position, f"ahead {n_steps}"))
        return [i % 50 for i in range(token + 1, token + 1 + n_steps)]

    def rewind(self, state: Any, position: int) -> int:
        return position


class Letters:
    """Token n is the n-th letter."""

    eos_ids = frozenset({EOS})

    def detokenizer(self, **options: Any) -> Any:
        return SimpleNamespace(push=lambda token: chr(96 + token), flush=lambda: "")


def make_model(n_ctx: int = 64, n_batch: int = 4, max_ahead: int = 1) -> Any:
    return SimpleNamespace(
        executor=CountingExecutor(max_ahead),
        tokenizer=Letters(),
        graph=SimpleNamespace(architecture="llama", outputs={"logits": "y"}),
        n_ctx=n_ctx,
        n_batch=n_batch,
        check_ids=lambda ids: check_ids(ids, 50),
        sampler=lambda options: Sampler(options.sampling),
    )


def generation(model: Any, session: Session, prompt: list[int], **options: Any) -> Generation:
    sampling = options.pop("sampling", SamplingParams(temperature=0))
    return Generation(
        session, model.tokenizer, prompt, GenerateOptions(sampling=sampling, **options)
    )


def test_prefill_goes_by_chunks_and_only_the_last_asks_for_an_answer() -> None:
    model = make_model()
    made = generation(model, Session(model), [1, 2, 3, 4, 5, 6], max_tokens=3)
    assert list(made) == ["g", "h", "i"]
    assert model.executor.calls == [
        ([1, 2, 3, 4], 0, "none"),
        ([5, 6], 4, "argmax"),
        ([7], 6, "ahead 1"),
        ([8], 7, "ahead 1"),
    ]
    assert made.finish_reason == "length" and made.stats.n_generated == 3


def test_sampling_asks_for_candidates() -> None:
    model = make_model()
    made = generation(
        model, Session(model), [1], max_tokens=2, sampling=SamplingParams(temperature=1.0, seed=1)
    )
    assert made.text() == "bc"
    assert [want for _, _, want in model.executor.calls] == ["candidates", "candidates"]


def ahead_wants(model: Any) -> list[str]:
    return [want for _, _, want in model.executor.calls]


def test_greedy_steps_run_ahead_by_what_is_still_wanted() -> None:
    model = make_model(n_ctx=30, max_ahead=8)
    session = Session(model)
    made = generation(model, session, [1], max_tokens=12, run_ahead=8)
    assert made.text() == "bcdefghijklm" and made.finish_reason == "length"
    assert ahead_wants(model) == ["argmax", "ahead 8", "ahead 3"]
    assert session.tokens == list(range(1, 13))  # the last token is never fed
    model.executor.calls.clear()
    made = generation(model, session, list(range(1, 29)), max_tokens=9, run_ahead=8)
    assert made.text() and made.finish_reason == "context_full"
    assert ahead_wants(model)[-1] == "ahead 2" and len(session.tokens) == 30


def test_steps_past_an_end_are_rolled_back() -> None:
    model = make_model(max_ahead=8)
    session = Session(model)
    made = generation(model, session, [45], max_tokens=20, run_ahead=8)
    assert len(list(made)) == 4 and made.finish_reason == "stop"
    assert session.tokens == [45, 46, 47, 48, 49]
    made = generation(model, session, [1, 2], max_tokens=20, stop=("fg",), run_ahead=8)
    assert made.text() == "cde" and session.tokens == [1, 2, 3, 4, 5, 6]
    made = generation(model, session, [1, 2, 3, 4, 9], max_tokens=1)
    assert made.text() == "j" and made.stats.n_reused == 4


def test_cancel_inside_a_run_ahead_keeps_the_tokens_taken() -> None:
    model = make_model(max_ahead=8)
    session = Session(model)
    made = generation(model, session, [1], max_tokens=20, run_ahead=8)
    pieces = []
    for piece in made:
        pieces.append(piece)
        if piece == "d":
            made.cancel()
    assert pieces == ["b", "c", "d"] and made.finish_reason == "cancelled"
    assert session.tokens == [1, 2, 3, 4]


def test_how_far_follows_the_measured_time() -> None:
    ahead = RunAhead(8)
    assert ahead.n_steps(20) == 1
    ahead.measured(1, 2.0)
    assert ahead.n_steps(20) == 8 and ahead.n_steps(3) == 3 and ahead.n_steps(0) == 1
    ahead.measured(8, 160.0)
    assert ahead.n_steps(20) == 2
    ahead.measured(2, 3000.0)
    assert ahead.n_steps(20) == 1
    assert RunAhead(8, 3).n_steps(20) == 3 and RunAhead(1, 3).n_steps(20) == 1


def test_async_iteration_gives_the_same_pieces() -> None:
    model = make_model()

    async def collect() -> list[str]:
        return [piece async for piece in generation(model, Session(model), [4], max_tokens=3)]

    assert asyncio.run(collect()) == ["e", "f", "g"]


def test_an_edit_rewinds_to_the_common_prefix() -> None:
    model = make_model()
    session = Session(model)
    generation(model, session, [1, 2, 3], max_tokens=2).text()
    assert session.tokens == [1, 2, 3, 4]
    model.executor.calls.clear()
    made = generation(model, session, [1, 2, 9], max_tokens=1)
    made.text()
    assert made.stats.n_reused == 2
    assert model.executor.calls == [([9], 2, "argmax")]


def test_the_same_prompt_again_still_runs_its_last_token() -> None:
    model = make_model()
    session = Session(model)
    generation(model, session, [1, 2, 3], max_tokens=1).text()
    made = generation(model, session, [1, 2, 3], max_tokens=1)
    assert made.text() == "d" and made.stats.n_reused == 2


def test_an_end_token_stops() -> None:
    model = make_model()
    made = generation(model, Session(model), [47], max_tokens=9)
    assert made.text() == chr(96 + 48) + chr(96 + 49) and made.finish_reason == "stop"


def test_a_stop_string_across_tokens_stops_and_is_not_shown() -> None:
    model = make_model()
    made = generation(model, Session(model), [1], max_tokens=9, stop=("de",))
    assert made.text() == "bc" and made.finish_reason == "stop"


def test_a_full_context_stops() -> None:
    model = make_model(n_ctx=5)
    made = generation(model, Session(model), [1, 2, 3], max_tokens=9)
    assert made.text() == "def" and made.finish_reason == "context_full"
    with pytest.raises(ContextFullError, match="6 tokens"):
        generation(model, Session(model), [1] * 6).text()


def test_cancel_in_prefill_and_in_decode_keeps_what_was_run() -> None:
    model = make_model()
    session = Session(model)
    made = generation(model, session, list(range(1, 11)), max_tokens=5)
    made.cancel()
    assert made.text() == "" and made.finish_reason == "cancelled"
    assert session.tokens == [1, 2, 3, 4]
    made = generation(model, session, list(range(1, 11)), max_tokens=5)
    pieces = []
    for piece in made:
        pieces.append(piece)
        made.cancel()
    assert pieces == ["k"] and made.finish_reason == "cancelled" and made.stats.n_reused == 4


@pytest.mark.parametrize(("ids", "value"), [([], "empty"), ([1, 50], "50"), ([-1], "-1")])
def test_ids_outside_the_vocabulary_are_named(ids: list[int], value: str) -> None:
    with pytest.raises(InvalidInputError, match=value):
        check_ids(ids, 50)


@pytest.mark.parametrize("ids", ["12", b"abc", 5, None, ["1"], [1.9], [True], [float("nan")]])
def test_only_whole_numbers_are_ids(ids: Any) -> None:
    with pytest.raises(InvalidInputError):
        check_ids(ids, 50)


def test_a_session_used_in_between_refuses_to_go_on() -> None:
    model = make_model()
    session = Session(model)
    first = generation(model, session, [1, 2, 3], max_tokens=9)
    second = generation(model, session, [7, 8], max_tokens=2)
    pieces = iter(first)
    assert next(pieces) == "d"
    assert second.text() == "ij"
    with pytest.raises(InvalidInputError, match="session") as refused:
        next(pieces)
    assert refused.value.code == "session_moved"
    third = generation(model, session, [1], max_tokens=9)
    pieces = iter(third)
    next(pieces)
    session.reset()
    with pytest.raises(InvalidInputError, match="session"):
        next(pieces)


def test_a_generation_runs_once() -> None:
    model = make_model()
    made = generation(model, Session(model), [1, 2, 3], max_tokens=2)
    assert made.text() == "de"
    with pytest.raises(InvalidInputError, match="already"):
        made.text()
    assert len(made.ids) == 2


def test_an_output_that_is_no_number_is_an_error() -> None:
    model = make_model()

    async def nothing(*arguments: Any) -> Any:
        return np.array([-1], np.int32)

    model.executor.forward = nothing
    with pytest.raises(EngineError, match="not a number"):
        generation(model, Session(model), [1], max_tokens=2).text()


@pytest.mark.parametrize("count", [0, -1, 2.5, float("nan"), "5", None, True])
def test_max_tokens_is_a_whole_number(count: Any) -> None:
    with pytest.raises(InvalidInputError, match="max_tokens"):
        GenerateOptions(max_tokens=count)


def test_one_stop_string_is_not_taken_apart() -> None:
    model = make_model()
    made = generation(model, Session(model), [1], max_tokens=5, stop="ec")
    assert made.text() == "bcdef"
    assert generation(model, Session(model), [1], max_tokens=5, stop=None).text() == "bcdef"
    with pytest.raises(InvalidInputError, match="stop"):
        GenerateOptions(stop=5)  # type: ignore[arg-type]
