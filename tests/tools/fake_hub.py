"""A hub of models as the public one behaves: an API, commits, gated files, and a CDN elsewhere.

Two servers of two origins: the hub answers the API and sends a file's address on to the CDN.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import unquote

FIRST, SECOND = "1" * 40, "2" * 40


@dataclass
class FakeHub:
    """Serves one repository, ``maker/tiny-GGUF``; ``files`` maps a path to its bytes."""

    files: Mapping[str, bytes]
    repo: str = "maker/tiny-GGUF"
    commit: str = FIRST
    """What ``main`` is."""
    token: str = ""
    """Asked for with every file, if it is set."""
    api_status: int = 200
    is_lying: bool = False
    """The API names hashes that no file has."""
    hub_requests: list[tuple[str, str]] = field(default_factory=list)
    """(path, Authorization) of everything asked of the hub,"""
    cdn_requests: list[tuple[str, str]] = field(default_factory=list)
    """and of the CDN."""

    def __enter__(self) -> FakeHub:
        self._servers = [self._serve(_Hub), self._serve(_Cdn)]
        return self

    def _serve(self, handler: type[_Handler]) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"hub": self}))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def url(self) -> str:
        """The hub's address."""
        return f"http://127.0.0.1:{self._servers[0].server_address[1]}"

    @property
    def cdn(self) -> str:
        """Where files really are: another origin, and another name for this machine."""
        return f"http://localhost:{self._servers[1].server_address[1]}"

    def tree(self) -> list[dict[str, Any]]:
        """What the API says of the repository's files."""
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "old", "size": 0}]
        for path, data in self.files.items():
            oid = "0" * 64 if self.is_lying else hashlib.sha256(data).hexdigest()
            lfs = {"oid": oid, "size": len(data), "pointerSize": 135}
            entries.append({"type": "file", "path": path, "size": len(data), "lfs": lfs})
        return entries


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_OPTIONS(self) -> None:
        self.reply(204, b"", {"Access-Control-Allow-Headers": "authorization, range"})

    def reply(self, status: int, body: bytes, fields: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Expose-Headers", "Content-Range, ETag")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Hub(_Handler):
    def do_GET(self) -> None:
        hub = self.hub
        path = unquote(self.path.split("?")[0])
        authorization = self.headers.get("Authorization") or ""
        hub.hub_requests.append((path, authorization))
        is_known = not hub.token or authorization == f"Bearer {hub.token}"
        if path.startswith("/api/models/"):
            return self._answer_api(path.removeprefix("/api/models/"))
        found = re.fullmatch(rf"/{re.escape(hub.repo)}/resolve/(\w+)/(.+)", path)
        if not found or found[2] not in hub.files or found[1] not in ("main", FIRST, SECOND):
            return self.reply(404, b"", {})
        if not is_known:
            return self.reply(403 if authorization else 401, b"", {})
        self.reply(302, b"", {"Location": f"{hub.cdn}/{found[2]}"})

    def _answer_api(self, path: str) -> None:
        hub = self.hub
        if hub.api_status != 200:
            return self.reply(hub.api_status, b"", {})
        if not path.startswith(f"{hub.repo}/"):
            return self.reply(404, b"", {})
        what, name = path.removeprefix(f"{hub.repo}/").split("/")
        if what == "revision" and name == "main":
            return self._json({"id": hub.repo, "sha": hub.commit})
        if what == "tree" and name == hub.commit:
            return self._json(hub.tree())
        self.reply(404, b"", {})

    def _json(self, value: Any) -> None:
        self.reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})


class _Cdn(_Handler):
    def do_GET(self) -> None:
        self.hub.cdn_requests.append((self.path, self.headers.get("Authorization") or ""))
        data = self.hub.files[unquote(self.path[1:])]
        found = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if not found:
            return self.reply(200, data, {})
        first, last = int(found[1]), min(int(found[2]), len(data) - 1)
        fields = {"Content-Range": f"bytes {first}-{last}/{len(data)}", "ETag": f'"{len(data)}"'}
        self.reply(206, data[first : last + 1], fields)
