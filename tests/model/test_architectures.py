"""Every architecture's tiny models against logits frozen from an independent reference.

One load per model and device: a prompt goes in by chunks of 16 and then token by token, and each
row must be the reference's, which saw it whole; then greedy text. ``quant`` files are quantised
copies with logits of their own.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rushlight import Model, _sync
from rushlight.models import architectures
from tests.tools.arch_files import FOLDER, encoders, entries, golden, model_bytes
from tests.tools.backends import floor_executor

TOLERANCE = 2e-4
"""Of a row's range, with a float32 cache."""
HALF_TOLERANCE = 2e-3
"""The same, with a float16 cache."""
ENTRIES = {entry["name"]: entry for entry in entries()}
RUNS = [
    pytest.param(name, kind, device, id=f"{name}-{kind}-{device}")
    for name in ENTRIES
    for kind, devices in (
        ("f32", ("numpy", "cpu-exact", "gpu-rows", "gpu-tiles")),
        ("quant", ("numpy", "cpu-exact", "gpu-rows")),
    )
    for device in devices
]


def load(name: str, kind: str, device: str, kv_dtype: str = "f32") -> Model:
    options: dict[str, Any] = {"kv_dtype": kv_dtype, "n_batch": 16, "n_ctx": ENTRIES[name]["n_ctx"]}
    device, _, variant = device.partition("-")
    executor: Any = floor_executor() if device == "gpu" else device
    model = Model.load(model_bytes(name, kind), executor, variant=variant or "auto", **options)
    assert model.device.backend == {"gpu": "webgpu"}.get(device, device), model.device.notes
    return model


def test_every_architecture_has_a_model() -> None:
    frozen = json.loads((FOLDER.parent / "golden" / "index.json").read_text())["models"]
    known = {entry["architecture"] for entry in [*ENTRIES.values(), *encoders(), *frozen]}
    assert known == set(architectures())


@pytest.mark.parametrize(("name", "kind", "device"), RUNS)
def test_chunks_decoding_and_greedy_text_are_the_reference_s(
    name: str, kind: str, device: str
) -> None:
    model = load(name, kind, device)
    for prompt in golden(name, kind):
        ids, n_rows = prompt["ids"].tolist(), len(prompt["rows"])
        session, rows = model.session(), []
        if len(ids) > n_rows:
            _sync.run(session.run(ids[:-n_rows], "none"))
        for token in ids[-n_rows:]:
            row = _sync.run(session.run([token], "logits"))
            assert row is not None
            rows.append(row[0])
        for got in (np.stack(rows), model.logits(ids)[-n_rows:]):
            span = np.ptp(prompt["logits"], axis=-1)
            difference = np.abs(got - prompt["logits"]).max(axis=-1) / span
            assert (difference <= TOLERANCE).all(), difference
        text = model.generate(ids, max_tokens=len(prompt["greedy"]), temperature=0, ignore_eos=True)
        text.text()
        assert text.ids == prompt["greedy"].tolist()
    model.close()


@pytest.mark.parametrize("name", ENTRIES)
def test_a_half_precision_cache_stays_close(name: str) -> None:
    model = load(name, "f32", "cpu-exact", kv_dtype="f16")
    prompt = golden(name, "f32")[-1]
    got = model.logits(prompt["ids"].tolist())[-len(prompt["rows"]) :]
    span = np.ptp(prompt["logits"], axis=-1)
    assert (np.abs(got - prompt["logits"]).max(axis=-1) <= HALF_TOLERANCE * span).all()
    model.close()
