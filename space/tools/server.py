"""A static web server for one folder on the loopback address, as the tests and `serve` use it.

Serves byte ranges, right types for WebAssembly and modules, validators for caching, the page's
policy, and the isolation headers that shared WebAssembly memory needs. No folder listings; nothing
outside the folder can be reached.
"""

from __future__ import annotations

import re
import socket
import sys
import threading
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from space.tools import policy

HOST = "127.0.0.1"
FIRST_PORT = 8000
_PORTS_TRIED = 100
_CHUNK = 1 << 18
_IDLE_S = 30

# Written out, because the system's own table differs from machine to machine.
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".wasm": "application/wasm",
    ".wgsl": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
    ".whl": "application/zip",
    ".zip": "application/zip",
    ".gguf": "application/octet-stream",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def free_port(first: int = FIRST_PORT) -> int:
    """The first free port from `first` on."""
    for port in range(first, first + _PORTS_TRIED):
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) != 0:
                return port
    return 0


class SiteServer:
    """Serves `folder`; `port` 0 takes any free one.

    `has_ranges=False` answers every request with the whole file, as some hosts do.
    `is_shared=True` lets pages of other origins read the files (CORS), as model hosts do.
    `has_policy=False` leaves out the index page's Content-Security-Policy, which every file carries
    otherwise. Without it and without isolation the answers are those of a plain static host.
    `prefix` is where the folder's address begins, such as "some/path/".
    `requests` lists what was asked for: the path, and the query if there was one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        is_isolated: bool = True,
        has_ranges: bool = True,
        is_shared: bool = False,
        has_policy: bool = True,
        prefix: str = "",
    ) -> None:
        self.requests: list[str] = []
        self._prefix = prefix
        handler = type(
            "SiteHandler",
            (_Handler,),
            {
                "folder": folder.resolve(),
                "is_isolated": is_isolated,
                "has_ranges": has_ranges,
                "is_shared": is_shared,
                "has_policy": has_policy,
                "prefix": f"/{prefix}",
                "requests": self.requests,
            },
        )
        self._server = _Server((HOST, port), handler)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address of the folder's index page."""
        return f"http://{HOST}:{self._server.server_address[1]}/{self._prefix}"

    def serve_forever(self) -> None:
        """Serves in this thread until interrupted."""
        self._server.serve_forever()

    def start(self) -> SiteServer:
        """Serves in a thread of its own."""
        poll_s = {"poll_interval": 0.02}  # how long close() waits
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs=poll_s, daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Stops serving and frees the port."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def __enter__(self) -> SiteServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a browser keeps idle connections open

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    folder: Path
    is_isolated: bool
    has_ranges: bool
    is_shared: bool
    has_policy: bool
    prefix: str
    requests: list[str]

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_OPTIONS(self) -> None:
        """What a page of another origin asks before it reads byte ranges."""
        self.send_response(HTTPStatus.NO_CONTENT)
        if self.is_shared:
            self.send_header("Access-Control-Allow-Headers", "Range, If-None-Match, If-Range")
            self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
        self.end_headers()

    def _answer(self, *, has_body: bool) -> None:
        self.requests.append(self.path)
        path = self._find()
        if path is None:
            self._send_empty(HTTPStatus.NOT_FOUND, body=b"not found\n" if has_body else b"")
            return
        with path.open("rb") as file:
            status = path.stat()
            n_bytes = status.st_size
            etag = f'"{status.st_mtime_ns:x}-{n_bytes:x}"'
            validators = {
                "ETag": etag,
                "Last-Modified": formatdate(status.st_mtime, usegmt=True),
                "Cache-Control": "no-cache",
            }
            if etag in self.headers.get("If-None-Match", "").replace("W/", ""):
                self._send_empty(HTTPStatus.NOT_MODIFIED, validators)
                return
            wanted = self._wanted_range(n_bytes, etag)
            if wanted is not None and wanted.start >= wanted.stop:
                headers = {"Content-Range": f"bytes */{n_bytes}"}
                self._send_empty(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers)
                return
            self._send_head(path, n_bytes, wanted, validators)
            if has_body:
                self._send_bytes(file, wanted if wanted is not None else range(n_bytes))

    def _find(self) -> Path | None:
        """The file that the request names, or None; never one outside the folder."""
        name = unquote(urlsplit(self.path).path)
        if "\\" in name or "\0" in name:
            return None
        if not name.startswith(self.prefix):
            return None
        path = (self.folder / name.removeprefix(self.prefix).lstrip("/")).resolve()
        if not path.is_relative_to(self.folder):
            return None
        if path.is_dir() and name.endswith("/"):
            path = path / "index.html"
        return path if path.is_file() else None

    def _wanted_range(self, n_bytes: int, etag: str) -> range | None:
        """The bytes asked for; empty when there are none such; None for the whole file."""
        header = self.headers.get("Range")
        if header is None or not self.has_ranges:
            return None
        if self.headers.get("If-Range", etag) != etag:
            return None
        match = _RANGE.fullmatch(header.strip())
        if match is None or match.group() == "bytes=-":
            return None  # several ranges, or another unit: the whole file is a right answer
        first, last = match.groups()
        if not first:
            return range(max(0, n_bytes - int(last)), n_bytes)
        stop = n_bytes if not last else min(n_bytes, int(last) + 1)
        return range(int(first), stop)

    def _send_head(
        self, path: Path, n_bytes: int, wanted: range | None, validators: dict[str, str]
    ) -> None:
        if wanted is None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", str(n_bytes))
        else:
            self.send_response(HTTPStatus.PARTIAL_CONTENT)
            self.send_header("Content-Length", str(len(wanted)))
            self.send_header("Content-Range", f"bytes {wanted.start}-{wanted.stop - 1}/{n_bytes}")
        self.send_header(
            "Content-Type", CONTENT_TYPES.get(path.suffix.lower(), "application/octet-stream")
        )
        if self.has_ranges:
            self.send_header("Accept-Ranges", "bytes")
        for name, value in validators.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_bytes(self, file: BinaryIO, wanted: range) -> None:
        file.seek(wanted.start)
        left = len(wanted)
        while left:
            chunk = file.read(min(left, _CHUNK))
            if not chunk:  # the file shrank meanwhile: the client sees a short answer
                self.close_connection = True
                return
            self.wfile.write(chunk)
            left -= len(chunk)

    def _send_empty(
        self, status: HTTPStatus, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        if self.is_isolated:
            for name, value in policy.ISOLATION.items():
                self.send_header(name, value)
        if self.has_policy and (csp := policy.read_policy(self.folder / "index.html")):
            self.send_header("Content-Security-Policy", csp)
        readers = "cross-origin" if self.is_shared else "same-origin"
        self.send_header("Cross-Origin-Resource-Policy", readers)
        if self.is_shared:
            self.send_header("Access-Control-Allow-Origin", "*")
            exposed = "Accept-Ranges, Content-Range, Content-Length, ETag"
            self.send_header("Access-Control-Expose-Headers", exposed)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a page asks for hundreds of ranges."""
