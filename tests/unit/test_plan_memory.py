"""Which values share a buffer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rushlight.plan.memory import Lifetime, assign_scratch, lifetimes_of

SPANS = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 20), st.integers(0, 8)), max_size=30
)


def test_a_chain_needs_two_slots() -> None:
    chain = [Lifetime(f"v{i}", 1000, i, i + 1) for i in range(10)]
    placed, slots = assign_scratch(chain)
    assert set(slots) == {"scratch.0", "scratch.1"}
    assert all(placed[f"v{i}"] != placed[f"v{i + 1}"] for i in range(9))


def test_the_tightest_free_slot_is_taken_and_grown_only_if_none_fits() -> None:
    placed, slots = assign_scratch(
        [
            Lifetime("big", 4096, 0, 1),
            Lifetime("small", 256, 0, 1),
            Lifetime("tiny", 100, 2, 3),
            Lifetime("huge", 8192, 2, 3),
        ]
    )
    assert placed["tiny"] == placed["small"]
    assert placed["huge"] == placed["big"]
    assert sorted(slots.values()) == [256, 8192]


@given(SPANS)
def test_values_that_live_together_never_share(spans: list[tuple[int, int, int]]) -> None:
    values = [Lifetime(f"v{i}", n, at, at + long) for i, (n, at, long) in enumerate(spans)]
    placed, slots = assign_scratch(values)
    for a in values:
        assert slots[placed[a.name]] >= a.n_bytes
        for b in values:
            if a is not b and a.first <= b.last and b.first <= a.last:
                assert placed[a.name] != placed[b.name]


def test_what_the_head_reads_outlives_it() -> None:
    touched = [["a"], ["a", "b"], ["b", "c"], ["c", "d"]]
    sizes = dict.fromkeys("abcd", 4)
    by_name = {v.name: v for v in lifetimes_of(touched, sizes, head_start=2)}
    assert (by_name["a"].last, by_name["b"].last, by_name["c"].last) == (1, 3, 3)
