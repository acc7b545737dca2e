"""The frozen tiny models of tests/data/architectures: packed small, quantised when asked for.

Needs no torch. The F32 file is stored as .gguf.xz; its quantised copy is made from it by the
`gguf` package's quantiser, so only the logits of that copy are frozen.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.unit.gguf_bytes import unpack_gguf, write_gguf

FOLDER = Path(__file__).parents[1] / "data" / "architectures"
INDEX = FOLDER / "index.json"
KINDS = ("f32", "quant")
# Four bytes a float: the context that LZMA models them with.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 2, "pb": 2}]


def entries() -> list[dict[str, Any]]:
    """What index.json says of each model."""
    models: list[dict[str, Any]] = json.loads(INDEX.read_text())["models"]
    return models


def encoders() -> list[dict[str, Any]]:
    """What index.json says of each encoder: their answers are vectors, not logits."""
    models: list[dict[str, Any]] = json.loads(INDEX.read_text())["encoders"]
    return models


def pack(data: bytes) -> bytes:
    """A model file as it is stored."""
    return lzma.compress(data, filters=FILTERS)


def type_of(name: str, shape: tuple[int, ...], types: dict[str, str]) -> str:
    """Storage type of a tensor in the quantised copy: the longest matching suffix, else default."""
    if len(shape) < 2 or shape[-1] % 32 or name.endswith("norm.weight"):
        return "F32"
    stem = name.removesuffix(".weight")
    matches = [key for key in types if stem.endswith(key)]
    return types[max(matches, key=len) if matches else "default"]


def quantize(values: np.ndarray, kind: str) -> np.ndarray:
    """float32 rows as the bytes of a storage type."""
    return gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])


def dequantize(raw: np.ndarray, kind: str) -> np.ndarray:
    """The float32 values of quantised rows."""
    return gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind])


@lru_cache(maxsize=8)
def model_bytes(name: str, kind: str = "f32") -> bytes:
    """A model's file, checked against the hash that its logits came from."""
    entry = next(e for e in [*entries(), *encoders()] if e["name"] == name)
    data = lzma.decompress((FOLDER / f"{name}.gguf.xz").read_bytes())
    if kind == "quant":
        data = quantized_copy(data, entry["types"])
    digest = hashlib.sha256(data).hexdigest()
    assert digest == entry["sha256"][kind], f"{name} ({kind}) is not the file of the golden logits"
    return data


def quantized_copy(data: bytes, types: dict[str, str]) -> bytes:
    """The same file with its matrices quantised."""
    metadata, tensors = unpack_gguf(data)
    for name, (raw, shape, _) in tensors.items():
        kind = type_of(name, shape, types)
        if kind != "F32":
            values = np.frombuffer(raw, "<f4").reshape(shape)
            tensors[name] = (quantize(values, kind), shape, kind)
    return write_gguf(None, metadata, tensors)


def golden(name: str, kind: str) -> list[dict[str, np.ndarray]]:
    """Prompts of a model with the reference's answers."""
    with np.load(FOLDER / f"{name}.npz") as data:
        n = int(data["n_prompts"])
        keys = ("ids", "rows", "logits", "greedy")
        return [{key: data[f"{kind}_{i}_{key}"] for key in keys} for i in range(n)]


def golden_texts(name: str, kind: str) -> list[dict[str, np.ndarray]]:
    """Of each text an encoder read: the reference's ids, hidden states and vector."""
    with np.load(FOLDER / f"{name}.npz") as data:
        keys = ("ids", "hidden", "embedding")
        return [
            {key: data[f"{kind}_{i}_{key}"] for key in keys} for i in range(int(data["n_prompts"]))
        ]
