"""Byte-level BPE against ids that Hugging Face tokenizers gave (tests/data/tokenizers)."""

from __future__ import annotations

import gzip
import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.errors import TokenizerError
from rushlight.tokenizer import Tokenizer, load_tokenizer
from rushlight.tokenizer.patterns import FAMILIES
from rushlight.tokenizer.pretokenize import find_pre_tokenizer
from rushlight.tokenizer.unicode_classes import classify

DATA = Path(__file__).resolve().parents[1] / "data" / "tokenizers"
NAMES = sorted(name for name in FAMILIES if name not in ("lines", "whitespace"))


def read(name: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))


@cache
def load(name: str) -> Tokenizer:
    metadata = read(f"bpe-{name}")["metadata"]
    key = "tokenizer.ggml.token_type"
    return load_tokenizer({**metadata, key: np.array(metadata[key], np.int32)})


@pytest.mark.parametrize("name", NAMES)
def test_ids_equal_the_reference(name: str) -> None:
    tokenizer = load(name)
    cases = read(f"bpe-{name}")["cases"]
    assert len(cases) > 70
    wrong = [
        (text, ids, mine)
        for text, ids in cases
        if (mine := tokenizer.encode(text, parse_special=True)) != ids
    ]
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=60, deadline=None)
def test_round_trip(name: str, text: str) -> None:
    tokenizer = load(name)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    stream = tokenizer.detokenizer()
    assert "".join([*map(stream.push, ids), stream.flush()]) == text


@pytest.mark.parametrize("name", NAMES)
@given(text=st.text(st.sampled_from("ab1²'sSſ ,!$\n\r\t\u00a0\u3000é中\u0301😀")))
@settings(max_examples=80, deadline=None)
def test_words_join_to_the_text(name: str, text: str) -> None:
    assert "".join(find_pre_tokenizer(name).split(text)) == text


def test_classes_equal_the_reference_for_every_code_point() -> None:
    runs = read("classes")["runs"]
    assert len(runs) > 1000
    ends = [start for start, _ in runs[1:]] + [0x110000]
    wrong = []
    for (start, name), end in zip(runs, ends, strict=True):
        for code_point in range(start, end):
            mine = classify(code_point).replace("O", "-")
            newer = name == "-" and unicodedata.category(chr(code_point)) != "Cn"
            # A Python with newer tables than the reference may know more, never less.
            if mine != name and not (newer and unicodedata.unidata_version > "16"):
                wrong.append(hex(code_point))
    assert not wrong


def test_words_of_each_pattern() -> None:
    text = "It'S 12345 x²  y\n\n z"
    words = {name: find_pre_tokenizer(name).split(text) for name in NAMES}
    assert words["llama-bpe"] == ["It", "'S", " ", "123", "45", " x", "²", " ", " y", "\n\n", " z"]
    assert words["qwen2"][2:8] == [" ", "1", "2", "3", "4", "5"]
    assert words["gpt-2"] == ["It", "'", "S", " 12345", " x", "²", " ", " y", "\n\n", " z"]
    assert words["smollm"][3:9] == [" ", "1", "2", "3", "4", "5"]
    assert words["default"][3:6] == [" ", "123", "45"]


def test_unknown_pre_tokenizer_names_the_known_ones_and_the_flag() -> None:
    metadata = {**read("bpe-gpt-2")["metadata"], "tokenizer.ggml.pre": "martian"}
    with pytest.raises(TokenizerError) as error:
        load_tokenizer(metadata)
    assert "'martian'" in str(error.value)
    assert "--pre" in error.value.hint
    assert all(name in error.value.hint for name in NAMES)
    assert load_tokenizer(metadata, pre="qwen2").pre == "qwen2"


def test_missing_pre_means_default() -> None:
    metadata = read("bpe-default")["metadata"]
    del metadata["tokenizer.ggml.pre"]
    assert load_tokenizer(metadata).pre == "default"


def test_llama3_adds_bos_unless_the_file_says_no() -> None:
    metadata = read("bpe-llama-bpe")["metadata"]
    bos = metadata["tokenizer.ggml.bos_token_id"]
    assert load_tokenizer(metadata).encode("a")[0] != bos
    del metadata["tokenizer.ggml.add_bos_token"]
    assert load_tokenizer(metadata).encode("a")[0] == bos
    assert load_tokenizer(metadata).encode("a", add_special=False)[0] != bos
    assert not load_tokenizer(metadata, pre="gpt-2").add_bos


def test_llama3_takes_whole_words_first() -> None:
    tokenizer = load("llama-bpe")
    assert tokenizer.encode(" unreachable") == [tokenizer.token_id("Ġunreachable")]
    metadata = read("bpe-llama-bpe")["metadata"]
    assert len(load_tokenizer(metadata, pre="qwen2").encode(" unreachable")) > 1


def test_missing_merges() -> None:
    metadata = read("bpe-gpt-2")["metadata"]
    del metadata["tokenizer.ggml.merges"]
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.merges is missing"):
        load_tokenizer(metadata)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("unit", ["a", " ", "\n", "'", "1", "é", " \n", "a ", "中1", "1a", "A"])
def test_long_repetitions(name: str, unit: str) -> None:
    # Quadratic work would take most of a minute here.
    tokenizer = load(name)
    text = unit * (20_000 // len(unit)) + "x"
    assert tokenizer.decode(tokenizer.encode(text)) == text
