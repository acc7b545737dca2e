"""Metadata to ModelConfig: defaults, per-layer values, and errors that name the key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight.errors import ModelFormatError
from rushlight.gguf.config import ModelConfig, RopeScaling, read_config
from rushlight.gguf.reader import read_header
from rushlight.gguf.source import BytesSource
from tests.unit.gguf_bytes import tiny_gguf

BASE = {
    "general.architecture": "qwen3",
    "qwen3.block_count": 2,
    "qwen3.embedding_length": 32,
    "qwen3.feed_forward_length": 64,
    "qwen3.context_length": 128,
    "qwen3.attention.head_count": 4,
    "qwen3.attention.head_count_kv": 2,
    "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
    "qwen3.vocab_size": 100,
}


def config(**changes: Any) -> ModelConfig:
    """The base model with keys changed; ``__`` stands for a dot, None removes a key."""
    metadata: dict[str, Any] = dict(BASE)
    for key, value in changes.items():
        metadata[f"qwen3.{key.replace('__', '.')}"] = value
    return read_config({k: v for k, v in metadata.items() if v is not None}, {})


def test_defaults() -> None:
    c = config()
    assert (c.n_layer, c.n_embd, c.n_ff, c.n_head, c.n_head_kv) == (2, 32, 64, 4, 2)
    assert (c.head_dim, c.head_dim_k, c.head_dim_v, c.rope_dim) == (8, 8, 8, 8)
    assert (c.rope_base, c.rope_scaling, c.sliding_window) == (10000.0, None, None)
    assert (c.n_vocab, c.n_ctx_train, c.norm_eps) == (100, 128, 1e-6)
    assert c.is_uniform
    assert c.n_head_kv_by_layer == (2, 2)


def test_a_file_with_a_kv_head_count_per_layer() -> None:
    file = read_header(BytesSource(tiny_gguf()))
    c = read_config(file.metadata, file.tensors)
    assert c.n_head_kv_by_layer == (2, 4)
    assert c.n_head_kv == 4
    assert not c.is_uniform
    assert c.n_vocab == 4  # rows of token_embd
    assert c.name == "tiny"


def test_explicit_values() -> None:
    c = config(
        attention__key_length=16,
        attention__value_length=4,
        rope__dimension_count=6,
        rope__freq_base=5e5,
        attention__sliding_window=32,
    )
    assert (c.head_dim_k, c.head_dim_v, c.rope_dim) == (16, 4, 6)
    assert (c.rope_base, c.sliding_window) == (5e5, 32)


def test_rope_scaling() -> None:
    assert config(rope__scaling__type="none", rope__scaling__factor=8.0).rope_scaling is None
    assert config(rope__scaling__factor=8.0).rope_scaling == RopeScaling("linear", 8.0)
    assert config(rope__scale_linear=2.0).rope_scaling == RopeScaling("linear", 2.0)
    scaling = config(
        rope__scaling__type="yarn",
        rope__scaling__factor=4.0,
        rope__scaling__original_context_length=64,
        rope__scaling__yarn_beta_fast=16.0,
        rope__scaling__attn_factor=1.5,
    ).rope_scaling
    assert scaling == RopeScaling("yarn", 4.0, 64, 1.5, yarn_beta_fast=16.0)


def test_settings_of_one_architecture() -> None:
    c = config(attention__scale=0.5, flag=1, loops=3)
    assert c.value("attention.scale") == 0.5
    assert c.value("absent", "x") == "x"
    assert c.float_value("attention.scale") == 0.5
    assert c.float_value("absent", 2.0) == 2.0
    assert c.int_value("loops", 1, 1, 8) == 3
    assert c.bool_value("flag") is True
    for read in (c.float_value, c.int_value, c.bool_value):
        with pytest.raises(ModelFormatError, match=r"qwen3\.absent is missing"):
            read("absent")
    with pytest.raises(ModelFormatError, match=r"qwen3\.loops is '3'"):
        c.int_value("loops", 1, 1, 2)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", None),
        ("block_count", 0),
        ("block_count", 10**9),
        ("block_count", True),
        ("block_count", "2"),
        ("embedding_length", -1),
        ("embedding_length", 33),  # not divisible by the heads: the error is about the heads
        ("attention.head_count_kv", 3),
        ("attention.head_count_kv", np.array([2, 2, 2])),
        ("attention.head_count_kv", np.array([2.5, 2.0])),
        ("attention.layer_norm_rms_epsilon", None),
        ("attention.layer_norm_rms_epsilon", float("nan")),
        ("attention.layer_norm_rms_epsilon", -1e-6),
        ("rope.freq_base", float("inf")),
        ("rope.freq_base", 0.0),
        ("rope.dimension_count", 7),
        ("rope.dimension_count", 10),
        ("rope.scaling.type", 4),
        ("rope.scaling.factor", float("nan")),
        ("context_length", None),
        ("vocab_size", None),
        ("attention.sliding_window", 2.5),
        ("attention.key_length", float("inf")),
        ("feed_forward_length", ["a", "b"]),
    ],
)
def test_bad_values_name_the_key(key: str, value: Any) -> None:
    named = "attention.head_count" if key == "embedding_length" and value == 33 else key
    with pytest.raises(ModelFormatError) as caught:
        config(**{key.replace(".", "__"): value})
    assert f"qwen3.{named}" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("value", [None, "", 5, "a\nb", "ж", "x" * 100])
def test_bad_architecture(value: Any) -> None:
    with pytest.raises(ModelFormatError, match=r"general\.architecture"):
        read_config({"general.architecture": value} if value is not None else {}, {})
