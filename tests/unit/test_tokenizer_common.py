"""Tables, special ids, special tokens in text, streaming, and everything that can be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.errors import InvalidInputError, TokenizerError
from rushlight.tokenizer import Detokenizer, load_tokenizer
from rushlight.tokenizer.special import SpecialTokens

KEY = "tokenizer.ggml."
BYTES = [f"<0x{i:02X}>" for i in range(256)]


def metadata_of(*named: tuple[str, int], **extra: Any) -> dict[str, Any]:
    """A llama vocabulary of byte tokens plus ``named`` (text, type), after the usual three."""
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *(text for text, _ in named)]
    types = [2, 3, 3, *[6] * 256, *(token_type for _, token_type in named)]
    return {
        KEY + "model": "llama",
        KEY + "tokens": tokens,
        KEY + "scores": np.zeros(len(tokens), np.float32),
        KEY + "token_type": np.array(types, np.int32),
        KEY + "add_space_prefix": False,
        **{KEY + key: value for key, value in extra.items()},
    }


def test_ids_that_end_generation() -> None:
    tokenizer = load_tokenizer(
        metadata_of(
            ("<|im_end|>", 1), ("<end_of_turn>", 3), ("<stop>", 3), ("x", 1), ("<|end|>", 3),
            eot_token_id=261, eos_token_id=2,
        )
    )  # fmt: skip
    assert tokenizer.eos_ids == {2, 259, 260, 261, 263}
    assert tokenizer.is_special(259), "known by its text, so a control token"
    assert not tokenizer.is_special(262)


def test_end_inside_a_reply_does_not_end_it() -> None:
    tokenizer = load_tokenizer(metadata_of(("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 3)))
    assert tokenizer.eos_ids == {2, 260, 261}


def test_a_special_id_out_of_range_is_ignored() -> None:
    tokenizer = load_tokenizer(metadata_of(bos_token_id=99_999, eos_token_id=-1))
    assert (tokenizer.bos_id, tokenizer.eos_id) == (1, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "tokenizer.ggml.model is missing"),
        ({"model": "t5"}, "'t5'"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokens": []}, "tokenizer.ggml.tokens is not a list of texts"),
        ({"tokens": "abc"}, "tokenizer.ggml.tokens is not a list of texts"),
        ({"tokens": ["a", b"b"]}, "not text"),
        ({"tokens": [*BYTES, "x", "y", "x"]}, "'x' twice: ids 256 and 258"),
        ({"scores": np.zeros(7, np.float32)}, "scores has 7 entries, but tokenizer.ggml.tokens"),
        ({"scores": ["a"] * 259}, "scores is not a list of numbers"),
        ({"token_type": np.zeros(3, np.int32)}, "token_type has 3 entries"),
        ({"bos_token_id": "first"}, "bos_token_id is 'first'"),
        ({"bos_token_id": float("inf")}, "bos_token_id is inf"),
        ({"bos_token_id": np.arange(2)}, "bos_token_id is array([0, 1])"),
        ({"bos_token_id": "1"}, "bos_token_id is '1', not a whole number"),
        ({"bos_token_id": True}, "bos_token_id is True, not a whole number"),
        ({"eos_token_id": 1.5}, "eos_token_id is 1.5, not a whole number"),
        ({"padding_token_id": "x"}, "padding_token_id is 'x', not a whole number"),
        ({"unknown_token_id": float("nan")}, "unknown_token_id is nan, not a whole number"),
        ({"token_type": [1] * 258 + [99]}, "token_type[258] is 99, not a type from 0 to 6"),
        ({"token_type": [1, float("nan"), -1] * 90}, "token_type[1] is nan"),
        ({"token_type": [1.5] * 259}, "token_type[0] is 1.5"),
        ({"scores": [0.0] * 200 + [float("nan")] * 59}, "scores[200] is nan, not a number"),
        ({"add_eos_token": 7}, "add_eos_token is 7, not true or false"),
        ({"add_bos_token": "no"}, "add_bos_token is 'no', not true or false"),
        ({"add_space_prefix": np.zeros(999)}, "add_space_prefix is array([0., 0."),
        ({"model": np.zeros(2)}, "model is array([0., 0.]), not text"),
    ],
)
def test_broken_tables(change: dict[str, Any], message: str) -> None:
    metadata = metadata_of()
    for name, value in change.items():
        if value is None:
            del metadata[KEY + name]
        else:
            metadata[KEY + name] = value
    with pytest.raises(TokenizerError) as error:
        load_tokenizer(metadata)
    assert message in str(error.value)


def test_a_special_token_is_not_a_page_long() -> None:
    assert load_tokenizer(metadata_of(("x" * 256, 3), ("y" * 999, 1))).n_vocab == 261
    with pytest.raises(TokenizerError, match=r"tokens\[259\] is a special token of 257 char"):
        load_tokenizer(metadata_of(("x" * 257, 3)))


def test_begin_token_asked_for_but_not_named() -> None:
    metadata = {
        KEY + "model": "gpt2",
        KEY + "tokens": ["a", "b"],
        KEY + "merges": [],
        KEY + "add_bos_token": True,
    }
    with pytest.raises(TokenizerError, match="add_bos_token is true"):
        load_tokenizer(metadata)


def test_empty_tokens_get_a_name() -> None:
    metadata = metadata_of(("", 1), ("", 1))
    assert load_tokenizer(metadata).token_text(260) == "[EMPTY_260]"


@pytest.mark.parametrize("bad", [-1, 259, 10**9])
def test_bad_ids(bad: int) -> None:
    tokenizer = load_tokenizer(metadata_of())
    for use in (tokenizer.token_bytes, tokenizer.is_special, tokenizer.token_text):
        with pytest.raises(InvalidInputError) as error:
            use(bad)
        assert str(bad) in str(error.value)
        assert "n_vocab = 259" in str(error.value)
    with pytest.raises(InvalidInputError):
        tokenizer.decode([5, bad])
    with pytest.raises(InvalidInputError, match="not a whole number"):
        tokenizer.token_bytes(1.5)  # type: ignore[arg-type]
    assert tokenizer.decode([np.int64(68)]) == "A"
    with pytest.raises(InvalidInputError, match="bytes, not text"):
        tokenizer.encode(b"A")  # type: ignore[arg-type]


def test_lone_surrogates_become_replacement_characters() -> None:
    tokenizer = load_tokenizer(metadata_of())
    assert tokenizer.decode(tokenizer.encode("a\ud800b")[1:]) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\udc00\ud83d\ude00\ud83d")[1:]) == "\ufffd😀\ufffd"


def stream_of(chunks: list[bytes], **options: Any) -> Detokenizer:
    return Detokenizer(chunks.__getitem__, lambda _: False, options.get("strip", False))


@given(st.lists(st.binary(max_size=5)))
@settings(max_examples=150, deadline=None)
def test_streamed_bytes_equal_the_whole(chunks: list[bytes]) -> None:
    stream = stream_of(chunks)
    text = "".join([*map(stream.push, range(len(chunks))), stream.flush()])
    assert text == b"".join(chunks).decode("utf-8", "replace")


def test_stream_waits_for_whole_code_points_only() -> None:
    stream = stream_of([b"a\xf0\x9f", b"\x98", b"\x80b", b"\xe2\x82", b"x", b"\xff", b"\xe2"])
    assert [stream.push(i) for i in range(7)] == ["a", "", "😀b", "", "\ufffdx", "\ufffd", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


def test_stream_can_skip_special_and_keep_the_leading_space() -> None:
    metadata = metadata_of(("\u2581a", 1), add_space_prefix=True)
    tokenizer = load_tokenizer(metadata)
    assert tokenizer.decode([259, 259]) == "a a"
    assert tokenizer.decode([1, 259]) == "<s> a"
    assert tokenizer.decode([1, 259, 2], skip_special=True) == "a"
    assert tokenizer.detokenizer(continues=True).push(259) == " a"


def split_by_the_rule(text: str, tokens: dict[str, int]) -> list[str | int]:
    """llama.cpp's order: each token, longest first, cuts every stretch still uncut."""
    parts: list[str | int] = [text] if text else []
    for token in sorted(tokens, key=lambda token: -len(token.encode())):
        cut: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                cut.append(part)
                continue
            for i, piece in enumerate(part.split(token)):
                cut += ([tokens[token]] if i else []) + ([piece] if piece else [])
        parts = cut
    return parts


@given(st.lists(st.text("<ab>", min_size=1, max_size=4), unique=True), st.text("<ab>", max_size=30))
@settings(max_examples=150, deadline=None)
def test_special_tokens_cut_longest_first(tokens: list[str], text: str) -> None:
    ids = {token: i for i, token in enumerate(tokens)}
    assert SpecialTokens(ids.items()).split(text) == split_by_the_rule(text, ids)


def test_thousands_of_special_tokens() -> None:
    ids = {f"<unused{i}>": i for i in range(3000)}
    finder = SpecialTokens(ids.items())
    assert finder.split("a<unused12>b<unused2999><unused>") == ["a", 12, "b", 2999, "<unused>"]
    assert finder.split("".join(ids)) == list(range(3000))
    assert finder.split("<u" * 20_000) == ["<u" * 20_000]
