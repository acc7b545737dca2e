"""What the op cases cover, since every kernel is held to them and to nothing smaller.

Each case runs on every adapter in every variant that has kernels of its own for it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from rushlight.backends.variant_trials import n_tokens_of, traits_of
from rushlight.gguf import open_source, read_header
from rushlight.gguf.config import read_config
from rushlight.gguf.quants import runnable_names
from rushlight.graph.rewrite import Phase, fuse
from rushlight.models import build_graph
from rushlight.ops import OPS, Case
from rushlight.plan.variant import PHASES
from tests.tools.arch_files import entries, model_bytes

TYPED = (
    ("matmul", "weight"),
    ("get_rows", "table"),
    ("expert_matmul", "weight"),
)
"""Ops, and the port that holds a weight of any storage type."""
BLOCK_COLS, TOKENS, HEAD_DIMS = {32, 96, 896, 1152}, {2, 7, 33, 512}, {64, 80, 96, 128, 256}


def cases_of(name: str, phase: Phase) -> list[Case]:
    """An op's cases with the phase's number of tokens."""
    op = OPS[name]
    return [c for c in op.cases if (n_tokens_of(op, c) == 1) == (phase == "decode")]


def test_every_case_has_a_name_of_its_own() -> None:
    for op in OPS.values():
        names = [case.name for case in op.cases]
        assert len(names) == len(set(names)), op.name


@pytest.mark.parametrize(("name", "port"), TYPED)
@pytest.mark.parametrize("phase", PHASES)
def test_every_storage_type_has_a_case(name: str, port: str, phase: Phase) -> None:
    types = {case.types[port] for case in cases_of(name, phase)}
    assert types == set(runnable_names())


@pytest.mark.parametrize("phase", PHASES)
def test_products_have_awkward_shapes(phase: Phase) -> None:
    cases = cases_of("matmul", phase)
    assert {case.shapes["weight"][1] for case in cases} >= BLOCK_COLS
    n_rows = {case.shapes["weight"][0] for case in cases}
    assert len([n for n in n_rows if n % 2]) >= 3
    if phase == "prefill":
        assert {case.shapes["x"][0] for case in cases} >= TOKENS


@pytest.mark.parametrize(
    ("name", "phase"), [("attention", "prefill"), ("attention_step", "decode")]
)
@pytest.mark.parametrize("kv", ["f32", "f16"])
def test_attention_has_every_head_size_and_mask_past_one_split(
    name: str, phase: Phase, kv: str
) -> None:
    cases = [case for case in cases_of(name, phase) if case.kv == kv]
    far = [case for case in cases if case.position > 256]
    traits = [traits_of(OPS[name], case.shapes, case.attrs) for case in far]
    assert {"window", "softcap", "sinks"} <= set().union(*traits)
    assert any(case.attrs["window"] and case.position > int(case.attrs["window"]) for case in far)
    if kv == "f32":
        assert {case.attrs["head_dim"] for case in cases} >= HEAD_DIMS
    if (name, kv) == ("attention", "f32"):
        assert {case.shapes["q"][0] for case in cases} >= TOKENS


@pytest.fixture(scope="module")
def used() -> dict[tuple[Phase, str], set[str]]:
    """What the models of every architecture ask of each op, by phase."""
    found: dict[tuple[Phase, str], set[str]] = defaultdict(set)
    for entry in entries():
        file = read_header(open_source(model_bytes(entry["name"])))
        config = read_config(file.metadata, file.tensors)
        graph = build_graph(config, {n: info.shape for n, info in file.tensors.items()})
        for phase in PHASES:
            for node in fuse(graph, phase).nodes:
                ports: dict[str, Any] = {
                    port: graph.weights[value].shape if value in graph.weights else ()
                    for port, value in node.inputs.items()
                }
                found[phase, node.op] |= traits_of(OPS[node.op], ports, node.attrs)
    return found


@pytest.mark.parametrize("phase", PHASES)
def test_what_a_model_asks_of_an_op_has_a_case(
    used: dict[tuple[Phase, str], set[str]], phase: Phase
) -> None:
    lacking = {}
    for (when, name), wanted in used.items():
        if when == phase:
            traits = [traits_of(OPS[name], c.shapes, c.attrs) for c in cases_of(name, phase)]
            assert traits, f"{name} has no case for {phase}"
            if missing := wanted - set().union(*traits):
                lacking[name] = missing
    assert not lacking
