"""BPE by ranked merges (``tokenizer.ggml.model`` = "gpt2", "gemma4"): words cut by a pattern.

What is merged are the word's bytes, or, for a few vocabularies made like SentencePiece's, its
characters with U+2581 for a space and ``<0xAB>`` tokens for the bytes of unknown ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from .merge import merge_symbols
from .pieces import SPACE_MARK, PieceCache, byte_token
from .pretokenize import PreTokenizer
from .vocab import TOKEN_BYTE, TOKEN_NORMAL, Vocab


def _byte_chars() -> list[str]:
    """The printable character that stands for each byte in GPT-2 style vocabularies."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(spare)) for byte in range(0x100)]


BYTE_CHARS = _byte_chars()
_TO_CHARS = dict(enumerate(BYTE_CHARS))
_TO_BYTES = {ord(char): byte for byte, char in enumerate(BYTE_CHARS)}


class BpeModel:
    """Turns text without special tokens into ids by ranked merges inside pre-tokenized words."""

    def __init__(self, vocab: Vocab, merges: Sequence[str], pre: PreTokenizer) -> None:
        self._vocab = vocab
        self._merges = merges
        self._pre = pre
        self._cache = PieceCache(self._encode_word)

    def encode(self, text: str, *, starts_text: bool) -> list[int]:
        """Token ids of ``text`` (``starts_text`` changes nothing for this kind)."""
        return self._cache.encode(self._pre.split(text))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a normal token stands for (special types: ``Vocab`` decides)."""
        text = self._vocab.tokens[token_id]
        token_type = self._vocab.type_of(token_id)
        if token_type == TOKEN_BYTE:
            return byte_token(text)
        if token_type == TOKEN_NORMAL and self._pre.is_raw:
            spaced = text.replace(SPACE_MARK, " ") if self._pre.marks_spaces else text
            return spaced.encode("utf-8", "replace")
        if token_type == TOKEN_NORMAL:
            try:
                return text.translate(_TO_BYTES).encode("latin-1")
            except UnicodeEncodeError:
                # Not in the byte alphabet: an added token that was not marked as one.
                return text.encode("utf-8", "replace")
        return b""

    def _encode_word(self, word: str) -> tuple[int, ...]:
        get = self._vocab.ids.get
        chars = self._symbols(word)
        whole = get(chars)
        if whole is not None and (self._pre.ignore_merges or self._is_newlines(word)):
            return (whole,)
        ids: list[int] = []
        for symbol in merge_symbols(list(chars), self._ranks, " "):
            token_id = get(symbol)
            # A merge can make a text that is no token; its bytes then stand alone.
            parts = [token_id] if token_id is not None else map(get, self._bytes_of(symbol))
            for part in parts:
                part = self._vocab.unk_id if part is None else part
                if part is not None:
                    ids.append(part)
        return tuple(ids)

    def _is_newlines(self, word: str) -> bool:
        """Whether the word is a run of line ends, which marked vocabularies take whole."""
        return self._pre.marks_spaces and not word.strip("\n")

    def _symbols(self, word: str) -> str:
        """The word in the alphabet of the vocabulary, a character for each first symbol."""
        if not self._pre.is_raw:
            return word.encode("utf-8").decode("latin-1").translate(_TO_CHARS)
        return word.replace(" ", SPACE_MARK) if self._pre.marks_spaces else word

    def _bytes_of(self, symbol: str) -> Iterable[str]:
        """The tokens' texts for each byte of a symbol that is no token itself."""
        if not self._pre.is_raw:
            return symbol
        return (f"<0x{byte:02X}>" for byte in symbol.encode("utf-8"))

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """ "left right" → rank; of repeated merges the first counts."""
        n = len(self._merges)
        return dict(zip(reversed(self._merges), range(n - 1, -1, -1), strict=True))
