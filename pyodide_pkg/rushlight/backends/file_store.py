"""Small texts kept in the user's cache folder: what was learnt about this machine's adapters."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def cache_dir() -> Path:
    """``$RUSHLIGHT_CACHE``, or ``rushlight`` in the platform's folder for caches."""
    if given := os.environ.get("RUSHLIGHT_CACHE"):
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "rushlight"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rushlight"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rushlight"


class FileStore:
    """One file per key. A folder that cannot be used only means that nothing is remembered."""

    async def recall(self, key: str) -> str | None:
        """The text under a key, if it is there and readable."""
        try:
            return self._path(key).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    async def remember(self, key: str, text: str) -> None:
        """Keep a text, if the folder allows; readers never see half of it."""
        path = self._path(key)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return cache_dir() / "adapters" / f"{key}.json"
