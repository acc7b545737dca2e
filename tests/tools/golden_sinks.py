"""Freeze attention with sinks as Hugging Face transformers computes it for gpt-oss.

Needs torch and transformers:

    python tests/tools/golden_sinks.py --out tests/data/attention_sinks.npz
"""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import numpy as np
import torch
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

N_TOKENS, N_HEAD, N_HEAD_KV, HEAD_DIM, HEAD_DIM_V, WINDOW = 9, 4, 2, 16, 8, 5


def main() -> None:
    """Draw inputs, run the reference with and without a window, and write both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rng = np.random.default_rng(7)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    data = {
        "q": draw(N_TOKENS, N_HEAD, HEAD_DIM),
        "k": draw(N_TOKENS, N_HEAD_KV, HEAD_DIM),
        "v": draw(N_TOKENS, N_HEAD_KV, HEAD_DIM_V),
        "sinks": draw(N_HEAD) * 2,
    }
    at = np.arange(N_TOKENS)
    for name, window in (("all", 0), ("window", WINDOW)):
        seen = at[None, :] <= at[:, None]
        if window:
            seen &= at[None, :] > at[:, None] - window
        mask = torch.from_numpy(np.where(seen, 0, -np.inf).astype(np.float32))[None, None]
        module = SimpleNamespace(
            num_key_value_groups=N_HEAD // N_HEAD_KV,
            sinks=torch.from_numpy(data["sinks"]),
            training=False,
        )
        q, k, v = (torch.from_numpy(data[p]).transpose(0, 1)[None] for p in "qkv")
        y, _ = eager_attention_forward(module, q, k, v, mask, scaling=HEAD_DIM**-0.5)
        data[f"y_{name}"] = y[0].numpy()
    np.savez_compressed(args.out, window=WINDOW, **data)


if __name__ == "__main__":
    main()
