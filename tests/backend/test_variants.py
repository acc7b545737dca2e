"""A kernel that is wrong on this machine's adapter is found and not used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rushlight import Model, shaders
from rushlight.errors import DeviceError
from tests.tools.backends import gpu_executor

SUM = re.compile(r"return (sum|L_shared\[\w+\](?:\.x)?);")


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
        return SUM.sub(r"return \1 * 1.5;", text) if path in files else text

    monkeypatch.setattr(shaders, "read_shader", read_broken)
    shaders.link.cache_clear()
    yield files
    shaders.link.cache_clear()


def test_a_broken_variant_is_dropped(tiny: Path, broken: set[str]) -> None:
    assert SUM.search(shaders.read_shader("lib/lanes_tiles.wgsl"))
    broken.add("lib/lanes_tiles.wgsl")
    model = Model.load(tiny, "gpu", n_ctx=32)
    try:
        assert "tiles" not in model.device.kernels.partition(",")[0]
        assert any("tiles kernels are not used" in note for note in model.device.notes)
        expected = Model.load(tiny, "numpy", n_ctx=32).argmax([1, 5, 9])
        assert model.argmax([1, 5, 9]).tolist() == expected.tolist()
    finally:
        model.close()
    with pytest.raises(DeviceError, match="No kernels give right answers"):
        Model.load(tiny, "gpu", n_ctx=32, variant="tiles")
