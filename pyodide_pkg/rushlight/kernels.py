"""The CPU kernels as files: where they lie, and what ``kernels.json`` says about their calls.

The table is made from ``worker/wasm/rushlight.h`` when the kernels are built, so ids, arguments
and constants are written in one place.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .errors import NoKernelsError

BUILDS = {"relaxed": "kernels-relaxed.wasm", "simd": "kernels.wasm"}
"""Build -> file, the better one first."""
CALL_BYTES = 128
SYNC_BYTES = 64
PLACE_BYTES = 16
"""Unit of a ``place``: addresses are stored divided by it."""
_HEAD = struct.Struct("<2I")


@dataclass(frozen=True)
class KernelTable:
    """Kernel ids, their arguments in order, words of the control block, and shared constants."""

    kernels: Mapping[str, tuple[tuple[str, str], ...]]
    control: tuple[str, ...]
    constants: Mapping[str, int]

    def pack_call(self, kernel: str, flags: int, args: Mapping[str, int | float]) -> bytes:
        """One ``struct call``; an unknown or missing argument is a bug and raises."""
        fields = self.kernels[kernel]
        if unknown := set(args) ^ {name for name, _ in fields}:
            raise AssertionError(f"{kernel}: unknown or missing arguments {sorted(unknown)}")
        code = "".join("f" if kind == "f32" else "I" for _, kind in fields)
        packed = struct.pack(f"<{code}", *(args[name] for name, _ in fields))
        head = _HEAD.pack(self.ids[kernel], flags)
        return (head + packed).ljust(CALL_BYTES, b"\0")

    @property
    def ids(self) -> dict[str, int]:
        """Kernel name -> the id that a call carries."""
        return {name: i for i, name in enumerate(self.kernels)}

    def control_at(self, field: str) -> int:
        """Byte offset of a word of the control block."""
        return 4 * self.control.index(field)

    @property
    def control_bytes(self) -> int:
        """Size of the control block; token ids follow it."""
        return 4 * len(self.control)


def kernel_root() -> Path:
    """The folder of the built kernels: inside the installed package, else where a build puts it."""
    here = Path(__file__).resolve().parent
    for root in (here / "wasm", here.parents[1] / "dist" / "wasm"):
        if (root / "kernels.json").is_file():
            return root
    raise NoKernelsError(
        "The CPU kernels are not in this installation.",
        hint="Run `python build.py wasm`, or install rushlight from its wheel.",
    )


@cache
def kernel_table() -> KernelTable:
    """What kernels.json says."""
    found: dict[str, Any] = json.loads((kernel_root() / "kernels.json").read_text("utf-8"))
    kernels = {
        name: tuple((field, kind) for field, kind in fields)
        for name, fields in found["kernels"].items()
    }
    return KernelTable(kernels, tuple(found["control"]), found["constants"])
