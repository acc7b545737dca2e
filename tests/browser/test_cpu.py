"""The CPU kernels in the page's worker: right with and without threads, and when one is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from rushlight.gguf.splits import open_parts
from space.tools.server import SiteServer
from tests.browser.driver import Call, WorkerAnswer, add_harness, ask_worker, runner
from tests.tools import chromium

pytestmark = pytest.mark.browser

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
FILES = sorted(path.stem for path in GOLDEN.glob("*.gguf"))
TOLERANCE = 2e-4
"""Of the logits' range, with a float32 cache: DESIGN's."""
INT8_TOLERANCE = 0.05
"""The same of 8-bit activations, as pyodide_pkg/README.md states it."""


@pytest.fixture(scope="module")
def lone_harness(browser: Browser, site_dir: Path) -> Iterator[Any]:
    """The harness on a server that does not isolate its pages."""
    with SiteServer(site_dir, is_isolated=False) as server:
        context = browser.new_context()
        yield runner(context.new_page(), server.url + add_harness(site_dir))
        context.close()


@pytest.fixture(scope="module")
def plain_harness(browser: Browser, harness_url: str) -> Iterator[Any]:
    """The harness in a Chromium whose WebAssembly has no SIMD."""
    options = chromium.launch_options()
    options["args"] = [*options["args"], "--js-flags=--no-enable-sse4-1"]
    other = browser.browser_type.launch(**options)
    yield runner(other.new_page(), harness_url)
    other.close()


def prompt_of(name: str, index: int = -1) -> dict[str, Any]:
    """A golden model's longest prompt, with HF transformers' answers."""
    with np.load(GOLDEN / f"{name}.npz") as data:
        index %= int(data["n_prompts"])
        keys = ("ids", "rows", "logits", "range", "greedy")
        return {key: data[f"p{index}_{key}"] for key in keys}


def ask(run: Any, name: str, backend: str = "cpu", **options: Any) -> WorkerAnswer:
    prompt = prompt_of(name)
    ids, n_tokens = prompt["ids"].tolist(), len(prompt["greedy"])
    options = {"ids": ids, "n_tokens": n_tokens, **options}
    return ask_worker(run, backend, [Call("continue_ids", options, GOLDEN / f"{name}.gguf")])


def check(answer: WorkerAnswer, name: str) -> None:
    """The logits are the reference's within the tolerance, and the text is the same."""
    prompt, (value,) = prompt_of(name), answer.values
    logits = np.array(value["logits"])
    difference = np.abs(logits[prompt["rows"]] - prompt["logits"]).max(axis=-1)
    assert (difference <= TOLERANCE * prompt["range"][prompt["rows"]]).all()
    assert value["ids"] == prompt["greedy"].tolist()


@pytest.mark.parametrize("name", FILES)
def test_golden_models_on_two_threads(harness: Any, name: str) -> None:
    answer = ask(harness, name, n_threads=2)
    check(answer, name)
    (value,) = answer.values
    assert value["device"].startswith("cpu, WebAssembly")
    assert "exact, 2 threads" in value["device"]
    assert value["notes"] == [] and answer.notes == []


@pytest.mark.parametrize("name", ["llama-kquants", "gemma3-linear-q8q4"])
def test_without_isolation_one_thread_answers_and_says_why(lone_harness: Any, name: str) -> None:
    answer = ask(lone_harness, name, n_threads=2)
    check(answer, name)
    (value,) = answer.values
    assert "exact, 1 thread" in value["device"]
    (note,) = value["notes"]
    assert "not cross-origin isolated" in note
    assert "Cross-Origin-Opener-Policy: same-origin" in note
    assert "Cross-Origin-Embedder-Policy: require-corp" in note


def test_without_isolation_one_thread_asked_for_needs_no_note(lone_harness: Any) -> None:
    answer = ask(lone_harness, "llama-f32", n_threads=1)
    check(answer, "llama-f32")
    assert answer.values[0]["notes"] == []


def test_without_simd_numpy_answers_and_says_so(plain_harness: Any) -> None:
    answer = ask(plain_harness, "llama-kquants")
    check(answer, "llama-kquants")
    assert answer.values[0]["device"].startswith("numpy")
    (note,) = answer.notes
    assert "no WebAssembly SIMD" in note and "numpy" in note


@pytest.mark.parametrize(
    ("loses", "why"), [("dies", "it no longer answers"), ("ends", "the browser ended it")]
)
def test_a_lost_thread_leaves_a_note_and_the_same_text(harness: Any, loses: str, why: str) -> None:
    """ "dies": in the middle of a step, with work in its hands; "ends": between two steps."""
    answer = ask(harness, "llama-f32", n_threads=2, loses=loses)
    check(answer, "llama-f32")
    (value,) = answer.values
    assert "1 thread" in value["device"]
    (note,) = value["notes"]
    assert why in note and "one goes on alone" in note


@pytest.mark.parametrize("beyond_gib", [2, 4])
def test_memory_beyond_what_a_sign_and_what_32_bits_hold(harness: Any, beyond_gib: int) -> None:
    """The state lies where a signed address would be negative, and in the 64-bit build further."""
    answer = ask(harness, "gemma3-linear-q8q4", n_threads=2, beyond_gib=beyond_gib)
    check(answer, "gemma3-linear-q8q4")


def test_exact_text_is_numpys(harness: Any) -> None:
    """Both paths of the same page, on a mixture of storage types."""
    made = [ask(harness, "gemma3-linear-q8q4", backend).values[0] for backend in ("cpu", "numpy")]
    assert made[0]["ids"] == made[1]["ids"]
    assert made[1]["device"].startswith("numpy")


@pytest.mark.parametrize("name", ["llama-kquants", "gemma3-linear-q8q4"])
def test_int8_is_the_default_and_near(harness: Any, name: str) -> None:
    """Activations of 8 bits per 32 values: on random weights up to 0.032 of the range off."""
    prompt = prompt_of(name)
    (value,) = ask(harness, name, variant="auto").values
    assert "int8" in value["device"]
    logits = np.array(value["logits"])[prompt["rows"]]
    difference = np.abs(logits - prompt["logits"]).max(axis=-1)
    assert 0 < (difference / prompt["range"][prompt["rows"]]).max() <= INT8_TOLERANCE


@pytest.mark.gemma
def test_a_model_too_large_is_refused_before_its_weights(harness: Any, gemma_path: Path) -> None:
    with SiteServer(gemma_path.parent, is_shared=True) as server:
        answer = harness("loadInto", url=server.url + gemma_path.name, maxBytes=100_000_000)
    error = answer["value"]["envelope"]["error"]
    assert error["code"] == "out_of_device_memory"
    assert "take 0.25 GB" in error["message"] and "ends at 0.10 GB" in error["message"]
    assert "smaller" in error["hint"]
    assert answer["value"]["nRead"] < 16 << 20  # header and tokenizer


@pytest.mark.gemma
@pytest.mark.slow
def test_weights_lie_in_the_kernels_memory_as_in_the_file(harness: Any, gemma_path: Path) -> None:
    """Once, and never in Python's heap, which grows by the header and the tokenizer."""
    calls = [Call("measure", {"is_quick": True}, gemma_path)]
    answer = ask_worker(harness, "cpu", calls)
    file, parts = open_parts(gemma_path)
    for part in parts:
        part.close()
    n_bytes = sum(tensor.n_bytes for tensor in file.tensors.values())
    weights = answer.values[0]["device_bytes"]["weight"]
    print(f"heap grew by {answer.heap_growth_bytes / 2**20:.1f} MiB; {weights / n_bytes:.3f} x")
    assert n_bytes <= weights <= 1.05 * n_bytes
    assert answer.heap_growth_bytes <= 64 << 20
