"""The tiny models of families with experts: odd numbers of them, some shared, some biased."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tests.tools.arch_models import ArchModel, Convert, Tensors, permuted
from tests.tools.arch_more_specs import short_conv_names
from tests.tools.arch_specs import HEAD_20, RMS, arch

N_EXPERT, N_USED, N_FF = 5, 2, 32
EXPERT_KEYS = {
    "expert_count": N_EXPERT, "expert_used_count": N_USED, "expert_feed_forward_length": N_FF,
}  # fmt: skip
MOE = {"num_experts": N_EXPERT, "num_experts_per_tok": N_USED, "moe_intermediate_size": N_FF}
LOCAL = {"num_local_experts": N_EXPERT, "num_experts_per_tok": N_USED}
GPT_OSS_YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 4.0, "beta_slow": 1.0,
    "original_max_position_embeddings": 16, "truncate": True,
}  # fmt: skip


def experts(heads: tuple[int, int] | None = None, interleaved: bool = False) -> Convert:
    """Splits stacks of gate and up; names what the `gguf` package's table does not know.

    ``heads`` permutes q and k as for "norm" rotations. ``interleaved`` is GPT-OSS's layout: gate
    and up take turns, and stacks are [n_expert, n_in, n_out].
    """

    def convert(name: str, values: np.ndarray) -> Tensors | None:
        parts = name.split(".")
        blk = f"blk.{parts[2]}" if len(parts) > 2 else ""
        if heads and ".q_proj" in name:
            return {f"{blk}.attn_q.{parts[-1]}": permuted(values, heads[0])}
        if heads and ".k_proj" in name:
            return {f"{blk}.attn_k.{parts[-1]}": permuted(values, heads[1])}
        if (made := short_conv_names(name, values)) is not None:
            return made
        if ".router." in name:
            return {f"{blk}.ffn_gate_inp.{parts[-1]}": values}
        if "shared_mlp." in name:
            if "output_linear" in name:
                return {f"{blk}.ffn_down_shexp.weight": values}
            half = values.shape[0] // 2
            return {f"{blk}.ffn_gate_shexp.weight": values[:half],
                    f"{blk}.ffn_up_shexp.weight": values[half:]}  # fmt: skip
        if name.endswith(".sinks"):
            return {f"{blk}.attn_sinks.weight": values}
        if ".experts." not in name:
            return None
        kind = "bias" if name.endswith("bias") else "weight"
        if interleaved and kind == "weight":
            values = values.swapaxes(1, 2)
        if "down_proj" in name:
            return {f"{blk}.ffn_down_exps.{kind}": values}
        half = values.shape[1] // 2
        gate, up = (values[:, ::2], values[:, 1::2]) if interleaved else (
            values[:, :half], values[:, half:])  # fmt: skip
        return {f"{blk}.ffn_gate_exps.{kind}": gate, f"{blk}.ffn_up_exps.{kind}": up}

    return convert


def moe(name: str, covers: str, model: str, sizes: tuple[int, int, int, int, int],
        settings: dict[str, Any], keys: dict[str, Any], **more: Any) -> Any:  # fmt: skip
    """A model with experts; ``convert`` splits its stacks unless given."""
    more.setdefault("convert", experts())
    return arch(name, covers, model, sizes, {**RMS, **settings}, {**EXPERT_KEYS, **keys}, **more)


def with_choice_bias(spec: ArchModel) -> ArchModel:
    """LFM 2's bias of the choice is a buffer; enough of it that some choices are its own."""

    def make(n_vocab: int) -> torch.nn.Module:
        model = spec.make(n_vocab)
        for name, buffer in model.named_buffers():
            if name.endswith("expert_bias"):
                buffer.copy_(torch.randint(-8, 9, buffer.shape) / 32)
        return model

    def tensors(name: str, values: np.ndarray) -> Tensors:
        if not name.endswith("expert_bias"):
            return {}
        return {f"blk.{name.split('.')[2]}.exp_probs_b.bias": values}

    return replace(spec, make=make, buffer_tensors=tensors)


MODELS = [
    moe("llama-experts", "Mixtral: two of five experts, shares that sum to one", "Mixtral",
        (2, 96, N_FF, 3, 1), {**LOCAL}, {}, convert=experts((3, 1)), is_tied=False,
        types={"default": "Q8_0", "_exps": "Q4_0"}),
    moe("qwen2moe", "shared experts behind their own gate, shares that do not sum to one",
        "Qwen2Moe", (2, 96, 64, 3, 1),
        {**MOE, "shared_expert_intermediate_size": 64, "norm_topk_prob": False},
        {"expert_shared_feed_forward_length": 64}, types={"default": "Q5_1", "_exps": "Q5_0"}),
    moe("qwen3moe", "q and k normed by head, head_dim 20, three of seven experts", "Qwen3Moe",
        (3, 64, 64, 3, 1),
        {**MOE, "num_experts": 7, "num_experts_per_tok": 3, "norm_topk_prob": True,
         "head_dim": 20},
        {**HEAD_20, "expert_count": 7, "expert_used_count": 3}, types={"default": "Q4_1"}),
    moe("olmoe", "q and k normed as whole rows, shares that do not sum to one", "Olmoe",
        (2, 96, N_FF, 6, 6), {**MOE, "norm_topk_prob": False}, {}, is_tied=False),
    moe("granitemoe", "four multipliers, the softmax of the chosen experts", "GraniteMoe",
        (2, 96, N_FF, 3, 1),
        {**LOCAL, "embedding_multiplier": 6.0, "residual_multiplier": 0.35,
         "attention_multiplier": 0.3, "logits_scaling": 2.5},
        {"embedding_scale": 6.0, "residual_scale": 0.35, "attention__scale": 0.3,
         "logit_scale": 2.5}, convert=experts((3, 1)), types={"default": "Q4_0"}),
    moe("granitemoe-shared", "a shared expert without a gate, two of three experts",
        "GraniteMoeShared", (2, 96, N_FF, 3, 1),
        {**LOCAL, "num_local_experts": 3, "shared_intermediate_size": 64,
         "embedding_multiplier": 6.0, "residual_multiplier": 0.35,
         "attention_multiplier": 0.3, "logits_scaling": 2.5},
        {"embedding_scale": 6.0, "residual_scale": 0.35, "attention__scale": 0.3,
         "logit_scale": 2.5, "expert_count": 3, "expert_shared_feed_forward_length": 64},
        convert=experts((3, 1)), types={"default": "Q8_0"}),
    moe("gpt-oss", "sinks, window 8 on every other layer, biases, clamped gates, YaRN, MXFP4",
        "GptOss", (4, 64, N_FF, 3, 1),
        {**LOCAL, "head_dim": 20, "sliding_window": 8, "rope_parameters": GPT_OSS_YARN},
        {**HEAD_20, "attention__sliding_window": 8, "rope__scaling__type": "yarn",
         "rope__scaling__factor": 4.0, "rope__scaling__original_context_length": 16,
         "rope__scaling__yarn_beta_fast": 4.0, "rope__scaling__yarn_beta_slow": 1.0},
        architecture="gpt-oss", convert=experts(interleaved=True), is_tied=False,
        types={"default": "Q8_0", "_exps": "MXFP4"}),
    with_choice_bias(
        moe("lfm2moe", "short convolutions, a dense layer first, sigmoids, a bias of the choice",
            "Lfm2Moe", (4, 64, 64, 4, 1),
            {**MOE, "num_dense_layers": 1, "norm_eps": 1e-5, "conv_L_cache": 3,
             "layer_types": ["conv", "full_attention", "conv", "full_attention"]},
            {"shortconv__l_cache": 3, "expert_gating_func": 2,
             "attention__head_count_kv": np.array([0, 1, 0, 1], np.int32)},
            types={"default": "Q8_0", "_exps": "Q4_0"})),
]  # fmt: skip
