"""Rushlight: language models in a browser tab, and natively, from one Python package.

>>> from rushlight import Model
>>> model = Model.load("model.gguf", device="auto")  # doctest: +SKIP
>>> for piece in model.generate("The capital of France is", max_tokens=32, temperature=0):
...     print(piece, end="", flush=True)  # doctest: +SKIP
"""

from __future__ import annotations

from .backends.base import DeviceInfo, Progress
from .errors import (
    ContextFullError,
    DeviceError,
    EngineError,
    InvalidInputError,
    ModelFormatError,
    SourceError,
    UnsupportedModelError,
    UnsupportedOpError,
)
from .generate import Generation
from .model import Model
from .sampling import SamplingParams
from .session import Session
from .tokenizer import Tokenizer

__all__ = [
    "ContextFullError",
    "DeviceError",
    "DeviceInfo",
    "EngineError",
    "Generation",
    "InvalidInputError",
    "Model",
    "ModelFormatError",
    "Progress",
    "SamplingParams",
    "Session",
    "SourceError",
    "Tokenizer",
    "UnsupportedModelError",
    "UnsupportedOpError",
]
