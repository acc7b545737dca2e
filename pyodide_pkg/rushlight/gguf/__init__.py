"""Model files: where their bytes live, their header, their storage types and settings."""

from __future__ import annotations

from rushlight.gguf.quants import QUANT_BY_ID, QUANTS, Plane, QuantFormat
from rushlight.gguf.reader import (
    GgufFile,
    GgufPart,
    TensorInfo,
    read_header,
    read_header_async,
    read_tensor,
)
from rushlight.gguf.source import (
    AsyncSource,
    BytesSource,
    FileSource,
    Source,
    SyncAsAsync,
    open_source,
)

__all__ = [
    "QUANTS",
    "QUANT_BY_ID",
    "AsyncSource",
    "BytesSource",
    "FileSource",
    "GgufFile",
    "GgufPart",
    "Plane",
    "QuantFormat",
    "Source",
    "SyncAsAsync",
    "TensorInfo",
    "open_source",
    "read_header",
    "read_header_async",
    "read_tensor",
]
