"""A result file named on the command line, opened before the work that fills it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from ..errors import EngineError


class OutFile:
    """A file to write once, at the end; an unwritable one is refused at the beginning.

    What the file held stays until there is a result, and an empty file is not left behind.
    ``lead`` is how every result starts: written at once to a device or pipe, which may be full.
    """

    def __init__(self, path: Path, lead: bytes = b"") -> None:
        self.path = path
        self._is_new = not os.path.lexists(path)
        self._is_written = False
        try:
            self._file = open(path, "ab", buffering=0)
        except (OSError, ValueError) as error:
            raise self._cannot_write(error) from error
        self._is_regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        self._lead = b"" if self._is_regular else lead
        try:
            self._write_all(self._lead)
        except BaseException:
            self._file.close()
            raise

    def write(self, *parts: bytes | memoryview) -> None:
        """Write the result."""
        try:
            if self._is_regular:
                self._file.truncate(0)
        except OSError as error:
            raise self._cannot_write(error) from error
        self._is_written = True
        skip = len(self._lead)
        for part in parts:
            self._write_all(memoryview(part)[skip:])
            skip = max(skip - len(part), 0)

    def _write_all(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: Exception) -> EngineError:
        return EngineError(
            f"Cannot write {self.path}: {getattr(error, 'strerror', None) or error}.",
            hint="Name a file in a folder that you may write to, on a disk with room.",
            code="output",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        if self._is_new and self._is_regular and not self._is_written:
            self.path.unlink(missing_ok=True)
