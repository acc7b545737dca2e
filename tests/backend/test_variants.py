"""A kernel that is wrong on this machine's adapter is found and not used."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rushlight import Model, shaders
from rushlight.backends.base import Executor, LoadOptions
from rushlight.backends.numpy_executor import NumpyExecutor
from rushlight.backends.variant_trials import time_variant, timed_layer
from rushlight.backends.variants import choose_variants
from rushlight.backends.webgpu_native import NativeDevice
from rushlight.errors import DeviceError
from rushlight.gguf.config import read_config
from rushlight.gguf.quants import QUANTS
from rushlight.gguf.splits import open_parts
from rushlight.models import build_graph
from rushlight.ops import OPS
from rushlight.plan.variant import VARIANTS
from rushlight.selftest import build_case, check_case, run_case
from tests.tools.backends import gpu_executor, shared_executor

SUM = re.compile(r"(fn L_sum\w+\(.*return )v;")
WRONG = {
    "lib/lanes_rows.wgsl": (SUM, r"\1v * 1.5;"),
    "lib/lanes_subgroups.wgsl": (re.compile(r"near == n"), "true"),
    "matmul_tiles_f16.wgsl": (re.compile(r"\[j\] \* scale"), "[j] * scale * 1.01"),
    "matmul_tiles_int8.wgsl": (re.compile(r"\* x\.about\[0\];"), "* x.about[0] * 1.03;"),
}
"""Slips that change answers a little, or only where a subgroup is smaller than a unit."""
SUMMING_OPS = ("norm_qkv_matmul", "joint_glu_matmul", "sandwich_norm", "attention_step")


@pytest.fixture
def tiny(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    gpu_executor().close()  # skips where there is no adapter
    return data_dir / "golden" / "llama-f32.gguf"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Shader files that come out as ``WRONG`` says."""
    files: set[str] = set()
    read = shaders.read_shader

    def read_broken(path: str) -> str:
        text = read(path)
        if path in files:
            pattern, replacement = WRONG[path]
            text, n_changed = pattern.subn(replacement, text)
            assert n_changed
        return text

    monkeypatch.setattr(shaders, "read_shader", read_broken)
    shaders.link.cache_clear()
    yield files
    shaders.link.cache_clear()


def quant_text(name: str) -> str:
    """The path of a storage type's shader file."""
    path = f"quants/{name.lower()}.wgsl"
    return path if shaders.has_shader(path) else "quants/f32.wgsl"


def test_a_broken_variant_is_dropped(tiny: Path, broken: set[str]) -> None:
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


def test_every_broken_variant_is_dropped_beside_the_right_ones(
    tiny: Path, broken: set[str]
) -> None:
    broken |= WRONG.keys() - {"lib/lanes_rows.wgsl"}
    device = NativeDevice()
    try:
        device.is_software = False  # such an adapter is tested on all that it has the features for
        file, sources = open_parts(tiny)
        config = read_config(file.metadata, file.tensors)
        graph = build_graph(config, {name: t.shape for name, t in file.tensors.items()})
        options = LoadOptions(n_ctx=32)
        for source in sources:
            source.close()
        choice = asyncio.run(choose_variants(device, graph, file, options, lambda step: None))
        assert set(choice.phases.values()) <= {"tiles", "rows"}
        assert {note.partition(" ")[0] for note in choice.notes} == {
            variant.name
            for variant in VARIANTS
            if variant.features and set(variant.features) <= device.features
        }
    finally:
        device.close()


@pytest.mark.parametrize("min_subgroup", [4, 8])
@pytest.mark.parametrize("name", SUMMING_OPS)
def test_units_larger_than_the_smallest_subgroup(name: str, min_subgroup: int) -> None:
    """Whatever a driver says of its smallest subgroup: at 8, units of 8 need no barrier."""

    def executor() -> Executor:
        made = gpu_executor("subgroups")
        if min_subgroup == 8 and "256 bits" not in made.info.adapter:
            made.close()
            pytest.skip("adapter lacks subgroups that are known to have 8 threads")
        made.device.min_subgroup = min_subgroup  # type: ignore[attr-defined]
        return made

    for case in OPS[name].cases:
        assert asyncio.run(check_case(OPS[name], case, executor, "subgroups")).ok, case.name


CODED = [name for name in QUANTS if "W_codes16" in shaders.read_shader(quant_text(name))]


@pytest.mark.parametrize("name", CODED)
def test_int8_products_take_a_types_own_codes(name: str) -> None:
    """Activations that int8 holds exactly show it: what is left is float32's rounding."""
    matmul = OPS["matmul"]
    case = next(c for c in matmul.cases if c.name.startswith(f"{name}-") and c.shapes["x"][0] > 1)
    model = build_case(matmul, case)
    table = model.file.tensors["table_x"]
    x = np.random.default_rng(3).integers(-127, 128, table.shape).astype("<f4")
    x[:, ::32] = 127.0
    data = bytearray(model.data)
    data[table.offset : table.offset + x.nbytes] = x.tobytes()
    model = replace(model, data=bytes(data))
    expected = asyncio.run(run_case(model, NumpyExecutor(), "logits"))
    executor = shared_executor("tiles_int8")
    got = asyncio.run(run_case(model, executor, "logits", "tiles_int8"))
    assert np.square(got - expected).sum() <= 1e-11 * np.square(expected).sum()


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
