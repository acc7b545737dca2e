"""Encoders inside the worker, on both of its devices, against the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.driver import Call, ask_worker
from tests.model.test_encoders import TEXTS, TOLERANCE, off_by
from tests.tools.arch_files import encoders, golden_texts, model_bytes

pytestmark = pytest.mark.browser
VARIANTS = {"cpu": "exact", "webgpu": "auto"}


@pytest.mark.parametrize("backend", VARIANTS)
def test_states_and_vectors_are_the_reference_s(harness: Any, backend: str, tmp_path: Path) -> None:
    calls, wanted = [], []
    for entry in encoders():
        for kind in ("f32", "quant"):
            path = tmp_path / f"{entry['name']}-{kind}.gguf"
            path.write_bytes(model_bytes(entry["name"], kind))
            options = {"texts": TEXTS, "load": {"variant": VARIANTS[backend]}}
            calls.append(Call("embed", options, path))
            wanted.append(golden_texts(entry["name"], kind))
    for answer, texts in zip(ask_worker(harness, backend, calls).values, wanted, strict=True):
        assert answer["ids"] == [text["ids"].tolist() for text in texts]
        for vector, states, text in zip(answer["vectors"], answer["hidden"], texts, strict=True):
            assert off_by(np.array(vector), text["embedding"]) <= TOLERANCE
            assert off_by(np.array(states), text["hidden"]) <= TOLERANCE
