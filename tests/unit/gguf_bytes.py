"""Writes small GGUF files for tests, independently of the reader and of the gguf package."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.gguf import open_source, read_header
from rushlight.gguf.quants import QUANTS

CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY, BOOL, U32, I32, F32, U64, I64 = 8, 9, 7, 4, 5, 6, 10, 11
DTYPE_IDS = {"u1": 0, "i1": 1, "u2": 2, "i2": 3, "u4": 4, "i4": 5, "f4": 6, "b1": 7}
DTYPE_IDS |= {"u8": 10, "i8": 11, "f8": 12}


@dataclass(frozen=True)
class Typed:
    """A value whose GGUF type is given rather than guessed."""

    type_id: int
    value: Any


def type_of(value: Any) -> int:
    if isinstance(value, Typed):
        return value.type_id
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return U32 if 0 <= value < 1 << 32 else U64 if value >= 0 else I32
    if isinstance(value, float):
        return F32
    if isinstance(value, str | bytes):
        return STRING
    return ARRAY


def pack_string(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def pack_value(value: Any, type_id: int) -> bytes:
    if isinstance(value, Typed):
        value = value.value
    if type_id == STRING:
        return pack_string(value)
    if type_id != ARRAY:
        return struct.pack("<" + CODES[type_id], value)
    if isinstance(value, np.ndarray):
        element = DTYPE_IDS[value.dtype.str[1:]]
        return struct.pack("<IQ", element, len(value)) + value.tobytes()
    element = type_of(value[0]) if len(value) else STRING
    body = b"".join(pack_value(item, element) for item in value)
    return struct.pack("<IQ", element, len(value)) + body


def write_gguf(
    path: str | Path | None,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[Any, tuple[int, ...], str]] | None = None,
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """The bytes of a GGUF file, also written to ``path`` unless it is None.

    ``tensors`` maps a name to (packed bytes or array, shape in numpy order, type name). Metadata
    values are typed by guess; wrap one in Typed to choose.
    """
    metadata = dict(metadata)
    if alignment != 32:
        metadata["general.alignment"] = alignment
    out = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(tensors or {}), len(metadata)))
    for key, value in metadata.items():
        out += pack_string(key) + struct.pack("<I", type_of(value))
        out += pack_value(value, type_of(value))
    data = bytearray()
    for name, (raw, shape, type_name) in (tensors or {}).items():
        raw = raw.tobytes() if isinstance(raw, np.ndarray) else bytes(raw)
        out += pack_string(name) + struct.pack("<I", len(shape))
        out += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", QUANTS[type_name].id, len(data))
        data += raw + bytes(-len(raw) % alignment)
    out += bytes(-len(out) % alignment)
    result = bytes(out + data)
    if path is not None:
        Path(path).write_bytes(result)
    return result


def unpack_gguf(origin: str | Path | bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata and tensors of a file, as ``write_gguf`` takes them."""
    source = open_source(origin)
    file = read_header(source)
    tensors = {
        t.name: (source.read(t.offset, t.n_bytes), t.shape, t.type.name)
        for t in file.tensors.values()
    }
    source.close()
    return dict(file.metadata), tensors


def tiny_gguf(**more: Any) -> bytes:
    """A small valid file that has one of everything."""
    metadata = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": 2,
        "llama.context_length": 64,
        "llama.embedding_length": 32,
        "llama.feed_forward_length": 64,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": np.array([2, 4], "<i4"),
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.tokens": ["<s>", "a", "ё", b"\xff\xfe"],
        "tokenizer.ggml.scores": np.array([0, -1, -2, -3], "<f4"),
        "tokenizer.ggml.add_bos_token": True,
        "misc.nested": [[1, 2], [3]],
        "misc.flags": np.array([True, False]),
        "misc.big": 1 << 40,
        "misc.negative": -5,
        "misc.double": Typed(12, 0.1),
        **more,
    }
    rng = np.random.default_rng(1)
    tensors: dict[str, tuple[Any, tuple[int, ...], str]] = {
        "token_embd.weight": (rng.integers(0, 256, 4 * 34, np.uint8), (4, 32), "Q8_0"),
        "output_norm.weight": (np.ones(32, "<f4"), (32,), "F32"),
        "stack": (rng.integers(0, 256, 2 * 3 * 2 * 18, np.uint8), (2, 3, 64), "Q4_0"),
    }
    return write_gguf(None, metadata, tensors)
