"""Tiny models of every architecture inside the worker, against logits frozen from transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.parity import Answer, Item, compare
from tests.browser.driver import ask_worker, items_call

pytestmark = pytest.mark.browser

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
N_PROMPTS = {"cpu": 3, "webgpu": 1}
"""The software GPU answers the first prompt of each file only."""


def golden_items(path: Path, n_prompts: int) -> list[Item]:
    items = []
    with np.load(path.with_suffix(".npz")) as data:
        for i in range(min(n_prompts, int(data["n_prompts"]))):
            prompt = {k: data[f"p{i}_{k}"].tolist() for k in ("ids", "argmax", "margin", "greedy")}
            rows, logits = data[f"p{i}_rows"].tolist(), data[f"p{i}_logits"]
            last = logits[rows.index(len(prompt["ids"]) - 1)]
            top = np.argsort(-last)[:8].tolist()
            items.append(
                Item(
                    f"{path.stem} {i}",
                    **prompt,
                    greedy_margin=[1.0] * len(prompt["greedy"]),
                    last_top8=[(token, float(last[token])) for token in top],
                    last_range=(float(last.min()), float(last.max())),
                )
            )
    return items


@pytest.mark.parametrize("backend", ["cpu", "webgpu"])
def test_golden_models_agree(harness: Any, backend: str) -> None:
    files = sorted(GOLDEN.glob("*.gguf"))
    items = [golden_items(path, N_PROMPTS[backend]) for path in files]
    calls = [items_call(some, path) for some, path in zip(items, files, strict=True)]
    problems = []
    for some, value in zip(items, ask_worker(harness, backend, calls).values, strict=True):
        for item, fields in zip(some, value["answers"], strict=True):
            result = compare(item, Answer(**fields))
            if not result.ok:
                problems.append(f"{item.name}: {result.problem}")
    assert not problems, "\n".join(problems)
