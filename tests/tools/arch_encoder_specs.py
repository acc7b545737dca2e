"""The tiny encoders: BERT with unusual sizes, a WordPiece vocabulary, and texts to embed."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers as hf

from tests.tools.arch_models import ArchModel, sizes_keys

WORDS = ("the", "cat", "sat", "on", "mat", "un", ".", ",", "!", "2")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONG = "the cat, unseen, sat on the mat " * 6
TEXTS = ("The cat sat on the mat.", "Un cât!", "2", "", LONG)
"""A sentence, capitals and accents that go, one token, none, and one past every tile."""


def vocabulary() -> list[str]:
    """67 pieces, ``##`` where one goes on: BERT's way of writing them."""
    letters = string.ascii_lowercase
    pieces = [*SPECIAL, *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    return [piece for i, piece in enumerate(pieces) if piece not in pieces[:i]]


@dataclass(frozen=True)
class Encoder(ArchModel):
    """A tiny encoder; ``pooling`` is the file's ``pooling_type``."""

    pooling: int = 1

    def metadata(self, n_vocab: int) -> dict[str, Any]:
        """Every key of the file, as llama.cpp's converter writes them."""
        pieces = vocabulary()
        assert len(pieces) == n_vocab
        keys = {f"bert.{key}": value for key, value in self.keys.items()}
        return {
            "general.architecture": "bert",
            "general.name": f"rushlight {self.name}",
            "bert.context_length": self.n_ctx,
            **keys,
            "bert.attention.causal": False,
            "bert.pooling_type": self.pooling,
            "tokenizer.ggml.model": "bert",
            "tokenizer.ggml.tokens": [_stored(piece) for piece in pieces],
            "tokenizer.ggml.token_type": np.array([3] * 5 + [1] * (n_vocab - 5), np.int32),
            "tokenizer.ggml.token_type_count": 2,
            "tokenizer.ggml.unknown_token_id": 1,
            "tokenizer.ggml.cls_token_id": 2,
            "tokenizer.ggml.seperator_token_id": 3,
            "tokenizer.ggml.padding_token_id": 0,
        }


def _stored(piece: str) -> str:
    """A piece as the file spells it: U+2581 begins a word, nothing marks what goes on."""
    if piece in SPECIAL:
        return piece
    return piece.removeprefix("##") if piece.startswith("##") else f"▁{piece}"


def encoder(name: str, covers: str, sizes: tuple[int, int, int, int], **more: Any) -> Encoder:
    """An encoder of (n_layer, n_embd, n_ff, n_head)."""
    n_layer, n_embd, n_ff, n_head = sizes

    def make(n_vocab: int) -> torch.nn.Module:
        settings = hf.BertConfig(
            vocab_size=n_vocab,
            hidden_size=n_embd,
            intermediate_size=n_ff,
            num_hidden_layers=n_layer,
            num_attention_heads=n_head,
            max_position_embeddings=more["n_ctx"],
            hidden_act="gelu",
            layer_norm_eps=1e-12,
            attn_implementation="eager",
        )
        return hf.BertModel(settings, add_pooling_layer=False)

    keys: Mapping[str, Any] = sizes_keys(
        n_layer, n_embd, n_ff, n_head, n_head, attention__layer_norm_epsilon=1e-12
    )
    return Encoder(name, "bert", covers, make, keys, is_tied=False, seed=sum(name.encode()), **more)


PLAIN = {"position_embd": "F32", "token_types": "F32"}
"""llama.cpp's quantiser leaves these alone."""
MODELS = (
    encoder("bert", "whole-text attention, WordPiece, mean pooling", (3, 96, 160, 3),
            types={"default": "Q8_0", "ffn_up": "Q4_0", **PLAIN}, n_ctx=90),
    encoder("bert-cls", "cls pooling, rows of 60", (2, 60, 64, 3), pooling=2,
            types={"default": "Q5_0", **PLAIN}, n_ctx=85),
)  # fmt: skip
