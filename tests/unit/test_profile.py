"""A profile counts calls, time and bytes by kernel; the bytes come from the plan."""

from __future__ import annotations

import pytest

from rushlight.backends.profile import ALONE, HEADER, TIMESTAMPS, Profile, shape_words
from rushlight.plan.plan import Binding, Dispatch, KernelKey
from tests.unit.tiny_program import N_CTX, N_OUT_MAX, N_VOCAB, tiny_program


@pytest.fixture
def profile() -> Profile:
    return Profile(tiny_program(), N_CTX, has_timestamps=True)


def test_calls_times_and_shares_add_up(profile: Profile) -> None:
    profile.add(0, [0, 1, 2, 3], [1.0, 2.0, 3.0, 2.0], [1, 9, 1])
    profile.add(0, [0, 1], [1.0, 1.0], [1, 10, 0])
    profile.add(1, [0], [5.0], [16, 0, 0])
    rows = {(row.plan, row.kernel): row for row in profile.rows()}
    assert rows["decode", "store"].calls == 2 and rows["decode", "store"].ms == 2.0
    assert rows["decode", "head"].share == pytest.approx(0.3)
    assert rows["prefill_16", "store"].share == 1.0
    assert [row.kernel for row in profile.rows()][:2] == ["sum", "head"]  # the slowest first


def test_bytes_are_what_the_step_touches(profile: Profile) -> None:
    profile.add(1, [0, 1, 2], [1.0, 1.0, 1.0], [4, 12, 1])
    rows = {row.kernel: row for row in profile.rows()}
    # store: 4 of the state's entries; sum: no attention kernel, so 4 entries and 4 of 16 rows of h
    assert rows["store"].n_bytes == pytest.approx(4 * 4)
    assert rows["sum"].n_bytes == pytest.approx(4 * 4 + 4 * 4)
    weights, sign = N_VOCAB * 4 + N_VOCAB * 2, 4
    scratch = (16 * 4 + N_OUT_MAX * N_VOCAB * 4) / N_OUT_MAX  # one of the head's rows
    assert rows["head"].n_bytes == pytest.approx(weights + sign + scratch)
    assert rows["head"].gb_per_s == pytest.approx(rows["head"].n_bytes / 1e6)


def test_layers_of_one_shape_are_one_row() -> None:
    key = KernelKey(
        "matvec", imports=(("W", "quants/q5_0"), ("L", "lib/lanes_rows")),
        overrides=(("N_ROWS", 2048.0), ("N_COLS", 640.0)),
    )  # fmt: skip
    dispatch = Dispatch(key, (Binding("blk.7.ffn_up.weight"),), (1, 1, 1))
    assert shape_words(dispatch) == "2048x640 Q5_0"


def test_the_table_and_its_note(profile: Profile) -> None:
    profile.add(0, [1], [1.5], [1, 0, 1])
    lines = profile.text().splitlines()
    assert lines[0].split() == list(" ".join(HEADER).split())
    assert lines[1].startswith("decode") and "1.50" in lines[1] and "100.0%" in lines[1]
    assert lines[-1] == TIMESTAMPS
    assert Profile(tiny_program(), N_CTX, has_timestamps=False).note == ALONE
    assert profile.to_json()["rows"][0]["calls"] == 1
