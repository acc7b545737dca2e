"""The wheel in anybody's Pyodide: micropip installs it, a URL loads, text comes by `async for`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

GOLDEN = Path(__file__).parent.parent / "data" / "golden"

START = """async ([base, wheel]) => {
  const { loadPyodide } = await import(`${base}pyodide/pyodide.mjs`);
  const py = await loadPyodide({ indexURL: `${base}pyodide/` });
  await py.loadPackage("micropip");
  await py.pyimport("micropip").install(`${base}${wheel}`);
  window.py = py;
}"""

PROGRAM = """
from rushlight import Model, EngineError

model = await Model.load_async(url, kv_dtype="f32")
made = model.generate(ids.to_py(), max_tokens=16, temperature=0, ignore_eos=True)
pieces = [piece async for piece in made]
logits = await model.logits_async(ids.to_py())
try:
    await Model.load_async(url + ".missing")
    refused = ""
except EngineError as error:
    refused = error.code
import json
json.dumps({
    "ids": made.ids, "is_text": all(isinstance(p, str) for p in pieces),
    "shape": logits.shape, "backend": model.device.backend, "notes": model.device.notes,
    "refused": refused,
})
"""


def test_micropip_installs_the_wheel_and_the_readme_program_runs(
    tab: Page, harness_url: str, site_url: str, site_dir: Path
) -> None:
    (site_dir / "test-models").mkdir(exist_ok=True)
    shutil.copy(GOLDEN / "qwen3-q8_0.gguf", site_dir / "test-models")
    wheel = next((site_dir / "wheels").glob("*.whl")).relative_to(site_dir).as_posix()
    with np.load(GOLDEN / "qwen3-q8_0.npz") as golden:
        prompt, greedy = golden["p2_ids"].tolist(), golden["p2_greedy"].tolist()
    tab.goto(harness_url)
    tab.evaluate(START, [site_url, wheel])
    answer = tab.evaluate(
        """async ([program, url, ids]) => {
          py.globals.set("url", url);
          py.globals.set("ids", ids);
          return JSON.parse(await py.runPythonAsync(program));
        }""",
        [PROGRAM, f"{site_url}test-models/qwen3-q8_0.gguf", prompt],
    )
    assert answer["ids"] == greedy and answer["is_text"]
    assert answer["shape"][0] == len(prompt)
    assert answer["backend"] == "numpy" and "CPU" in answer["notes"][0]
    assert answer["refused"] == "not_found"
