"""The list of models that the page offers by name."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from space.tools.machine import ROOT

MODELS: list[dict[str, Any]] = json.loads((ROOT / "space" / "models.json").read_text())["models"]
KEYS = {"name", "repo", "file", "n_bytes", "about_mb", "sha256", "licence"}


@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: str(entry["file"]))
def test_an_entry_says_what_the_page_needs(entry: dict[str, Any]) -> None:
    assert {"name", "repo", "file"} <= entry.keys() <= KEYS
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry["repo"])
    assert re.fullmatch(r"[\w.-]+-(Q4_K_M|Q8_0)\.gguf", entry["file"], re.IGNORECASE)
    assert ("n_bytes" in entry) != ("about_mb" in entry), "the size as published, or roughly"
    assert re.fullmatch("[0-9a-f]{64}", entry.get("sha256", "0" * 64))
    if "licence" in entry:
        assert entry["licence"].keys() == {"name", "url"}


def test_small_ones_come_first_and_none_twice() -> None:
    sizes = [entry.get("n_bytes", 10**6 * entry.get("about_mb", 0)) for entry in MODELS]
    assert sizes == sorted(sizes)
    assert len({(entry["repo"], entry["file"]) for entry in MODELS}) == len(MODELS)
