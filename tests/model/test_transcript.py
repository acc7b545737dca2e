"""The real Gemma, a base model, answers through the plain transcript."""

from pathlib import Path

import pytest

from rushlight import Model
from rushlight.chat import build_prompt
from rushlight.stopping import StopMatcher


@pytest.mark.gemma
def test_a_newcomers_first_question_gets_a_sensible_answer(gemma_path: Path) -> None:
    model = Model.load(gemma_path, device="numpy", n_ctx=512)
    question = {"role": "user", "content": "What is the capital of France?"}
    prompt = build_prompt([question], model.file.metadata, model.tokenizer)
    reply = model.generate(prompt.ids, temperature=0, max_tokens=24, stop=prompt.stop_strings)
    matcher = StopMatcher(trim_start=True)
    text = "".join(matcher.push(piece)[0] for piece in reply)
    assert text == "The capital of France is Paris."
    assert reply.finish_reason == "stop" and "plain transcript" in prompt.note
    model.close()
