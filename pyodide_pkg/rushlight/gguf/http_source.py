"""A model file at a web address, read by Range requests through the standard library.

Kept apart from the other sources because ``urllib.request`` is slow to import and of no use
inside a browser, where the page fetches instead.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from ..errors import SourceError
from .http_rules import range_ignored, short_body, size_from_range, status_error, unreachable
from .source import FileSource, check_range

#: Told (bytes so far, total or None) while a whole file is downloaded.
Progress = Callable[[int, int | None], None]

#: The first request takes the header's first chunk along with the file's size.
FIRST_READ = 1 << 20
DOWNLOAD_CHUNK = 1 << 20
#: Waits before trying again, once the file has been reached at all.
RETRY_DELAYS_S = (0.5, 2.0)
_PASSING = ("unreachable", "unavailable", "short_read")


def _build_opener() -> urllib.request.OpenerDirector:
    """An opener for http and https alone: a redirect must not reach file:// or ftp://."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
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
        if urllib.parse.urlsplit(url).scheme.lower() not in ("http", "https"):
            raise SourceError(
                f"Cannot read {url}: only http:// and https:// addresses are supported.",
                code="unsupported_scheme",
            )
        self.url = self.name = url
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
        request = urllib.request.Request(self.url, headers=headers)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as reply:
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
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise unreachable(self.url, reason or type(error).__name__) from error

    def _range_body(self, reply: Any, offset: int, n: int) -> bytes:
        field = reply.headers.get("Content-Range", "")
        size = self.size = size_from_range(self.url, field, offset, n, self.size)
        wanted = min(n, size - offset)
        body: bytes = reply.read(wanted)
        if len(body) != wanted:
            raise short_body(self.url, wanted, len(body))
        return body

    def _download(self, reply: Any) -> None:
        """Save a whole-file reply as the copy that all reads use from now on."""
        length = reply.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        file = tempfile.TemporaryFile()
        try:
            n_done = 0
            while chunk := reply.read(DOWNLOAD_CHUNK):
                file.write(chunk)
                n_done += len(chunk)
                if self._progress is not None:
                    self._progress(n_done, total)
            if total is not None and n_done != total:
                raise short_body(self.url, total, n_done)
            file.flush()
        except BaseException:
            file.close()
            raise
        self.size = n_done
        self.note = range_ignored(n_done)
        with self._lock:
            self._copy = FileSource(self.url, file=file)
