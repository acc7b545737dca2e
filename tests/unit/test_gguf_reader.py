"""The header reader on bytes built here: what it reads, and what it refuses and how."""

from __future__ import annotations

import asyncio
import itertools
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from rushlight.errors import ModelFormatError, UnsupportedTypeError
from rushlight.gguf import cursor
from rushlight.gguf.reader import (
    GgufFile,
    header_steps,
    read_header,
    read_header_async,
    read_tensor,
)
from rushlight.gguf.source import BytesSource, FileSource, SyncAsAsync
from tests.unit.gguf_bytes import CODES, DTYPE_IDS, Typed, pack_string, tiny_gguf, write_gguf


def parse(data: bytes) -> GgufFile:
    return read_header(BytesSource(data))


def refuse(data: bytes, *words: str) -> ModelFormatError:
    with pytest.raises(ModelFormatError) as caught:
        parse(data)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.hint
    return caught.value


def one_key(value: bytes, key: str = "k", n_keys: int = 1) -> bytes:
    """A file of one metadata entry with raw value bytes (type included)."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, n_keys) + pack_string(key) + value


def one_tensor(dims: tuple[int, ...], type_id: int = 0, offset: int = 0, data: int = 0) -> bytes:
    row = pack_string("t") + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + row + struct.pack("<IQ", type_id, offset)
    return head + bytes(-len(head) % 32) + bytes(data)


def test_reads_all_value_types_and_tensors() -> None:
    data = tiny_gguf()
    file = parse(data)
    meta = file.metadata
    assert file.version == 3
    assert file.n_bytes == len(data)
    assert meta["general.architecture"] == "llama"
    assert meta["llama.block_count"] == 2
    assert meta["misc.big"] == 1 << 40
    assert meta["misc.negative"] == -5
    assert meta["misc.double"] == 0.1
    assert meta["tokenizer.ggml.add_bos_token"] is True
    assert [list(part) for part in meta["misc.nested"]] == [[1, 2], [3]]
    assert meta["misc.flags"].dtype == np.bool_
    assert meta["llama.attention.head_count_kv"].tolist() == [2, 4]
    scores = meta["tokenizer.ggml.scores"]
    assert scores.dtype == np.float32
    assert scores.tolist() == [0, -1, -2, -3]
    stack = file.tensors["stack"]
    assert (stack.shape, stack.n_rows, stack.n_cols) == ((2, 3, 64), 6, 64)
    assert stack.row_bytes == 36
    assert file.tensors["output_norm.weight"].shape == (32,)
    norm = read_tensor(BytesSource(data), file.tensors["output_norm.weight"])
    assert (norm.view("<f4") == 1).all()
    assert file.tensors["token_embd.weight"].offset == file.data_offset
    assert file.tensor_bytes == 4 * 34 + 128 + 2 * 3 * 36


def test_bytes_of_strings_that_are_not_utf8_are_kept() -> None:
    tokens = parse(tiny_gguf()).metadata["tokenizer.ggml.tokens"]
    assert tokens[:3] == ["<s>", "a", "ё"]
    assert tokens[3].encode("utf-8", "surrogateescape") == b"\xff\xfe"


@pytest.mark.parametrize("type_id", CODES)
def test_each_number_type(type_id: int) -> None:
    value = parse(write_gguf(None, {"k": Typed(type_id, 1)})).metadata["k"]
    assert value == 1
    assert type(value) is {6: float, 7: bool, 12: float}.get(type_id, int)


@pytest.mark.parametrize("dtype", DTYPE_IDS)
def test_each_array_type(dtype: str) -> None:
    wanted = np.array([0, 1, 1], f"<{dtype}")
    array = parse(write_gguf(None, {"k": wanted})).metadata["k"]
    assert array.dtype == wanted.dtype
    assert (array == wanted).all()


def test_version_2_and_other_alignments() -> None:
    tensors = {"a": (np.ones(1, "<f4"), (1,), "F32"), "b": (np.ones(1, "<f4"), (1,), "F32")}
    for alignment in (8, 64, 4096):
        data = write_gguf(None, {"x": 1}, tensors, version=2, alignment=alignment)
        file = parse(data)
        assert file.version == 2
        assert file.tensors["b"].offset == file.data_offset + alignment
        assert file.data_offset % alignment == 0


def test_no_keys_and_no_tensors() -> None:
    file = parse(write_gguf(None, {}))
    assert file.metadata == {}
    assert file.tensors == {}


def test_sync_and_async_readers_agree() -> None:
    source = BytesSource(tiny_gguf())
    read = asyncio.run(read_header_async(SyncAsAsync(source)))
    assert read.tensors == read_header(source).tensors


def test_reads_only_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "FIRST_CHUNK", 16)
    monkeypatch.setattr(cursor, "LAST_CHUNK", 64)
    data = tiny_gguf(**{"long": "x" * 5000, "numbers": np.arange(999, dtype="<u2")})
    steps = header_steps(len(data) + 10**9)
    reads = []
    want = next(steps)
    with pytest.raises(StopIteration) as done:
        while True:
            reads.append(want)
            want = steps.send(data[want[0] : want[0] + want[1]])
    for (a, n), (b, _) in itertools.pairwise(reads):
        assert a + n == b, "each byte is read once, in order"
    file = done.value.value
    assert sum(n for _, n in reads) <= file.data_offset + 64
    whole = parse(data)
    assert file.tensors == whole.tensors
    assert file.metadata["long"] == "x" * 5000
    assert (file.metadata["numbers"] == np.arange(999)).all()
    assert file.metadata["tokenizer.ggml.tokens"] == whole.metadata["tokenizer.ggml.tokens"]


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"", "empty"),
        (b"\n<!DOCTYPE html><html>", "web page"),
        (b"<html><head>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (struct.pack("<Q", 20) + b'{"__metadata__":{}}  ', "safetensors"),
        (b"PK\x03\x04" + bytes(30), "zip"),
        (b"\x80\x02\x8a\nl\xfc", "PyTorch"),
        (b"\x1f\x8b\x08", "gzip"),
        (b'{"error":"no"}', "JSON"),
        (b"tjgg" + bytes(40), "before GGUF"),
        (b"FUGG" + bytes(40), "big-endian"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(40), "big-endian"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(40), "version 1"),
        (b"GGUF" + struct.pack("<I", 9) + bytes(40), "is 9"),
        (b"GGUF\x03\x00\x00\x00", "ends inside the header"),
        (b"\x00\x01\x02", "not a GGUF"),
    ],
)
def test_other_files_get_their_own_message(head: bytes, word: str) -> None:
    refuse(head, word)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (one_key(struct.pack("<I", 13)), ["k", "type 13", "byte 33"]),
        (one_key(struct.pack("<IB", 7, 2)), ["k", "bool"]),
        (one_key(struct.pack("<IIQ", 9, 7, 1) + b"\x05"), ["k", "bool"]),
        (one_key(struct.pack("<IIQ", 9, 99, 0)), ["element type 99"]),
        (one_key(struct.pack("<IIQ", 9, 4, 1 << 40)), ["k (length)", "byte 41"]),
        (one_key(struct.pack("<IIQ", 9, 4, 100)), ["needs 400 bytes"]),
        (one_key(struct.pack("<IIQ", 9, 8, 1 << 62)), ["k (length)"]),
        (one_key(struct.pack("<IIQ", 9, 9, 1 << 62)), ["k (length)"]),
        (one_key(struct.pack("<IQ", 8, 1 << 63)), ["k", "9223372036854775808"]),
        (one_key(struct.pack("<IQ", 8, 1000)), ["ends inside the header", "1000 bytes"]),
        (one_key(struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5 + bytes(9)), ["nests"]),
        (one_key(bytes(16), key=""), ["metadata entry 0", "empty"]),
        (one_key(b"", n_keys=1 << 60), ["metadata_kv_count", "byte 16"]),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), ["tensor_count", "byte 8"]),
        (one_key(struct.pack("<I", 4), key="x" * 70000), ["metadata entry 0", "70000"]),
    ],
)
def test_bad_metadata(data: bytes, words: list[str]) -> None:
    refuse(data, *words)


def test_bad_keys() -> None:
    entry = pack_string("same") + struct.pack("<II", 4, 1)
    refuse(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + entry * 2, "same", "twice", "byte 44")
    bad = pack_string(b"\xff") + struct.pack("<II", 4, 1)
    refuse(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + bad, "UTF-8")


@pytest.mark.parametrize("value", [0, 3, 1 << 21, "32", True, -8])
def test_bad_alignment(value: Any) -> None:
    refuse(write_gguf(None, {"general.alignment": value}), "general.alignment", "power of two")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (one_tensor(()), ["t", "0 dimensions"]),
        (one_tensor((1,) * 5), ["t", "5 dimensions"]),
        (one_tensor((0, 4)), ["t", "shape [4, 0]"]),
        (one_tensor((1 << 32, 1 << 32)), ["impossible shape"]),
        (one_tensor((33, 2), type_id=8), ["33", "Q8_0", "32"]),
        (one_tensor((8,), offset=8, data=64), ["t", "offset 8", "alignment 32"]),
        (one_tensor((8,), offset=1 << 40, data=64), ["outside the file"]),
        (one_tensor((1000,), data=64), ["truncated", "3936 bytes are missing"]),
    ],
)
def test_bad_tensors(data: bytes, words: list[str]) -> None:
    refuse(data, *words)


def test_unknown_tensor_type_is_unsupported_rather_than_damaged() -> None:
    with pytest.raises(UnsupportedTypeError, match="type id 99"):
        parse(one_tensor((8,), type_id=99, data=64))


def test_repeated_and_overlapping_tensors() -> None:
    tensors = {
        "aaa": (np.ones(16, "<f4"), (16,), "F32"),
        "bbb": (np.ones(16, "<f4"), (16,), "F32"),
    }
    data = write_gguf(None, {}, tensors)
    refuse(data.replace(b"bbb", b"aaa"), "aaa", "twice")
    at = data.index(b"bbb") + 3 + 4 + 8 + 4
    overlapping = data[:at] + struct.pack("<Q", 32) + data[at + 8 :]
    refuse(overlapping, "bbb", "overlaps", "aaa")


@pytest.mark.parametrize("n_missing", [1, 20, 200])
def test_truncated_files_say_how_much_is_missing(n_missing: int) -> None:
    data = tiny_gguf()
    last = parse(data).tensors["stack"]
    cut = data[: last.offset + last.n_bytes - n_missing]
    error = refuse(cut, "truncated", f"{n_missing} bytes are missing")
    assert "Download it again" in error.hint


def test_every_shorter_header_is_refused() -> None:
    data = tiny_gguf()
    for n in range(parse(data).data_offset):
        with pytest.raises(ModelFormatError):
            parse(data[:n])


def write_with_gguf(path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(3)
    writer.add_float32("f", 0.25)
    writer.add_string("s", "héllo")
    writer.add_array("strings", ["a", "", "ж" * 50])
    writer.add_array("ints", [1, -2, 3])
    writer.add_array("floats", [0.5, 1.5])
    writer.add_array("bools", [True, False])
    writer.add_bool("flag", False)
    rng = np.random.default_rng(0)
    writer.add_tensor("w", rng.standard_normal((3, 64)).astype(np.float32))
    writer.add_tensor("h", rng.standard_normal((2, 5, 8)).astype(np.float16))
    q8 = gguf.quantize(
        rng.standard_normal((4, 64)).astype(np.float32), gguf.GGMLQuantizationType.Q8_0
    )
    writer.add_tensor("q", q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def assert_as_gguf_reads_it(path: Path, max_items: int) -> None:
    source = FileSource(path)
    file = read_header(source)
    theirs = gguf.GGUFReader(path)
    assert file.data_offset == theirs.data_offset
    assert list(file.tensors) == [t.name for t in theirs.tensors]
    for tensor in theirs.tensors:
        info = file.tensors[tensor.name]
        assert info.shape == tuple(int(n) for n in reversed(tensor.shape))
        assert (info.type.id, info.offset) == (int(tensor.tensor_type), tensor.data_offset)
        assert info.n_bytes == tensor.n_bytes
    names = [name for name in theirs.fields if not name.startswith("GGUF.")]
    assert list(file.metadata) == names
    for name in names:
        field, value = theirs.fields[name], file.metadata[name]
        if hasattr(value, "__len__") and not isinstance(value, str):
            assert len(value) == len(field.data)
            value, wanted = list(value[:max_items]), field.contents(slice(0, max_items))
        else:
            wanted = field.contents()
        assert value == wanted
    source.close()
    del theirs


def test_agrees_with_the_gguf_package(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_with_gguf(path)
    assert_as_gguf_reads_it(path, 100)


@pytest.mark.gemma
def test_a_real_header(gemma_path: Path) -> None:
    # Figures as the gguf package reads them; it takes ten seconds over this header.
    source = FileSource(gemma_path)
    file = read_header(source)
    assert (len(file.tensors), file.data_offset, len(file.metadata)) == (236, 6525120, 33)
    embedding = file.tensors["token_embd.weight"]
    assert (embedding.shape, embedding.type.name) == ((262144, 640), "Q8_0")
    assert embedding.offset == 6527680
    tokens = file.metadata["tokenizer.ggml.tokens"]
    assert len(tokens) == len(file.metadata["tokenizer.ggml.scores"]) == 262144
    assert tokens[:4] == ["<pad>", "<eos>", "<bos>", "<unk>"]
    source.close()


def test_a_header_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "FIRST_CHUNK", 16)
    monkeypatch.setattr(cursor, "MAX_HEADER_BYTES", 500)
    refuse(tiny_gguf(**{"long": "x" * 5000}), "longer than 500")
