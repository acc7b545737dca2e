"""Names of storage mixtures, against the gguf package."""

from __future__ import annotations

import gguf

from rushlight.gguf import read_header
from rushlight.gguf.mix import MIXES, mix_name
from rushlight.gguf.source import BytesSource
from tests.unit.gguf_bytes import tiny_gguf


def test_numbers_are_those_of_the_gguf_package() -> None:
    for number, name in MIXES.items():
        assert gguf.LlamaFileType(number).name.split("_", 1)[1] == name


def test_a_file_without_the_key_is_called_after_its_commonest_type() -> None:
    file = read_header(BytesSource(tiny_gguf()))
    named = read_header(BytesSource(tiny_gguf(**{"general.file_type": 15})))
    strange = read_header(BytesSource(tiny_gguf(**{"general.file_type": "odd"})))
    assert mix_name(named) == "Q4_K_M"
    assert mix_name(file) == mix_name(strange) in {t.type.name for t in file.tensors.values()}
