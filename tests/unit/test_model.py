"""Loading: arguments and files that contradict themselves are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight import EngineError, InvalidInputError, Model
from rushlight.gguf import FileSource
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
LLAMA = GOLDEN / "llama-f32.gguf"


def rewritten(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """The golden llama file with its metadata or tensors changed."""
    metadata, tensors = unpack_gguf(LLAMA)
    change(metadata, tensors)
    return write_gguf(None, metadata, tensors)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("n_ctx", 0), ("n_ctx", "8"), ("n_ctx", 2.5), ("n_ctx", True), ("n_ctx", 10**9),
        ("n_batch", 0), ("n_batch", -4), ("n_batch", 1.5), ("n_batch", "x"),
        ("kv_dtype", "f8"), ("device", None), ("device", 5), ("device", "tpu"),
    ],
)  # fmt: skip
def test_load_arguments_are_checked(option: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=str(value)):
        Model.load(LLAMA, **{"device": "numpy", option: value})


def drop_rows(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(metadata: dict[str, Any], tensors: dict[str, Any]) -> None:
        data, (_, n_cols), kind = tensors[name]
        tensors[name] = (data[: 100 * n_cols * 4], (100, n_cols), kind)

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (drop_rows("token_embd.weight"), "token_embd.weight"),
        (drop_rows("output.weight"), "token_embd.weight"),
        (lambda m, t: m.__setitem__("llama.block_count", 1), r"block_count is 1.*blk\.1\."),
        (lambda m, t: m.__setitem__("general.architecture", "flux"), "'flux' is not supported"),
        (lambda m, t: t.pop("blk.1.ffn_up.weight"), r"blk\.1\.ffn_up\.weight"),
    ],
)
def test_contradictions_are_refused_at_load(change: Any, named: str) -> None:
    with pytest.raises(EngineError, match=named):
        Model.load(rewritten(change), "numpy")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("max_token", "Did you mean max_tokens?"),
        ("temperatur", "Did you mean temperature?"),
        ("zzz", "For sampling: temperature"),
    ],
)
def test_a_misspelt_option_is_named(option: str, hint: str) -> None:
    model = Model.load(LLAMA, "numpy")
    with pytest.raises(InvalidInputError, match=f"no option '{option}'") as caught:
        model.generate("x", **{option: 1})
    assert caught.value.hint.startswith(hint)
    model.close()


def test_a_closed_model_says_so() -> None:
    model = Model.load(LLAMA, "numpy")
    session = model.session()
    model.close()
    model.close()
    for use in (
        lambda: model.generate([1]).text(),
        lambda: session.generate([1]).text(),
        lambda: model.logits([1]),
        model.session,
    ):
        with pytest.raises(InvalidInputError, match="closed"):
            use()


def test_a_session_of_another_model_is_refused() -> None:
    one, other = Model.load(LLAMA, "numpy"), Model.load(LLAMA, "numpy")
    with pytest.raises(InvalidInputError, match="another model"):
        one.generate([1], session=other.session())


def test_a_failed_load_leaves_the_callers_source_open(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(LLAMA.read_bytes()[:5000])
    source = FileSource(path)
    with pytest.raises(EngineError):
        Model.load(source, "numpy")
    assert source.read(0, 4) == b"GGUF"
    source.close()


def test_a_model_of_nans_gives_an_error_and_not_text() -> None:
    def change(metadata: dict[str, Any], tensors: dict[str, Any]) -> None:
        data, shape, kind = tensors["blk.0.attn_q.weight"]
        nans = np.full(len(data) // 4, np.nan, np.float32)
        tensors["blk.0.attn_q.weight"] = (nans.tobytes(), shape, kind)

    model = Model.load(rewritten(change), "numpy")
    with pytest.raises(EngineError, match="not a number"):
        model.generate([1, 2, 3], max_tokens=4, temperature=0).text()
