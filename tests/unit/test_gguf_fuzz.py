"""Mutated files either parse or are refused with an EngineError: never a crash or a hang."""

from __future__ import annotations

import struct
import tracemalloc

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rushlight.errors import EngineError
from rushlight.gguf.config import read_config
from rushlight.gguf.reader import read_header
from rushlight.gguf.source import BytesSource
from rushlight.gguf.splits import open_parts
from tests.unit.gguf_bytes import tiny_gguf

VALID = tiny_gguf()
DATA_OFFSET = read_header(BytesSource(VALID)).data_offset

#: A place in the header and what to write there: any bytes, or a telling 64-bit number.
patches = st.tuples(
    st.integers(0, DATA_OFFSET - 1),
    st.one_of(
        st.binary(min_size=1, max_size=12),
        st.sampled_from([0, 1, 31, 0xFFFF, 1 << 31, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1]).map(
            lambda n: struct.pack("<Q", n)
        ),
    ),
)


def attempt(data: bytes) -> None:
    try:
        file, _ = open_parts(data)
        read_config(file.metadata, file.tensors)
    except EngineError as error:
        str(error).encode()  # messages can be printed


@settings(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(patches, min_size=1, max_size=4))
@example([(8, struct.pack("<QQ", 1 << 60, 1 << 60))])
def test_patched_headers(edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(VALID)
    for at, raw in edits:
        data[at : at + len(raw)] = raw
    attempt(bytes(data))


@settings(max_examples=100, deadline=2000)
@given(st.integers(0, len(VALID)), st.binary(max_size=40), st.integers(0, 40))
def test_insertions_and_deletions(at: int, inserted: bytes, n_deleted: int) -> None:
    attempt(VALID[:at] + inserted + VALID[at + n_deleted :])


@settings(max_examples=100, deadline=2000)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_after_the_magic(rest: bytes) -> None:
    attempt(b"GGUF" + struct.pack("<I", 3) + rest)


def test_a_lying_length_allocates_nothing() -> None:
    tracemalloc.start()
    for at in range(8, DATA_OFFSET - 8, 3):
        attempt(VALID[:at] + struct.pack("<Q", 1 << 34) + VALID[at + 8 :])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
