"""An engine under measurement: it is opened once and then asked for rounds, in turn with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

N_DECODE = 32
PREFILL = (128, 512)
N_CTX = 1024


@dataclass(frozen=True)
class Work:
    """The file that every subject runs, and how much of it a round is."""

    model: str
    n_decode: int = N_DECODE
    prefill: tuple[int, ...] = PREFILL


class Subject(Protocol):
    """One engine on one device with one number of threads; a context manager gives it."""

    name: str
    n_threads: int
    device: str
    """In the engine's own words, for the reader to see that nothing fell back."""

    def round(self) -> dict[str, float]:
        """Tokens per second: "decode", and "pp128" and so on for each prompt length."""


def prompt_name(n_tokens: int) -> str:
    """llama-bench's word for the prefill of so many tokens."""
    return f"pp{n_tokens}"
