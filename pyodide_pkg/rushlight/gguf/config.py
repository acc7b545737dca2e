"""Metadata keys to one frozen ModelConfig, every value checked.

Keys are ``<architecture>.<key>`` in the file; here they are named without the prefix. Settings
that only some architectures have are read by the accessors ``value``, ``float_value`` …, with
the same checks. Whether the architecture can be run is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ModelFormatError
from .reader import TensorInfo

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20
MAX_HEADS = 1 << 14
MAX_HEAD_DIM = 1 << 13
MAX_VOCAB = 1 << 24
MAX_CTX = 1 << 30

_HINT = "The file was made by a faulty or unknown converter; try another file of the model."


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary positions are stretched beyond the trained context.

    ``type`` is the file's word (``linear``, ``yarn``, ``longrope`` …). ``attn_factor`` scales
    the rotated vectors; the ``yarn_`` fields mean something for type ``yarn`` alone.
    """

    type: str
    factor: float = 1.0
    n_ctx_orig: int = 0
    attn_factor: float = 1.0
    yarn_beta_fast: float = 32.0
    yarn_beta_slow: float = 1.0
    yarn_ext_factor: float = 1.0
    yarn_log_multiplier: float = 0.0


@dataclass(frozen=True)
class ModelConfig:
    """A model's dimensions and constants, named as in GGUF.

    ``n_head``, ``n_head_kv`` and ``n_ff`` may differ by layer: the plain field is the largest,
    the ``_by_layer`` tuple has all ``n_layer`` of them.
    """

    architecture: str
    name: str
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim_k: int
    head_dim_v: int
    n_ctx_train: int
    n_ctx: int
    """The context that is loaded; the trained one until somebody decides."""
    n_vocab: int
    norm_eps: float
    rope_base: float
    rope_dim: int
    rope_scaling: RopeScaling | None
    sliding_window: int | None
    n_head_by_layer: tuple[int, ...]
    n_head_kv_by_layer: tuple[int, ...]
    n_ff_by_layer: tuple[int, ...]
    metadata: Mapping[str, Any] = field(repr=False, compare=False)

    @property
    def head_dim(self) -> int:
        """Width of a query or key head."""
        return self.head_dim_k

    @property
    def is_uniform(self) -> bool:
        """Whether all layers have the same head counts and feed-forward width."""
        by_layer = (self.n_head_by_layer, self.n_head_kv_by_layer, self.n_ff_by_layer)
        return all(len(set(values)) == 1 for values in by_layer)

    def window_layers(self, period: int) -> tuple[bool, ...]:
        """Which layers attend to the sliding window only.

        The file's ``attention.sliding_window_pattern`` says: a flag for each layer, or a period
        whose last layer sees everything. Without it the family's ``period`` holds.
        """
        if not self.sliding_window:
            return (False,) * self.n_layer
        key = "attention.sliding_window_pattern"
        if isinstance(self.value(key), int | None):
            period = self.int_value(key, period, low=1)
            return tuple((i + 1) % period != 0 for i in range(self.n_layer))
        return tuple(bool(f) for f in self.keys.by_layer(key, self.n_layer, None, 0, 1))

    @property
    def keys(self) -> Keys:
        """The checked reader behind the accessors."""
        return Keys(self.metadata, self.architecture)

    def value(self, key: str, default: Any = None) -> Any:
        """An architecture's own setting as it stands in the file, or ``default``."""
        return self.keys.value(key, default)

    def float_value(
        self, key: str, default: float | None = None, low: float = -1e30, high: float = 1e30
    ) -> float:
        """A finite number in [low, high]; without a default the key is required."""
        return self.keys.number(key, default, low, high)

    def int_value(
        self, key: str, default: int | None = None, low: int = 0, high: int = MAX_CTX
    ) -> int:
        """A whole number in [low, high]; without a default the key is required."""
        return self.keys.integer(key, default, low, high)

    def bool_value(self, key: str, default: bool | None = None) -> bool:
        """A flag; without a default the key is required."""
        return self.keys.flag(key, default)


@dataclass(frozen=True, slots=True)
class Keys:
    """Reads ``<prefix>.<key>`` with checks; errors name the full key."""

    metadata: Mapping[str, Any]
    prefix: str

    def value(self, key: str, default: Any = None) -> Any:
        """The value as it stands in the file."""
        return self.metadata.get(f"{self.prefix}.{key}", default)

    def fail(self, key: str, value: Any, want: str) -> ModelFormatError:
        """The error for a value that cannot be right."""
        shown = str(value)
        shown = shown if len(shown) <= 60 else shown[:60] + "…"
        return ModelFormatError(f"{self.prefix}.{key} is {shown!r}; {want}.", hint=_HINT)

    def _required(self, key: str, default: Any) -> Any:
        value = self.value(key, default)
        if value is None:
            raise ModelFormatError(f"The key {self.prefix}.{key} is missing.", hint=_HINT)
        return value

    def number(self, key: str, default: float | None, low: float, high: float) -> float:
        """A finite number in [low, high]."""
        value = self._required(key, default)
        if not _is_number(value) or not math.isfinite(value) or not low <= value <= high:
            raise self.fail(key, value, f"a number from {low:g} to {high:g} was expected")
        return float(value)

    def integer(self, key: str, default: int | None, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return self._whole(key, self._required(key, default), low, high)

    def flag(self, key: str, default: bool | None) -> bool:
        """A bool, or 0 or 1, which some converters write."""
        value = self._required(key, default)
        if not isinstance(value, int) or value not in (0, 1):
            raise self.fail(key, value, "true or false was expected")
        return bool(value)

    def text(self, key: str, default: str) -> str:
        """A string."""
        value = self.value(key, default)
        if not isinstance(value, str):
            raise self.fail(key, value, "a text was expected")
        # Bytes that are not UTF-8 must not break whoever prints the text.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def by_layer(
        self, key: str, n_layer: int, default: tuple[int, ...] | None, low: int, high: int
    ) -> tuple[int, ...]:
        """A whole number for every layer: one for all, or an array of ``n_layer``."""
        value = self._required(key, default)
        if isinstance(value, np.ndarray | list | tuple):
            items = value.tolist() if isinstance(value, np.ndarray) else list(value)
            if len(items) != n_layer:
                raise self.fail(key, items, f"{n_layer} values, one a layer, were expected")
            return tuple(self._whole(key, item, low, high) for item in items)
        return (self._whole(key, value, low, high),) * n_layer

    def _whole(self, key: str, value: Any, low: int, high: int) -> int:
        # A flag counts as 0 or 1: arrays of them say which layers are meant.
        value = int(value) if isinstance(value, bool) and high == 1 else value
        if not _is_number(value) or not low <= value <= high or int(value) != value:
            raise self.fail(key, value, f"a whole number from {low} to {high} was expected")
        return int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_architecture(metadata: Mapping[str, Any]) -> str:
    """The model's ``general.architecture``; raises ModelFormatError if there is none."""
    value = metadata.get("general.architecture")
    if not isinstance(value, str) or not value:
        raise ModelFormatError(
            "The key general.architecture is missing or not a text.",
            hint="This GGUF file holds no model; choose the model's own file.",
        )
    if not (value.isascii() and value.isprintable() and len(value) <= 64):
        raise ModelFormatError(f"general.architecture is {value[:64]!r}, not a name.", hint=_HINT)
    return value


def read_config(metadata: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> ModelConfig:
    """The model's dimensions and constants. Raises ModelFormatError naming the key."""
    architecture = read_architecture(metadata)
    keys = Keys(metadata, architecture)
    n_layer = keys.integer("block_count", None, 1, MAX_LAYERS)
    n_embd = keys.integer("embedding_length", None, 1, MAX_WIDTH)
    n_head = keys.by_layer("attention.head_count", n_layer, None, 0, MAX_HEADS)
    n_head_kv = _kv_heads(keys, n_layer, n_head)
    n_ff = keys.by_layer("feed_forward_length", n_layer, (0,) * n_layer, 0, MAX_WIDTH)
    head_dim_k = _head_dim(keys, "attention.key_length", n_embd, max(n_head))
    head_dim_v = _head_dim(keys, "attention.value_length", n_embd, max(n_head))
    n_ctx_train = keys.integer("context_length", None, 1, MAX_CTX)
    return ModelConfig(
        architecture=architecture,
        name=Keys(metadata, "general").text("name", ""),
        n_layer=n_layer,
        n_embd=n_embd,
        n_ff=max(n_ff),
        n_head=max(n_head),
        n_head_kv=max(n_head_kv),
        head_dim_k=head_dim_k,
        head_dim_v=head_dim_v,
        n_ctx_train=n_ctx_train,
        n_ctx=n_ctx_train,
        n_vocab=_vocab(keys, tensors),
        norm_eps=_norm_eps(keys),
        rope_base=keys.number("rope.freq_base", 10000.0, 1.0, 1e12),
        rope_dim=_rope_dim(keys, head_dim_k),
        rope_scaling=_rope_scaling(keys),
        sliding_window=keys.integer("attention.sliding_window", 0, 0, MAX_CTX) or None,
        n_head_by_layer=n_head,
        n_head_kv_by_layer=n_head_kv,
        n_ff_by_layer=n_ff,
        metadata=metadata,
    )


def _kv_heads(keys: Keys, n_layer: int, n_head: tuple[int, ...]) -> tuple[int, ...]:
    key = "attention.head_count_kv"
    n_head_kv = keys.by_layer(key, n_layer, n_head, 0, MAX_HEADS)
    for layer, (heads, kv) in enumerate(zip(n_head, n_head_kv, strict=True)):
        if kv and heads % kv:
            raise keys.fail(key, kv, f"a divisor of layer {layer}'s {heads} heads was expected")
    return n_head_kv


def _head_dim(keys: Keys, key: str, n_embd: int, n_head: int) -> int:
    if keys.value(key) is not None:
        return keys.integer(key, None, 1, MAX_HEAD_DIM)
    if n_head == 0:
        return 0
    if n_embd % n_head:
        raise keys.fail(
            "attention.head_count", n_head, f"a divisor of embedding_length {n_embd} was expected"
        )
    return n_embd // n_head


def _vocab(keys: Keys, tensors: Mapping[str, TensorInfo]) -> int:
    """Rows of the embedding; some converters leave a stale or padded ``vocab_size``."""
    embedding = tensors.get("token_embd.weight")
    if embedding is not None and len(embedding.shape) == 2:
        return embedding.n_rows
    return keys.integer("vocab_size", None, 1, MAX_VOCAB)


def _norm_eps(keys: Keys) -> float:
    rms, plain = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
    key = plain if keys.value(rms) is None and keys.value(plain) is not None else rms
    return keys.number(key, None, 0.0, 0.1)


def _rope_dim(keys: Keys, head_dim: int) -> int:
    """Leading values of a head that are rotated; the whole head unless the file says less."""
    key = "rope.dimension_count"
    rope_dim = keys.integer(key, 0, 0, MAX_HEAD_DIM)
    if rope_dim == 0:
        return head_dim - head_dim % 2
    if rope_dim % 2 or rope_dim > head_dim:
        raise keys.fail(
            key, rope_dim, f"an even number up to the head's width {head_dim} was expected"
        )
    return rope_dim


def _rope_scaling(keys: Keys) -> RopeScaling | None:
    # scale_linear is how the first GGUF files spelled a linear factor.
    legacy = keys.number("rope.scale_linear", 0.0, 0.0, 1e6)
    factor = keys.number("rope.scaling.factor", legacy, 0.0, 1e6) or 1.0
    kind = keys.text("rope.scaling.type", "linear" if factor != 1.0 else "none").lower()
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return None

    def either(name: str, default: float) -> float:
        """A factor under its own name or with the yarn prefix; both are in use."""
        return keys.number(
            f"rope.scaling.{name}",
            keys.number(f"rope.scaling.yarn_{name}", default, -1e6, 1e6),
            -1e6,
            1e6,
        )

    return RopeScaling(
        type=kind,
        factor=factor,
        n_ctx_orig=keys.integer(
            "rope.scaling.original_context_length",
            keys.integer("rope.scaling.orig_ctx_len", 0, 0, MAX_CTX),
            0,
            MAX_CTX,
        ),
        attn_factor=either("attn_factor", 1.0),
        yarn_beta_fast=either("beta_fast", 32.0),
        yarn_beta_slow=either("beta_slow", 1.0),
        yarn_ext_factor=either("ext_factor", 1.0),
        yarn_log_multiplier=either("log_multiplier", 0.0),
    )
