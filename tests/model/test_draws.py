"""Tokens that a device prepares are those that all logits, one step at a time, would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight import Model, _sync
from rushlight.candidates import MAX_ADJUSTED
from rushlight.sampling import Sampler, SamplingParams
from tests.model.test_models import DEVICES, load, prompts

FILES = ["llama-f32", "gemma3-linear-q8q4", "qwen2-q5"]
STEP_BYTES = 4096
N_TOKENS = 12
SETTINGS = {
    "default": {},
    "top_p alone": {"top_k": 0, "min_p": 0.0, "top_p": 0.7},
    "min_p alone": {"top_k": 0, "top_p": 1.0, "min_p": 0.02},
    "penalties": {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.4},
    "bias": {"logit_bias": {5: 12.0, 7: -100.0, 40: 11.0}, "temperature": 1.5},
    "greedy with penalties": {"temperature": 0.0, "repetition_penalty": 1.5},
    "greedy with bias": {"temperature": 0.0, "logit_bias": {9: 8.0}, "presence_penalty": 2.0},
}


def prompt_of(name: str) -> list[int]:
    return [int(i) for i in prompts(name)[0]["ids"]]


def drawn_step_by_step(model: Model, ids: list[int], params: SamplingParams) -> list[int]:
    """The same generation from all logits, drawn by numpy."""
    sampler, session, made = Sampler(params), model.session(), list[int]()
    for _ in range(N_TOKENS):
        logits = _sync.run(session.run(made[-1:] or ids, "logits"))
        assert logits is not None
        made.append(sampler.sample(logits[0], ids + made))
    return made


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FILES)
def test_candidates_draw_what_all_logits_draw(name: str, device: str, setting: str) -> None:
    model, ids = load(name, device), prompt_of(name)
    options: dict[str, Any] = {"seed": 11, **SETTINGS[setting]}
    expected = drawn_step_by_step(model, ids, SamplingParams(**options))
    stats = model.executor.stats
    before = stats.bytes_read, stats.submits
    session = model.session()
    made = session.generate(ids, max_tokens=N_TOKENS, ignore_eos=True, **options)
    made.text()
    assert made.ids == expected
    if device != "numpy":
        n_full = stats.full_reads
        assert stats.bytes_read - before[0] <= N_TOKENS * STEP_BYTES, n_full
        assert stats.submits - before[1] <= N_TOKENS - 1 + 20  # the prompt may take several


@pytest.mark.parametrize("device", DEVICES[1:])
def test_what_candidates_cannot_decide_is_read_whole_and_counted(device: str) -> None:
    model, ids = load("llama-f32", device), prompt_of("llama-f32")
    options: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 3}
    options |= {"temperature": 50.0, "presence_penalty": 1.0}
    expected = drawn_step_by_step(model, ids, SamplingParams(**options))
    before = model.executor.stats.full_reads
    made = model.session().generate(ids, max_tokens=N_TOKENS, ignore_eos=True, **options)
    made.text()
    assert made.ids == expected
    assert model.executor.stats.full_reads - before == N_TOKENS


@pytest.mark.parametrize("device", DEVICES)
def test_a_mask_is_kept_to(device: str) -> None:
    model, ids = load("llama-f32", device), prompt_of("llama-f32")
    mask = np.zeros(-(-model.n_vocab // 32), np.uint32)
    mask[1] = 0b1010000
    for params in (SamplingParams(temperature=0), SamplingParams(top_k=0, seed=1)):
        sampler, session = Sampler(params), model.session()
        found = _sync.run(session.run(ids, sampler.inputs(ids, mask)))
        assert found is not None
        assert sampler.draw(found) in (36, 38)
        # The next draw has none.
        found = _sync.run(session.run([36], sampler.inputs([*ids, 36])))
        logits = _sync.run(model.session().run([*ids, 36], "logits"))
        assert found is not None and logits is not None
        assert found.best == int(logits[0].argmax())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FILES)
def test_greedy_steps_run_ahead_are_the_same(name: str, device: str) -> None:
    model, prompt = load(name, device), prompts(name)[0]
    expected = [int(i) for i in prompt["greedy"]]
    n = len(expected)
    for depth in (1, 3, 8):
        session, stats = model.session(), model.executor.stats
        _sync.run(session.run(prompt_of(name), "none"))
        del session.tokens[-1:]
        before = stats.submits, stats.dispatches, stats.bytes_read
        made = session.generate(
            prompt_of(name), max_tokens=n, temperature=0, ignore_eos=True, run_ahead=depth
        )
        made.text()
        assert made.ids == expected, depth
        assert session.tokens == prompt_of(name) + expected[:-1]
        if device != "numpy":
            assert stats.submits - before[0] == 1 + -(-(n - 1) // depth)
            assert stats.bytes_read - before[2] == n * 4


@pytest.mark.parametrize("device", DEVICES[1:])
def test_a_session_goes_on_after_an_overrun(device: str) -> None:
    model, prompt = load("qwen2-q5", device), prompts("qwen2-q5")[0]
    ids, expected = prompt_of("qwen2-q5"), [int(i) for i in prompt["greedy"]]
    session = model.session()
    made = session.generate(ids, max_tokens=16, temperature=0, ignore_eos=True, run_ahead=8)
    for piece_count, _ in enumerate(made):
        if piece_count == 2:
            made.cancel()
    assert 0 < len(session.tokens) - len(ids) < 8
    again = session.generate(
        ids, max_tokens=len(expected), temperature=0, ignore_eos=True, run_ahead=4
    )
    again.text()
    assert again.ids == expected


@pytest.mark.parametrize("device", DEVICES[1:])
def test_as_many_changes_as_there_is_room_for(device: str) -> None:
    model, ids = load("llama-f32", device), prompt_of("llama-f32")
    bias = {i: (i * 7919 % 100) / 10 for i in range(min(MAX_ADJUSTED - 64, model.n_vocab))}
    options: dict[str, Any] = {"logit_bias": bias, "repetition_penalty": 1.2, "seed": 2}
    expected = drawn_step_by_step(model, ids, SamplingParams(**options))
    made = model.session().generate(ids, max_tokens=N_TOKENS, ignore_eos=True, **options)
    made.text()
    assert made.ids == expected
