"""Every architecture's tiny model inside the worker, all in one page, against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.driver import Call, ask_worker
from tests.tools import made_up
from tests.tools.arch_files import entries, golden, model_bytes

pytestmark = pytest.mark.browser
TOLERANCE = 2e-4
"""Of a row's range, with a float32 cache."""
VARIANTS = {"cpu": "exact", "webgpu": "auto"}
MADE_UP_IDS = [5, 9, 2, 40, 11, 7, 33, 28, 50]


def prompt(ids: Any, n_rows: int, n_greedy: int) -> dict[str, Any]:
    return {"ids": [int(i) for i in ids], "n_rows": n_rows, "n_greedy": n_greedy}


def calls(folder: Path, backend: str) -> list[Call]:
    """A call for every model, the longest prompt of each."""
    found = []
    for entry in entries():
        path = folder / f"{entry['name']}.gguf"
        path.write_bytes(model_bytes(entry["name"]))
        wanted = golden(entry["name"], "f32")[-1]
        load = {"n_ctx": entry["n_ctx"], "variant": VARIANTS[backend]}
        asked = prompt(wanted["ids"], len(wanted["rows"]), len(wanted["greedy"]))
        found.append(Call("logits_and_text", {"prompts": [asked], "load": load}, path))
    path = folder / "made-up.gguf"
    path.write_bytes(made_up.model_file())
    options = {
        "prompts": [prompt(MADE_UP_IDS, 4, 1)],
        "load": {"variant": VARIANTS[backend]},
        "files": {made_up.FILE: made_up.ARCHITECTURE},
    }
    return [*found, Call("logits_and_text", options, path)]


@pytest.mark.parametrize("backend", VARIANTS)
def test_every_architecture_agrees(harness: Any, backend: str, tmp_path: Path) -> None:
    answers = ask_worker(harness, backend, calls(tmp_path, backend)).values
    names = [entry["name"] for entry in entries()]
    wanted = [golden(name, "f32")[-1] for name in names]
    expected = [(w["logits"], w["greedy"].tolist()) for w in wanted]
    logits = made_up.forward(MADE_UP_IDS)[-4:]
    expected.append((logits, [int(logits[-1].argmax())]))
    problems = []
    for name, ((rows, text),), (logits, greedy) in zip(
        [*names, made_up.NAME], answers, expected, strict=True
    ):
        error = np.abs(np.array(rows) - logits).max(axis=-1) / np.ptp(logits, axis=-1)
        if error.max() > TOLERANCE or text != greedy:
            problems.append(f"{name}: {error.max():.1e} of the range, text {text}, not {greedy}")
    assert not problems, "\n".join(problems)
