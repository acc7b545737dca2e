"""The codebooks of the IQ types as a C header: `python -m tests.tools.wasm_grids`.

The words are those of `rushlight.gguf.quant_tables`; a unit test compares the header with them.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from rushlight.gguf.quant_tables import grid_words

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "worker" / "wasm" / "quants" / "grids.h"
NAMES = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S")
HEAD = """\
// Codebooks of the IQ types, from rushlight/gguf/quant_tables.py by tests/tools/wasm_grids.py.
//
// A word holds the codes of its values, lowest bits first: eight codes of 2 bits (IQ1, IQ2), or
// four codes of 3 bits in a nibble each (IQ3).
#pragma once
#include "../rushlight.h"

// clang-format off
"""


def header() -> str:
    """The text of grids.h."""
    parts = [HEAD]
    for name in NAMES:
        words = [str(word) for word in grid_words(name)]
        parts.append(f"static const u16 GRID_{name}[{len(words)}] = {{\n")
        lines = fill(" ".join(words), 99).split("\n")
        parts.append("".join(line.replace(" ", ",") + ",\n" for line in lines) + "};\n")
    return "".join(parts)


if __name__ == "__main__":
    HEADER.write_text(header(), encoding="utf-8")
