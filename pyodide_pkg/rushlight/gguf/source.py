"""Where model bytes live: memory, a file, or a web address, read at random offsets.

A source never hands out fewer bytes than were asked for: it returns exactly ``n`` or raises
SourceError. Browser sources implement AsyncSource; SyncAsAsync lets one async code path read
a sync source.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

from ..errors import SourceError

if TYPE_CHECKING:
    import mmap


@runtime_checkable
class Source(Protocol):
    """Random access to a file's bytes, without waiting."""

    @property
    def name(self) -> str:
        """What to call the file in messages."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``, or SourceError."""

    def close(self) -> None:
        """Release the file; reading afterwards is an error."""


@runtime_checkable
class AsyncSource(Protocol):
    """Random access to a file's bytes, awaited (a Blob, an OPFS handle, a fetch)."""

    @property
    def name(self) -> str:
        """What to call the file in messages."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    async def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``, or SourceError."""

    async def close(self) -> None:
        """Release the file; reading afterwards is an error."""


def check_range(name: str, size: int, offset: int, n: int) -> None:
    """Raise SourceError unless bytes ``offset .. offset + n`` lie within ``size``."""
    if offset < 0 or n < 0 or offset + n > size:
        raise SourceError(
            f"{name}: bytes {offset} to {offset + n} lie outside the file of {size} bytes.",
            code="out_of_range",
        )


def check_regular(name: str, mode: int) -> None:
    """Raise SourceError unless the ``st_mode`` of what is called ``name`` is a regular file's.

    A pipe, terminal or device has no size, cannot be read at an offset, and may never end.
    """
    if stat.S_ISDIR(mode):
        raise SourceError(f"{name} is a folder.", hint="Name a .gguf file inside it.")
    if not stat.S_ISREG(mode):
        raise SourceError(
            f"{name} is not a regular file.",
            hint="Save it to disk first: pipes and devices cannot be read at any place.",
            code="not_regular",
        )


class BytesSource:
    """A file that is already in memory."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self.name = name
        self._data = memoryview(data).cast("B")
        self.size = len(self._data)

    def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``."""
        return bytes(self.view(offset, n))

    def view(self, offset: int, n: int) -> memoryview:
        """The bytes without a copy."""
        check_range(self.name, self.size, offset, n)
        return self._data[offset : offset + n]

    def close(self) -> None:
        """Drop the reference to the data."""
        self._data = memoryview(b"")
        self.size = 0


class FileSource:
    """A local file. ``read`` copies what it is asked for; ``view`` maps the file instead."""

    def __init__(self, path: str | os.PathLike[str], *, file: BinaryIO | None = None) -> None:
        self.path = Path(path)
        self.name = os.fspath(path)
        self._file = file if file is not None else self._open()
        self.size = os.fstat(self._file.fileno()).st_size
        # seek + read is two steps, and loaders read from several threads.
        self._lock = threading.Lock()
        self._map: mmap.mmap | None = None

    def _open(self) -> BinaryIO:
        if not self.name:
            raise SourceError("The path is empty.", hint="Name a .gguf file.", code="not_found")
        try:
            # Before it is opened: opening a pipe waits for its writer.
            check_regular(self.name, os.stat(self.path).st_mode)
            return self.path.open("rb")
        except FileNotFoundError:
            raise SourceError(
                f"There is no file {self.name}.", hint="Check the path.", code="not_found"
            ) from None
        except (OSError, ValueError) as error:
            raise SourceError(
                f"Cannot open {self.name!r}: {getattr(error, 'strerror', None) or error}."
            ) from error

    def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``."""
        check_range(self.name, self.size, offset, n)
        try:
            with self._lock:
                self._file.seek(offset)
                data = self._file.read(n)
        except (OSError, ValueError) as error:
            raise SourceError(f"Cannot read {self.name}: {error}.") from error
        if len(data) != n:
            raise SourceError(
                f"{self.name}: {n} bytes at {offset} were asked for, {len(data)} came.",
                hint="The file became shorter while in use.",
                code="short_read",
            )
        return data

    def view(self, offset: int, n: int) -> memoryview:
        """The bytes without a copy; the mapping lives as long as any view of it."""
        check_range(self.name, self.size, offset, n)
        if n == 0:
            return memoryview(b"")
        import mmap  # not every WebAssembly build of Python has it

        with self._lock:
            if self._map is None:
                try:
                    self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
                except (OSError, ValueError) as error:
                    raise SourceError(f"Cannot map {self.name}: {error}.") from error
            return memoryview(self._map)[offset : offset + n]

    def close(self) -> None:
        """Close the file. Views stay valid: the mapping goes when the last of them does."""
        self._file.close()
        self._map = None


class SyncAsAsync:
    """A Source behind the awaited interface."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.size = source.size

    @property
    def note(self) -> str:
        """What did not go as it should, if the source tells."""
        return str(getattr(self.source, "note", ""))

    async def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``."""
        return self.source.read(offset, n)

    async def close(self) -> None:
        """Close the source."""
        self.source.close()


def open_source(origin: str | os.PathLike[str] | bytes | bytearray | memoryview | Source) -> Source:
    """The source for a path, an http(s) address, bytes, or a source that is already open.

    Raises SourceError (``not_found``, ``forbidden``, ``unsupported_scheme`` …).
    """
    if isinstance(origin, bytes | bytearray | memoryview):
        return BytesSource(origin)
    if isinstance(origin, str):
        if origin.lower().startswith(("http://", "https://")):
            from .http_source import HttpSource

            return HttpSource(origin)
        if "://" in origin:
            raise SourceError(
                f"Cannot read {origin}: only http:// and https:// addresses are supported.",
                hint="Give a path on this machine or an https address.",
                code="unsupported_scheme",
            )
        return FileSource(origin)
    if isinstance(origin, os.PathLike):
        return FileSource(origin)
    if isinstance(origin, Source):
        return origin
    raise SourceError(
        f"Cannot read a model from {type(origin).__name__}.",
        hint="Give a path, an https address or bytes.",
    )


def view_or_read(source: Source, offset: int, n: int) -> Any:
    """Bytes of a source as a buffer: without a copy where the source can do that."""
    view = getattr(source, "view", None)
    return view(offset, n) if view is not None else source.read(offset, n)
