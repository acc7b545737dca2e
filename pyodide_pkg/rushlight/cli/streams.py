"""Standard streams as a well-behaved tool treats them: closed, full, broken or not UTF-8."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from ..errors import InvalidInputError

MAX_STDIN = 1 << 24
"""Characters read from standard input."""


class StdoutError(Exception):
    """Standard output could not be written. No OSError: libraries exit on some of those."""

    def __init__(self, error: Exception) -> None:
        super().__init__(getattr(error, "strerror", None) or str(error))
        self.is_broken_pipe = isinstance(error, BrokenPipeError)


class _Guarded:
    """A text stream whose failures are told apart from every other OSError."""

    def __init__(self, stream: TextIO, *, is_needed: bool) -> None:
        self._stream = stream
        self._is_needed = is_needed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text; what goes to a stderr that is gone is lost, as there is no one to tell."""
        try:
            return self._stream.write(text)
        except (OSError, ValueError) as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """Write what was kept back."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        _discard(self._stream)  # or the interpreter tries once more at its exit, and complains
        if self._is_needed:
            raise StdoutError(error) from error


@contextmanager
def standard_streams() -> Iterator[None]:
    """Make the standard streams fit for use inside the block.

    Text that a stream's encoding lacks is written as question marks. Writing to a broken stdout
    raises StdoutError.
    """
    saved = sys.stdin, sys.stdout, sys.stderr
    _open_closed()
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    sys.stdout = cast(TextIO, _Guarded(sys.stdout, is_needed=True))
    sys.stderr = cast(TextIO, _Guarded(sys.stderr, is_needed=False))
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved


def _open_closed() -> None:
    """Occupy closed descriptors (``>&-``), or the model file would be opened as stdout."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            # Opened the wrong way round: writing to it still fails as on a closed descriptor.
            os.open(os.devnull, os.O_WRONLY if mode == "r" else os.O_RDONLY)
        setattr(sys, name, open(number, mode, closefd=False))


def _discard(stream: TextIO) -> None:
    """Point a stream at nothing."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        pass  # a stream without a descriptor has no exit to fail at


def read_stdin() -> str:
    """All of standard input; raises InvalidInputError if it cannot be read or does not end."""
    try:
        text = sys.stdin.read(MAX_STDIN + 1)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"Standard input cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    if len(text) > MAX_STDIN:
        raise InvalidInputError(f"Standard input has more than {MAX_STDIN} characters.")
    return text
