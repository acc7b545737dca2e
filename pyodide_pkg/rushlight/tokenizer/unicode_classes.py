r"""The classes of characters that published word patterns speak of, as ``re`` can use them.

Patterns are written with ``\p{L}``, ``\p{Lu}``, ``\p{N}`` and so on, which ``re`` lacks, and with
a ``\s`` without the control characters that Python's has. So text is first collapsed: every
character beyond ASCII is replaced by one that stands for its class, and the patterns are
translated to name those. Positions stay the same, so the words are cut from the text itself.
Tables of all code points are never built: a character is looked up when it turns up.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

GROUPS = "UloMdnPYSO"
"""Upper and title case, lower case, other letters, marks, decimal digits, other numbers,
punctuation, symbols, white space, and whatever is none of these."""

_GROUP_OF = {
    "Lu": "U", "Lt": "U", "Ll": "l", "Lm": "o", "Lo": "o", "Mn": "M", "Mc": "M", "Me": "M",
    "Nd": "d", "Nl": "n", "No": "n", "Pc": "P", "Pd": "P", "Ps": "P", "Pe": "P", "Pi": "P",
    "Pf": "P", "Po": "P", "Sm": "Y", "Sc": "Y", "Sk": "Y", "So": "Y",
}  # fmt: skip
_NAMES = {
    "L": ("Ulo", "A-Za-z"),
    "Lu": ("U", "A-Z"),
    "Lt": ("U", ""),
    "Ll": ("l", "a-z"),
    "Lm": ("o", ""),
    "Lo": ("o", ""),
    "M": ("M", ""),
    "N": ("dn", "0-9"),
    "Nd": ("d", "0-9"),
    "P": ("P", r"!-#%-*,-/:;?@\[-\]_{}"),
    "S": ("Y", r"$+<=>\^`|~"),
    "s": ("S", r"\t-\r "),
}
r"""Name in a pattern → groups, and its ASCII members. Title case letters count as ``Lu``: no
published pattern tells them apart."""

_SPACES = frozenset(
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\t\n\v\f\r "
)
_FIRST_MEMBER = 0xE000  # private use: no text keeps one, since all beyond ASCII is collapsed

Ranges = tuple[tuple[int, int], ...]


def classify(code_point: int) -> str:
    """The group of a code point, one of ``GROUPS``."""
    char = chr(code_point)
    if char in _SPACES:
        return "S"
    category = unicodedata.category(char)
    if category == "Cn":
        starts, ends, groups = _newer()
        i = bisect_right(starts, code_point) - 1
        return groups[i] if i >= 0 and code_point <= ends[i] else "O"
    return _GROUP_OF.get(category, "O")


def read_ranges(text: str) -> Ranges:
    """Characters and ranges of them, as in a bracket expression: ``一-龥ぁ``."""
    found = re.findall(r"(.)-(.)|(.)", text, re.DOTALL)
    return tuple((ord(a or c), ord(b or c)) for a, b, c in found)


def in_ranges(code_point: int, ranges: Ranges) -> bool:
    """Whether a code point lies in one of the ranges."""
    return any(first <= code_point <= last for first, last in ranges)


class Alphabet(dict[int, int]):
    """Code point → itself (ASCII) or its class's member; filled as characters turn up.

    ``extras`` are further classes of one pattern, name → ranges, which cut across the groups.
    """

    def __init__(self, extras: Mapping[str, Ranges]) -> None:
        super().__init__()
        self._names = tuple(extras)
        self._ranges = tuple(extras.values())

    def __missing__(self, code_point: int) -> int:
        member = code_point
        if code_point >= 0x80:
            bits = sum(1 << i for i, r in enumerate(self._ranges) if in_ranges(code_point, r))
            member = self._member(classify(code_point), bits)
        self[code_point] = member
        return member

    def collapse(self, text: str) -> str:
        """The text with every character beyond ASCII replaced by its class's member."""
        return text if text.isascii() else text.translate(self)

    def compile(self, pattern: str) -> re.Pattern[str]:
        r"""A published pattern, for collapsed text.

        Understands ``\p{Name}``, ``\p{Name-Extra}`` (the class without an extra one), ``\s``,
        ``\S`` and ``\d``; otherwise a pattern must not name a character beyond ASCII.
        """
        assert pattern.isascii(), pattern
        out, in_brackets = [], False
        for token in re.findall(r"\\p\{[\w-]+\}|\\.|.", pattern, re.DOTALL):
            inner = self._class(token)
            if inner is None:
                in_brackets = token == "[" if not in_brackets else token != "]"
                out.append(token)
            elif in_brackets:
                assert token != r"\S", pattern
                out.append(inner)
            else:
                out.append(f"[^{inner}]" if token == r"\S" else f"[{inner}]")
        return re.compile("".join(out))

    def _class(self, token: str) -> str | None:
        """The members of a class as the inside of a bracket expression."""
        if token in (r"\s", r"\S"):
            return self._members("s")
        if token == r"\d":
            return self._members("Nd")
        return self._members(token[3:-1]) if token.startswith(r"\p{") else None

    def _members(self, name: str) -> str:
        name, _, without = name.partition("-")
        groups, ascii_members = _NAMES.get(name, (GROUPS, ""))
        need = 0 if name in _NAMES else 1 << self._names.index(name)
        never = 1 << self._names.index(without) if without else 0
        members = [
            chr(self._member(group, bits))
            for bits in range(1 << len(self._names))
            if bits & need == need and not bits & never
            for group in groups
        ]
        return ascii_members + "".join(members)

    @staticmethod
    def _member(group: str, bits: int) -> int:
        return _FIRST_MEMBER + bits * len(GROUPS) + GROUPS.index(group)


@lru_cache(maxsize=8)
def alphabet(extras: tuple[tuple[str, str], ...]) -> Alphabet:
    """The alphabet with these extra classes (name, ranges); patterns share it."""
    return Alphabet({name: read_ranges(text) for name, text in extras})


@cache
def _newer() -> tuple[Sequence[int], Sequence[int], str]:
    """Starts, ends and groups of the runs of characters that this Python may not know."""
    from .unicode_newer import RUNS

    starts, ends, groups = [], [], []
    for item in RUNS.split():
        start, _, end = item[1:].partition("-")
        starts.append(int(start, 16))
        ends.append(int(end or start, 16))
        groups.append(item[0])
    return starts, ends, "".join(groups)
