"""olmo3: OLMo 3, where a file names it so; llama.cpp's converter calls it olmo2."""

from .olmo2 import build

__all__ = ["build"]
