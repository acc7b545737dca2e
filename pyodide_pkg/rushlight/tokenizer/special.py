"""Cutting text at special tokens before the rest is tokenized."""

from __future__ import annotations

from collections.abc import Iterable

_SCAN_BY_TOKEN = 64


class SpecialTokens:
    """Finds whole special tokens in text: longer ones claim their place first, then leftmost."""

    def __init__(self, tokens: Iterable[tuple[str, int]]) -> None:
        self._ids = {text: token_id for text, token_id in tokens if text}
        self._groups: dict[str, list[str]] = {}
        for text in self._ids:
            self._groups.setdefault(text[:2], []).append(text)

    def split(self, text: str) -> list[str | int]:
        """The text as ordinary stretches (str) and special token ids (int), in order."""
        found = self._present(text)
        if not found:
            return [text] if text else []
        # UTF-8 length decides, as in llama.cpp; the sort is stable, so lower ids win ties.
        found.sort(key=lambda token: -len(token.encode("utf-8", "replace")))
        taken = bytearray(len(text))
        cuts: list[tuple[int, str]] = []
        for token in found:
            _claim(text, token, taken, cuts)
        cuts.sort()
        out: list[str | int] = []
        position = 0
        for start, token in cuts:
            if start > position:
                out.append(text[position:start])
            out.append(self._ids[token])
            position = start + len(token)
        if position < len(text):
            out.append(text[position:])
        return out

    def _present(self, text: str) -> list[str]:
        """The special tokens that occur in the text at all, in id order."""
        present: set[str] = set()
        for prefix, group in self._groups.items():
            position = text.find(prefix)
            if position < 0:
                continue
            if len(group) <= _SCAN_BY_TOKEN:
                present.update(token for token in group if token in text)
                continue
            # Thousands of tokens share this prefix (<unused0> …): look at its places instead.
            members, lengths = set(group), sorted({len(token) for token in group})
            while position >= 0:
                for length in lengths:
                    token = text[position : position + length]
                    if token in members:
                        present.add(token)
                position = text.find(prefix, position + 1)
        return sorted(present, key=self._ids.__getitem__)


def _claim(text: str, token: str, taken: bytearray, cuts: list[tuple[int, str]]) -> None:
    """Take every free place of ``token``, left to right."""
    length = len(token)
    start = text.find(token)
    while start >= 0:
        clash = taken.find(1, start, start + length)
        if clash < 0:
            cuts.append((start, token))
            taken[start : start + length] = b"\1" * length
            start = text.find(token, start + length)
            continue
        # Every match that starts before the clash runs into it too.
        free = taken.find(0, clash)
        if free < 0:
            return
        start = text.find(token, free)
