"""The tiny models of families with LayerNorm, fused tensors, or a state of their own."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers as hf

from tests.tools.arch_models import N_CTX, ArchModel, Tensors, sizes_keys
from tests.tools.arch_specs import LN, Q4, Q5, Q41, RMS, WIDE, arch, config, norm_rope, rope

LAYER = {"eps": "layer"}
HALF = rope(partial_rotary_factor=0.5)
N_OLD, SHORT, LONG = 32, np.linspace(1, 1.6, 16), np.linspace(1.2, 9, 16)
LONGROPE = rope(kind="longrope", short_factor=SHORT.tolist(), long_factor=LONG.tolist(),
                original_max_position_embeddings=N_OLD)  # fmt: skip
LONGROPE_KEYS = {
    "rope__scaling__type": "longrope",
    "rope__scaling__original_context_length": N_OLD,
    "rope__scaling__attn_factor": math.sqrt(1 + math.log(N_CTX / N_OLD) / math.log(N_OLD)),
}
LONGROPE_TENSORS = {
    "rope_factors_short.weight": SHORT.astype(np.float32),
    "rope_factors_long.weight": LONG.astype(np.float32),
}


def conv1d(name: str, values: np.ndarray) -> Tensors | None:
    """GPT-2 stores its matrices as [n_in, n_out]."""
    if ".c_" not in name or values.ndim < 2:
        return None
    layer, block, part = name.split(".")[2:5]
    tensor = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up",
              "mlp.c_proj": "ffn_down"}[f"{block}.{part}"]  # fmt: skip
    return {f"blk.{layer}.{tensor}.weight": values.T}


def sorted_heads(n_head: int) -> Any:
    """GPT-NeoX stores q, k and v of each head side by side; the file has them one after another."""

    def convert(name: str, values: np.ndarray) -> Tensors | None:
        if "query_key_value" not in name:
            return None
        heads = values.reshape(n_head, 3, -1, *values.shape[1:]).swapaxes(0, 1)
        return {
            f"blk.{name.split('.')[2]}.attn_qkv.{name.split('.')[-1]}": heads.reshape(values.shape)
        }

    return convert


def head_norms(name: str, values: np.ndarray) -> Tensors | None:
    """StableLM 12B has a norm for each head; the file has one tensor of all."""
    if "_layernorm.norms" not in name:
        return None
    layer, part, head = name.split(".")[2], name.split(".")[4][0], name.split(".")[6]
    return {f"blk.{layer}.attn_{part}_norm.weight#{head}": values}


def short_conv_names(name: str, values: np.ndarray) -> Tensors | None:
    """LFM2's convolution without its dimension of one."""
    if not name.endswith("conv.conv.weight"):
        return None
    return {f"blk.{name.split('.')[2]}.shortconv.conv.weight": values[:, 0]}


GEMMA4: dict[str, Any] = {
    **RMS, "head_dim": 20, "global_head_dim": 32, "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 67,
    "final_logit_softcapping": 30.0,
    "rope_parameters": {
        "sliding_attention": rope(),
        "full_attention": rope(1e5, kind="proportional", partial_rotary_factor=0.25),
    },
}  # fmt: skip
GEMMA4_KEYS: dict[str, Any] = {
    "attention__key_length": 32, "attention__value_length": 32, "attention__key_length_swa": 20,
    "attention__value_length_swa": 20, "attention__sliding_window": 8,
    "attention__sliding_window_pattern": np.array([True, False, True, False]),
    "attention__shared_kv_layers": 2, "embedding_length_per_layer_input": 12,
    "rope__freq_base": 1e5, "rope__freq_base_swa": 10000.0, "rope__dimension_count": 32,
    "rope__dimension_count_swa": 20, "final_logit_softcapping": 30.0,
}  # fmt: skip


def gemma4_names(name: str, values: np.ndarray) -> Tensors | None:
    """Names that the table of the `gguf` package spells with another prefix."""
    top = {
        "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
        "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
        "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
    }
    parts = {"per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
             "post_per_layer_input_norm": "post_norm"}  # fmt: skip
    if name in top:
        return {top[name]: values}
    part = name.split(".")[3] if name.startswith("model.layers") else ""
    return {f"blk.{name.split('.')[2]}.{parts[part]}.weight": values} if part in parts else None


def layer_scalars(name: str, values: np.ndarray) -> Tensors:
    """Each layer's output is scaled by one number, which transformers keeps as a buffer."""
    if not name.endswith("layer_scalar"):
        return {}
    layer = int(name.split(".")[2])
    values[...] = 0.75 + 0.25 * layer
    return {f"blk.{layer}.layer_output_scale.weight": values.copy()}


def looped(n_loops: int, has_norm: bool, n_vocab: int) -> torch.nn.Module:
    """A Llama whose layers are run several times, as Nanbeige describes it."""
    n_layer = 2
    sizes = (n_layer, 96, 64, 3, 1)
    settings = config(*sizes, n_vocab, rms_norm_eps=1e-5, rope_parameters=rope())
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**settings))
    layers = [model.model.layers[i % n_layer] for i in range(n_layer * n_loops)]
    run = torch.nn.Module.__call__

    class Loop(torch.nn.Module):
        """The later runs of the stack, behind the last layer of the first."""

        def __init__(self, last: torch.nn.Module) -> None:
            super().__init__()
            self.last = last

        def forward(self, x: torch.Tensor, **more: Any) -> torch.Tensor:
            x = run(self.last, x, **more)
            for i, layer in enumerate(layers[n_layer:]):
                if i % n_layer == 0 and has_norm:
                    x = model.model.norm(x)
                x = run(layer if layer is not layers[n_layer - 1] else self.last, x, **more)
            return x

    model.model.layers[n_layer - 1] = Loop(layers[n_layer - 1])
    return model


def loop_names(name: str, values: np.ndarray) -> Tensors | None:
    """The wrapper of ``looped`` adds a word to its layer's names."""
    plain = name.replace(".last.", ".")
    found = norm_rope(3, 1)(plain, values)
    if found is None and plain != name:
        spec = next(m for m in MODELS if m.architecture == "nanbeige")
        return {spec.rename(plain): values}
    return found


def nanbeige(name: str, has_norm: bool) -> ArchModel:
    """Two layers, run three times."""
    keys = {"attention__layer_norm_rms_epsilon": 1e-5, "rope__freq_base": 10000.0, "num_loops": 3}
    return ArchModel(
        name=name,
        architecture="nanbeige",
        covers=f"two layers run three times, {'a' if has_norm else 'no'} norm between",
        make=partial(looped, 3, has_norm),
        keys=sizes_keys(2, 96, 64, 3, 1, **keys, skip_loop_final_norm=not has_norm),
        convert=loop_names,
        table="llama",
        reference="transformers (Llama, its layers run in a loop as Nanbeige describes)",
        seed=sum(name.encode()),
    )


MODELS = [
    arch("phi2", "attention and MLP behind one LayerNorm, half of each head rotates, biases", "Phi",
         (2, 96, 96, 3, 3), {**LN, "hidden_act": "gelu_new", "rope_parameters": HALF},
         {**LAYER, "rope__dimension_count": 16}, is_tied=False),
    arch("phi3", "fused q|k|v and gate|up, longrope within the original context", "Phi3", WIDE,
         {**RMS, "rope_parameters": LONGROPE, "original_max_position_embeddings": N_OLD},
         {**LONGROPE_KEYS}, is_tied=False, n_ctx=N_OLD,
         lengths=(5, 25), extra_tensors=LONGROPE_TENSORS, types=Q4),
    arch("phi3-long", "longrope beyond the original context, window 20", "Phi3", WIDE,
         {**RMS, "rope_parameters": LONGROPE, "sliding_window": 20,
          "original_max_position_embeddings": N_OLD},
         {**LONGROPE_KEYS, "attention__sliding_window": 20}, is_tied=False, lengths=(33, 57),
         extra_tensors=LONGROPE_TENSORS),
    arch("gpt2", "learned positions, fused q|k|v with bias", "GPT2", (2, 96, 96, 6, 6),
         {"causal": "GPT2LMHeadModel", "n_inner": 96, "rope_parameters": None,
          "layer_norm_epsilon": 1e-5}, {**LAYER}, convert=conv1d, types=Q5),
    arch("gpt2-odd", "heads of 15 values, rows of 45", "GPT2", (2, 45, 50, 3, 3),
         {"causal": "GPT2LMHeadModel", "n_inner": 50, "rope_parameters": None,
          "layer_norm_epsilon": 1e-5}, {**LAYER}, convert=conv1d, types={"default": "F16"}),
    arch("qwen3-odd", "heads of 18 values, each normed and turned", "Qwen3", (2, 64, 64, 3, 1),
         {**RMS, "head_dim": 18}, {"attention__key_length": 18, "attention__value_length": 18},
         types={"default": "Q8_0", "attn_output": "BF16"}),
    arch("gptneox", "parallel residual, a quarter of each head rotates, exact GELU", "GPTNeoX",
         (2, 96, 96, 3, 3), {**LN, "hidden_act": "gelu",
                             "rope_parameters": rope(partial_rotary_factor=0.25)},
         {**LAYER, "rope__dimension_count": 8, "use_parallel_residual": True}, is_tied=False,
         convert=sorted_heads(3), types=Q41),
    arch("gptneox-serial", "one branch after the other", "GPTNeoX", (2, 96, 64, 6, 6),
         {**LN, "hidden_act": "gelu", "use_parallel_residual": False, "rope_parameters": HALF},
         {**LAYER, "rope__dimension_count": 8, "use_parallel_residual": False}, is_tied=False,
         convert=sorted_heads(6)),
    arch("starcoder2", "biases throughout, an MLP without a gate, window 12", "Starcoder2",
         (2, 96, 96, 6, 2), {"norm_epsilon": 1e-5, "sliding_window": 12},
         {**LAYER, "attention__sliding_window": 12}, types=Q4),
    arch("stablelm", "LayerNorm with bias, a quarter of each head rotates, q/k/v biases",
         "StableLm", WIDE,
         {**LN, "use_qkv_bias": True, "rope_parameters": rope(partial_rotary_factor=0.25)},
         {**LAYER, "rope__dimension_count": 8}, is_tied=False, types=Q5),
    arch("stablelm-12b", "a norm for each head, parallel residual", "StableLm", (2, 96, 64, 6, 2),
         {**LN, "qk_layernorm": True, "use_parallel_residual": True, "rope_parameters": HALF},
         {**LAYER, "rope__dimension_count": 8}, is_tied=False, convert=head_norms),
    arch("command-r", "parallel residual, logits scaled", "Cohere", WIDE,
         {**LN, "logit_scale": 0.25},
         {**LAYER, "logit_scale": 0.25}, architecture="command-r", types=Q41),
    arch("command-r-plus", "a norm for each head", "Cohere", (2, 96, 64, 6, 2),
         {**LN, "logit_scale": 0.5, "use_qk_norm": True}, {**LAYER, "logit_scale": 0.5},
         architecture="command-r"),
    arch("cohere2", "window 8 and rotation on three of four layers", "Cohere2", (4, 96, 32, 3, 1),
         {**LN, "logit_scale": 0.25, "sliding_window": 8},
         {**LAYER, "logit_scale": 0.25, "attention__sliding_window": 8}, types=Q4),
    arch("olmo", "LayerNorm without weights, q, k and v clamped", "Olmo", WIDE, {"clip_qkv": 1.5},
         {**LAYER, "attention__clamp_kqv": 1.5}, is_tied=False, convert=norm_rope(3, 1)),
    arch("lfm2", "short convolutions of 3 taps beside attention", "Lfm2", (3, 64, 32, 4, 1),
         {"norm_eps": 1e-5, "block_auto_adjust_ff_dim": False, "conv_L_cache": 3,
          "layer_types": ["conv", "full_attention", "conv"]},
         {"shortconv__l_cache": 3, "attention__head_count_kv": np.array([0, 1, 0], np.int32)},
         convert=short_conv_names, lengths=(1, 41, 97), types=Q5),
    arch("lfm2-4-taps", "short convolutions of 4 taps", "Lfm2", (2, 96, 64, 6, 2),
         {"norm_eps": 1e-5, "block_auto_adjust_ff_dim": False, "conv_L_cache": 4,
          "layer_types": ["conv", "full_attention"]},
         {"shortconv__l_cache": 4, "attention__head_count_kv": np.array([0, 2], np.int32)},
         convert=short_conv_names),
    arch("gemma4", "per-layer embeddings, two kinds of heads, the last two layers share caches",
         "Gemma4Text", (4, 64, 32, 3, 1), {"causal": "Gemma4ForCausalLM", **GEMMA4},
         {**GEMMA4_KEYS}, convert=gemma4_names, types=Q4,
         extra_tensors={"rope_freqs.weight": np.float32([1.0] * 4 + [1e30] * 12)},
         buffer_tensors=layer_scalars),
    nanbeige("nanbeige", has_norm=True),
    nanbeige("nanbeige-skip", has_norm=False),
]  # fmt: skip
