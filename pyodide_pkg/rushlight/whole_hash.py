"""The SHA-256 of bytes that come in pieces: a browser has one only for what is in memory."""

from __future__ import annotations

import hashlib
from typing import Any


class WholeHash:
    """Filled from JavaScript while a model file is checked."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, piece: Any) -> None:
        """Take the next piece, a JavaScript typed array."""
        self._hash.update(piece.to_bytes())

    def hex(self) -> str:
        """The hash of all pieces so far."""
        return self._hash.hexdigest()
