"""Kernels are chosen by what an adapter gets right, then by speed, and remembered."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rushlight.backends import variant_trials, variants
from rushlight.backends.base import DeviceInfo, LoadOptions, RunStats
from rushlight.backends.file_store import FileStore, cache_dir
from rushlight.backends.variant_trials import COMMON_OPS, Trial, timed_layer, traits_of, trials_for
from rushlight.backends.variants import choose_variants
from rushlight.backends.webgpu_common import FLOOR_LIMITS
from rushlight.backends.webgpu_program import Program
from rushlight.errors import DeviceError, InvalidInputError
from rushlight.gguf import open_source, read_header
from rushlight.gguf.config import read_config
from rushlight.gguf.splits import open_parts
from rushlight.graph.rewrite import Phase
from rushlight.graph.verify import verify
from rushlight.models import build_graph
from rushlight.plan.variant import BY_NAME, PHASES, VARIANTS, Variant
from rushlight.plan.webgpu import plan_model
from tests.tools.arch_files import model_bytes

OPTIONS = LoadOptions(n_ctx=64)
TAIL = ("penalize", "top_k_part", "top_k_cut", "top_k_gather", "top_k", "advance")
"""The same kernels in both phases, tried in one."""
PACKED = "packed_4x8_integer_dot_product"


class Adapter:
    """A device that is never used: what passes and how long things take is written down."""

    def __init__(self, **fields: Any) -> None:
        self.identity, self.is_software = "a card | driver 1", False
        self.features: frozenset[str] = frozenset()
        self.info, self.store = DeviceInfo("webgpu", "a card"), FileStore()
        self.__dict__.update(fields)


@pytest.fixture
def model(data_dir: Path) -> Any:
    file, sources = open_parts(data_dir / "golden" / "gemma3-linear-q8q4.gguf")
    for source in sources:
        source.close()
    config = read_config(file.metadata, file.tensors)
    graph = build_graph(config, {name: t.shape for name, t in file.tensors.items()})
    return graph, file


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: Any) -> Any:
    """``choose(adapter)``, what it tried, the failures and the times that it meets."""
    tried: list[str] = []
    timed: list[str] = []
    bad: set[tuple[str, str]] = set()
    times = {"tiles": {"decode": 1.0, "prefill": 9.0}, "rows": {"decode": 5.0, "prefill": 2.0}}
    times |= {name: {"decode": 9.0, "prefill": 9.0} for name in BY_NAME if name not in times}

    async def failure(trial: Trial, device: Any, variant: Variant) -> str:
        tried.append(f"{variant.name}/{trial.name}")
        return "wrong" if (variant.name, trial.phase) in bad else ""

    async def time_variant(device: Any, name: str, layer: Any, phases: Any) -> dict[str, float]:
        timed.append(name)
        assert not [phase for phase in phases if (name, phase) in bad]
        return {phase: times[name][phase] for phase in phases}

    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(Trial, "failure", failure)
    monkeypatch.setattr(variants, "time_variant", time_variant)

    def choose(adapter: Any = None, options: LoadOptions = OPTIONS) -> Any:
        coroutine = choose_variants(adapter or Adapter(), *model, options, lambda step: None)
        return asyncio.run(coroutine)

    return SimpleNamespace(choose=choose, tried=tried, timed=timed, bad=bad, times=times)


def test_each_phase_gets_the_fastest(lab: Any) -> None:
    choice = lab.choose()
    assert choice.phases == {"decode": "tiles", "prefill": "rows"}
    assert choice.words() == "decode tiles, prefill rows"
    assert choice.notes == ()


def test_a_small_difference_keeps_what_is_expected(lab: Any) -> None:
    lab.times.update(tiles={"decode": 1.1, "prefill": 1.1}, rows={"decode": 1.0, "prefill": 1.0})
    assert lab.choose().words() == "tiles"


def test_a_software_adapter_is_not_timed(lab: Any) -> None:
    software = Adapter(is_software=True)
    assert lab.choose(software).words() == "rows"
    assert not lab.timed and not [name for name in lab.tried if name.startswith("tiles")]
    lab.bad.add(("rows", "prefill"))
    other = Adapter(is_software=True, identity="another")
    assert lab.choose(other).words() == "decode rows, prefill tiles"


def test_a_wrong_variant_is_dropped_with_a_note(lab: Any) -> None:
    lab.bad.add(("tiles", "decode"))
    choice = lab.choose()
    assert choice.words() == "rows"
    assert "tiles kernels are not used for decode here: wrong" in choice.notes[0]
    assert variants.dropped_kernels() == ["tiles kernels on a card | driver 1: wrong"]


def test_nothing_right_is_an_error_with_a_next_step(lab: Any) -> None:
    lab.bad.update((v.name, "prefill") for v in VARIANTS)
    with pytest.raises(DeviceError, match="No kernels give right answers on a card") as caught:
        lab.choose()
    assert "CPU" in caught.value.hint


def test_findings_are_remembered_for_this_adapter_and_engine(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lab.choose()
    n_tried = len(lab.tried)
    assert lab.choose() == first
    assert len(lab.tried) == n_tried and lab.timed == ["tiles", "rows"]
    lab.choose(Adapter(identity="a card | driver 2"))
    assert len(lab.tried) == 2 * n_tried
    monkeypatch.setattr(variants, "engine_stamp", lambda: "next version")
    lab.choose()
    assert len(lab.tried) == 3 * n_tried


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"tests": 3}', '{"tests": {}, "times_ms": {"a": {"decode": "x"}}}'],
)
def test_a_corrupt_memory_is_written_anew(lab: Any, text: str) -> None:
    first = lab.choose()
    (path,) = (cache_dir() / "adapters").glob("*.json")
    known = json.loads(path.read_text())
    if text.startswith('{"'):  # of this very adapter and engine
        text = json.dumps({**known, **json.loads(text)})
    path.write_text(text)
    assert lab.choose() == first
    assert json.loads(path.read_text()) == known


def test_a_store_that_keeps_nothing_only_costs_time(
    lab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "file"))
    assert lab.choose() == lab.choose()


def test_a_forced_variant_is_tested_but_not_timed(lab: Any) -> None:
    forced = replace(OPTIONS, variant="rows")
    assert lab.choose(options=forced).words() == "rows"
    assert lab.tried and not lab.timed
    lab.bad.add(("tiles", "decode"))
    with pytest.raises(DeviceError, match="wrong"):
        lab.choose(options=replace(OPTIONS, variant="tiles"))
    with pytest.raises(InvalidInputError, match="'columns' is unknown"):
        lab.choose(options=replace(OPTIONS, variant="columns"))


def test_a_variant_whose_feature_is_missing_is_not_tried(lab: Any) -> None:
    lab.times.update(subgroups={"decode": 0.1})
    assert lab.choose().phases["decode"] == "tiles"
    assert {name.partition("/")[0] for name in lab.tried} == {"tiles", "rows"}
    with pytest.raises(DeviceError, match="lacks: subgroups"):
        lab.choose(options=replace(OPTIONS, variant="subgroups"))


def test_a_variant_with_a_feature_is_taken_where_it_is_faster_by_its_gain(lab: Any) -> None:
    lab.times.update(subgroups={"decode": 0.95}, tiles_f16={"prefill": 2.5})
    able = Adapter(features=frozenset(("subgroups", "shader-f16", PACKED)))
    assert lab.choose(able).phases == {"decode": "subgroups", "prefill": "rows"}
    lab.times.update(tiles_f16={"prefill": 1.4}, tiles_int8={"prefill": 1.2})
    other = Adapter(features=able.features, identity="another")
    assert lab.choose(other).phases["prefill"] == "tiles_f16"
    lab.times.update(tiles_int8={"prefill": 1.0})
    third = Adapter(features=able.features, identity="a third")
    assert lab.choose(third).phases["prefill"] == "tiles_int8"
    assert lab.choose(third, replace(OPTIONS, variant="exact")).phases["prefill"] == "rows"


def test_kernels_that_variants_share_are_tested_once(lab: Any) -> None:
    lab.choose(Adapter(features=frozenset(("shader-f16", PACKED))))
    assert {n.split("/")[1] for n in lab.tried if n.startswith("tiles_")} == {"matmul"}
    trials = [name.partition("/")[2] for name in lab.tried if not name.startswith("rows")]
    products = [name for name in trials if name.startswith("matmul/")]
    assert len(trials) - len(products) == len(set(trials) - set(products))


def test_a_product_in_fewer_bits_needs_the_float32_one_of_its_head(lab: Any) -> None:
    able = Adapter(features=frozenset(("shader-f16",)))
    lab.bad.add(("tiles", "prefill"))
    with pytest.raises(DeviceError, match="tiles_f16 kernels are not used for prefill here: wrong"):
        lab.choose(able, replace(OPTIONS, variant="tiles_f16"))


def test_every_trait_is_a_variant() -> None:
    for variant in VARIANTS:
        assert BY_NAME[variant.lanes].lanes == variant.lanes
        assert BY_NAME[variant.product].product == variant.product


def test_names_joined_allow_one_variant_for_each_phase(lab: Any) -> None:
    able = Adapter(features=frozenset(("subgroups", "shader-f16", PACKED)))
    joined = lab.choose(able, replace(OPTIONS, variant="subgroups+tiles_int8"))
    assert joined.phases == {"decode": "subgroups", "prefill": "tiles_int8"}
    assert not lab.timed
    lab.times.update(rows={"decode": 0.1, "prefill": 2.0})
    alone = lab.choose(able, replace(OPTIONS, variant="tiles_f16"))
    assert alone.phases == {"decode": "rows", "prefill": "tiles_f16"}


def test_trials_cover_the_models_ops_and_types(model: Any) -> None:
    graph, file = model
    names = {(trial.phase, trial.op.name) for trial in trials_for(graph, file)}
    assert {("decode", "argmax"), ("prefill", "attention"), ("prefill", "matmul")} <= names
    types = {t.case.types.get("weight") for t in trials_for(graph, file) if t.op.name == "matmul"}
    assert {"Q8_0", "Q4_0"} <= types
    assert len(trials_for(graph, file)) < 24


SPECIAL = {
    "gpt-oss": {"sinks", "window", "split", "bias_q"},
    "gemma2": {"softcap", "window", "split"},
    "olmo2": {"q_norm of 1 dimensions", "split"},
    "stablelm-12b": {"is_centred", "q_norm of 2 dimensions"},
    "llama-window": {"window", "layout=norm"},
    "ministral3": {"slope"},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_trials_cover_what_is_special_about_a_model(name: str) -> None:
    file = read_header(open_source(model_bytes(name)))
    config = read_config(file.metadata, file.tensors)
    graph = build_graph(config, {n: info.shape for n, info in file.tensors.items()})
    trials = trials_for(graph, file, "f16")
    found = set()
    for trial in trials:
        found |= traits_of(trial.op, trial.case.shapes, trial.case.attrs)
        is_split = trial.op.name == "attention_step" and trial.case.n_ctx > 256
        found |= {"split"} if is_split else set()
        assert trial.case.kv == "f16" or "cache" not in trial.op.state
    assert SPECIAL[name] <= found
    assert len(trials) <= 24


class Recorder:
    """A device that only writes down which kernel files a program has."""

    limits, is_software, store = FLOOR_LIMITS, False, None
    implied_features, min_subgroup = frozenset[str](), 4
    info, stats, identity = DeviceInfo("webgpu", "none"), RunStats(), "none"

    def __init__(self) -> None:
        self.files: set[str] = set()

    def fork(self) -> Recorder:
        return self

    async def create(self, program: Program, progress: Any) -> None:
        self.files |= {kernel.key.file for kernel in program.kernels}
        raise DeviceError("only recorded")

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("phase", PHASES)
def test_trials_run_the_kernels_that_the_models_plans_have(
    model: Any, phase: Phase, variant: Variant
) -> None:
    graph, file = model
    tried = Recorder()
    for trial in trials_for(graph, file):
        if trial.phase == phase:
            for name in variant.kernels_of(phase, trial.op.name):
                with pytest.raises(DeviceError, match="only recorded"):
                    asyncio.run(trial.failure(tried, BY_NAME[name]))  # type: ignore[arg-type]
    ones = {name: np.ones(tensor.shape, np.float32) for name, tensor in file.tensors.items()}
    found = plan_model(graph, file, n_ctx=64, variant=variant.name, read_tensor=ones.__getitem__)
    used = {
        dispatch.kernel.file
        for name, plan in found.plans.items()
        for dispatch in plan.dispatches
        if name.startswith(phase)
    }
    assert used - tried.files <= {*COMMON_OPS, *TAIL}


def test_the_timed_layer_is_the_first_and_bounded(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = timed_layer(*model)
    assert layer is not None
    verify(layer.graph)
    assert {name.partition(".")[0] for name in layer.file.tensors} == {"blk", "token_embd"}
    assert not [name for name in layer.file.tensors if name.startswith("blk.1")]
    assert layer.file.tensors["token_embd.weight"].n_rows == 64
    assert {"attention", "glu"} <= {node.op for node in layer.graph.nodes}
    monkeypatch.setattr(variant_trials, "MAX_TIMED_VALUES", 1000)
    assert timed_layer(*model) is None
