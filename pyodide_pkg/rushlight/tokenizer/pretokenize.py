"""Cutting text into words before merges, by the pattern a model was trained with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ..errors import TokenizerError
from .patterns import ADDS_BOS, FAMILIES, FAMILY_OF, RAW_TEXT, SPACE_MARKS, WHOLE_WORDS
from .unicode_classes import Alphabet, alphabet


@dataclass(frozen=True)
class PreTokenizer:
    """A named way to cut text into words, and the habits that come with the name.

    A step is a pattern, and whether its matches are cut into threes from their right end.
    ``ignore_merges``: a word that is a token is taken whole. ``is_raw``: symbols are characters,
    not the byte alphabet; ``marks_spaces``: with U+2581 for a space.
    """

    name: str
    alphabet: Alphabet
    steps: tuple[tuple[re.Pattern[str], bool], ...]
    ignore_merges: bool = False
    add_bos: bool = False
    is_raw: bool = False
    marks_spaces: bool = False

    def split(self, text: str) -> list[str]:
        """The words of ``text``; joined, they are ``text`` again."""
        collapsed = self.alphabet.collapse(text)
        cuts = [0, len(text)]
        for pattern, in_threes in self.steps:
            cuts = _cut(pattern, collapsed, cuts, in_threes=in_threes)
        return [text[a:b] for a, b in pairwise(cuts) if a < b]


@cache
def find_pre_tokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer that ``tokenizer.ggml.pre`` names.

    Raises TokenizerError for an unknown name, listing the known ones.
    """
    family = FAMILIES.get(FAMILY_OF.get(name, ""))
    if family is None:
        raise TokenizerError(
            f"tokenizer.ggml.pre is {name!r}, a pre-tokenizer that is not known.",
            hint="If the model was trained with a known one, say so with --pre NAME: "
            f"{', '.join(sorted(set(FAMILIES) & set(FAMILY_OF)))} (or another name that "
            "llama.cpp gives one of them).",
        )
    letters = alphabet(tuple(family.extras.items()))
    return PreTokenizer(
        name,
        letters,
        tuple((letters.compile(s), i == family.in_threes) for i, s in enumerate(family.steps)),
        ignore_merges=name in WHOLE_WORDS,
        add_bos=name in ADDS_BOS,
        is_raw=name in RAW_TEXT,
        marks_spaces=name in SPACE_MARKS,
    )


def _cut(
    pattern: re.Pattern[str], collapsed: str, cuts: list[int], *, in_threes: bool
) -> list[int]:
    """More cuts: around every match inside each stretch between two cuts."""
    out = [0]
    add = out.append
    last = 0
    for start, end in pairwise(cuts):
        for match in pattern.finditer(collapsed, start, end):
            a, b = match.span()
            if a > last:
                add(a)
            if in_threes:
                out.extend(range(a + ((b - a) % 3 or 3), b, 3))
            if b > a:
                add(b)
                last = b
        if end > last:
            add(end)
            last = end
    return out
