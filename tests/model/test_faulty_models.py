"""The command line names each fault of a model file or its address, and never shows a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from rushlight.cli import main
from space.tools.server import SiteServer
from tests.tools.faulty_models import GOLDEN, faulty_models


def refusal(capsys: pytest.CaptureFixture[str], model: str | Path, device: str) -> str:
    status = main(["run", "-m", str(model), "-p", "a", "-n", "2", "--device", device])
    text = capsys.readouterr().err
    assert status == 2 and "Traceback" not in text and "error [" in text, text
    return " ".join(text.split())


@pytest.mark.parametrize("device", ["numpy", "gpu"])
@pytest.mark.parametrize(
    ("name", "data", "words"), [pytest.param(*m, id=m[0]) for m in faulty_models()]
)
def test_a_faulty_file_is_named(
    name: str,
    data: bytes,
    words: str,
    device: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / f"{name}.gguf"
    path.write_bytes(data)
    assert words in refusal(capsys, path, device)


def test_a_missing_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with SiteServer(GOLDEN) as server:
        assert "404" in refusal(capsys, f"{server.url}nothing.gguf", "numpy")


def test_a_host_that_ignores_range_works_and_is_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with SiteServer(GOLDEN, has_ranges=False) as server:
        url = f"{server.url}llama-f32.gguf"
        assert main(["run", "-m", url, "-p", "a", "-n", "2", "--device", "numpy"]) == 0
    assert "ignores Range" in " ".join(capsys.readouterr().err.split())
