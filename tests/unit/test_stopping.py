"""Stop strings: nothing of one is ever shown, however the text is cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.errors import InvalidInputError
from rushlight.stopping import StopMatcher


def run(stops, pieces, **options):
    matcher = StopMatcher(stops, **options)
    shown = []
    for piece in pieces:
        text, stopped = matcher.push(piece)
        shown.append(text)
        if stopped:
            break
    return "".join(shown) + matcher.flush(), matcher.stopped


def test_holds_back_a_possible_start():
    matcher = StopMatcher(["\nUser:"])
    assert matcher.push("Paris.\nUs") == ("Paris.", False)
    assert matcher.push("age") == ("\nUsage", False)
    assert matcher.push("\nUser") == ("", False)
    assert matcher.push(": next") == ("", True)
    assert matcher.push("more") == ("", True)
    assert matcher.flush() == ""


def test_flush_gives_what_was_held():
    assert run(["STOP"], ["all ST"]) == ("all ST", False)


def test_the_first_to_be_complete_wins():
    assert run(["xyzw", "yz"], ["xyzw"]) == ("x", True)


def test_no_stop_strings():
    assert run([], ["a", "b"]) == ("ab", False)


def test_trim_start():
    assert run(["\n"], [" ", " The", " end "], trim_start=True) == ("The end ", False)


@given(
    st.text("ab\n", max_size=30),
    st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(0, 30), max_size=8),
)
def test_cutting_does_not_matter(text, stops, cuts):
    cuts = [0, *sorted(c for c in cuts if c <= len(text)), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(cuts)]
    whole = run(stops, [text])
    assert run(stops, pieces) == whole == run(stops, list(text))
    assert all(stop not in whole[0] for stop in stops)


@pytest.mark.parametrize("stops", [[""], ["x" * 5000], ["a"] * 100, [3]])
def test_unusable_stop_strings(stops):
    with pytest.raises(InvalidInputError):
        StopMatcher(stops)
