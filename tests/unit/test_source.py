"""Sources: bytes, files and a local web server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rushlight.errors import EngineError, SourceError
from rushlight.gguf import http_source
from rushlight.gguf.http_rules import checked_address
from rushlight.gguf.http_source import HttpSource
from rushlight.gguf.source import BytesSource, FileSource, Source, SyncAsAsync, open_source

DATA = (b"GGUF\3\0\0\0" + bytes(range(256)) * 40)[:10240]


REDIRECTS = {
    "/redirect": "/ok",
    "/escape": "file:///etc/passwd",
    "/circle": "/circle",
    "/astray": "http://[::1",
}


class Handler(BaseHTTPRequestHandler):
    """Serves DATA; the path chooses how the server behaves."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, asked = self.path, self.headers.get("Range", "")
        seen = [k for k in self.headers if k not in ("Range", "Host", "User-Agent", "Connection")]
        assert seen == ["Accept-Encoding"], seen
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
        assert match
        start, end = int(match[1]), min(int(match[2]) + 1, len(DATA))
        where = {"Content-Range": f"bytes {start}-{end - 1}/{len(DATA)}"}
        if path in REDIRECTS:
            self.reply(302, b"", headers={"Location": REDIRECTS[path]})
        elif path in ("/huge-range", "/odd-range"):
            end_of_field = "9" * 5000 if path == "/huge-range" else "\u00b2"
            self.reply(206, DATA[:10], headers={"Content-Range": f"bytes 0-9/{end_of_field}"})
        elif path == "/etag":
            self.reply(206, DATA[start:end], headers={**where, "ETag": f'"v{start > 0}"'})
        elif path == "/gzip":
            self.reply(206, DATA[start:end], headers={**where, "Content-Encoding": "gzip"})
        elif path in ("/html", "/page", "/huge", "/endless"):
            self.endless(path)
        elif path == "/slow":
            self.slow(where)
        elif path == "/then-page" and start:
            self.reply(200, b"<html>Sign in</html>" * 2000)
        elif path == "/reason":
            self.wfile.write(b"HTTP/1.1 404 bad\x1b[31m thing\r\nContent-Length: 0\r\n\r\n")
            self.close_connection = True
        elif path[1:].isdigit():
            self.reply(int(path[1:]), b"no")
        elif path == "/flaky" and start and self.server.n_failures < 2:  # type: ignore[attr-defined]
            self.server.n_failures += 1  # type: ignore[attr-defined]
            self.reply(503, b"")
        elif path == "/empty":
            self.reply(416, b"", headers={"Content-Range": "bytes */0"})
        elif path in ("/whole", "/short-whole"):
            self.reply(200, DATA, short=path == "/short-whole")
        elif path == "/wrong":
            self.reply(206, DATA[:10], headers={"Content-Range": "bytes 5-14/10240"})
        elif path == "/changing" and start:
            self.reply(
                206, DATA[start:end], headers={"Content-Range": f"bytes {start}-{end - 1}/9"}
            )
        else:
            self.reply(206, DATA[start:end], short=path == "/short" and start > 0, headers=where)

    def endless(self, path: str) -> None:
        """Send a body that never ends; the client must hang up."""
        self.send_response(200)
        if path == "/page":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        if path == "/huge":
            self.send_header("Content-Length", "9" * 21)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write({"/html": b"<html>", "/page": b"Hello"}.get(path, DATA[:64]))
            while True:
                self.wfile.write(b"x" * 65536)

    def slow(self, where: dict[str, str]) -> None:
        self.send_response(206)
        for name, value in {**where, "Content-Length": "1000", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"G")
                time.sleep(0.01)

    def reply(self, status: int, body: bytes, short: bool = False, headers: Any = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if short else body)
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.n_failures = 0  # type: ignore[attr-defined]
    thread = threading.Thread(target=web.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_address[1]}"
    web.shutdown()
    web.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def small_first_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_source, "FIRST_READ", 1000)
    monkeypatch.setattr(http_source, "RETRY_DELAYS_S", (0.0, 0.0))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def check_reads(source: Source) -> None:
    assert source.size == len(DATA)
    for offset, n in [(0, 10), (0, 0), (990, 20), (5000, 3000), (len(DATA) - 1, 1), (len(DATA), 0)]:
        data = source.read(offset, n)
        assert isinstance(data, bytes)
        assert data == DATA[offset : offset + n]
    for offset, n in [(len(DATA), 1), (-1, 2), (0, len(DATA) + 1), (5, -1)]:
        with pytest.raises(SourceError) as caught:
            source.read(offset, n)
        assert caught.value.code == "out_of_range"


def test_bytes() -> None:
    for data in (DATA, bytearray(DATA), memoryview(DATA)):
        check_reads(open_source(data))


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(DATA)
    for source in (open_source(path), open_source(str(path))):
        check_reads(source)
        assert isinstance(source, FileSource)
        view = source.view(100, 300)
        assert view == DATA[100:400]
        assert open_source(source) is source
        source.close()
        assert view == DATA[100:400]  # a mapping outlives the file
        with pytest.raises(SourceError):
            source.read(0, 1)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    source = FileSource(path)
    assert source.read(0, 0) == bytes(source.view(0, 0)) == b""
    source.close()


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(DATA)
    source = FileSource(path)
    path.write_bytes(DATA[:100])
    with pytest.raises(SourceError) as caught:
        source.read(50, 100)
    assert caught.value.code == "short_read"
    source.close()


def test_paths_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no file") as caught:
        open_source(tmp_path / "absent")
    assert caught.value.code == "not_found"
    with pytest.raises(SourceError, match="folder"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match="Cannot open"):
        open_source("a\0b")
    for origin in ("ftp://h/x", "file:///etc/passwd"):
        with pytest.raises(SourceError) as caught:
            open_source(origin)
        assert caught.value.code == "unsupported_scheme"
    with pytest.raises(SourceError, match="int"):
        open_source(5)  # type: ignore[arg-type]


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read_end, write_end = os.pipe()
    for path in (str(pipe), "/dev/zero", "/dev/urandom", f"/dev/fd/{read_end}"):
        with pytest.raises(SourceError, match="is not a regular file") as caught:
            open_source(path)
        assert caught.value.code == "not_regular" and path in caught.value.message
    os.close(read_end)
    os.close(write_end)
    with pytest.raises(SourceError, match="The path is empty"):
        open_source("")


def test_a_sync_source_behind_the_awaited_interface() -> None:
    source = SyncAsAsync(BytesSource(DATA))
    assert asyncio.run(source.read(3, 4)) == DATA[3:7]
    asyncio.run(source.close())


@pytest.mark.parametrize("path", ["/ok", "/redirect"])
def test_http(server: str, path: str) -> None:
    source = open_source(server + path)
    assert isinstance(source, HttpSource)
    check_reads(source)
    assert source.note == ""
    source.close()


def test_http_whole_file_when_range_is_ignored(server: str) -> None:
    steps: list[tuple[int, int | None]] = []
    source = HttpSource(server + "/whole", progress=lambda *step: steps.append(step))
    check_reads(source)
    assert "ignores Range" in source.note
    assert steps[-1] == (len(DATA), len(DATA))
    source.close()


@pytest.mark.parametrize(
    ("path", "code", "word"),
    [
        ("/404", "not_found", "404"),
        ("/401", "forbidden", "gated"),
        ("/403", "forbidden", "gated"),
        ("/503", "unavailable", "later"),
        ("/400", "http_error", "400"),
        ("/wrong", "bad_range", "bytes 5-14"),
        ("/short-whole", "short_read", "came"),
        ("/escape", "http_error", "302"),
        ("/circle", "http_error", "redirect in a circle"),
        ("/astray", "bad_address", "leads to one that is none"),
        ("/204", "http_error", "brings no file"),
        ("/304", "http_error", "304 Not Modified"),
        ("/huge-range", "bad_range", "99999"),
        ("/odd-range", "bad_range", "\u00b2"),
        ("/gzip", "bad_encoding", "gzip"),
        ("/html", "model_format", "web page"),
        ("/page", "model_format", "web page"),
        ("/huge", "no_room", "9" * 21),
        ("/endless", "no_room", "do not fit"),
        ("/slow", "stalled", "seconds"),
        ("/reason", "not_found", r"bad\x1b[31m thing"),
    ],
)
def test_http_refusals(
    server: str, path: str, code: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_source, "STALL_S", 0.1)
    monkeypatch.setattr(http_source, "MAX_UNKNOWN", 1 << 20)
    monkeypatch.setattr(http_source, "KEPT_FREE", 1 << 20)
    with pytest.raises(EngineError) as caught:
        HttpSource(server + path)
    assert caught.value.code == code
    assert word in str(caught.value)
    assert server in caught.value.message or code == "model_format"
    assert len(caught.value.message) <= 500
    assert caught.value.hint


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/short", "short_read"),
        ("/changing", "changed"),
        ("/etag", "changed"),
        ("/then-page", "changed"),
    ],
)
def test_http_trouble_after_the_start(server: str, path: str, code: str) -> None:
    source = HttpSource(server + path)
    with pytest.raises(EngineError) as caught:
        source.read(2000, 5000)
    assert caught.value.code == code


def test_http_tries_again_in_the_middle_of_a_load(server: str) -> None:
    source = HttpSource(server + "/flaky")
    assert source.read(2000, 5000) == DATA[2000:7000]


def test_http_empty_file(server: str) -> None:
    source = HttpSource(server + "/empty")
    assert source.size == 0
    assert source.read(0, 0) == b""


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://host/m\u00f6 del.gguf", "http://host/m%C3%B6%20del.gguf"),
        ("https://h.example:8080/a%20b?x=\u00e9#part", "https://h.example:8080/a%20b?x=%C3%A9"),
        ("http://m\u00fcnchen.example/x", "http://xn--mnchen-3ya.example/x"),
        ("http://[::1]:80/a", "http://[::1]:80/a"),
        ("HTTP://Host/A", "http://host/A"),
    ],
)
def test_addresses_are_encoded(url: str, address: str) -> None:
    assert checked_address(url) == address


@pytest.mark.parametrize(
    "url",
    ["http://", "http://[::1", "http://h:x/", "http://h:99999/", "https://a b/", "http://h/\ud800"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(SourceError, match="is not a web address") as caught:
        open_source(url)
    assert caught.value.code == "bad_address"


def test_http_unreachable_and_other_schemes() -> None:
    with pytest.raises(SourceError) as caught:
        HttpSource("http://127.0.0.1:9/x", timeout_s=5)
    assert caught.value.code == "unreachable"
    with pytest.raises(SourceError) as caught:
        HttpSource("file:///etc/passwd")
    assert caught.value.code == "unsupported_scheme"
