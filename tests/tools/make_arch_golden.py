"""Write the tiny random models of tests/data/architectures and their reference logits.

    python -m tests.tools.make_arch_golden [--only NAME ...]

Needs torch and transformers (CPU). Weights are drawn on a coarse grid, so that a file packs to a
few tens of KB, and go into the Hugging Face model and, renamed and rearranged as llama.cpp's
converter does, into the GGUF file. For the quantised copy the values of the file's blocks go back
into the Hugging Face model by the same rearrangement.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from tests.tools import arch_encoder_specs, arch_expert_specs, arch_more_specs, arch_specs
from tests.tools.arch_encoder_specs import TEXTS, Encoder, vocabulary
from tests.tools.arch_files import (
    FOLDER,
    INDEX,
    dequantize,
    pack,
    quantize,
    quantized_copy,
    type_of,
)
from tests.tools.arch_models import ArchModel, random_values, stacked
from tests.unit.gguf_bytes import write_gguf

MODELS = [
    *arch_specs.MODELS,
    *arch_more_specs.MODELS,
    *arch_expert_specs.MODELS,
    *arch_encoder_specs.MODELS,
]
N_ROWS = 4  # logits kept per prompt: the last positions
N_GREEDY = 6
MIN_MARGIN = 4e-3  # of the range, at each greedy step: above any backend's rounding
MAX_TRIES = 60
N_VOCAB = 67


def logits_of(model: torch.nn.Module, ids: list[int]) -> np.ndarray:
    """Logits at every position, without a cache."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().numpy()


def greedy(model: torch.nn.Module, prompt: list[int]) -> tuple[list[int], np.ndarray] | None:
    """N_GREEDY tokens by argmax and the last logits; None if a step's margin is too slim."""
    ids = list(prompt)
    for _ in range(N_GREEDY):
        row = logits_of(model, ids)[-1]
        top = np.sort(row)
        if top[-1] - top[-2] < MIN_MARGIN * (top[-1] - top[0]):
            return None
        ids.append(int(row.argmax()))
    return ids[len(prompt) :], logits_of(model, prompt)


def make_prompts(spec: ArchModel, model: torch.nn.Module, kind: str) -> dict[str, np.ndarray]:
    """The golden arrays of one file."""
    rng = np.random.default_rng(spec.seed + (kind == "quant"))
    arrays: dict[str, np.ndarray] = {}
    for i, n_tokens in enumerate(spec.lengths):
        for _ in range(MAX_TRIES):
            ids = [int(t) for t in rng.integers(3, N_VOCAB, n_tokens)]
            if found := greedy(model, ids):
                break
        else:
            raise AssertionError(f"{spec.name}: no prompt of {n_tokens} tokens is clear")
        n_rows = min(N_ROWS, n_tokens)
        arrays |= {
            f"{kind}_{i}_ids": np.array(ids, np.int32),
            f"{kind}_{i}_rows": np.arange(n_tokens - n_rows, n_tokens, dtype=np.int32),
            f"{kind}_{i}_logits": found[1][-n_rows:].astype(np.float32),
            f"{kind}_{i}_greedy": np.array(found[0], np.int32),
        }
    return arrays


def make_embeddings(spec: Encoder, model: torch.nn.Module, kind: str) -> dict[str, np.ndarray]:
    """The golden arrays of an encoder's file: ids, last hidden states, normalised vectors."""
    pieces = {piece: i for i, piece in enumerate(vocabulary())}
    tokenizer = tokenizers.BertWordPieceTokenizer(pieces, lowercase=True)
    arrays: dict[str, np.ndarray] = {}
    for i, text in enumerate(TEXTS):
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        pooled = hidden.mean(dim=0) if spec.pooling == 1 else hidden[0]
        arrays |= {
            f"{kind}_{i}_ids": np.array(ids, np.int32),
            f"{kind}_{i}_hidden": hidden.numpy(),
            f"{kind}_{i}_embedding": torch.nn.functional.normalize(pooled, dim=0).numpy(),
        }
    return arrays


def make_arrays(spec: ArchModel, model: torch.nn.Module, kind: str) -> dict[str, np.ndarray]:
    """The golden arrays of one file."""
    make: Any = make_embeddings if isinstance(spec, Encoder) else make_prompts
    arrays: dict[str, np.ndarray] = make(spec, model, kind)
    return arrays


def fill(spec: ArchModel, model: torch.nn.Module) -> dict[str, np.ndarray]:
    """Random weights into the model; the same as tensors of the file."""
    rng = np.random.default_rng(spec.seed)
    tensors: dict[str, np.ndarray] = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            made = spec.tensors_of(name, np.zeros(tuple(parameter.shape), np.float32))
            values = random_values(name, list(made), tuple(parameter.shape), spec, rng)
            parameter.copy_(torch.from_numpy(values))
            tensors |= spec.tensors_of(name, values)
        for name, buffer in model.named_buffers():
            tensors |= spec.buffer_tensors(name, buffer.numpy())
    return {name: np.ascontiguousarray(v, np.float32) for name, v in stacked(tensors).items()}


def round_trip(spec: ArchModel, model: torch.nn.Module) -> None:
    """Replace the model's weights by what the quantised file holds."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = parameter.numpy().copy()
            places = np.arange(values.size, dtype=np.float64).reshape(values.shape)
            made, sources = spec.tensors_of(name, values), spec.tensors_of(name, places)
            for tensor, stored in made.items():
                kind = type_of(tensor, stored.shape, spec.types)
                if kind != "F32":
                    raw = quantize(np.ascontiguousarray(stored, np.float32), kind)
                    where = sources[tensor].astype(np.int64).reshape(-1)
                    values.reshape(-1)[where] = dequantize(raw, kind).reshape(-1)
            parameter.copy_(torch.from_numpy(values))


def make_one(spec: ArchModel) -> dict[str, Any]:
    """Write one model's two files; returns its entry of index.json."""
    model = spec.make(N_VOCAB).float().eval()
    tensors = {k: (v, v.shape, "F32") for k, v in (fill(spec, model) | spec.extra_tensors).items()}
    data = write_gguf(None, spec.metadata(N_VOCAB), tensors)
    copy = quantized_copy(data, spec.types)
    arrays = make_arrays(spec, model, "f32")
    round_trip(spec, model)
    arrays |= make_arrays(spec, model, "quant")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{spec.name}.gguf.xz").write_bytes(pack(data))
    n_prompts = len(TEXTS) if isinstance(spec, Encoder) else len(spec.lengths)
    np.savez_compressed(FOLDER / f"{spec.name}.npz", n_prompts=n_prompts, **arrays)
    sizes = [(FOLDER / f"{spec.name}{end}").stat().st_size for end in (".gguf.xz", ".npz")]
    spans = [float(np.ptp(v)) for k, v in arrays.items() if k.endswith(("logits", "hidden"))]
    print(f"{spec.name:20} {len(data):7} -> {sizes}, spans {min(spans):.1f}..{max(spans):.1f}")
    return {
        "name": spec.name,
        "architecture": spec.architecture,
        "covers": spec.covers,
        "reference": spec.reference,
        "n_ctx": spec.n_ctx,
        "types": spec.types,
        "sha256": {"f32": _sha256(data), "quant": _sha256(copy)},
    }


def is_encoder(spec: ArchModel) -> bool:
    """Whether a model's answers are vectors."""
    return isinstance(spec, Encoder)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    """Write the chosen models, and index.json over all that have been written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[spec.name for spec in MODELS])
    args = parser.parse_args()
    torch.set_num_threads(1)  # one summation order, whatever the machine
    index = json.loads(INDEX.read_text()) if INDEX.exists() else {"models": [], "encoders": []}
    found = {entry["name"]: entry for entry in [*index["models"], *index["encoders"]]}
    for spec in MODELS:
        if spec.name in args.only:
            torch.manual_seed(spec.seed)
            found[spec.name] = make_one(spec)
    versions = {m.__name__: m.__version__ for m in (torch, transformers, np)}
    document = {
        "made_by": "tests/tools/make_arch_golden.py",
        "versions": versions,
        "models": [found[s.name] for s in MODELS if s.name in found and not is_encoder(s)],
        "encoders": [found[s.name] for s in MODELS if s.name in found and is_encoder(s)],
    }
    INDEX.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
