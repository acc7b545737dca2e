"""Token ids to text, whole or as they arrive."""

from __future__ import annotations

import codecs
from collections.abc import Callable


class Detokenizer:
    """Text from a stream of token ids: bytes wait until they make whole code points.

    Bytes that cannot become a code point any more turn into U+FFFD at once; an unfinished code
    point at the end does so on ``flush``.
    """

    def __init__(
        self,
        token_bytes: Callable[[int], bytes],
        is_hidden: Callable[[int], bool],
        strip_space: bool,
    ) -> None:
        self._token_bytes = token_bytes
        self._is_hidden = is_hidden
        self._strip_space = strip_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """The text that became complete with this token; may be empty.

        Raises InvalidInputError when the id is outside the vocabulary.
        """
        piece = self._token_bytes(token_id)
        if self._is_hidden(token_id):
            return ""
        if self._strip_space:
            self._strip_space = False
            piece = piece.removeprefix(b" ")
        return self._decoder.decode(piece)

    def flush(self) -> str:
        """What is left of an unfinished code point, as U+FFFD; the stream can then start anew."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text
