"""The codebooks of the IQ types as C headers: `python -m tests.tools.wasm_grids`.

The words are those of `rushlight.gguf.quant_tables`; a test compares the headers with them.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from rushlight.gguf.quant_tables import grid_words

QUANTS = Path(__file__).resolve().parents[2] / "worker" / "wasm" / "quants"
HEADERS = {
    "grid_words.h": ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"),
    "grid_words_iq1.h": ("IQ1_S",),
}
HEAD = """\
// Codebooks of the IQ types, from rushlight/gguf/quant_tables.py by tests/tools/wasm_grids.py.
//
// A word holds the codes of its values, lowest bits first: eight codes of 2 bits (IQ1, IQ2), or
// four codes of 3 bits in a nibble each (IQ3). X makes a vector of values of it.
#pragma once

// clang-format off
"""


def header(names: tuple[str, ...]) -> str:
    """The text of a header with these grids."""
    parts = [HEAD]
    for name in names:
        lines = wrap(" ".join(f"X({word})" for word in grid_words(name)), 97)
        parts.append(" \\\n".join([f"#define GRID_{name}(X)", *lines]) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    for file, names in HEADERS.items():
        (QUANTS / file).write_text(header(names), encoding="utf-8")
