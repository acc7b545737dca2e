"""WordPiece, and BPE over characters, against ids that Hugging Face tokenizers gave."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.errors import TokenizerError
from rushlight.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).resolve().parents[1] / "data" / "tokenizers"
WORDPIECE = ["wordpiece-cased", "wordpiece-uncased"]


@cache
def read(name: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


def load(name: str, **changed: Any) -> Tokenizer:
    metadata = dict(read(name)["metadata"])
    metadata["tokenizer.ggml.token_type"] = np.array(metadata["tokenizer.ggml.token_type"])
    for key, value in changed.items():
        metadata[f"tokenizer.ggml.{key}"] = value
    return load_tokenizer({key: value for key, value in metadata.items() if value is not None})


@pytest.mark.parametrize("name", [*WORDPIECE, "bpe-gemma4"])
def test_ids_equal_the_reference(name: str) -> None:
    tokenizer = load(name)
    cases = read(name)["cases"]
    assert len(cases) > 60
    wrong = [(t, ids, mine) for t, ids in cases if (mine := tokenizer.encode(t)) != ids]
    assert not wrong


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=100, deadline=None)
def test_merges_over_characters_round_trip(text: str) -> None:
    tokenizer = load("bpe-gemma4")
    # The mark itself cannot be told from a space, in the reference either.
    assert tokenizer.decode(tokenizer.encode(text)) == text.replace("\u2581", " ")


def test_a_run_of_line_ends_that_is_a_token_is_taken_whole() -> None:
    metadata = read("bpe-gemma4")["metadata"]
    tokens = [*metadata["tokenizer.ggml.tokens"], "\n\n\n\n\n"]
    types = np.array([*metadata["tokenizer.ggml.token_type"], 1])
    tokenizer = load("bpe-gemma4", tokens=tokens, token_type=types)
    assert tokenizer.encode("a\n\n\n\n\nb")[1] == len(tokens) - 1


def test_gemma4_begins_with_bos_unless_the_file_says_no() -> None:
    assert load("bpe-gemma4", add_bos_token=None).encode("a")[0] == 2
    assert load("bpe-gemma4").encode("a")[0] != 2


def test_ends_of_a_wordpiece_text() -> None:
    tokenizer = load("wordpiece-uncased")
    assert tokenizer.encode("")[:1] == [2]
    assert tokenizer.encode("word")[-1] == 3
    assert 2 not in tokenizer.encode("word", add_special=False)
    assert tokenizer.decode(tokenizer.encode("once upon"), skip_special=True) == "once upon"


def test_an_overlong_word_is_unknown() -> None:
    tokenizer = load("wordpiece-uncased")
    assert tokenizer.encode("a" * 101, add_special=False) == [1]
    assert tokenizer.encode("a" * 100, add_special=False) != [1]


def test_case_and_accents_follow_the_file() -> None:
    uncased, cased = load("wordpiece-uncased"), load("wordpiece-cased")
    assert uncased.encode("ÉCOLE") == uncased.encode("ecole")
    assert cased.encode("Once") != cased.encode("once")
    kept = load("wordpiece-uncased", **{"normalizer.strip_accents": False})
    assert kept.encode("école") != kept.encode("ecole")


def test_a_flag_that_is_not_one() -> None:
    with pytest.raises(TokenizerError, match=r"normalizer\.lowercase is 'yes'"):
        load("wordpiece-uncased", **{"normalizer.lowercase": "yes"})


def test_a_long_text_of_one_word_takes_little_time() -> None:
    tokenizer = load("wordpiece-uncased")
    assert len(tokenizer.encode("word, " * 20_000)) > 40_000
    assert tokenizer.encode("\u0301" * 100_000, add_special=False) == []
