"""What the WebGPU executors decide in common: plan, input words, pieces, planes, pacing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rushlight.backends.webgpu_common import (
    SUBMIT_TARGET_MS,
    Pacer,
    gather_plane,
    padded,
    upload_pieces,
)
from rushlight.backends.webgpu_program import program_json, uploads_json
from rushlight.backends.webgpu_step import choose_plan, output_rows, pack_input
from rushlight.errors import InvalidInputError
from rushlight.plan.plan import WeightUpload
from tests.unit.tiny_program import N_OUT_MAX, N_VOCAB, tiny_program

PLANS = tiny_program().plans


@pytest.mark.parametrize(
    ("n_tokens", "name"),
    [(1, "decode"), (2, "prefill_16"), (16, "prefill_16"), (17, "prefill_256")],
)
def test_the_smallest_plan_that_fits(n_tokens, name):
    assert PLANS[choose_plan(PLANS, n_tokens)].name == name


def test_no_plan_for_a_chunk_above_the_largest():
    with pytest.raises(InvalidInputError, match="257 tokens"):
        choose_plan(PLANS, 257)


def test_input_words_lie_where_the_layout_says():
    plan = PLANS[1]
    words = pack_input(plan, [7, 8, 9], 40, [2])
    layout = plan.input_layout
    assert words.nbytes == layout.n_bytes
    assert words[:4].tolist() == [3, 40, 1, 0]
    assert words[layout.tokens // 4 :][:4].tolist() == [7, 8, 9, 0]
    assert words[layout.out_rows // 4 :][:2].tolist() == [2, 0]


def test_rows_and_bytes_of_outputs():
    assert output_rows(PLANS[0], "logits") == (N_OUT_MAX, N_VOCAB * 4)
    assert output_rows(PLANS[0], "argmax") == (N_OUT_MAX, 4)


@pytest.mark.parametrize("type_size", [4, 18, 22, 34, 144, 210])
@pytest.mark.parametrize("n_blocks", [1, 63, 64, 1000])
def test_pieces_cover_an_upload_in_aligned_steps(type_size, n_blocks):
    upload = WeightUpload("t", "t", 0, 0, n_blocks * type_size, type_size, ((0, type_size, 0),))
    pieces = list(upload_pieces(upload, 100 * type_size))
    assert sum(n for _, n in pieces) == n_blocks
    at = 0
    for first, n in pieces:
        assert first == at and first % 64 == 0 and 0 < n <= 64
        at += n


@pytest.mark.parametrize("type_size", [7, 18, 22, 24, 34, 144, 176, 210])
def test_a_plane_is_the_same_bytes_of_every_block(type_size):
    blocks = np.random.default_rng(0).integers(0, 256, (9, type_size), dtype=np.uint8)
    for offset, n in ((0, 2), (2, type_size - 2), (0, type_size)):
        plane = gather_plane(blocks.tobytes(), type_size, offset, n)
        wanted = blocks[:, offset : offset + n].reshape(-1)
        np.testing.assert_array_equal(plane, padded(wanted))
        assert plane.size % 4 == 0


def test_an_unknown_device_is_met_with_short_submits():
    assert Pacer(100).end_of_submit(0, 100) == 8


def test_submits_follow_the_measured_cost():
    pacer = Pacer(100)
    pacer.measured(0, 50, 50 * SUBMIT_TARGET_MS)  # each as long as a submit may be
    pacer.measured(50, 100, SUBMIT_TARGET_MS / 2)
    ends = []
    at = 0
    while at < 100:
        at = pacer.end_of_submit(at, 100)
        ends.append(at)
    assert ends == [*range(1, 51), 100]


def test_a_submit_always_makes_progress():
    pacer = Pacer(3)
    pacer.measured(0, 3, 1e6)
    assert pacer.end_of_submit(2, 3) == 3


def test_a_program_crosses_as_json():
    program = tiny_program()
    data = json.loads(program_json(program))
    assert [p["name"] for p in data["plans"]] == [p.name for p in program.plans]
    head = data["plans"][0]["dispatches"][2]
    assert data["kernels"][head[0]]["name"] == "head"
    assert head[1][0] == ["input", 0, 16]
    assert data["kernels"][3]["constants"] == {"N_VOCAB": N_VOCAB}
    assert json.loads(uploads_json(program.model_plan.uploads)) == [
        ["w", "w", 0, 16, 780, 6, [[2, 4, 0], [0, 2, 768]]]
    ]
