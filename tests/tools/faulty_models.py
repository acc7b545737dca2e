"""Model files with one fault each, and the words that a person must find in the answer."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from tests.unit.gguf_bytes import unpack_gguf, write_gguf

GOLDEN = Path(__file__).parent.parent / "data" / "golden"


def faulty_models() -> Iterator[tuple[str, bytes, str]]:
    """(name, bytes, words of the error) of every fault."""
    whole = (GOLDEN / "llama-f32.gguf").read_bytes()
    metadata, tensors = unpack_gguf(whole)
    shape = tensors["blk.0.attn_q.weight"][1]
    unreadable = (bytes(shape[0] * shape[1] // 64 * 36), shape, "NVFP4")
    yield "truncated", whole[: len(whole) // 2], "missing"
    yield "wrong-magic", b"NOPE" + whole[4:], "not a GGUF"
    yield "huge-length", whole[:24] + struct.pack("<Q", 2**62) + whole[32:], "4611686018427387904"
    yield (
        "unsupported-type",
        write_gguf(None, metadata, {**tensors, "blk.0.attn_q.weight": unreadable}),
        "blk.0.attn_q.weight has type NVFP4",
    )
    yield (
        "unknown-architecture",
        write_gguf(None, {**metadata, "general.architecture": "mamba9"}, tensors),
        "'mamba9' is not supported",
    )
    yield "web-page", b"<!doctype html><title>Sign in</title>" + bytes(64), "page"
