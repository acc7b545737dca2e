"""A model file at a web address, read by Pyodide's fetch: for Python code that runs in a page.

The page of this project reads through its own worker instead (``worker/sources.js``), so that
weights for the GPU never enter Python.
"""

from __future__ import annotations

from pyodide.ffi import JsException
from pyodide.http import FetchResponse, pyfetch

from .http_rules import (
    Version,
    check_room,
    check_size,
    check_whole,
    checked_address,
    content_length,
    range_ignored,
    short_body,
    size_from_range,
    status_error,
    unreachable,
)
from .source import check_range

FIRST_READ = 1 << 20
"""The first request takes the header's first chunk along with the file's size."""

MAX_WHOLE = 1 << 30
"""The largest file that is read at once, from a server that ignores Range: memory is short."""


class FetchSource:
    """A file behind http or https, awaited. ``note`` tells what did not go as it should."""

    def __init__(self, url: str) -> None:
        self.url = self.name = url
        self._address = checked_address(url)
        self._version = Version()
        self.size = -1
        self.note = ""
        self._head = b""

    @staticmethod
    async def open(url: str) -> FetchSource:
        """Ask for the first bytes, to learn the size and whether Range works."""
        source = FetchSource(url)
        source._head = await source._get(0, FIRST_READ)
        return source

    async def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``."""
        check_range(self.name, self.size, offset, n)
        if offset + n <= len(self._head):
            return self._head[offset : offset + n]
        return await self._get(offset, n)

    async def close(self) -> None:
        """Drop what was read ahead."""
        self._head = b""

    async def _get(self, offset: int, n: int) -> bytes:
        reply = await self._fetch({"Range": f"bytes={offset}-{offset + n - 1}"})
        if reply.status == 200:
            length = content_length(reply.headers.get("content-length"))
            check_room(self.url, length or 0, MAX_WHOLE)
            whole = bytes(await reply.bytes())
            media_type = reply.headers.get("content-type", "")
            check_whole(self.url, whole[:64], len(whole), MAX_WHOLE, media_type)
            check_size(self.url, len(whole), self.size)
            self._head, self.size = whole, len(whole)
            self.note = range_ignored(self.size)
            return self._head
        if reply.status != 206:
            raise status_error(self.url, reply.status, reply.status_text)
        body = bytes(await reply.bytes())
        field = reply.headers.get("content-range", "")
        size = size_from_range(self.url, field, offset, n, self.size)
        version = Version.of(reply.headers)
        self._version.check(self.url, version)
        if self.size < 0:
            self.size, self._version = size, version
        if len(body) != min(n, self.size - offset):
            raise short_body(self.url, min(n, self.size - offset), len(body))
        return body

    async def _fetch(self, headers: dict[str, str]) -> FetchResponse:
        try:
            return await pyfetch(self._address, headers=headers)
        except (OSError, JsException) as error:
            # A page is not told why: no network, and a host that refuses other origins, look alike.
            raise unreachable(self.url, error) from error
