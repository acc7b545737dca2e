"""Models split over several files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.errors import ModelFormatError, SourceError
from rushlight.gguf.reader import read_tensor
from rushlight.gguf.source import BytesSource, SyncAsAsync
from rushlight.gguf.splits import open_parts, open_parts_async, part_name
from tests.unit.gguf_bytes import Typed, write_gguf


def part(number: int, count: int = 3, total: int = 3, name: str = "", more: Any = None) -> bytes:
    metadata = {
        "split.no": Typed(2, number),
        "split.count": Typed(2, count),
        "split.tensors.count": Typed(5, total),
        **(more or {}),
    }
    values = np.full(4 + number, number, "<f4")
    return write_gguf(None, metadata, {name or f"t{number}": (values, values.shape, "F32")})


def write_parts(folder: Path, *parts: bytes) -> Path:
    for i, data in enumerate(parts):
        (folder / f"m-{i + 1:05d}-of-00003.gguf").write_bytes(data)
    return folder / "m-00001-of-00003.gguf"


def test_parts_are_merged(tmp_path: Path) -> None:
    first = write_parts(tmp_path, part(0, more={"general.name": "m"}), part(1), part(2))
    file, sources = open_parts(first)
    assert [info.part for info in file.tensors.values()] == [0, 1, 2]
    assert len(file.parts) == len(sources) == 3
    assert file.metadata["general.name"] == "m"
    assert file.n_bytes == sum(source.size for source in sources)
    for i in range(3):
        info = file.tensors[f"t{i}"]
        assert (read_tensor(sources[info.part], info).view("<f4") == i).all()
    for source in sources:
        source.close()


def test_parts_are_merged_over_awaited_sources() -> None:
    async def open_part(name: str) -> SyncAsAsync:
        return SyncAsAsync(BytesSource(part(int(name[2:7]) - 1), name))

    async def run() -> list[int]:
        first = SyncAsAsync(BytesSource(part(0), "m-00001-of-00003.gguf"))
        file, _ = await open_parts_async(first, open_part)
        with pytest.raises(SourceError, match="Part 2 of 3 is missing: m-00002-of-00003"):
            await open_parts_async(first)
        return [info.part for info in file.tensors.values()]

    assert asyncio.run(run()) == [0, 1, 2]


def test_one_file_is_one_part() -> None:
    file, sources = open_parts(write_gguf(None, {"a": 1}))
    assert len(sources) == len(file.parts) == 1


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    first = write_parts(tmp_path, part(0), part(1))
    with pytest.raises(SourceError) as caught:
        open_parts(first)
    assert caught.value.code == "not_found"
    assert "Part 3 of 3 is missing" in caught.value.message
    assert "m-00003-of-00003.gguf" in caught.value.message


def test_opening_a_later_part_names_the_first(tmp_path: Path) -> None:
    write_parts(tmp_path, part(0), part(1), part(2))
    with pytest.raises(ModelFormatError, match=r"m-00001-of-00003\.gguf"):
        open_parts(tmp_path / "m-00002-of-00003.gguf")


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ([part(0), part(2), part(1)], "split.no 2"),
        ([part(0), part(1, count=4), part(2)], "split.count 4"),
        ([part(0), part(1), part(2, name="t0")], "t0"),
        ([part(0, total=9), part(1), part(2)], "split.tensors.count is 9"),
        ([part(0, more={"split.no": "x"}), part(1), part(2)], "split.no"),
        ([part(0, more={"split.count": np.array([3])}), part(1), part(2)], "split.count"),
        ([part(0, count=60000), part(1), part(2)], "split.count"),
    ],
)
def test_parts_that_do_not_belong_together(tmp_path: Path, parts: list[bytes], word: str) -> None:
    first = write_parts(tmp_path, *parts)
    with pytest.raises(ModelFormatError, match=word):
        open_parts(first)


def test_names() -> None:
    url = "https://h/a-00009-of-00009/m-00001-of-00003.gguf?download=true"
    assert part_name(url, 2, 3).endswith("/m-00003-of-00003.gguf?download=true")
    assert "a-00009-of-00009/" in part_name(url, 2, 3)
    with pytest.raises(SourceError, match="not named like one"):
        part_name("model.gguf", 1, 2)
    with pytest.raises(SourceError, match="not named like one"):
        open_parts(part(0))
