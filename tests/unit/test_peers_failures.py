"""The list of what failed elsewhere is whole, and what it calls a proof exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "tests" / "PEERS_FAILURES.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \|(.*)\|$", TEXT, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


def test_every_failure_has_a_row_and_a_proof() -> None:
    assert [int(number) for number, _ in ROWS] == list(range(1, 41))
    for number, row in ROWS:
        assert len(re.split(r"(?<!\\)\|", row)) == 3, number
        assert "::" in row, f"{number} names no test"


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_each_named_test_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE), f"{path} has no {name}"
