"""A kernel that is wrong on this machine's adapter is found and not used."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rushlight import Model, shaders
from rushlight.backends.variant_trials import time_variant, timed_layer
from rushlight.backends.webgpu_native import NativeDevice
from rushlight.errors import DeviceError
from rushlight.gguf.config import read_config
from rushlight.gguf.splits import open_parts
from rushlight.models import build_graph
from tests.tools.backends import gpu_executor

SUM = re.compile(r"(fn L_sum\w+\(.*return )v;")


@pytest.fixture
def tiny(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    gpu_executor().close()  # skips where there is no adapter
    return data_dir / "golden" / "llama-f32.gguf"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Shader files whose sums come out half too large."""
    files: set[str] = set()
    read = shaders.read_shader

    def read_broken(path: str) -> str:
        text = read(path)
        return SUM.sub(r"\1v * 1.5;", text) if path in files else text

    monkeypatch.setattr(shaders, "read_shader", read_broken)
    shaders.link.cache_clear()
    yield files
    shaders.link.cache_clear()


def test_a_broken_variant_is_dropped(tiny: Path, broken: set[str]) -> None:
    assert SUM.search(shaders.read_shader("lib/lanes_rows.wgsl"))
    broken.add("lib/lanes_rows.wgsl")
    model = Model.load(tiny, "gpu", n_ctx=32)
    try:
        assert "rows" not in model.device.kernels.partition(",")[0]
        assert any("rows kernels are not used" in note for note in model.device.notes)
        expected = Model.load(tiny, "numpy", n_ctx=32).argmax([1, 5, 9])
        assert model.argmax([1, 5, 9]).tolist() == expected.tolist()
    finally:
        model.close()
    with pytest.raises(DeviceError, match="No kernels give right answers"):
        Model.load(tiny, "gpu", n_ctx=32, variant="rows")


def test_a_layer_is_timed(tiny: Path, data_dir: Path) -> None:
    file, sources = open_parts(data_dir / "golden" / "gemma3-linear-q8q4.gguf")
    for source in sources:
        source.close()
    config = read_config(file.metadata, file.tensors)
    graph = build_graph(config, {name: t.shape for name, t in file.tensors.items()})
    layer = timed_layer(graph, file)
    assert layer is not None
    device = NativeDevice()
    try:
        times = asyncio.run(time_variant(device, "rows", layer, ("decode", "prefill")))
        assert set(times) == {"decode", "prefill"} and min(times.values()) > 0
        assert set(asyncio.run(time_variant(device, "tiles", layer, ("decode",)))) == {"decode"}
    finally:
        device.close()
