r"""Cutting text into words before byte-pair merges, by the pattern a model was trained with.

The published patterns speak of ``\p{L}``, ``\p{N}`` and ``\p{P}``, which ``re`` lacks, and of a
``\s`` without the control characters that Python's has. So text is first collapsed: every
character beyond ASCII is replaced by one fixed member of its class, and the patterns then need
only those members. Positions stay the same, so the words are cut from the text itself.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ..errors import TokenizerError

_LETTER, _NUMBER, _PUNCTUATION, _SPACE, _OTHER = "\xaa\xb2\xa1\xa0\xac"
_CLASS_MEMBERS = {"L": _LETTER, "N": _NUMBER, "P": _PUNCTUATION, "S": _SPACE}
_SPACES = frozenset(
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

# Characters of Unicode 15 and 16, which the tables of older Python versions do not know.
_NEWER = (
    "P1B4E-1B4F P1B7F L1C89-1C8A LA7CB-A7CD LA7DA-A7DC L105C0-105F3 N10D40-10D49 L10D4A-10D65 "
    "P10D6E L10D6F-10D85 L10EC2-10EC4 L1123F-11240 L11380-11389 L1138B L1138E L11390-113B5 "
    "L113B7 L113D1 L113D3 P113D4-113D5 P113D7-113D8 N116D0-116E3 P11B00-11B09 L11BC0-11BE0 "
    "P11BE1 N11BF0-11BF9 L11F02 L11F04-11F10 L11F12-11F33 P11F43-11F4F N11F50-11F59 L1342F "
    "L13441-13446 L13460-143FA L16100-1611D N16130-16139 L16D40-16D6C P16D6D-16D6F "
    "N16D70-16D79 L18CFF L1B132 L1B155 N1CCF0-1CCF9 N1D2C0-1D2D3 L1DF25-1DF2A L1E030-1E06D "
    "L1E4D0-1E4EB N1E4F0-1E4F9 L1E5D0-1E5ED L1E5F0 N1E5F1-1E5FA P1E5FF L2B739 L2EBF0-2EE5D "
    "L31350-323AF"
)

_L = f"A-Za-z{_LETTER}"
_N = f"0-9{_NUMBER}"
_P = rf"!-#%-*,-/:;?@\[-\]_{{}}{_PUNCTUATION}"
_S = rf"\t-\r {_SPACE}"

_SPACES_LAST = rf"[{_S}]+(?![^{_S}])|[{_S}]+"
_GPT2 = rf"'(?:[stmd]|re|ve|ll)| ?[{_L}]+| ?[{_N}]+| ?[^{_S}{_L}{_N}]+|" + _SPACES_LAST
_LLAMA3 = (
    r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
    rf"|[^\r\n{_L}{_N}]?[{_L}]+|[{_N}]{{1,3}}| ?[^{_S}{_L}{_N}]+[\r\n]*|[{_S}]*[\r\n]+|"
) + _SPACES_LAST
_QWEN2 = _LLAMA3.replace("{1,3}", "")

# Each step cuts the words of the step before; text between matches is kept as words too.
_STEPS = {
    "gpt-2": (_GPT2,),
    "llama-bpe": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "smollm": (f"[{_N}]", _GPT2),
    "default": (rf"[{_P}$+<=>^~|]+", _GPT2, f"[{_N}]+", "[0-9][0-9][0-9]"),
}

# The names under which files ask for these patterns.
_FAMILIES = {
    "default": "default",
    "gpt-2": "gpt-2 phi-2 mpt olmo jais exaone4 trillion granite-docling mellum modern-bert "
    "gigachat a.x-4.0",
    "llama-bpe": "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe "
    "glm4 chatglm-bpe",
    "qwen2": "qwen2 stablelm2 deepseek-r1-qwen hunyuan solar-open megrez kormo f2llmv2 grok-2",
    "smollm": "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}
# These share the pattern of Llama 3, not its habit of taking whole words and adding BOS.
_PATTERN_ONLY = frozenset({"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"})


@dataclass(frozen=True)
class PreTokenizer:
    """A named way to cut text into words, and the habits that come with the name."""

    name: str
    steps: tuple[re.Pattern[str], ...]
    ignore_merges: bool = False
    add_bos: bool = False

    def split(self, text: str) -> list[str]:
        """The words of ``text``; joined, they are ``text`` again."""
        collapsed = text if text.isascii() else text.translate(_COLLAPSE)
        if len(self.steps) == 1 and collapsed is text:
            return self.steps[0].findall(text)
        cuts = [0, len(text)]
        for step in self.steps:
            cuts = _cut(step, collapsed, cuts)
        return [text[a:b] for a, b in pairwise(cuts) if a < b]


def find_pre_tokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer that ``tokenizer.ggml.pre`` names.

    Raises TokenizerError for an unknown name, listing the known ones.
    """
    family = _FAMILY_OF.get(name)
    if family is None:
        raise TokenizerError(
            f"tokenizer.ggml.pre is {name!r}, a pre-tokenizer that is not known.",
            hint=f"Known: {', '.join(sorted(_FAMILY_OF))}. If the model was trained with one of "
            "them, say so with --pre NAME.",
        )
    is_llama3 = family == "llama-bpe" and name not in _PATTERN_ONLY
    return PreTokenizer(name, _compiled(family), ignore_merges=is_llama3, add_bos=is_llama3)


def classify(code_point: int) -> str:
    r""" "L" letter, "N" number, "P" punctuation, "S" white space or "" for anything else."""
    char = chr(code_point)
    if char in _SPACES or char in "\t\n\v\f\r ":
        return "S"
    category = unicodedata.category(char)
    if category == "Cn":
        starts, ends, classes = _newer()
        i = bisect_right(starts, code_point) - 1
        return classes[i] if i >= 0 and code_point <= ends[i] else ""
    return category[0] if category[0] in "LNP" else ""


class _Collapse(dict[int, int]):
    """Code point → itself (ASCII) or its class's member; filled as characters turn up."""

    def __missing__(self, code_point: int) -> int:
        if code_point < 0x80:
            member = code_point
        else:
            member = ord(_CLASS_MEMBERS.get(classify(code_point), _OTHER))
        self[code_point] = member
        return member


_COLLAPSE = _Collapse()


def _cut(step: re.Pattern[str], collapsed: str, cuts: list[int]) -> list[int]:
    """More cuts: around every match inside each stretch between two cuts."""
    out = [0]
    add = out.append
    last = 0
    for start, end in pairwise(cuts):
        for match in step.finditer(collapsed, start, end):
            a, b = match.span()
            if a > last:
                add(a)
            if b > a:
                add(b)
                last = b
        if end > last:
            add(end)
            last = end
    return out


@cache
def _compiled(family: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(step) for step in _STEPS[family])


@cache
def _newer() -> tuple[list[int], list[int], list[str]]:
    starts, ends, classes = [], [], []
    for item in _NEWER.split():
        start, _, end = item[1:].partition("-")
        starts.append(int(start, 16))
        ends.append(int(end or start, 16))
        classes.append(item[0])
    return starts, ends, classes
