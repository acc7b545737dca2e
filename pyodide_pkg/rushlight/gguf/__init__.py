"""Model files: where their bytes live, their header, their storage types and settings."""

from __future__ import annotations

from .config import ModelConfig, RopeScaling, read_architecture, read_config
from .quants import QUANT_BY_ID, QUANTS, Plane, QuantFormat
from .reader import (
    GgufFile,
    GgufPart,
    TensorInfo,
    read_header,
    read_header_async,
    read_tensor,
)
from .source import (
    AsyncSource,
    BytesSource,
    FileSource,
    Source,
    SyncAsAsync,
    open_source,
)
from .splits import open_parts, open_parts_async

__all__ = [
    "QUANTS",
    "QUANT_BY_ID",
    "AsyncSource",
    "BytesSource",
    "FileSource",
    "GgufFile",
    "GgufPart",
    "ModelConfig",
    "Plane",
    "QuantFormat",
    "RopeScaling",
    "Source",
    "SyncAsAsync",
    "TensorInfo",
    "open_parts",
    "open_parts_async",
    "open_source",
    "read_architecture",
    "read_config",
    "read_header",
    "read_header_async",
    "read_tensor",
]
