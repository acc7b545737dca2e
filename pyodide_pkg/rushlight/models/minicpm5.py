"""minicpm5: MiniCPM 5, the same graph as minicpm under its own name."""

from .minicpm import build

__all__ = ["build"]
