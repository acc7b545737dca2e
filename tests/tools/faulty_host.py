"""A model host that misbehaves on request: one file, and a fault that tests switch on and off."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

FAULTS = (
    "none", "cut", "short", "html", "no_range", "changed", "busy", "too_many", "slow", "redirect",
    "no_cors", "down", "no_etag", "long",
)  # fmt: skip


@dataclass
class FaultyHost:
    """Serves ``data`` at ``/model.gguf``; ``fault`` says how it fails, for ``n_faults`` requests.

    ``requests`` lists the byte ranges that were asked for, as (first, last).
    """

    data: bytes
    fault: str = "none"
    n_faults: int = 1 << 30
    after_bytes: int = 0
    """Faults begin once a request reaches past this offset."""
    version: str = "one"
    requests: list[tuple[int, int]] = field(default_factory=list)

    def __enter__(self) -> FaultyHost:
        handler = type("Handler", (_Handler,), {"host": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The model's address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/model.gguf"

    def set(self, fault: str, *, n_faults: int = 1 << 30, after_bytes: int = 0) -> None:
        """Switch a fault on."""
        assert fault in FAULTS
        self.fault, self.n_faults, self.after_bytes = fault, n_faults, after_bytes

    @property
    def n_fetched(self) -> int:
        """Bytes asked for so far."""
        return sum(last - first + 1 for first, last in self.requests)


class _Handler(BaseHTTPRequestHandler):
    host: FaultyHost
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        host = self.host
        size = len(host.data)
        found = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        first, last = (int(found[1]), min(int(found[2]), size - 1)) if found else (0, size - 1)
        fault = host.fault if last >= host.after_bytes and host.n_faults > 0 else "none"
        if fault != "none":
            host.n_faults -= 1
        host.requests.append((first, last))
        if fault == "down":
            self.close_connection = True
            return
        if fault in ("busy", "too_many"):
            return self._reply(503 if fault == "busy" else 429, b"later", {"Retry-After": "0"})
        if fault == "redirect" and "moved" not in self.path:
            return self._reply(302, b"", {"Location": host.url + "?moved"})
        if fault == "html":
            return self._reply(200, b"<!doctype html><title>Sign in</title>", {})
        told = size + 5000 if fault == "long" else size
        ranged = bool(found) and fault != "no_range"
        body = host.data[first : last + 1] if ranged else host.data
        fields = {"Content-Range": f"bytes {first}-{last}/{told}"} if ranged else {}
        if fault != "no_etag":
            fields["ETag"] = '"two"' if fault == "changed" else f'"{host.version}"'
        self._reply(206 if ranged else 200, body, fields, fault)

    def _reply(self, status: int, body: bytes, fields: dict[str, str], fault: str = "") -> None:
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        if fault != "no_cors":
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Expose-Headers", "Content-Range, ETag")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "cut":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
        elif fault == "slow":
            step = max(1, len(body) // 8)
            for at in range(0, len(body), step):
                self.wfile.write(body[at : at + step])
                time.sleep(0.05)
        else:
            self.wfile.write(body[:-1] + b"\0" if fault == "short" else body)
