"""One file in a folder adds an architecture, on every backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight.models
from rushlight import Model, UnsupportedModelError
from rushlight.models import architectures
from tests.tools import made_up
from tests.tools.backends import floor_executor

IDS = [5, 9, 2, 40, 11, 7, 33, 28, 50, 3, 16, 22, 8]


@pytest.fixture
def _added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / made_up.FILE).write_text(made_up.ARCHITECTURE)
    monkeypatch.setattr(rushlight.models, "__path__", [*rushlight.models.__path__, str(tmp_path)])


def test_without_its_file_the_architecture_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedModelError, match="made-up"):
        Model.load(made_up.model_file(), "numpy")


@pytest.mark.usefixtures("_added")
@pytest.mark.parametrize("device", ["numpy", "cpu-exact", "gpu-rows", "gpu-tiles"])
def test_its_file_runs_it(device: str) -> None:
    assert made_up.NAME in architectures()
    device, _, variant = device.partition("-")
    executor: Any = floor_executor() if device == "gpu" else device
    model = Model.load(
        made_up.model_file(), executor, variant=variant or "auto", kv_dtype="f32", n_batch=4
    )
    expected = made_up.forward(IDS)
    got = model.logits(IDS)
    assert np.abs(got - expected).max() <= 2e-4 * np.ptp(expected, axis=-1).min()
    best = model.generate(IDS, max_tokens=3, temperature=0, ignore_eos=True)
    best.text()
    ids = list(IDS)
    for token in best.ids:
        assert token == int(made_up.forward(ids)[-1].argmax())
        ids.append(token)
    model.close()
