"""Byte-level BPE (``tokenizer.ggml.model`` = "gpt2"): words cut by a pattern, bytes merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from .merge import merge_symbols
from .pieces import PieceCache, byte_token
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
        if token_type == TOKEN_NORMAL:
            try:
                return text.translate(_TO_BYTES).encode("latin-1")
            except UnicodeEncodeError:
                # Not in the byte alphabet: an added token that was not marked as one.
                return text.encode("utf-8", "replace")
        return b""

    def _encode_word(self, word: str) -> tuple[int, ...]:
        get = self._vocab.ids.get
        chars = word.encode("utf-8").decode("latin-1").translate(_TO_CHARS)
        whole = get(chars)
        if whole is not None and self._pre.ignore_merges:
            return (whole,)
        ids: list[int] = []
        for symbol in merge_symbols(list(chars), self._ranks, " "):
            token_id = get(symbol)
            # A merge can make a text that is no token; its bytes then stand alone.
            parts = [token_id] if token_id is not None else [get(char) for char in symbol]
            for part in parts:
                part = self._vocab.unk_id if part is None else part
                if part is not None:
                    ids.append(part)
        return tuple(ids)

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """ "left right" → rank; of repeated merges the first counts."""
        n = len(self._merges)
        return dict(zip(reversed(self._merges), range(n - 1, -1, -1), strict=True))
