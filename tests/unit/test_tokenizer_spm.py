"""SentencePiece-style tokenization against llama.cpp's ids and a plain statement of the rule."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.errors import TokenizerError
from rushlight.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).resolve().parents[1] / "data"
SPACE = "\u2581"


def make_metadata(
    tokens: dict[str, float], *, user: tuple[str, ...] = (), **extra: Any
) -> dict[str, Any]:
    """A small vocabulary: unknown, begin, end, all byte tokens, then ``tokens`` (text → score)."""
    first = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    texts = [*first, *tokens, *user]
    scores = [0.0] * len(first) + list(tokens.values()) + [0.0] * len(user)
    types = [2, 3, 3] + [6] * 256 + [1] * len(tokens) + [4] * len(user)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.scores": np.array(scores, np.float32),
        "tokenizer.ggml.token_type": np.array(types, np.int32),
        **{f"tokenizer.ggml.{key}": value for key, value in extra.items()},
    }


def spell(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.token_text(i) for i in ids]


def merge_by_the_rule(text: str, scores: dict[str, float]) -> list[str]:
    """Join the best-scored neighbouring pair, the leftmost of equals, until none is a token."""
    symbols = list(text)
    while True:
        pairs = [
            (-scores[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in scores
        ]
        if not pairs:
            return symbols
        _, i = min(pairs)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


def test_gemma_ids_equal_llama_cpp() -> None:
    excerpt = json.loads(gzip.decompress((DATA / "tokenizers/spm-gemma3.json.gz").read_bytes()))
    items = json.loads((DATA / "gemma3-270m.json").read_text(encoding="utf-8"))["items"]
    tokenizer = load_tokenizer(excerpt["metadata"])
    assert len(items) == 42
    for item in items:
        ids = tokenizer.encode(item["text"])
        # The two long texts have their first 900 ids recorded.
        assert [excerpt["ids"][i] for i in ids[: len(item["ids"])]] == item["ids"], item["name"]
        assert len(ids) == len(item["ids"]) or len(item["ids"]) == 900
        assert tokenizer.decode(ids, skip_special=True) == item["text"]
    assert len(excerpt["cases"]) > 60
    for text, ids in excerpt["cases"]:
        mine = tokenizer.encode(text, add_special=False)
        assert [excerpt["ids"][i] for i in mine] == ids, text


ALPHABET = "ab" + SPACE + "c"
vocabularies = st.dictionaries(
    st.text(ALPHABET, min_size=2, max_size=5), st.integers(-4, 0), max_size=40
)


@given(vocabularies, st.text("ab cX", max_size=40))
@settings(max_examples=200, deadline=None)
def test_merges_follow_the_rule(vocabulary: dict[str, int], text: str) -> None:
    scores = {**dict.fromkeys(ALPHABET, -9.0), **{k: float(v) for k, v in vocabulary.items()}}
    tokenizer = load_tokenizer(make_metadata(scores, add_space_prefix=False))
    expected = [
        symbol if symbol in scores else f"<0x{ord(symbol):02X}>"
        for symbol in merge_by_the_rule(text.replace(" ", SPACE), scores)
    ]
    ids = tokenizer.encode(text, add_special=False)
    assert spell(tokenizer, ids) == expected
    assert tokenizer.decode(ids) == text


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=SPACE)), st.booleans())
@settings(max_examples=200, deadline=None)
def test_round_trip(text: str, prefix: bool) -> None:
    scores = {SPACE: -9.0, "a": -9.0, "b": -9.0, "ab": -1.0, SPACE + "a": -2.0}
    tokenizer = load_tokenizer(make_metadata(scores, add_space_prefix=prefix))
    assert tokenizer.decode(tokenizer.encode(text, add_special=False)) == text
    assert tokenizer.decode(tokenizer.encode(text), skip_special=True) == text


def test_byte_fallback_and_unknown() -> None:
    metadata = make_metadata({SPACE: -1.0, "a": -1.0})
    tokenizer = load_tokenizer(metadata)
    assert spell(tokenizer, tokenizer.encode("a€")) == [
        "<s>", SPACE, "a", "<0xE2>", "<0x82>", "<0xAC>",
    ]  # fmt: skip
    for key in ("tokens", "scores", "token_type"):
        values = metadata["tokenizer.ggml." + key]
        metadata["tokenizer.ggml." + key] = [*values[:3], *values[-2:]]
    tokenizer = load_tokenizer(metadata)
    assert spell(tokenizer, tokenizer.encode("é", add_special=False)) == [SPACE, "<unk>", "<unk>"]


def test_space_prefix_at_the_start_and_after_special_tokens() -> None:
    scores = {SPACE: -5.0, "a": -5.0, SPACE + "a": -1.0}
    metadata = make_metadata(scores, user=("<x>",))
    tokenizer = load_tokenizer(metadata)
    ids = tokenizer.encode("a<x>a<s>a", parse_special=True)
    assert spell(tokenizer, ids) == ["<s>", "▁a", "<x>", "▁a", "<s>", "▁a"]
    assert tokenizer.decode(ids[1:]) == "a<x> a<s> a"
    plain = load_tokenizer({**metadata, "tokenizer.ggml.add_space_prefix": False})
    assert spell(plain, plain.encode("a<x> a")) == ["<s>", "a", "<x>", "▁a"]
    assert plain.decode([plain.encode(" a")[-1]]) == " a"


def test_control_tokens_only_where_asked() -> None:
    letters = dict.fromkeys("<>s/" + SPACE, -5.0)
    tokenizer = load_tokenizer(make_metadata(letters, add_space_prefix=False))
    assert spell(tokenizer, tokenizer.encode("</s>")) == ["<s>", "<", "/", "s", ">"]
    assert tokenizer.encode("</s>", parse_special=True) == [1, 2]
    assert tokenizer.encode("", add_special=True) == [1]
    assert tokenizer.encode("", add_special=False) == []


def test_begin_and_end_flags() -> None:
    scores = {SPACE: -5.0, "a": -5.0}
    tokenizer = load_tokenizer(make_metadata(scores, add_bos_token=False, add_eos_token=True))
    ids = tokenizer.encode("a")
    assert ids[0] != tokenizer.bos_id
    assert ids[-1] == tokenizer.eos_id == 2


@pytest.mark.parametrize("unit", ["a", " ", "b", "ab", "a ", "€"])
def test_long_repetitions(unit: str) -> None:
    # Quadratic work would take most of a minute here.
    runs = {"a" * n: -float(n) for n in range(1, 16)} | {SPACE * n: -float(n) for n in range(1, 9)}
    tokenizer = load_tokenizer(make_metadata(runs))
    text = unit * (20_000 // len(unit))
    assert tokenizer.decode(tokenizer.encode(text), skip_special=True) == text


def test_tokens_across_word_ends() -> None:
    # These characters mean something in a pattern; all of them may stand before a space.
    odd = "]^-[\\|&~.)"
    scores = {c: -9.0 for c in odd + "ax" + SPACE} | {c + SPACE + "a": -1.0 for c in odd}
    scores |= {c + SPACE: -2.0 for c in odd}
    tokenizer = load_tokenizer(make_metadata(scores, add_space_prefix=False))
    for text in ("x a", *(f"x{c} ax a" for c in odd), "] a" * 9_000):
        expected = merge_by_the_rule(text[:60].replace(" ", SPACE), scores)
        assert spell(tokenizer, tokenizer.encode(text[:60], add_special=False)) == expected
        assert tokenizer.decode(tokenizer.encode(text, add_special=False)) == text


def test_missing_scores() -> None:
    metadata = make_metadata({"a": 0.0})
    del metadata["tokenizer.ggml.scores"]
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.scores is missing"):
        load_tokenizer(metadata)
