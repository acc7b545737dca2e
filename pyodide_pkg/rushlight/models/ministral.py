"""ministral: Ministral 3, where a file names it so; the graph is mistral3's."""

from .mistral3 import build

__all__ = ["build"]
