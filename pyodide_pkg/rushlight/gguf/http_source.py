"""A model file at a web address, read by Range requests through the standard library.

Kept apart from the other sources because ``urllib.request`` is slow to import and of no use
inside a browser, where the page fetches instead.
"""

from __future__ import annotations

import http.client
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, BinaryIO

from ..errors import SourceError
from .http_rules import (
    Version,
    bad_address,
    check_encoding,
    check_room,
    check_size,
    check_whole,
    checked_address,
    content_length,
    range_ignored,
    short_body,
    size_from_range,
    stalled,
    status_error,
    unreachable,
)
from .source import FileSource, check_range

#: Told (bytes so far, total or None) while a whole file is downloaded.
Progress = Callable[[int, int | None], None]

#: The first request takes the header's first chunk along with the file's size.
FIRST_READ = 1 << 20
DOWNLOAD_CHUNK = 1 << 18
#: A body must bring MIN_BYTES in every STALL_S; the socket's own timeout allows a byte at a time.
STALL_S, MIN_BYTES = 30.0, 1 << 15
#: Disk space that a download leaves free, and the most it takes without a known length.
KEPT_FREE, MAX_UNKNOWN = 1 << 28, 1 << 36
#: Waits before trying again, once the file has been reached at all.
RETRY_DELAYS_S = (0.5, 2.0)
_PASSING = ("unreachable", "unavailable", "short_read")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the standard handler leaves the connection open at a broken address."""

    def http_error_302(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any) -> Any:
        """Follow one redirect."""
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except ValueError:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _build_opener() -> urllib.request.OpenerDirector:
    """An opener for http and https alone: a redirect must not reach file:// or ftp://."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


class HttpSource:
    """A file behind http or https. ``note`` tells what did not go as it should.

    If the server ignores Range, the whole file is downloaded once into a temporary file.
    """

    def __init__(
        self, url: str, *, progress: Progress | None = None, timeout_s: float = 30
    ) -> None:
        self.url = self.name = url
        self._address = checked_address(url)
        self._version = Version()
        self.note = ""
        self.size = -1
        self._timeout_s = timeout_s
        self._progress = progress
        self._opener = _build_opener()
        self._lock = threading.Lock()
        self._copy: FileSource | None = None
        self._head = b""
        head = self._get(0, FIRST_READ)
        if self._copy is None:
            self._head = head

    def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``."""
        check_range(self.name, self.size, offset, n)
        if self._copy is not None:
            return self._copy.read(offset, n)
        if offset + n <= len(self._head):
            return self._head[offset : offset + n]
        if n == 0:
            return b""
        data = self._get(offset, n)
        return data if self._copy is None else self._copy.read(offset, n)

    def close(self) -> None:
        """Delete the temporary copy, if there is one."""
        if self._copy is not None:
            self._copy.close()

    def _get(self, offset: int, n: int) -> bytes:
        """``_get_once``, again after a passing failure in the middle of a load."""
        for delay_s in RETRY_DELAYS_S if self.size >= 0 else ():
            try:
                return self._get_once(offset, n)
            except SourceError as error:
                if error.code not in _PASSING:
                    raise
                time.sleep(delay_s)
        return self._get_once(offset, n)

    def _get_once(self, offset: int, n: int) -> bytes:
        """One Range request; a reply with the whole file is saved as the copy instead."""
        headers = {"Range": f"bytes={offset}-{offset + n - 1}"}
        request = urllib.request.Request(self._address, headers=headers)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as reply:
                if reply.status not in (200, 206):
                    raise status_error(self.url, reply.status, reply.reason)
                check_encoding(self.url, reply.headers.get("Content-Encoding"))
                if reply.status == 206:
                    return self._range_body(reply, offset, n)
                self._download(reply)
                return b""
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 416 and error.headers.get("Content-Range") == "bytes */0":
                    self.size = 0
                    return b""
                raise status_error(self.url, error.code, error.reason) from error
        except ValueError as error:  # a redirect to what is no address
            raise bad_address(self.url, f"it leads to one that is none ({error})") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise unreachable(self.url, reason or type(error).__name__) from error

    def _range_body(self, reply: Any, offset: int, n: int) -> bytes:
        field = reply.headers.get("Content-Range", "")
        size = size_from_range(self.url, field, offset, n, self.size)
        version = Version.of(reply.headers)
        self._version.check(self.url, version)
        if self.size < 0:
            self.size, self._version = size, version
        wanted = min(n, size - offset)
        chunks, pace = [], _Pace(self.url)
        n_left = wanted
        while n_left and (chunk := reply.read1(min(n_left, DOWNLOAD_CHUNK))):
            chunks.append(chunk)
            n_left -= len(chunk)
            pace.count(len(chunk))
        if n_left:
            raise short_body(self.url, wanted, wanted - n_left)
        return b"".join(chunks)

    def _download(self, reply: Any) -> None:
        """Save a whole-file reply as the copy that all reads use from now on."""
        total = content_length(reply.headers.get("Content-Length"))
        if total is not None:
            check_size(self.url, total, self.size)
        head: bytes = reply.read(min(64, 64 if total is None else total))
        media_type = reply.headers.get("Content-Type", "")
        check_whole(self.url, head, total, _room(), media_type)
        file = tempfile.TemporaryFile()
        try:
            n_done = self._save(reply, head, total, file)
            check_size(self.url, n_done, self.size)
            file.flush()
        except BaseException:
            file.close()
            raise
        self.size = n_done
        self.note = range_ignored(n_done)
        with self._lock:
            self._copy = FileSource(self.url, file=file)

    def _save(self, reply: Any, head: bytes, total: int | None, file: BinaryIO) -> int:
        """Write a body to a file; return its length."""
        n_done, checked, pace, chunk = 0, 0, _Pace(self.url), head
        while chunk:
            file.write(chunk)
            n_done += len(chunk)
            if n_done - checked > KEPT_FREE // 8:  # the length may be unknown or a lie
                check_room(self.url, n_done, min(MAX_UNKNOWN, n_done + _room()))
                checked = n_done
            pace.count(len(chunk))
            if self._progress is not None:
                self._progress(n_done, total)
            chunk = reply.read1(DOWNLOAD_CHUNK)
        if total is not None and n_done != total:
            raise short_body(self.url, total, n_done)
        return n_done


class _Pace:
    """Watches how fast a body comes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._since, self._n_bytes = time.monotonic(), 0

    def count(self, n_bytes: int) -> None:
        """Take note of bytes that came; raise SourceError if they were too few of late."""
        self._n_bytes += n_bytes
        seconds = time.monotonic() - self._since
        if seconds < STALL_S:
            return
        if self._n_bytes < MIN_BYTES:
            raise stalled(self._url, self._n_bytes, seconds)
        self._since, self._n_bytes = time.monotonic(), 0


def _room() -> int:
    """Bytes that a temporary file may take."""
    return shutil.disk_usage(tempfile.gettempdir()).free - KEPT_FREE
