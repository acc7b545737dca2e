"""Tiny random models of every architecture against logits frozen from HF transformers.

Tolerances are DESIGN's: 2e-4 of the range with a float32 cache, 2e-3 with a float16 one.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight import Model
from tests.tools.backends import EXACT_VARIANTS, GPU_VARIANTS, gpu_executor

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
FILES = sorted(path.stem for path in GOLDEN.glob("*.gguf"))
DEVICES = ["numpy", *(f"gpu-{variant}" for variant in EXACT_VARIANTS)]
LOSSY = {"tiles_f16": 5e-3, "tiles_int8": 0.1}
"""How far logits may be off, of their range, with products in fewer bits."""
KV_TOLERANCE = {"f32": 2e-4, "f16": 2e-3}


@lru_cache(maxsize=4)
def load(name: str, device: str, kv_dtype: Any = "f32", n_batch: int = 256) -> Model:
    options: dict[str, Any] = {"kv_dtype": kv_dtype, "n_batch": n_batch}
    if device == "numpy":
        return Model.load(GOLDEN / f"{name}.gguf", "numpy", **options)
    variant = device.partition("-")[2]
    gpu_executor(variant).close()  # skip here, with the reason, when there is no adapter
    return Model.load(GOLDEN / f"{name}.gguf", "gpu", variant=variant, **options)


def prompts(name: str) -> list[dict[str, Any]]:
    with np.load(GOLDEN / f"{name}.npz") as data:
        keys = ("ids", "rows", "logits", "argmax", "margin", "range", "greedy")
        return [{k: data[f"p{i}_{k}"] for k in keys} for i in range(int(data["n_prompts"]))]


@pytest.mark.parametrize("kv_dtype", ["f32", "f16"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", FILES)
def test_logits_and_greedy_text(name: str, device: str, kv_dtype: str) -> None:
    model, tolerance = load(name, device, kv_dtype), KV_TOLERANCE[kv_dtype]
    for prompt in prompts(name):
        ids = prompt["ids"].tolist()
        logits = model.logits(ids)
        difference = np.abs(logits[prompt["rows"]] - prompt["logits"]).max(axis=-1)
        assert (difference <= tolerance * prompt["range"][prompt["rows"]]).all()
        clear = prompt["margin"] > 4 * tolerance * prompt["range"]
        assert (logits.argmax(axis=-1) == prompt["argmax"])[clear].all()
        assert (model.argmax(ids) == logits.argmax(axis=-1))[clear].all()
        generation = model.generate(ids, max_tokens=16, temperature=0, ignore_eos=True)
        generation.text()
        assert generation.ids == prompt["greedy"].tolist()


def test_every_variant_is_held_to_a_tolerance() -> None:
    assert {*EXACT_VARIANTS, *LOSSY} == set(GPU_VARIANTS)


@pytest.mark.parametrize("variant", LOSSY)
@pytest.mark.parametrize("name", FILES)
def test_products_in_fewer_bits_are_off_by_no_more_than_stated(name: str, variant: str) -> None:
    model, tolerance = load(name, f"gpu-{variant}"), LOSSY[variant]
    assert f"prefill {variant}" in model.device.kernels
    for prompt in prompts(name):
        logits = model.logits(prompt["ids"].tolist())
        difference = np.abs(logits[prompt["rows"]] - prompt["logits"]).max(axis=-1)
        assert (difference <= tolerance * prompt["range"][prompt["rows"]]).all()
        clear = prompt["margin"] > 2 * tolerance * prompt["range"]
        assert (logits.argmax(axis=-1) == prompt["argmax"])[clear].all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["llama-f32", "gemma3-linear-q8q4", "qwen3-q8_0", "qwen2-q5"])
def test_decode_equals_prefill_and_chunks_equal_the_whole(name: str, device: str) -> None:
    prompt = prompts(name)[-1]
    ids, span = prompt["ids"].tolist(), prompt["range"].max()
    whole = load(name, device).logits(ids)
    for n_batch in (1, 7, 32):
        pieces = load(name, device, "f32", n_batch).logits(ids)
        assert np.abs(pieces - whole).max() <= 2e-4 * span, n_batch


@pytest.mark.parametrize("device", DEVICES)
def test_session_runs_only_what_differs(device: str) -> None:
    model = load("gemma3-f32", device)
    ids = prompts("gemma3-f32")[-1]["ids"].tolist()
    session = model.session()
    first = session.generate(ids[:40], max_tokens=4, temperature=0, ignore_eos=True)
    first.text()
    assert first.stats.n_reused == 0
    edited = ids[:20] + ids[30:60]
    again = session.generate(edited, max_tokens=4, temperature=0, ignore_eos=True)
    again.text()
    assert again.stats.n_reused == 20
    fresh = model.session().generate(edited, max_tokens=4, temperature=0, ignore_eos=True)
    fresh.text()
    assert again.ids == fresh.ids
    more = session.generate(
        edited + again.ids + ids[60:63], max_tokens=2, temperature=0, ignore_eos=True
    )
    more.text()
    assert more.stats.n_reused == len(edited) + 3  # the fourth token was never fed
