"""Conversations that do not fit the context: what is left out, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from rushlight.chat_fit import FittedPrompt, fit_prompt
from rushlight.errors import ContextFullError
from rushlight.gguf.reader import read_header
from rushlight.gguf.source import FileSource
from rushlight.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def fit(data_dir: Path):  # type: ignore[no-untyped-def]
    source = FileSource(data_dir / "golden" / "llama-f32.gguf")
    metadata = read_header(source).metadata
    tokenizer = load_tokenizer(metadata)

    def run(*texts: str, n_ctx: int) -> FittedPrompt:
        roles = itertools.cycle(("user", "assistant"))
        messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]
        found = fit_prompt(messages, metadata, tokenizer, n_ctx=n_ctx, n_ctx_train=8192)
        assert len(found.prompt.ids) < n_ctx
        return found

    yield run
    source.close()


def test_a_large_context_holds_everything(fit) -> None:  # type: ignore[no-untyped-def]
    found = fit("Hello there", "Hi", "And now?", n_ctx=4096)
    assert (found.n_dropped, found.has_examples) == (0, True)


def test_a_tiny_context_goes_without_examples(fit) -> None:  # type: ignore[no-untyped-def]
    found = fit("Hi", n_ctx=256)
    assert (found.n_dropped, found.has_examples) == (0, False)
    assert "Everest" not in found.prompt.text
    assert found.prompt.text.endswith("User: Hi\nAssistant:")


def test_the_oldest_exchanges_go_first(fit) -> None:  # type: ignore[no-untyped-def]
    found = fit(*(f"message {i} " + "abc " * 40 for i in range(19)), "x", "the last", n_ctx=2048)
    assert found.n_dropped > 0 and found.n_dropped % 2 == 0
    assert "message 0 " not in found.prompt.text
    assert found.prompt.text.endswith("User: the last\nAssistant:")


def test_a_message_that_never_fits_is_refused_with_numbers(fit) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ContextFullError, match="the context holds 256") as caught:
        fit("long " * 200, n_ctx=256)
    assert "8,192" in caught.value.hint


def test_a_reply_goes_on_with_its_question(fit) -> None:  # type: ignore[no-untyped-def]
    found = fit("one " * 20, "two " * 20, "Hello?", "Once upon", n_ctx=256)
    assert found.n_dropped == 2
    assert found.prompt.text.endswith("User: Hello?\nAssistant: Once upon")
    with pytest.raises(ContextFullError, match="the context holds 256"):
        fit("Hello?", "long " * 200, n_ctx=256)
