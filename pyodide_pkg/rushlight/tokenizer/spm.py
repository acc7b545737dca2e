"""SentencePiece-style tokenization (``tokenizer.ggml.model`` = "llama"): score-driven merges."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from .merge import merge_symbols
from .pieces import SPACE_MARK as SPACE
from .pieces import PieceCache, byte_token
from .vocab import TOKEN_BYTE, TOKEN_NORMAL, Vocab


class SpmModel:
    """Turns text without special tokens into ids the way llama.cpp's "llama" vocabularies do."""

    def __init__(self, vocab: Vocab) -> None:
        self._vocab = vocab
        self._cache = PieceCache(self._encode_piece)

    def encode(self, text: str, *, starts_text: bool) -> list[int]:
        """Token ids of ``text``; ``starts_text`` is true at the start and after special tokens."""
        if self._vocab.add_space_prefix and starts_text:
            text = " " + text
        return self._cache.encode(self._pieces.findall(text.replace(" ", SPACE)))

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a normal or byte token stands for (other types: ``Vocab`` decides)."""
        text = self._vocab.tokens[token_id]
        token_type = self._vocab.type_of(token_id)
        if token_type == TOKEN_BYTE:
            return byte_token(text)
        if token_type == TOKEN_NORMAL:
            return text.replace(SPACE, " ").encode("utf-8", "replace")
        return b""

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        ids: list[int] = []
        get = self._vocab.ids.get
        for symbol in merge_symbols(list(piece), self._ranks, ""):
            token_id = get(symbol)
            if token_id is not None:
                ids.append(token_id)
            else:
                ids.extend(self._byte_ids(symbol))
        return tuple(ids)

    def _byte_ids(self, symbol: str) -> list[int]:
        """A character outside the vocabulary, as its ``<0xXX>`` tokens (or the unknown token)."""
        ids: list[int] = []
        for byte in symbol.encode("utf-8"):
            token_id = self._vocab.ids.get(f"<0x{byte:02X}>")
            if token_id is None and byte < 0x80:
                token_id = self._vocab.ids.get(chr(byte))
            if token_id is None:
                token_id = self._vocab.unk_id
            if token_id is not None:
                ids.append(token_id)
        return ids

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """Token text → 0 for the best score, 1 for the next; equal scores share a rank."""
        scores = self._vocab.scores
        assert scores is not None
        _, ranks = np.unique(-scores.astype(np.float32), return_inverse=True)
        return dict(zip(self._vocab.tokens, ranks.reshape(-1).tolist(), strict=True))

    @cached_property
    def _pieces(self) -> re.Pattern[str]:
        """Cuts text where no merge can ever cross, so that pieces can be merged alone.

        Merges only make texts that are tokens. So if no token anywhere holds the character ``c``
        right before a space mark, a cut between the two changes nothing.
        """
        joined = "\0".join(self._vocab.tokens).replace("\0" + SPACE, "\0")
        parts = joined.split(SPACE)
        parts.pop()
        before = {part[-1] for part in parts if part} - {"\0"}
        crossing = "".join(re.escape(c) for c in sorted(before))
        tail = f"(?:(?<=[{crossing}]){SPACE}+[^{SPACE}]*)*" if crossing else ""
        return re.compile(f"(?:{SPACE}+[^{SPACE}]*|[^{SPACE}]+){tail}")
