"""The tiny models of the dense families: unusual sizes, thresholds well below the prompts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import transformers as hf

from tests.tools.arch_models import (
    N_CTX,
    ArchModel,
    Tensors,
    llama3_factors,
    permuted,
    sizes_keys,
)

Q8, Q4, Q5 = {"default": "Q8_0"}, {"default": "Q4_0"}, {"default": "Q5_1", "ffn_down": "Q5_0"}
Q41 = {"default": "Q4_1", "token_embd": "Q8_0"}


def config(n_layer: int, n_embd: int, n_ff: int, n_head: int, n_head_kv: int, n_vocab: int,
           is_tied: bool = True, **more: Any) -> dict[str, Any]:  # fmt: skip
    """The settings that most Hugging Face configurations share."""
    return {
        "vocab_size": n_vocab,
        "hidden_size": n_embd,
        "intermediate_size": n_ff,
        "num_hidden_layers": n_layer,
        "num_attention_heads": n_head,
        "num_key_value_heads": n_head_kv,
        "max_position_embeddings": N_CTX,
        "tie_word_embeddings": is_tied,
        "pad_token_id": None,
        "bos_token_id": None,
        "eos_token_id": None,
        "attn_implementation": "eager",
        **more,
    }


def rope(base: float = 10000.0, kind: str = "default", **more: Any) -> dict[str, Any]:
    """Rope parameters of a Hugging Face configuration."""
    return {"rope_type": kind, "rope_theta": base, **more}


def made(model: str, settings: dict[str, Any], sizes: tuple[int, ...], n_vocab: int) -> Any:
    """A Hugging Face model: ``model`` is its name before ForCausalLM."""
    base = {"Gemma3": "Gemma3Text"}.get(model, model)
    settings = dict(settings)
    causal = getattr(hf, settings.pop("causal", f"{model}ForCausalLM"))
    all_settings = config(*sizes, n_vocab, **settings)
    n_head = all_settings["num_attention_heads"]
    if all_settings["hidden_size"] % n_head:
        # Set afterwards: some constructors needlessly want it to divide the width.
        all_settings["num_attention_heads"] = 1
    made_config = getattr(hf, f"{base}Config")(**all_settings)
    if made_config.num_attention_heads != n_head:
        made_config.num_attention_heads = n_head
    return causal(made_config)


def arch(
    name: str,
    covers: str,
    model: str,
    sizes: tuple[int, int, int, int, int],
    settings: dict[str, Any],
    keys: dict[str, Any],
    **more: Any,
) -> ArchModel:
    """A model whose reference is ``model`` of transformers; ``name`` may end in "-…"."""
    eps = keys.pop("eps", "rms")
    kind = "attention.layer_norm_rms_epsilon" if eps == "rms" else "attention.layer_norm_epsilon"
    settings = {"is_tied": more.get("is_tied", True), **settings}
    settings.setdefault("rope_parameters", rope())
    if settings["rope_parameters"] is None:
        del settings["rope_parameters"]
    return ArchModel(
        name=name,
        architecture=more.pop("architecture", name.split("-")[0]),
        covers=covers,
        make=partial(made, model, settings, sizes),
        keys=sizes_keys(*sizes, **{kind: 1e-5, "rope__freq_base": 10000.0, **keys}),
        seed=sum(name.encode()),
        **more,
    )


def norm_rope(n_head: int, n_head_kv: int) -> Any:
    """Permutes q and k of Llama-like parameter names."""

    def convert(name: str, values: np.ndarray) -> Tensors | None:
        for part, heads in (("q", n_head), ("k", n_head_kv)):
            if f"self_attn.{part}_proj" in name:
                layer, kind = name.split(".")[2], name.split(".")[-1]
                return {f"blk.{layer}.attn_{part}.{kind}": permuted(values, heads)}
        return None

    return convert


RMS, LN = {"rms_norm_eps": 1e-5}, {"layer_norm_eps": 1e-5}
HEAD_20 = {"attention__key_length": 20, "attention__value_length": 20}
SMALL, WIDE = (2, 64, 64, 3, 1), (2, 96, 64, 3, 1)
DEEP = (4, 64, 64, 3, 1)
YARN = {
    "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 1.0,
    "rope_theta": 10000.0, "rope_type": "yarn",
}  # fmt: skip
YARN_KEYS = {
    "rope__scaling__type": "yarn", "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 16,
    "rope__scaling__yarn_beta_fast": 4.0, "rope__scaling__yarn_beta_slow": 1.0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip

MODELS = [
    arch("gemma", "head_dim 20, GELU gate, tied", "Gemma", SMALL,
         {**RMS, "head_dim": 20, "hidden_activation": "gelu_pytorch_tanh"}, {**HEAD_20},
         has_one_plus=True),
    arch("gemma2", "soft caps, window 8 on every other layer, sandwich norms", "Gemma2", DEEP,
         {**RMS, "head_dim": 20, "query_pre_attn_scalar": 20, "sliding_window": 8,
          "attn_logit_softcapping": 4.0, "final_logit_softcapping": 30.0},
         {**HEAD_20, "attention__sliding_window": 8, "attn_logit_softcapping": 4.0,
          "final_logit_softcapping": 30.0}, has_one_plus=True, types=Q4),
    arch("olmo2", "norms behind the branches, q and k normed as whole rows", "Olmo2",
         (2, 96, 64, 6, 2),
         {**RMS}, {}, is_tied=False, types=Q5),
    arch("olmo3", "window 8 on three of four layers, YaRN on the other alone", "Olmo3",
         (4, 96, 32, 3, 1),
         {**RMS, "sliding_window": 8, "rope_parameters": {"full_attention": YARN,
          "sliding_attention": rope()}},
         {"attention__sliding_window": 8, **YARN_KEYS}, is_tied=False, table="olmo2"),
    arch("granite", "four multipliers, head_count_kv as an array", "Granite", (2, 96, 64, 6, 2),
         {**RMS, "embedding_multiplier": 6.0, "residual_multiplier": 0.35,
          "attention_multiplier": 0.3, "logits_scaling": 2.5},
         {"embedding_scale": 6.0, "residual_scale": 0.35, "attention__scale": 0.3,
          "logit_scale": 2.5, "attention__head_count_kv": np.array([2, 2], np.int32)},
         convert=norm_rope(6, 2), types=Q41),
    arch("minicpm", "multipliers by default, since the file gives none", "Granite", WIDE,
         {**RMS, "embedding_multiplier": 12.0, "residual_multiplier": 1.4 / math.sqrt(2),
          "attention_multiplier": 32**-0.5, "logits_scaling": 96 / 256}, {},
         convert=norm_rope(3, 1), reference="transformers (Granite, with MiniCPM's constants)"),
    arch("minicpm5", "the graph of minicpm under its own name", "Granite", WIDE,
         {**RMS, "embedding_multiplier": 3.0, "residual_multiplier": 0.5,
          "attention_multiplier": 32**-0.5, "logits_scaling": 2.0},
         {"embedding_scale": 3.0, "residual_scale": 0.5, "logit_scale": 2.0}, table="minicpm",
         convert=norm_rope(3, 1), reference="transformers (Granite, with MiniCPM's constants)"),
    arch("smollm3", "the fourth layer does not rotate", "SmolLM3", (4, 96, 32, 3, 1), {**RMS}, {},
         convert=norm_rope(3, 1)),
    arch("internlm2", "a llama under its own name", "Llama", WIDE, {**RMS}, {}, is_tied=False,
         convert=norm_rope(3, 1), table="llama",
         reference="transformers (Llama, whose formulas InternLM 2 shares)"),
    arch("baichuan", "a llama without grouped heads", "Llama", (2, 96, 64, 6, 6), {**RMS}, {},
         is_tied=False, convert=norm_rope(6, 6), table="llama", types=Q4,
         reference="transformers (Llama, whose formulas Baichuan 7B shares)"),
    arch("exaone4", "window 8 and rotation on three of four layers, norms behind", "Exaone4",
         (4, 64, 64, 3, 1), {**RMS, "head_dim": 20, "sliding_window": 8,
                             "sliding_window_pattern": 4},
         {**HEAD_20, "attention__sliding_window": 8}, types=Q5),
    arch("exaone4-full", "without a window every layer rotates; Llama 3 scaling", "Exaone4",
         WIDE, {**RMS, "sliding_window": None, "layer_types": ["full_attention"] * 2,
                "rope_parameters": LLAMA3}, {}, types=Q41,
         extra_tensors={"rope_freqs.weight": llama3_factors(LLAMA3, 32)}),
    arch("nemotron", "squared ReLU, LayerNorm, half of each head rotates", "Nemotron",
         (2, 96, 96, 3, 1), {"norm_eps": 1e-5, "rope_parameters": rope(partial_rotary_factor=0.5)},
         {"eps": "layer", "rope__dimension_count": 16}, has_one_plus=True, is_tied=False),
    arch("mistral3", "YaRN, queries tempered beyond 16 positions", "Ministral3", WIDE,
         {**RMS, "head_dim": 32, "rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0,
                                                    "llama_4_scaling_beta": 0.3}},
         {**YARN_KEYS, "rope__scaling__yarn_log_multiplier": 1.0,
          "attention__temperature_scale": 0.3}, convert=norm_rope(3, 1)),
    arch("ministral3", "the graph of mistral3 under its own name", "Ministral3", SMALL,
         {**RMS, "head_dim": 20, "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.4}},
         {**HEAD_20, **YARN_KEYS, "attention__temperature_scale": 0.4}, table="mistral3",
         convert=norm_rope(3, 1), types=Q5),
    arch("llama-yarn", "YaRN, its attention factor from the factor", "Llama", WIDE,
         {**RMS, "rope_parameters": YARN}, {**YARN_KEYS}, convert=norm_rope(3, 1)),
    arch("llama-window", "Mistral 7B v0.1: window 12 on every layer", "Mistral", WIDE,
         {**RMS, "head_dim": 32, "sliding_window": 12}, {"attention__sliding_window": 12},
         convert=norm_rope(3, 1), is_tied=False, types=Q4),
]  # fmt: skip
