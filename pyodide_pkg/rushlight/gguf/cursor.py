"""The bytes of a header as they arrive, and the primitive fields read from them."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

import numpy as np

from ..errors import ModelFormatError

#: Limits on an untrusted header; the largest known headers are below 30 MB.
MAX_HEADER_BYTES = 1 << 28
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 17
MAX_KEY_BYTES = (1 << 16) - 1
MAX_NAME_BYTES = 1024
MAX_STRINGS = 1 << 24
MAX_NESTED_ARRAYS = 1 << 16
MAX_DEPTH = 4
MAX_DIMS = 4
MAX_ALIGNMENT = 1 << 20

DEFAULT_ALIGNMENT = 32
FIRST_CHUNK = 1 << 20
LAST_CHUNK = 1 << 24

DAMAGED = "The file is damaged or was made by a faulty tool; download it again."
TRUNCATED = "The file is truncated or damaged; download it again."

STRING, ARRAY, BOOL = 8, 9, 7
#: Value type id -> numpy dtype, for the fixed-size types.
DTYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    BOOL: np.dtype("<u1"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
U32, U64 = struct.Struct("<I"), struct.Struct("<Q")
STRUCTS = {
    type_id: struct.Struct("<" + code) for type_id, code in zip(DTYPES, "BbHhIifBQqd", strict=True)
}

#: What a parser yields: a byte range (offset, n); it is sent exactly those bytes.
Reads = Generator[tuple[int, int], bytes, Any]


class Cursor:
    """The header bytes read so far, from ``base`` on, and how to ask for more."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.base = 0  # file offset of data[0]; what lies before it is parsed and dropped
        self.data = b""
        self.pos = 0  # index into data
        self.chunk = FIRST_CHUNK

    @property
    def offset(self) -> int:
        """The position in the file."""
        return self.base + self.pos

    def fail(self, what: str, *, at: int | None = None, hint: str = DAMAGED) -> ModelFormatError:
        """An error about ``what``, with the byte offset (the position unless told)."""
        where = self.offset if at is None else at
        what = what if len(what) <= 300 else what[:300] + "…"
        return ModelFormatError(f"{what} (at byte {where}).", hint=hint)

    def need(self, n: int, what: str) -> Reads:
        """Make ``n`` bytes available at the position, reading a further chunk if they are not."""
        missing = self.pos + n - len(self.data)
        if missing <= 0:
            return
        end = self.base + len(self.data)
        if end + missing > self.size:
            raise self.fail(
                f"The file ends inside the header, in {what}: {n} bytes are needed,"
                f" {self.size - self.offset} are left",
                hint=TRUNCATED,
            )
        if end + missing > MAX_HEADER_BYTES:
            raise self.fail(f"The header is longer than {MAX_HEADER_BYTES} bytes, in {what}")
        n_read = min(max(missing, self.chunk), self.size - end)
        self.chunk = min(self.chunk * 2, LAST_CHUNK)
        more = yield end, n_read
        assert len(more) == n_read, f"asked for {n_read} bytes, was sent {len(more)}"
        self.data = self.data[self.pos :] + more
        self.base += self.pos
        self.pos = 0

    def take(self, unpack: struct.Struct, what: str) -> Reads:
        """One fixed-size number."""
        yield from self.need(unpack.size, what)
        (value,) = unpack.unpack_from(self.data, self.pos)
        self.pos += unpack.size
        return value

    def string(self, what: str, limit: int = MAX_HEADER_BYTES) -> Reads:
        """A string's bytes."""
        n = yield from self.take(U64, what)
        if n > limit:
            raise self.fail(f"{what} has a length of {n} bytes, over {limit}", at=self.offset - 8)
        yield from self.need(n, what)
        value = self.data[self.pos : self.pos + n]
        self.pos += n
        return value

    def name(self, what: str, limit: int) -> Reads:
        """A key or tensor name: valid UTF-8, not empty."""
        at = self.offset
        raw = yield from self.string(what, limit)
        try:
            text: str = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.fail(f"{what} is not valid UTF-8: {raw[:40]!r}", at=at) from None
        if not text:
            raise self.fail(f"{what} is empty", at=at)
        return text

    def strings(self, count: int, what: str) -> Reads:
        """``count`` strings. The loop is flat because a vocabulary has 262144 of them."""
        out: list[str] = []
        append, unpack = out.append, U64.unpack_from
        while len(out) < count:
            data, pos, stop = self.data, self.pos, len(self.data)
            last = stop - 8
            for _ in range(count - len(out)):
                if pos > last:
                    break
                start = pos + 8
                end = start + unpack(data, pos)[0]
                if end > stop:
                    break
                append(data[start:end].decode("utf-8", "surrogateescape"))
                pos = end
            self.pos = pos
            if len(out) < count:
                yield from self.need(8, f"{what}[{len(out)}]")
                (n,) = unpack(self.data, self.pos)
                yield from self.need(8 + n, f"{what}[{len(out)}]")
        return out
