"""The tiny random models: their shapes, their weights, and how each is written as a GGUF file.

Names on the left of TENSORS are Hugging Face's, on the right GGUF's; keys, permutations and folded
constants follow llama.cpp's `convert_hf_to_gguf.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as QuantType
from golden_quants import quantize
from golden_vocab import Vocab, make_vocab, write_vocab
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

N_CTX = 256
NORM_EPS = {"llama": 1e-5, "qwen2": 1e-6, "qwen3": 1e-6, "gemma3": 1e-6}

LAYER_TENSORS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GEMMA_TENSORS = LAYER_TENSORS | {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
TOP_TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
# Standard deviation of a weight times sqrt(fan in): keeps attention soft but far from uniform,
# and every sub-layer's share of the residual stream comparable.
GAIN = {"attn_q": 1.2, "attn_k": 1.2, "attn_output": 1.5, "ffn_gate": 1.5, "ffn_down": 2.0}


@dataclass(frozen=True)
class GoldenModel:
    """Shape and storage of one model; `types` maps tensor names (suffixes) to GGML types."""

    name: str
    architecture: str
    covers: str
    vocab: str
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    types: dict[str, str]
    is_tied: bool = False
    has_key_length: bool = False
    rope_base: float = 10000.0
    rope: dict[str, Any] = field(default_factory=dict)
    sliding_window: int = 0
    seed: int = 0

    def quant_type(self, tensor: str) -> QuantType:
        """Type of a weight matrix: the longest matching suffix, else `default`."""
        stem = tensor.removesuffix(".weight")
        matches = [key for key in self.types if stem.endswith(key)]
        return QuantType[self.types[max(matches, key=len) if matches else "default"]]


LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR_ROPE = {"rope_type": "linear", "factor": 4.0}

MODELS = (
    GoldenModel(
        name="llama-f32",
        architecture="llama",
        covers="plain llama: interleaved rope, untied output, SentencePiece vocabulary",
        vocab="llama", n_layer=2, n_embd=64, n_ff=96, n_head=4, n_head_kv=2, head_dim=16,
        types={"default": "F32"}, seed=11,
    ),
    GoldenModel(
        name="gemma3-f32",
        architecture="gemma3",
        covers="window 8, one global layer of seven, two rope bases, sandwich norms, tied",
        vocab="gemma", n_layer=7, n_embd=32, n_ff=64, n_head=3, n_head_kv=1, head_dim=16,
        types={"default": "F32"}, is_tied=True, has_key_length=True, rope_base=1e6,
        sliding_window=8, seed=12,
    ),
    GoldenModel(
        name="llama3-rope-q8_0",
        architecture="llama",
        covers="rope_freqs tensor (Llama 3 scaling), tied, byte-level BPE vocabulary",
        vocab="llama3", n_layer=2, n_embd=96, n_ff=224, n_head=3, n_head_kv=1, head_dim=32,
        types={"default": "Q8_0"}, is_tied=True, has_key_length=True, rope_base=500000.0,
        rope=LLAMA3_ROPE, seed=13,
    ),
    GoldenModel(
        name="llama-linear-q4q5",
        architecture="llama",
        covers="linear rope scaling, 5 query heads on 1 KV head, the five 32-value block types",
        vocab="llama", n_layer=2, n_embd=160, n_ff=160, n_head=5, n_head_kv=1, head_dim=32,
        types={
            "default": "Q4_0", "attn_k": "Q5_1", "attn_v": "Q5_0", "attn_output": "Q4_1",
            "ffn_down": "Q5_0", "ffn_up": "Q4_1", "output": "Q8_0", "token_embd": "Q4_0",
        },
        rope=LINEAR_ROPE, seed=14,
    ),
    GoldenModel(
        name="qwen2-bf16",
        architecture="qwen2",
        covers="q/k/v biases, tied, bfloat16, ChatML template",
        vocab="qwen2-chat", n_layer=2, n_embd=96, n_ff=96, n_head=6, n_head_kv=3, head_dim=16,
        types={"default": "BF16"}, is_tied=True, rope_base=1e6, seed=15,
    ),
    GoldenModel(
        name="qwen2-q5",
        architecture="qwen2",
        covers="q/k/v biases, untied, Q5_1 and Q5_0",
        vocab="qwen2", n_layer=2, n_embd=96, n_ff=160, n_head=3, n_head_kv=1, head_dim=32,
        types={"default": "Q5_1", "ffn_down": "Q5_0", "output": "Q8_0", "token_embd": "Q5_1"},
        rope_base=1e6, seed=16,
    ),
    GoldenModel(
        name="qwen3-f16",
        architecture="qwen3",
        covers="q/k norms, head_dim 24 with n_embd 64 (q is wider than x), tied, float16",
        vocab="qwen2-chat", n_layer=2, n_embd=64, n_ff=160, n_head=5, n_head_kv=1, head_dim=24,
        types={"default": "F16"}, is_tied=True, has_key_length=True, rope_base=1e6, seed=17,
    ),
    GoldenModel(
        name="qwen3-q8_0",
        architecture="qwen3",
        covers="q/k norms, head_dim 64, untied",
        vocab="qwen2", n_layer=2, n_embd=96, n_ff=96, n_head=3, n_head_kv=1, head_dim=64,
        types={"default": "Q8_0"}, has_key_length=True, rope_base=1e6, seed=18,
    ),
    GoldenModel(
        name="gemma3-linear-q8q4",
        architecture="gemma3",
        covers="linear rope scaling on the global layer only, window 16, Q8_0 and Q4_0",
        vocab="gemma", n_layer=7, n_embd=96, n_ff=96, n_head=3, n_head_kv=1, head_dim=32,
        types={"default": "Q8_0", "ffn_gate": "Q4_0", "ffn_up": "Q4_0", "ffn_down": "Q4_0"},
        is_tied=True, has_key_length=True, rope_base=1e6, rope=LINEAR_ROPE | {"factor": 8.0},
        sliding_window=16, seed=19,
    ),
    GoldenModel(
        name="llama-kquants",
        architecture="llama",
        covers="Q4_K, Q5_K and Q6_K, one layer, head_dim 128, tied",
        vocab="llama", n_layer=1, n_embd=256, n_ff=256, n_head=2, n_head_kv=1, head_dim=128,
        types={
            "default": "Q4_K", "attn_k": "Q5_K", "attn_v": "Q6_K", "ffn_up": "Q5_K",
            "ffn_down": "Q6_K", "token_embd": "Q6_K",
        },
        is_tied=True, seed=20,
    ),
)  # fmt: skip


def make_hf_model(spec: GoldenModel, n_vocab: int) -> PreTrainedModel:
    """An uninitialised float32 Hugging Face model of that shape, eager attention."""
    rope: dict[str, Any] = {"rope_type": "default"} | spec.rope | {"rope_theta": spec.rope_base}
    common = dict(
        vocab_size=n_vocab, hidden_size=spec.n_embd, intermediate_size=spec.n_ff,
        num_hidden_layers=spec.n_layer, num_attention_heads=spec.n_head,
        num_key_value_heads=spec.n_head_kv, max_position_embeddings=N_CTX,
        rms_norm_eps=NORM_EPS[spec.architecture], tie_word_embeddings=spec.is_tied,
        pad_token_id=None, bos_token_id=None, eos_token_id=None,
        dtype=torch.float32, attn_implementation="eager",
    )  # fmt: skip
    if spec.architecture == "llama":
        return LlamaForCausalLM(
            LlamaConfig(**common, head_dim=spec.head_dim, rope_parameters=rope)
        ).eval()
    if spec.architecture == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**common, rope_parameters=rope)).eval()
    if spec.architecture == "qwen3":
        return Qwen3ForCausalLM(
            Qwen3Config(**common, head_dim=spec.head_dim, rope_parameters=rope)
        ).eval()
    local = {"rope_type": "default", "rope_theta": 10000.0}
    config = Gemma3TextConfig(
        **common | {"num_attention_heads": spec.n_head_kv},
        head_dim=spec.head_dim, query_pre_attn_scalar=spec.head_dim,
        sliding_window=spec.sliding_window,
        rope_parameters={"full_attention": rope, "sliding_attention": local},
    )  # fmt: skip
    # Set afterwards: the constructor needlessly wants hidden_size % n_head == 0.
    config.num_attention_heads = spec.n_head
    return Gemma3ForCausalLM(config).eval()


def gguf_name(hf_name: str, architecture: str) -> str:
    """`model.layers.0.self_attn.q_proj.weight` -> `blk.0.attn_q.weight`."""
    stem, _, kind = hf_name.rpartition(".")
    if stem in TOP_TENSORS:
        return f"{TOP_TENSORS[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    table = GEMMA_TENSORS if architecture == "gemma3" else LAYER_TENSORS
    return f"blk.{layer}.{table[rest]}.{kind}"


def random_weight(
    name: str, shape: tuple[int, ...], is_tied: bool, rng: np.random.Generator
) -> np.ndarray:
    """Weights of one GGUF tensor (rope rows not yet permuted)."""
    if is_tied and name == "token_embd.weight":
        # Small beside what the layers add, or the likeliest token is always the current one.
        return rng.normal(0, 0.4 / math.sqrt(shape[1]), shape).astype(np.float32)
    if is_tied and name == "output_norm.weight":
        return rng.integers(4000, 12000, shape).astype(np.float32) / 1024
    if name.endswith("norm.weight"):
        # Multiples of 1/1024, so that Gemma's stored 1 + w loses no bit on the way back to w.
        return (np.rint(rng.uniform(0.5, 1.7, shape) * 1024) / 1024).astype(np.float32)
    if name.endswith(".bias"):
        return rng.normal(0, 0.4, shape).astype(np.float32)
    if name in ("token_embd.weight", "output.weight"):
        return rng.normal(0, 2.5 / math.sqrt(shape[1]), shape).astype(np.float32)
    gain = GAIN.get(name.split(".")[-2], 1.0)
    return rng.normal(0, gain / math.sqrt(shape[1]), shape).astype(np.float32)


def permute_rope_rows(rows: np.ndarray, n_head: int) -> np.ndarray:
    """Rotary halves to adjacent pairs, as the converter does for llama's q and k."""
    halves = rows.reshape(n_head, 2, rows.shape[0] // n_head // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def unpermute_rope_rows(rows: np.ndarray, n_head: int) -> np.ndarray:
    """The inverse of `permute_rope_rows`."""
    pairs = rows.reshape(n_head, rows.shape[0] // n_head // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def rope_heads(spec: GoldenModel, name: str) -> int:
    """Heads of a tensor whose rows the llama converter permutes, else 0."""
    if spec.architecture != "llama":
        return 0
    return {"attn_q": spec.n_head, "attn_k": spec.n_head_kv}.get(name.split(".")[-2], 0)


def rope_factors(spec: GoldenModel) -> np.ndarray:
    """The `rope_freqs` tensor of Llama 3 scaling: each angle is divided by its factor."""
    frequencies = spec.rope_base ** -(np.arange(0, spec.head_dim, 2) / spec.head_dim)
    factor, low, high = (spec.rope[k] for k in ("factor", "low_freq_factor", "high_freq_factor"))
    n_old = spec.rope["original_max_position_embeddings"]
    factors = []
    for wavelength in 2 * math.pi / frequencies:
        if wavelength < n_old / high:
            factors.append(1.0)
        elif wavelength > n_old / low:
            factors.append(factor)
        else:
            smooth = (n_old / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


def write_metadata(writer: gguf.GGUFWriter, spec: GoldenModel, vocab: Vocab) -> None:
    """Every key but the tensors'."""
    writer.add_name(f"rushlight golden {spec.name}")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(spec.n_embd)
    writer.add_block_count(spec.n_layer)
    writer.add_feed_forward_length(spec.n_ff)
    writer.add_head_count(spec.n_head)
    writer.add_head_count_kv(spec.n_head_kv)
    writer.add_layer_norm_rms_eps(NORM_EPS[spec.architecture])
    writer.add_rope_freq_base(spec.rope_base)
    if spec.has_key_length:
        writer.add_key_length(spec.head_dim)
        writer.add_value_length(spec.head_dim)
    if spec.architecture == "llama":
        writer.add_vocab_size(len(vocab.tokens))
        writer.add_rope_dimension_count(spec.head_dim)
    if spec.rope.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(spec.rope["factor"])
    if spec.sliding_window:
        writer.add_sliding_window(spec.sliding_window)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    write_vocab(writer, vocab)


def write_model(spec: GoldenModel, path: Path) -> Vocab:
    """Write random weights as a GGUF file."""
    vocab = make_vocab(spec.vocab)
    rng = np.random.default_rng(spec.seed)
    writer = gguf.GGUFWriter(path, spec.architecture)
    write_metadata(writer, spec, vocab)
    if spec.rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(spec))
    for hf_name, parameter in make_hf_model(spec, len(vocab.tokens)).named_parameters():
        name = gguf_name(hf_name, spec.architecture)
        weight = random_weight(name, tuple(parameter.shape), spec.is_tied, rng)
        if n_head := rope_heads(spec, name):
            weight = permute_rope_rows(weight, n_head)
        kind = spec.quant_type(name) if weight.ndim > 1 else QuantType.F32
        if kind == QuantType.F32:
            writer.add_tensor(name, weight)
        else:
            writer.add_tensor(name, quantize(weight, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return vocab


def load_reference(spec: GoldenModel, path: Path) -> PreTrainedModel:
    """The Hugging Face model that holds the file's own, dequantised, weights."""
    reader = gguf.GGUFReader(path)
    stored = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    model = make_hf_model(spec, stored["token_embd.weight"].shape[0])
    state = {}
    for hf_name, parameter in model.named_parameters():
        name = gguf_name(hf_name, spec.architecture)
        weight = stored.pop(name).reshape(tuple(parameter.shape)).astype(np.float32)
        if n_head := rope_heads(spec, name):
            weight = unpermute_rope_rows(weight, n_head)
        if spec.architecture == "gemma3" and name.endswith("norm.weight"):
            weight = weight - np.float32(1)
        state[hf_name] = torch.from_numpy(np.ascontiguousarray(weight))
    assert set(stored) <= {"rope_freqs.weight"}, sorted(stored)
    model.load_state_dict(state, strict=not spec.is_tied)
    return model
