"""WordPiece (``tokenizer.ggml.model`` = "bert"): plain words, each cut into its longest pieces.

Follows the BERT reference (Devlin et al. 2018): text is cleaned, lower-cased and freed of accents
where the vocabulary asks for it, and split at spaces, punctuation and CJK ideographs. In GGUF
files a piece that starts a word begins with U+2581, and one inside a word has no ``##``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from .pieces import SPACE_MARK, PieceCache
from .unicode_classes import classify, in_ranges, read_ranges
from .vocab import Vocab

MAX_WORD_CHARS = 100
"""Longer words are unknown, as in the reference."""

_IDEOGRAPHS = read_ranges(
    "\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f"
)
"""The reference's ranges, its slip at U+2B920 included."""


class WordPieceModel:
    """Turns text without special tokens into ids, word by word."""

    def __init__(self, vocab: Vocab, *, lowercase: bool, strip_accents: bool) -> None:
        self._vocab = vocab
        self._lowercase = lowercase
        self._strip_accents = strip_accents
        self._longest = max(map(len, vocab.tokens))
        self._cache = PieceCache(self._encode_word)

    def encode(self, text: str, *, starts_text: bool) -> list[int]:
        """Token ids of ``text`` (``starts_text`` changes nothing for this kind)."""
        return self._cache.encode(self._words(text))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a piece, with a space before a word."""
        return self._vocab.tokens[token_id].replace(SPACE_MARK, " ").encode("utf-8", "replace")

    def _words(self, text: str) -> Iterator[str]:
        """Words and single signs, without the spaces between them."""
        if self._strip_accents:
            text = unicodedata.normalize("NFD", text)
        word = ""
        for char in text:
            kind = _kind(char)
            if kind == "drop" or (self._strip_accents and unicodedata.category(char) == "Mn"):
                continue
            if kind == "word":
                word += char.lower() if self._lowercase else char
                continue
            if word:
                yield word
                word = ""
            if kind == "alone":
                yield char.lower() if self._lowercase else char
        if word:
            yield word

    def _encode_word(self, word: str) -> tuple[int, ...]:
        unknown = () if self._vocab.unk_id is None else (self._vocab.unk_id,)
        if len(word) > MAX_WORD_CHARS:
            return unknown
        get = self._vocab.ids.get
        rest = SPACE_MARK + word
        ids: list[int] = []
        while rest:
            for end in range(min(len(rest), self._longest), 0, -1):
                token_id = get(rest[:end])
                if token_id is not None:
                    break
            else:
                return unknown
            ids.append(token_id)
            rest = rest[end:]
        return tuple(ids)


def _kind(char: str) -> str:
    """What a character does: "space" and "alone" end a word, "drop" is left out."""
    code_point = ord(char)
    if char in "\t\n\r ":
        return "space"
    if code_point in (0, 0xFFFD) or unicodedata.category(char) in ("Cc", "Cf", "Co"):
        return "drop"
    group = classify(code_point)
    if group == "S":
        return "space"
    is_ascii_sign = code_point < 0x80 and group in "PY"
    return (
        "alone" if is_ascii_sign or group == "P" or in_ranges(code_point, _IDEOGRAPHS) else "word"
    )
