"""Write the tiny random models of tests/data/golden and their reference logits.

    python tests/tools/make_golden.py --out tests/data/golden [--only NAME ...]

Needs torch, transformers and gguf (CPU). Each model is written as a GGUF file; the file is read
back with the `gguf` package, its dequantised weights go into the Hugging Face model of that
architecture, and that model's float32 logits are frozen. tests/data/README.md describes the files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from golden_models import MODELS, GoldenModel, load_reference, write_model
from golden_vocab import Vocab
from transformers import PreTrainedModel

PROMPT_LENGTHS = (1, 2, 7, 33, 71)
N_LOGIT_ROWS = 5  # rows kept per prompt: the last ones, so every prompt has its final position
N_GREEDY = 16
# A greedy step's margin, as a share of its logits' range, is at least this: four times the
# loosest tolerance that greedy continuations are compared under (2e-3, float16 KV cache).
MIN_MARGIN = 8e-3
MIN_DISTINCT = 5
MAX_TRIES = 400


def compute_logits(model: PreTrainedModel, ids: list[int]) -> np.ndarray:
    """Logits at every position, [n_tokens, n_vocab], without a KV cache."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()


def margins(logits: np.ndarray) -> np.ndarray:
    """Top-1 minus top-2 of each row."""
    top = np.partition(logits, -2, axis=-1)[:, -2:]
    return top[:, 1] - top[:, 0]


def spans(logits: np.ndarray) -> np.ndarray:
    """max - min of each row: the range that tolerances are relative to."""
    return logits.max(axis=-1) - logits.min(axis=-1)


def continue_greedily(
    model: PreTrainedModel, prompt: list[int], stop_ids: set[int]
) -> dict[str, np.ndarray] | None:
    """N_GREEDY tokens by argmax; None if a margin is too slim, it would end, or it only repeats."""
    ids = list(prompt)
    rows = []
    for _ in range(N_GREEDY):
        row = compute_logits(model, ids)[-1:]
        token = int(row.argmax())
        if token in stop_ids or margins(row)[0] < MIN_MARGIN * spans(row)[0]:
            return None
        rows.append(row[0])
        ids.append(token)
    if len(set(ids[len(prompt) :])) < MIN_DISTINCT:
        return None
    logits = np.stack(rows)
    return {
        "greedy": np.array(ids[len(prompt) :], dtype=np.int32),
        "greedy_margin": margins(logits),
        "greedy_range": spans(logits),
    }


def pick_prompt(
    model: PreTrainedModel, vocab: Vocab, n_tokens: int, rng: np.random.Generator
) -> tuple[list[int], dict[str, np.ndarray]]:
    """Random ids (BOS first where the file asks for it) whose greedy continuation is clear."""
    for _ in range(MAX_TRIES):
        ids = [int(i) for i in rng.choice(vocab.plain_ids(), n_tokens)]
        if vocab.add_bos and n_tokens > 1:
            ids[0] = vocab.special["bos"]
        greedy = continue_greedily(model, ids, vocab.stop_ids())
        if greedy is not None:
            return ids, greedy
    raise AssertionError(f"no prompt of {n_tokens} tokens has clear margins in {MAX_TRIES} tries")


def make_arrays(spec: GoldenModel, model: PreTrainedModel, vocab: Vocab) -> dict[str, np.ndarray]:
    """Everything in one model's .npz, by key."""
    rng = np.random.default_rng(1000 + spec.seed)
    arrays: dict[str, np.ndarray] = {"n_prompts": np.int32(len(PROMPT_LENGTHS))}
    for i, n_tokens in enumerate(PROMPT_LENGTHS):
        ids, greedy = pick_prompt(model, vocab, n_tokens, rng)
        logits = compute_logits(model, ids)
        n_rows = min(n_tokens, N_LOGIT_ROWS)
        arrays |= {
            f"p{i}_ids": np.array(ids, dtype=np.int32),
            f"p{i}_rows": np.arange(n_tokens - n_rows, n_tokens, dtype=np.int32),
            f"p{i}_logits": logits[-n_rows:].astype(np.float32),
            f"p{i}_argmax": logits.argmax(axis=-1).astype(np.int32),
            f"p{i}_margin": margins(logits),
            f"p{i}_range": spans(logits),
        } | {f"p{i}_{key}": value for key, value in greedy.items()}
    return arrays


def float64_noise(model: PreTrainedModel, arrays: dict[str, np.ndarray]) -> float:
    """Largest distance of the frozen logits from a float64 run, as a share of the range."""
    model = model.double()
    worst = 0.0
    for i in range(int(arrays["n_prompts"])):
        exact = compute_logits(model, arrays[f"p{i}_ids"].tolist())[arrays[f"p{i}_rows"]]
        error = np.abs(exact - arrays[f"p{i}_logits"]).max(axis=-1) / spans(exact)
        worst = max(worst, float(error.max()))
    return worst


def make_one(spec: GoldenModel, out: Path) -> dict[str, Any]:
    """Write one model's two files; returns its entry of index.json."""
    path = out / f"{spec.name}.gguf"
    vocab = write_model(spec, path)
    model = load_reference(spec, path)
    arrays = make_arrays(spec, model, vocab)
    np.savez_compressed(out / f"{spec.name}.npz", **arrays)
    greedy = [arrays[f"p{i}_greedy"] for i in range(len(PROMPT_LENGTHS))]
    entry = {
        "name": spec.name,
        "architecture": spec.architecture,
        "covers": spec.covers,
        "model": path.name,
        "golden": f"{spec.name}.npz",
        "types": sorted({spec.quant_type(t.name).name for t in gguf.GGUFReader(path).tensors
                         if len(t.shape) > 1}),
        "n_vocab": len(vocab.tokens),
        "sliding_window": spec.sliding_window,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "float64_noise": float(f"{float64_noise(model, arrays):.2g}"),
    }  # fmt: skip
    smallest = min(float(arrays[f"p{i}_range"].min()) for i in range(len(PROMPT_LENGTHS)))
    print(
        f"{spec.name:20} {path.stat().st_size:8} B, noise {entry['float64_noise']:.1e}, "
        f"range >= {smallest:.1f}, greedy distinct {[len(set(g.tolist())) for g in greedy]}"
    )
    return entry


def main() -> None:
    """Write the chosen models, and index.json over all that have been written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[spec.name for spec in MODELS])
    args = parser.parse_args()
    torch.set_num_threads(1)  # one summation order, whatever the machine
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)
    index_path = args.out / "index.json"
    known = json.loads(index_path.read_text())["models"] if index_path.exists() else []
    entries = {entry["name"]: entry for entry in known}
    for spec in MODELS:
        if spec.name in args.only:
            entries[spec.name] = make_one(spec, args.out)
    versions = {m.__name__: m.__version__ for m in (torch, transformers, np)}
    document = {
        "made_by": "tests/tools/make_golden.py",
        "versions": versions | {"gguf": _gguf_version()},
        "n_greedy": N_GREEDY,
        "models": [entries[spec.name] for spec in MODELS if spec.name in entries],
    }
    index_path.write_text(json.dumps(document, indent=1) + "\n")


def _gguf_version() -> str:
    from importlib.metadata import version

    return version("gguf")


if __name__ == "__main__":
    main()
