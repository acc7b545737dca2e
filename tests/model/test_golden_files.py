"""The frozen reference data is readable and agrees with itself (no engine code runs here)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "golden"
MODELS = json.loads((GOLDEN / "index.json").read_text())["models"]
MIN_MARGIN = 8e-3  # of the range; as in tests/tools/make_golden.py

each_model = pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry["name"])


def test_index_and_folder_name_the_same_files() -> None:
    """A model without golden logits, or logits without a model, tests nothing."""
    listed = {entry[kind] for entry in MODELS for kind in ("model", "golden")}
    assert listed == {path.name for path in GOLDEN.iterdir()} - {"index.json"}
    assert {entry["architecture"] for entry in MODELS} == {"llama", "qwen2", "qwen3", "gemma3"}


@each_model
def test_model_file_is_the_one_the_logits_came_from(entry: dict[str, Any]) -> None:
    """The hash in index.json is the file's."""
    content = (GOLDEN / entry["model"]).read_bytes()
    assert content[:4] == b"GGUF"
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]


@each_model
def test_golden_arrays_agree_with_each_other(entry: dict[str, Any]) -> None:
    """Argmax, margin and range are those of the kept logits; continuations are unambiguous."""
    with np.load(GOLDEN / entry["golden"]) as data:
        arrays = dict(data)
    longest = 0
    for i in range(int(arrays["n_prompts"])):
        get = lambda key, i=i: arrays[f"p{i}_{key}"]  # noqa: E731
        ids, rows, logits = get("ids"), get("rows"), get("logits")
        longest = max(longest, len(ids))
        assert logits.shape == (len(rows), entry["n_vocab"])
        assert logits.dtype == np.float32
        assert rows[-1] == len(ids) - 1
        assert 0 <= ids.min() and ids.max() < entry["n_vocab"]
        top = np.sort(logits, axis=-1)
        np.testing.assert_array_equal(logits.argmax(axis=-1), get("argmax")[rows])
        np.testing.assert_array_equal(top[:, -1] - top[:, -2], get("margin")[rows])
        np.testing.assert_array_equal(top[:, -1] - top[:, 0], get("range")[rows])
        assert get("greedy")[0] == get("argmax")[-1]
        assert (get("greedy_margin") >= MIN_MARGIN * get("greedy_range")).all()
        assert get("range").min() > 10
    assert longest > entry["sliding_window"]


def test_gemma_oracle_is_consistent() -> None:
    """Every prompt of the real model's reference has its per-position and per-step answers."""
    items = json.loads((DATA / "gemma3-270m.json").read_text())["items"]
    assert len(items) == 42
    for item in items:
        assert len(item["ids"]) == len(item["argmax"]) == len(item["margin"])
        assert len(item["greedy"]) == len(item["greedy_margin"])
        assert item["greedy"][0] == item["argmax"][-1] == item["last_top8"][0][0]
