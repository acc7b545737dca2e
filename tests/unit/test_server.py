"""The static server that `serve`, the tests and the bench share."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from space.tools.server import SiteServer

CONTENT = b"".join(n.to_bytes(2, "big") for n in range(512))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("server")
    site = base / "site"
    (site / "models").mkdir(parents=True)
    (site / "index.html").write_text("<p>hello")
    (site / "models" / "a b.gguf").write_bytes(CONTENT)
    (site / "kernel.wasm").write_bytes(b"\0asm")
    (site / "module.mjs").write_text("export {};")
    (base / "secret.txt").write_text("outside")
    (site / "link.txt").symlink_to(base / "secret.txt")
    return site


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[SiteServer]:
    with SiteServer(folder) as running:
        yield running


def ask(
    server: SiteServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    port = int(server.url.rsplit(":", 1)[1].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=named)
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    return reply.status, {k.lower(): v for k, v in reply.getheaders()}, body


def test_index_has_the_isolation_headers(server: SiteServer) -> None:
    status, headers, body = ask(server, "/")
    assert (status, body) == (200, b"<p>hello")
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    assert headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/kernel.wasm", "application/wasm"),
        ("/module.mjs", "text/javascript; charset=utf-8"),
        ("/models/a%20b.gguf", "application/octet-stream"),
    ],
)
def test_content_types(server: SiteServer, path: str, content_type: str) -> None:
    assert ask(server, path)[1]["content-type"] == content_type


@pytest.mark.parametrize(
    ("asked", "status", "expected"),
    [
        ("bytes=0-9", 206, CONTENT[:10]),
        ("bytes=1000-", 206, CONTENT[1000:]),
        ("bytes=-5", 206, CONTENT[-5:]),
        ("bytes=1020-9999", 206, CONTENT[1020:]),
        ("bytes=1024-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=5-2", 416, b""),
        ("bytes=-", 200, CONTENT),
        ("bytes=0-1,4-5", 200, CONTENT),
        ("pages=1-2", 200, CONTENT),
    ],
)
def test_ranges(server: SiteServer, asked: str, status: int, expected: bytes) -> None:
    got, headers, body = ask(server, "/models/a%20b.gguf", Range=asked)
    assert (got, body) == (status, expected)
    if status == 206:
        first = CONTENT.index(expected)
        assert headers["content-range"] == f"bytes {first}-{first + len(expected) - 1}/1024"
    if status == 416:
        assert headers["content-range"] == "bytes */1024"


def test_a_host_without_ranges_sends_the_whole_file(folder: Path) -> None:
    with SiteServer(folder, has_ranges=False) as server:
        status, headers, body = ask(server, "/models/a%20b.gguf", Range="bytes=0-9")
    assert (status, body) == (200, CONTENT)
    assert "accept-ranges" not in headers


def test_validators_save_the_second_download(server: SiteServer) -> None:
    etag = ask(server, "/kernel.wasm")[1]["etag"]
    status, _, body = ask(server, "/kernel.wasm", If_None_Match=etag)
    assert (status, body) == (304, b"")
    stale = ask(server, "/models/a%20b.gguf", Range="bytes=0-9", If_Range='"other"')
    assert (stale[0], stale[2]) == (200, CONTENT)


def test_head_has_no_body(server: SiteServer) -> None:
    status, headers, body = ask(server, "/models/a%20b.gguf", method="HEAD")
    assert (status, headers["content-length"], body) == (200, "1024", b"")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/models/",
        "/models",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%5csecret.txt",
        "/link.txt",
        "/index.html%00",
        "//etc/passwd",
    ],
)
def test_nothing_outside_and_no_listing(server: SiteServer, path: str) -> None:
    assert ask(server, path)[0] == 404


def test_other_origins_only_when_shared(folder: Path, server: SiteServer) -> None:
    assert "access-control-allow-origin" not in ask(server, "/")[1]
    with SiteServer(folder, is_shared=True, is_isolated=False) as shared:
        headers = ask(shared, "/models/a%20b.gguf")[1]
        assert headers["access-control-allow-origin"] == "*"
        assert headers["cross-origin-resource-policy"] == "cross-origin"
        assert "cross-origin-opener-policy" not in headers
        assert ask(shared, "/", method="OPTIONS")[0] == 204


def test_the_policy_of_the_index_page_comes_with_every_file(folder: Path) -> None:
    index = folder / "index.html"
    old = index.read_text()
    index.write_text('<meta http-equiv="Content-Security-Policy" content="default-src *">')
    try:
        with SiteServer(folder, prefix="a/b/") as server:
            for path in ("/a/b/", "/a/b/kernel.wasm"):
                status, headers, _ = ask(server, path)
                assert (status, headers["content-security-policy"]) == (200, "default-src *")
            assert ask(server, "/kernel.wasm")[0] == 404
            assert server.requests == ["/a/b/", "/a/b/kernel.wasm", "/kernel.wasm"]
            assert server.url.endswith("/a/b/")
        with SiteServer(folder, has_policy=False) as server:
            assert "content-security-policy" not in ask(server, "/")[1]
    finally:
        index.write_text(old)
