"""Encoders against the hidden states and vectors that Hugging Face transformers gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight import ContextFullError, InvalidInputError, Model, UnsupportedModelError
from rushlight.embedding import WRITES_NO_TEXT
from tests.tools.arch_files import encoders, golden_texts, model_bytes
from tests.tools.backends import floor_executor
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

TOLERANCE = 2e-4
"""Of the range, with a float32 cache."""
INT8_TOLERANCE = 0.05
"""The same, with activations of 8 bits."""
TEXTS = ("The cat sat on the mat.", "Un cât!", "2", "", "the cat, unseen, sat on the mat " * 6)
RUNS = [
    pytest.param(entry["name"], kind, device, id=f"{entry['name']}-{kind}-{device}")
    for entry in encoders()
    for kind, devices in (
        ("f32", ("numpy", "cpu-exact", "gpu-rows", "gpu-tiles")),
        ("quant", ("numpy", "cpu-exact", "cpu-int8", "gpu-rows")),
    )
    for device in devices
]


def load(name: str = "bert", kind: str = "f32", device: str = "numpy", **options: Any) -> Model:
    device, _, variant = device.partition("-")
    executor: Any = floor_executor() if device == "gpu" else device
    options.setdefault("kv_dtype", "f32")
    model = Model.load(model_bytes(name, kind), executor, variant=variant or "auto", **options)
    assert model.device.backend == {"gpu": "webgpu"}.get(device, device), model.device.notes
    return model


def changed(**keys: Any) -> bytes:
    """The tiny bert file with other keys."""
    metadata, tensors = unpack_gguf(model_bytes("bert"))
    return write_gguf(None, metadata | {f"bert.{k}": v for k, v in keys.items()}, tensors)


def off_by(got: Any, wanted: Any) -> float:
    """Largest difference as a share of the range."""
    return float(np.abs(got - wanted).max() / np.ptp(wanted))


@pytest.mark.parametrize(("name", "kind", "device"), RUNS)
def test_states_and_vectors_are_the_reference_s(name: str, kind: str, device: str) -> None:
    # A chunk size below the longest text: it must not be cut.
    model = load(name, kind, device, n_batch=16)
    limit = INT8_TOLERANCE if device == "cpu-int8" else TOLERANCE
    vectors = model.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), model.config.n_embd) and vectors.dtype == np.float32
    for text, vector, wanted in zip(TEXTS, vectors, golden_texts(name, kind), strict=True):
        assert model.tokenizer.encode(text) == wanted["ids"].tolist()
        states = model.hidden_states(wanted["ids"].tolist())
        assert states.shape == wanted["hidden"].shape
        assert off_by(states, wanted["hidden"]) <= limit
        assert off_by(vector, wanted["embedding"]) <= limit
    if device.startswith("cpu"):
        assert "in numpy" not in model.device.kernels
    model.close()


def test_a_vector_is_of_length_one_unless_asked() -> None:
    model = load()
    raw = model.embed(TEXTS[0], normalise=False)
    assert off_by(raw[0], golden_texts("bert", "f32")[0]["hidden"].mean(axis=0)) <= TOLERANCE
    assert np.linalg.norm(raw) > 1.5
    assert np.linalg.norm(model.embed(TEXTS), axis=-1) == pytest.approx(1)
    assert model.embed([]).shape == (0, 96)


def test_a_text_that_is_too_long_is_refused_with_its_length_or_cut() -> None:
    model = load(n_ctx=12)
    with pytest.raises(ContextFullError, match=r"80 tokens .* at most 12 .* trained for 90"):
        model.embed(TEXTS)
    with pytest.raises(ContextFullError, match="13 tokens"):
        model.hidden_states([2, *[9] * 11, 3])
    ids = golden_texts("bert", "f32")[-1]["ids"].tolist()
    kept = [*ids[:11], model.tokenizer.eos_id]
    wanted = model.hidden_states(kept).mean(axis=0)
    assert off_by(model.embed(TEXTS[-1], truncate=True, normalise=False)[0], wanted) <= TOLERANCE


def test_an_encoder_writes_no_text() -> None:
    model = load()
    for write in (
        lambda: model.generate("the cat"),
        lambda: model.logits([2, 3]),
        lambda: model.argmax([2, 3]),
        model.session,
    ):
        with pytest.raises(UnsupportedModelError, match=r"bert.* cannot chat") as caught:
            write()
        assert caught.value.code == WRITES_NO_TEXT and "rushlight embed" in caught.value.hint


def test_models_without_vectors_are_refused_by_name(data_dir: Any) -> None:
    decoder = Model.load(data_dir / "golden" / "llama-f32.gguf", "numpy")
    with pytest.raises(UnsupportedModelError, match="llama") as caught:
        decoder.embed("the cat")
    assert caught.value.code == "no_embedding"
    with pytest.raises(UnsupportedModelError, match="llama"):
        decoder.hidden_states([1])
    unpooled = Model.load(changed(pooling_type=0), "numpy", kv_dtype="f32")
    with pytest.raises(UnsupportedModelError, match="pooling_type is none"):
        unpooled.embed("the cat")
    wanted = golden_texts("bert", "f32")[0]
    assert off_by(unpooled.hidden_states(wanted["ids"].tolist()), wanted["hidden"]) <= TOLERANCE


@pytest.mark.parametrize(("number", "word"), [(3, "last"), (4, "rank")])
def test_other_poolings_are_refused_by_name(number: int, word: str) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"bert.pooling_type is {number} \({word}\)"):
        Model.load(changed(pooling_type=number), "numpy")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="not text"):
        load().embed([b"the cat"])  # type: ignore[list-item]
