"""What both kinds of tokenizer do alike: remember the ids of short pieces, and read byte tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

SPACE_MARK = "\u2581"
"""Stands for a space in SentencePiece-style vocabularies, and for a word's start in WordPiece."""

CACHED_LENGTH = 64
CACHE_LIMIT = 20_000


class PieceCache:
    """Ids of pieces of text; those of short ones are kept, since text repeats its words."""

    def __init__(self, encode_piece: Callable[[str], tuple[int, ...]]) -> None:
        self._encode_piece = encode_piece
        self._kept: dict[str, tuple[int, ...]] = {}

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """The ids of all pieces, one after the other."""
        out: list[int] = []
        kept = self._kept
        for piece in pieces:
            ids = kept.get(piece)
            if ids is None:
                ids = self._encode_piece(piece)
                if len(piece) <= CACHED_LENGTH:
                    if len(kept) >= CACHE_LIMIT:
                        kept.clear()
                    kept[piece] = ids
            out.extend(ids)
        return out


def byte_token(text: str) -> bytes:
    """The byte that ``<0xAB>`` stands for; any other text as it is."""
    try:
        return bytes([int(text[3:5], 16)])
    except ValueError:
        return text.encode("utf-8", "replace")
