"""Web addresses read by a page's fetch, with Pyodide's modules played by stand-ins."""

from __future__ import annotations

import asyncio
import sys
import types
from typing import Any

import pytest

from rushlight.errors import EngineError

DATA = b"GGUF\3\0\0\0" + bytes(10232)


class FakeReply:
    """What pyodide.http.pyfetch returns."""

    def __init__(self, status: int, body: bytes, **headers: str) -> None:
        self.status, self.status_text, self._body = status, "", body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def bytes(self) -> bytes:
        return self._body


def fetch(monkeypatch: pytest.MonkeyPatch, answer: Any, offset: int = 0) -> bytes:
    """Open and read a FetchSource whose requests ``answer(url, offset)`` replies to."""

    async def pyfetch(url: str, headers: dict[str, str]) -> FakeReply:
        reply: FakeReply = answer(url, int(headers["Range"][6:].split("-")[0]))
        return reply

    ffi, web = types.ModuleType("pyodide.ffi"), types.ModuleType("pyodide.http")
    ffi.JsException, web.pyfetch, web.FetchResponse = OSError, pyfetch, FakeReply  # type: ignore[attr-defined]
    for name, module in (("", types.ModuleType("pyodide")), (".ffi", ffi), (".http", web)):
        monkeypatch.setitem(sys.modules, f"pyodide{name}", module)
    monkeypatch.delitem(sys.modules, "rushlight.gguf.fetch_source", raising=False)
    from rushlight.gguf.fetch_source import FetchSource

    monkeypatch.delitem(sys.modules, "rushlight.gguf.fetch_source")

    async def read() -> bytes:
        source = await FetchSource.open("https://host/m\u00f6.gguf")
        return await source.read(offset, 10)

    return asyncio.run(read())


def part(offset: int, **headers: str) -> FakeReply:
    end = min(offset + (1 << 20 if not offset else 10), 1 << 21)
    body = (DATA[:8] + bytes(1 << 21))[offset:end]
    where = f"bytes {offset}-{end - 1}/{1 << 21}"
    return FakeReply(206, body, content_range=where, **headers)


def test_fetch_in_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(url: str, offset: int) -> FakeReply:
        asked.append(url)
        return part(offset, etag='"a"')

    assert fetch(monkeypatch, answer) == DATA[:8] + bytes(2)
    assert fetch(monkeypatch, answer, 1_500_000) == bytes(10)
    assert set(asked) == {"https://host/m%C3%B6.gguf"}
    assert fetch(monkeypatch, lambda url, offset: FakeReply(200, DATA)) == DATA[:10]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda url, offset: FakeReply(200, b"<html>"), "model_format"),
        (lambda url, offset: FakeReply(200, b"Hello", content_type="text/html"), "model_format"),
        (lambda url, offset: FakeReply(200, DATA, content_length="9" * 30), "no_room"),
        (lambda url, offset: FakeReply(204, b""), "http_error"),
        (lambda url, offset: part(offset, etag=f'"{offset}"'), "changed"),
        (lambda url, offset: part(offset) if not offset else FakeReply(200, DATA), "changed"),
    ],
)
def test_fetch_refusals(monkeypatch: pytest.MonkeyPatch, answer: Any, code: str) -> None:
    with pytest.raises(EngineError) as caught:
        fetch(monkeypatch, answer, 1_500_000)
    assert caught.value.code == code
