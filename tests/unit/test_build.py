"""build.py: its command line, what it says about missing parts, and how it fetches by hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import build
from space.tools import machine, vendor

TASKS = ("serve", "test", "check", "wheel", "site", "parity", "bench", "setup", "clean")


def test_no_task_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([]) == 0
    text = capsys.readouterr().out
    assert all(f"    {task} " in text for task in TASKS)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_help(
    task: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "PYTHON", Path("nowhere"))  # a fresh machine: nothing to forward to
    with pytest.raises(SystemExit) as stop:
        build.parse([task, "--help"])
    assert stop.value.code == 0
    assert f"build.py {task}" in capsys.readouterr().out


def test_unknown_test_group_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build.parse(["test", "unti"])
    assert "no test group unti" in capsys.readouterr().err


def test_model_hosts_none_none_named_and_some() -> None:
    for words, hosts in (([], None), (["--model-host"], [])):
        args = build.parse(["site", *words])
        assert args is not None and args.model_host == hosts
    args = build.parse(["site", "--model-host", "a.org", "b.org", "--isolation", "--check"])
    assert args is not None and args.model_host == ["a.org", "b.org"]
    assert args.isolation and args.check and not args.compress


def test_options_of_drivers_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PYTHON", Path(__file__))
    assert build.parse(["parity", "--help"]).rest == ["--help"]
    args = build.parse(["bench", "--json", "out.json"])
    assert args is not None and args.rest == ["--json", "out.json"]


def test_runs_on_the_standard_library_alone() -> None:
    """-I and -S leave out every installed package."""
    code = "import sys; sys.path.insert(0, '.'); import build; build.main([])"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, cwd=machine.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for module in ("server", "site_builder", "vendor", "wheels"):
        code = f"import sys; sys.path.insert(0, '.'); import space.tools.{module}"
        command = [sys.executable, "-I", "-S", "-c", code]
        done = subprocess.run(command, cwd=machine.ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_missing_parts_are_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "missing_system_parts", lambda: ["chromium", "libvulkan1"])
    monkeypatch.setattr(machine, "is_debian_root", lambda: False)
    monkeypatch.setattr(machine.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert machine.ensure_system_parts() == ["chromium", "libvulkan1"]
    assert "sudo apt-get install -y chromium libvulkan1" in capsys.readouterr().out


# --- fetching ----------------------------------------------------------------------------------


def entry(content: bytes, *sources: dict[str, Any]) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"sha256": digest, "n_bytes": len(content), "sources": list(sources)}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RUSHLIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def file_source(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return {"url": path.as_uri()}


def test_a_source_counts_only_with_the_locked_bytes(tmp_path: Path, cache: Path) -> None:
    wrong = file_source(tmp_path / "wrong", b"other bytes")
    right = file_source(tmp_path / "right", b"the bytes")
    gone = {"url": (tmp_path / "gone").as_uri()}
    found = vendor._ensure({"a/file.js": entry(b"the bytes", gone, wrong, right)})
    assert found["a/file.js"].read_bytes() == b"the bytes"
    assert not list((cache / "tmp").iterdir())


def test_no_good_source_says_why_for_each(tmp_path: Path, cache: Path) -> None:
    wrong = file_source(tmp_path / "wrong", b"other bytes")
    gone = {"url": (tmp_path / "gone").as_uri()}
    with pytest.raises(machine.BuildError, match=r"could not fetch file\.js") as failure:
        vendor._ensure({"file.js": entry(b"the bytes", gone, wrong)})
    text = str(failure.value)
    assert "gone" in text and "sha256" in text
    assert not list(cache.glob("files/*/file.js"))


def test_the_cache_is_used_and_a_damaged_file_is_fetched_again(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "source"
    wanted = {"file.bin": entry(b"the bytes", file_source(source, b"the bytes"))}
    path = vendor._ensure(wanted)["file.bin"]
    source.unlink()
    assert vendor._ensure(wanted)["file.bin"] == path  # no source any more: from the cache
    source.write_bytes(b"the bytes")
    path.write_bytes(b"damaged!!")
    assert vendor._ensure(wanted)["file.bin"].read_bytes() == b"the bytes"


def test_pieces_are_joined_in_order(tmp_path: Path, cache: Path) -> None:
    pieces = [file_source(tmp_path / f"{i}", text) for i, text in enumerate((b"one ", b"two"))]
    found = vendor._ensure({"model.gguf": entry(b"one two", {"join": pieces})})
    assert found["model.gguf"].read_bytes() == b"one two"
