"""The GGUF header: version, metadata and the table of tensors; never the tensors' bytes.

The parser does no input or output: ``header_steps`` is a generator that yields the byte ranges
it wants and is sent their bytes, so the sync and the awaited reader are the same code. A file
is untrusted: every length is checked against what is left of the file before anything is
allocated, counts have limits, and an error names the field and its byte offset.

Strings are decoded as UTF-8 with ``surrogateescape``: a vocabulary may hold tokens that are not
valid UTF-8, and ``text.encode("utf-8", "surrogateescape")`` gives back their exact bytes. Keys
and tensor names must be valid UTF-8, since they end up in messages.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFormatError, UnsupportedTypeError
from .cursor import (
    ARRAY,
    BOOL,
    DAMAGED,
    DEFAULT_ALIGNMENT,
    DTYPES,
    MAX_ALIGNMENT,
    MAX_DEPTH,
    MAX_DIMS,
    MAX_HEADER_BYTES,
    MAX_KEY_BYTES,
    MAX_KEYS,
    MAX_NAME_BYTES,
    MAX_NESTED_ARRAYS,
    MAX_STRINGS,
    MAX_TENSORS,
    STRING,
    STRUCTS,
    TRUNCATED,
    U32,
    U64,
    Cursor,
    Reads,
)
from .quants import QUANT_BY_ID, QuantFormat
from .sniff import check_magic
from .source import AsyncSource, Source, view_or_read
from .views import TensorTable


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies. ``shape`` is in numpy order, [n_rows, n_cols] for a matrix."""

    name: str
    shape: tuple[int, ...]
    type: QuantFormat
    offset: int  # from the start of its part's file
    n_bytes: int
    part: int = 0

    @property
    def n_cols(self) -> int:
        """Values in a row (the contiguous dimension)."""
        return self.shape[-1]

    @property
    def n_rows(self) -> int:
        """Rows over all leading dimensions."""
        return math.prod(self.shape[:-1])

    @property
    def n_elements(self) -> int:
        """Values in the tensor."""
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.type.row_bytes(self.n_cols)


@dataclass(frozen=True, slots=True)
class GgufPart:
    """One file of a model that may be split over several."""

    name: str
    n_bytes: int
    data_offset: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """A parsed header. ``n_bytes`` counts all parts; ``data_offset`` is the first part's."""

    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    data_offset: int
    n_bytes: int
    parts: tuple[GgufPart, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", TensorTable(self.tensors))

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors, without padding."""
        return sum(info.n_bytes for info in self.tensors.values())


class _Header:
    """Parses one header; ``run`` is the generator behind ``header_steps``."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.cur = Cursor(size)
        self.n_nested = 0

    def run(self) -> Reads:
        cur = self.cur
        yield from cur.need(min(24, cur.size), "the start")
        version = check_magic(cur.data[:512], cur.size)
        cur.pos = 8
        n_tensors = yield from cur.take(U64, "tensor_count")
        n_keys = yield from cur.take(U64, "metadata_kv_count")
        self.check_count("tensor_count", n_tensors, MAX_TENSORS, 24, at=8)
        self.check_count("metadata_kv_count", n_keys, MAX_KEYS, 13, at=16)
        metadata: dict[str, Any] = {}
        alignment = DEFAULT_ALIGNMENT
        for i in range(n_keys):
            at = cur.offset
            key = yield from cur.name(f"the key of metadata entry {i}", MAX_KEY_BYTES)
            if key in metadata:
                raise cur.fail(f"The key {key} appears twice", at=at)
            at = cur.offset
            type_id = yield from cur.take(U32, key)
            metadata[key] = yield from self.value(type_id, key, at)
            if key == "general.alignment":
                alignment = self.alignment(metadata[key], at)
        infos = []
        for i in range(n_tensors):
            infos.append((yield from self.tensor(i)))
        data_offset = -(-cur.offset // alignment) * alignment
        tensors = place_tensors(infos, data_offset, alignment, cur.size)
        part = GgufPart(self.name, cur.size, data_offset)
        return GgufFile(version, metadata, tensors, data_offset, cur.size, (part,))

    def check_count(self, what: str, count: int, limit: int, min_bytes: int, at: int) -> None:
        """Refuse a count above its limit or that cannot fit in the rest of the file."""
        left = self.cur.size - self.cur.offset
        if count > limit:
            raise self.cur.fail(f"{what} is {count}, over the limit of {limit}", at=at)
        if count * min_bytes > left:
            raise self.cur.fail(
                f"The file ends too soon: {what} is {count}, which needs {count * min_bytes} bytes;"
                f" {left} are left",
                at=at,
                hint=TRUNCATED,
            )

    def alignment(self, value: Any, at: int) -> int:
        is_int = isinstance(value, int) and not isinstance(value, bool)
        if not is_int or not 0 < value <= MAX_ALIGNMENT or value & (value - 1):
            raise self.cur.fail(
                f"general.alignment is {str(value)[:40]}, which is not a power of two"
                f" up to {MAX_ALIGNMENT}",
                at=at,
            )
        return int(value)

    def value(self, type_id: int, key: str, at: int) -> Reads:
        """One metadata value."""
        cur = self.cur
        if type_id == STRING:
            raw = yield from cur.string(key)
            return raw.decode("utf-8", "surrogateescape")
        if type_id == ARRAY:
            return (yield from self.array(key, 1))
        if type_id not in STRUCTS:
            raise cur.fail(f"{key} has the unknown value type {type_id}", at=at)
        value = yield from cur.take(STRUCTS[type_id], key)
        if type_id == BOOL:
            if value > 1:
                raise cur.fail(f"{key} is a bool of value {value}", at=cur.offset - 1)
            return bool(value)
        return value

    def array(self, key: str, depth: int) -> Reads:
        """An array: numbers as a numpy array, strings as a list, arrays as a list."""
        cur = self.cur
        at = cur.offset
        type_id = yield from cur.take(U32, f"{key} (element type)")
        count = yield from cur.take(U64, f"{key} (length)")
        if type_id == STRING:
            self.check_count(f"{key} (length)", count, MAX_STRINGS, 8, at=at + 4)
            return (yield from cur.strings(count, key))
        if type_id == ARRAY:
            if depth >= MAX_DEPTH:
                raise cur.fail(f"{key} nests arrays more than {MAX_DEPTH} deep", at=at)
            self.n_nested += count
            self.check_count(f"{key} (length)", count, MAX_NESTED_ARRAYS, 12, at=at + 4)
            if self.n_nested > MAX_NESTED_ARRAYS:
                raise cur.fail(f"{key} has over {MAX_NESTED_ARRAYS} nested arrays", at=at)
            items = []
            for _ in range(count):
                items.append((yield from self.array(key, depth + 1)))
            return items
        if type_id not in DTYPES:
            raise cur.fail(f"{key} has the unknown element type {type_id}", at=at)
        dtype = DTYPES[type_id]
        self.check_count(f"{key} (length)", count, MAX_HEADER_BYTES, dtype.itemsize, at=at + 4)
        yield from cur.need(count * dtype.itemsize, key)
        # A copy, so that a small array does not keep the whole header in memory.
        values = np.frombuffer(cur.data, dtype, count, cur.pos).copy()
        if type_id == BOOL:
            if count and values.max() > 1:
                raise cur.fail(f"{key} has a bool of value {values.max()}")
            values = values.view(np.bool_)
        cur.pos += count * dtype.itemsize
        return values

    def tensor(self, index: int) -> Reads:
        """One row of the tensor table, its offset still relative; with its place in the file."""
        cur = self.cur
        at = cur.offset
        name = yield from cur.name(f"the name of tensor {index}", MAX_NAME_BYTES)
        n_dims = yield from cur.take(U32, f"{name} (n_dims)")
        if not 1 <= n_dims <= MAX_DIMS:
            raise cur.fail(f"{name} has {n_dims} dimensions, not 1 to {MAX_DIMS}", at=at)
        dims = []
        for _ in range(n_dims):
            dims.append((yield from cur.take(U64, f"{name} (dimensions)")))
        type_at = cur.offset
        type_id = yield from cur.take(U32, f"{name} (type)")
        offset = yield from cur.take(U64, f"{name} (offset)")
        shape = tuple(reversed(dims))
        if 0 in dims or math.prod(dims) >= 1 << 63:
            raise cur.fail(f"{name} has the impossible shape {list(shape)}", at=at)
        fmt = QUANT_BY_ID.get(type_id)
        if fmt is None:
            raise UnsupportedTypeError(
                f"{name} has type id {type_id}, which is not a known GGML type"
                f" (at byte {type_at}).",
                hint="Use a newer Rushlight, or convert the model to a Q8_0 or Q4_K_M file.",
            )
        if shape[-1] % fmt.block_size:
            raise cur.fail(
                f"{name} has rows of {shape[-1]} values, not a multiple of the {fmt.name}"
                f" block of {fmt.block_size}",
                at=at,
            )
        n_bytes = math.prod(shape) // fmt.block_size * fmt.type_size
        return TensorInfo(name, shape, fmt, offset, n_bytes), at


def place_tensors(
    infos: list[tuple[TensorInfo, int]], data_offset: int, alignment: int, size: int
) -> dict[str, TensorInfo]:
    """The tensor table by name with absolute offsets, checked to lie apart and in the file."""
    tensors: dict[str, TensorInfo] = {}
    packed_end = data_offset
    for info, at in infos:
        if info.name in tensors:
            raise ModelFormatError(
                f"The tensor {info.name} appears twice (at byte {at}).", hint=DAMAGED
            )
        if info.offset % alignment:
            raise ModelFormatError(
                f"{info.name} has offset {info.offset}, not a multiple of the alignment"
                f" {alignment} (at byte {at}).",
                hint=DAMAGED,
            )
        start = data_offset + info.offset
        tensors[info.name] = TensorInfo(info.name, info.shape, info.type, start, info.n_bytes)
        packed_end += -(-info.n_bytes // alignment) * alignment
    order = sorted(tensors.values(), key=lambda info: info.offset)
    for before, after in itertools.pairwise(order):
        if before.offset + before.n_bytes > after.offset:
            raise ModelFormatError(
                f"{after.name} (at byte {after.offset}) overlaps {before.name}, which ends at"
                f" byte {before.offset + before.n_bytes}.",
                hint=DAMAGED,
            )
    if order:
        _check_end(order[-1], packed_end, size)
    return tensors


def _check_end(last: TensorInfo, packed_end: int, size: int) -> None:
    end = last.offset + last.n_bytes
    if end <= size:
        return
    if end <= packed_end:
        # The table is consistent with itself, so it is the file that is too short.
        raise ModelFormatError(
            f"The file is truncated: it has {size} bytes, and {last.name} ends at byte {end};"
            f" {end - size} bytes are missing.",
            hint="Download it again; the last download did not finish.",
        )
    raise ModelFormatError(
        f"{last.name} lies outside the file: it has offset {last.offset} and {last.n_bytes}"
        f" bytes, the file has {size} bytes.",
        hint=DAMAGED,
    )


def header_steps(size: int, name: str = "<file>") -> Generator[tuple[int, int], bytes, GgufFile]:
    """Parse a header without doing input: yields (offset, n), wants exactly those bytes sent.

    Raises ModelFormatError or UnsupportedTypeError.
    """
    return _Header(name, size).run()


def read_header(source: Source) -> GgufFile:
    """Read and check the header of a GGUF file.

    Raises ModelFormatError, UnsupportedTypeError, or SourceError from the source.
    """
    steps = header_steps(source.size, source.name)
    try:
        want = next(steps)
        while True:
            want = steps.send(source.read(*want))
    except StopIteration as done:
        file: GgufFile = done.value
        return file


async def read_header_async(source: AsyncSource) -> GgufFile:
    """Read and check the header of a GGUF file whose bytes have to be awaited."""
    steps = header_steps(source.size, source.name)
    try:
        want = next(steps)
        while True:
            want = steps.send(await source.read(*want))
    except StopIteration as done:
        file: GgufFile = done.value
        return file


def read_tensor(source: Source, info: TensorInfo) -> NDArray[np.uint8]:
    """A tensor's packed bytes [*shape[:-1], row_bytes]; a view where the source can map them."""
    raw = view_or_read(source, info.offset, info.n_bytes)
    return np.frombuffer(raw, np.uint8).reshape(*info.shape[:-1], info.row_bytes)
