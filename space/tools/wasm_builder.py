"""Builds the CPU kernels of `worker/wasm` with zig, and writes down what the planner must know.

Standard library only, and nothing of this folder: a wheel is built from an sdist with it too.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "worker" / "wasm"
HASHES = SOURCES / "kernels.sha256"
OUT = ROOT / "dist" / "wasm"
PAGE_BYTES = 1 << 16
MAX_PAGES = (1 << 16) - 1
MAX_WIDE_PAGES = 1 << 18
"""What browsers give a memory with 64-bit addresses: 16 GiB."""

_RELAXED = ["-mrelaxed-simd", "-DRELAXED"]
BUILDS: dict[str, list[str]] = {
    "kernels.wasm": ["-target", "wasm32-freestanding"],
    "kernels-relaxed.wasm": ["-target", "wasm32-freestanding", *_RELAXED],
    "kernels-relaxed64.wasm": ["-target", "wasm64-freestanding", *_RELAXED],
}
"""File name -> what its build adds; the last is for models of more than 4 GiB."""
_FEATURES = ["-msimd128", "-matomics", "-mbulk-memory"]
_COMPILE = ["-std=c11", "-O3", "-fno-builtin", "-ffp-contract=off", "-nostdlib"]
_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
_LINK = [
    *("--no-entry", "--import-memory", "--shared-memory", f"--max-memory={MAX_PAGES * PAGE_BYTES}"),
    *("-z", "stack-size=65536", "--export=__stack_pointer", "--export=__heap_base", "-s"),
]
_CONSTANT = re.compile(r"^    (\w+) = ([\d <]+),", re.MULTILINE)
_STRUCT = re.compile(r"^struct (\w+) \{[^\n]*\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_FIELDS = re.compile(r"^\s+(place|u32|f32|struct step) ([^;]+);", re.MULTILINE)


def build(out: Path = OUT) -> list[Path]:
    """Compiles what is older than its sources; gives the files, kernels.json among them."""
    out.mkdir(parents=True, exist_ok=True)
    files = [out / name for name in (*BUILDS, "kernels.json")]
    newest = max(path.stat().st_mtime for path in (Path(__file__), *_sources()))
    if all(path.exists() and path.stat().st_mtime > newest for path in files):
        return files
    for name, flags in BUILDS.items():
        _compile(out / name, flags)
    header = (SOURCES / "rushlight.h").read_text(encoding="utf-8")
    (out / "kernels.json").write_text(_table(describe(header)), "utf-8")
    return files


def describe(header: str) -> dict[str, Any]:
    """The kernels by id with their arguments, and the constants, as rushlight.h states them."""
    listed = re.search(r"#define KERNELS\(X\)(.*?)\n\n", header, re.DOTALL)
    assert listed, "rushlight.h has no KERNELS"
    fields = {
        name: [
            [field.strip(), kind]
            for kind, names in _FIELDS.findall(body)
            for field in names.split(",")
        ]
        for name, body in _STRUCT.findall(header)
    }
    names = re.findall(r"X\((\w+)\)", listed[1])
    enum = re.search(r"^enum \{(.*?)^\};", header, re.MULTILINE | re.DOTALL)
    assert enum, "rushlight.h has no constants"
    return {
        "kernels": {name: fields[f"{name}_args"] for name in names},
        "control": [name for name, _ in fields["control"] + fields["step"] if name != "step"],
        "constants": {name: _number(text) for name, text in _CONSTANT.findall(enum[1])},
    }


def _table(found: dict[str, Any]) -> str:
    """JSON with a line per entry, for people who compare two of them."""
    rows = {
        key: [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in part.items()]
        if isinstance(part, dict)
        else json.dumps(part)
        for key, part in found.items()
    }
    parts = [
        f' "{key}": ' + ("{\n  " + ",\n  ".join(row) + "\n }" if isinstance(row, list) else row)
        for key, row in rows.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def hashes(files: list[Path]) -> str:
    """The text of kernels.sha256 for these files."""
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in files]
    return "".join(lines)


def is_as_recorded(files: list[Path]) -> bool:
    """Whether the files built here are, byte for byte, the ones that kernels.sha256 names."""
    return HASHES.read_text(encoding="utf-8") == hashes(files)


def _sources() -> list[Path]:
    return sorted(path for path in SOURCES.rglob("*") if path.suffix in (".c", ".h"))


def _number(text: str) -> int:
    low, _, shift = text.partition("<<")
    return int(low) << int(shift or 0)


def _compile(target: Path, flags: list[str]) -> None:
    sources = [path.relative_to(SOURCES).as_posix() for path in _sources() if path.suffix == ".c"]
    temporary = target.with_suffix(".part")
    command = [sys.executable, "-m", "ziglang", "cc", *_FEATURES, *_COMPILE, *_WARNINGS, *flags]
    command += [f"-Wl,{','.join(_LINK)}", *sources, "-o", str(temporary)]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{target.name} did not compile:\n{done.stdout}{done.stderr}")
    if "wasm64-freestanding" in flags:
        temporary.write_bytes(_with_wide_limit(temporary.read_bytes()))
    temporary.replace(target)


def _with_wide_limit(wasm: bytes) -> bytes:
    """The module with room for MAX_WIDE_PAGES in its memory import: zig's option for that is a
    number of 32 bits. Both limits take three bytes."""
    start = wasm.index(b"\x03env\x06memory\x02")
    at = wasm.index(_leb128(MAX_PAGES), start)
    return wasm[:at] + _leb128(MAX_WIDE_PAGES) + wasm[at + 3 :]


def _leb128(n: int) -> bytes:
    return bytes([n & 127 | 128, n >> 7 & 127 | 128, n >> 14])
