"""How a Hugging Face model of some architecture becomes a GGUF file, as llama.cpp converts it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import gguf
import numpy as np
import torch

N_CTX = 128
Tensors = dict[str, np.ndarray]
Convert = Callable[[str, np.ndarray], Tensors | None]
# Standard deviation of a weight times sqrt(fan in): keeps attention soft but far from uniform,
# and every sub-layer's share of the residual stream comparable.
GAIN = {"attn_q": 1.3, "attn_k": 1.3, "attn_output": 1.5, "ffn_gate": 1.5, "ffn_down": 1.8}
# Wide enough that some gates of GPT-OSS pass its limit.
GAIN |= {"ffn_gate_exps": 3.0, "ffn_up_exps": 3.0}


@dataclass(frozen=True)
class ArchModel:
    """One tiny model: how the reference is made, and what its file says.

    ``convert`` maps a Hugging Face parameter to tensors of the file where renaming by the `gguf`
    package's table (of ``table``, else the architecture) is not enough. It only rearranges, but
    for norms. ``keys`` are metadata without the architecture's prefix.
    """

    name: str
    architecture: str
    covers: str
    make: Callable[[int], torch.nn.Module]
    keys: Mapping[str, Any]
    convert: Convert = lambda name, values: None
    table: str = ""
    types: dict[str, str] = field(default_factory=lambda: {"default": "Q8_0"})
    lengths: tuple[int, ...] = (5, 41)
    n_ctx: int = N_CTX
    is_tied: bool = True
    reference: str = "transformers"
    extra_tensors: Tensors = field(default_factory=dict)
    buffer_tensors: Callable[[str, np.ndarray], Tensors] = lambda name, values: {}
    has_one_plus: bool = False
    """Whether norms are stored as 1 + w."""
    seed: int = 1

    def is_transposed(self, name: str) -> bool:
        """Whether a parameter is [n_in, n_out] (GPT-2's Conv1D)."""
        return self.architecture == "gpt2" and ".c_" in name

    def tensors_of(self, name: str, values: np.ndarray) -> Tensors:
        """The file's tensors that a parameter becomes."""
        made = self.convert(name, values)
        if made is None:
            made = {self.rename(name): values}
        # Index arrays, which only ask where a value goes, are float64.
        if self.has_one_plus and "norm" in name and values.dtype == np.float32:
            made = {k: v + np.float32(1) if k.endswith(".weight") else v for k, v in made.items()}
        return made

    def rename(self, name: str) -> str:
        """The GGUF name of a parameter."""
        arches = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}
        n_layer = int(self.keys["block_count"])
        table = gguf.get_tensor_name_map(arches[self.table or self.architecture], n_layer)
        found = table.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, f"{self.name}: no GGUF name for {name}"
        return found

    def metadata(self, n_vocab: int) -> dict[str, Any]:
        """Every key of the file."""
        pieces = [chr(0x61 + i) if i < 26 else f"▁{chr(0x61 + i % 26)}" * (i // 26)
                  for i in range(n_vocab - 3)]  # fmt: skip
        keys = {f"{self.architecture}.{key}": value for key, value in self.keys.items()}
        return {
            "general.architecture": self.architecture,
            "general.name": f"rushlight {self.name}",
            f"{self.architecture}.context_length": N_CTX,
            **keys,
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *pieces],
            "tokenizer.ggml.scores": np.array([-float(i) for i in range(n_vocab)], np.float32),
            "tokenizer.ggml.token_type": np.array([2, 3, 3] + [1] * (n_vocab - 3), np.int32),
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
        }


def sizes_keys(n_layer: int, n_embd: int, n_ff: int, n_head: int, n_head_kv: int,
               **more: Any) -> dict[str, Any]:  # fmt: skip
    """The keys that every file has."""
    return {
        "block_count": n_layer,
        "embedding_length": n_embd,
        "feed_forward_length": n_ff,
        "attention.head_count": n_head,
        "attention.head_count_kv": n_head_kv,
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def random_values(
    name: str, tensors: list[str], shape: tuple[int, ...], spec: ArchModel, rng: Any
) -> np.ndarray:
    """Weights of one parameter: normal values in steps of a third of their deviation."""
    tensor = tensors[0] if tensors else name
    if "norm" in tensor and tensor.endswith(".weight"):
        if spec.is_tied and tensor.startswith(("output_norm", "token_embd_norm")):
            return (rng.integers(24, 72, shape) / 8).astype(np.float32)
        # Small dyadic steps, so that a stored 1 + w loses no bit.
        low = -0.5 if spec.has_one_plus else 0.5
        return (rng.integers(0, 33, shape) / 32 + low).astype(np.float32)
    steps = np.rint(np.clip(rng.normal(0, 3, shape), -9, 9)) / 3
    if tensor.endswith(".bias"):
        return (steps * 0.25).astype(np.float32)
    width = shape[0] if spec.is_transposed(name) else math.prod(shape[1:])
    if "_exps." in tensor:
        width = shape[-1]
    if tensor.startswith(("token_embd", "output", "position_embd")):
        gain = 0.5 if spec.is_tied and tensor.startswith("token_embd") else 2.0
    else:
        gain = GAIN.get(tensor.split(".")[-2], 1.0) if tensor.count(".") > 1 else 1.0
    return (steps * np.float32(gain / math.sqrt(width))).astype(np.float32)


def permuted(rows: np.ndarray, n_head: int) -> np.ndarray:
    """Rotary halves to adjacent pairs, as the converter does for q and k of "norm" families."""
    halves = rows.reshape(n_head, 2, rows.shape[0] // n_head // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def llama3_factors(rope: Mapping[str, Any], head_dim: int) -> np.ndarray:
    """The `rope_freqs` tensor of Llama 3 scaling: each angle is divided by its factor."""
    frequencies = rope["rope_theta"] ** -(np.arange(0, head_dim, 2) / head_dim)
    factor, low, high = (rope[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    n_old = rope["original_max_position_embeddings"]
    wavelengths = 2 * math.pi / frequencies
    smooth = np.clip((n_old / wavelengths - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def stacked(tensors: Tensors) -> Tensors:
    """Parts of one tensor, named ``NAME#0``, ``NAME#1`` …, put together as its rows."""
    whole = {name: values for name, values in tensors.items() if "#" not in name}
    parts = dict.fromkeys(name.split("#")[0] for name in tensors if "#" in name)
    for name in parts:
        rows = [v for key, v in tensors.items() if key.split("#")[0] == name]
        whole[name] = np.stack(rows)
    return whole
