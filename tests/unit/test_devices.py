"""Which adapter is used and why, in words; and the command that prints it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rushlight.backends import wgpu_adapter
from rushlight.backends.wgpu_adapter import find_adapters, judged
from rushlight.cli import main
from rushlight.errors import NoAdapterError


def info(device: str, kind: str = "DiscreteGPU", api: str = "Vulkan") -> dict[str, Any]:
    return {"device": device, "adapter_type": kind, "backend_type": api}


CARD, CHIP = info("Card 9000"), info("Chip 600", "IntegratedGPU")
CARD_GL, SOFTWARE = info("Card 9000", api="OpenGL"), info("llvmpipe", "CPU")


def test_the_one_that_is_used_comes_first_and_each_has_its_reason() -> None:
    rows = judged([CHIP, SOFTWARE, CARD_GL, CARD], CARD)
    assert [(row.name, row.api, row.is_auto) for row in rows] == [
        ("Card 9000", "Vulkan", True),
        ("Chip 600", "Vulkan", False),
        ("llvmpipe", "Vulkan", False),
        ("Card 9000", "OpenGL", False),
    ]
    used, chip, software, twice = (row.verdict for row in rows)
    assert "what auto takes" in used and "prefers Card 9000" in chip
    assert "it is software" in software and "the same through Vulkan" in twice


def test_a_software_adapter_is_for_gpu_alone() -> None:
    (row,) = judged([SOFTWARE], SOFTWARE)
    assert "Auto takes the CPU" in row.verdict and not row.is_auto and row.kind == "software"


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rushlight.cli.devices.find_adapters", lambda: judged([CHIP, CARD], CARD))
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Card 9000  (graphics card, Vulkan)"
    assert lines[-2:] == ["CPU", "    --device cpu."]
    assert main(["devices", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["adapters"]] == ["Card 9000", "Chip 600"]


def test_without_an_adapter_it_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(**_: Any) -> Any:
        raise NoAdapterError("No GPU adapter is available.", hint="Install a driver.")

    monkeypatch.setattr(wgpu_adapter, "_request_adapter", none)
    with pytest.raises(NoAdapterError):
        find_adapters()
    assert main(["devices"]) == 0
    out = capsys.readouterr().out
    assert "Install a driver." in out and "what auto takes" in out
