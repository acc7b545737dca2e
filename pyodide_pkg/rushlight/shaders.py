"""WGSL: find the files, link imports, write the prelude, pack uniforms, map errors back.

A shader file is plain WGSL with four kinds of comment that this module reads::

    //! const D4: u32 = 16u            a constant that a plan may set; the default stands here
    //! needs subgroups                a feature of device or language that the file uses
    // import lib/step.wgsl            that file's text, once
    // import lib/dot4.wgsl as WQ      that file's text with its prefix ``W_`` spelled ``WQ_``
    // import quant as W               a file that the kernel's key chooses (``KernelKey.imports``)

Nothing else is generated but directives and the constants.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import ShaderCompileError
from .plan.plan import KernelKey

IMPORT = re.compile(r"^// import (?P<what>[\w./]+)(?: as (?P<prefix>\w+))?\s*$")
CONST = re.compile(r"^//! const (?P<name>\w+): (?P<type>\w+) = (?P<value>\S+)\s*$")
NEEDS = re.compile(r"^//! needs (?P<feature>[\w-]+)\s*$")
OVERRIDE = re.compile(r"^\s*override (\w+)\s*:", re.MULTILINE)
FIELD = re.compile(r"(\w+)\s*:\s*(u32|i32|f32)\s*,?")
POSITION = re.compile(r"(?:wgsl)?:(\d+):(\d+)")
FILE_PREFIX = re.compile(r"\bW_")
SCALARS = {"u32": "I", "i32": "i", "f32": "f"}
DIRECTIVES = {
    "shader-f16": "enable f16;",
    "subgroups": "enable subgroups;",
    "packed_4x8_integer_dot_product": "requires packed_4x8_integer_dot_product;",
}
"""How a shader that needs a feature begins."""


@dataclass(frozen=True)
class LinkedShader:
    """A shader ready for the driver, and where each of its lines comes from."""

    file: str
    code: str
    constants: dict[str, float]
    features: frozenset[str]
    line_map: tuple[tuple[str, int], ...]
    """(file, line) of each line of ``code``; line 0 is generated text."""

    def locate(self, line: int) -> str:
        """``file:line`` in our sources for a 1-based line of ``code``."""
        if not 0 < line <= len(self.line_map):
            return f"{self.file}.wgsl:?"
        file, number = self.line_map[line - 1]
        return f"{file}:{number}"

    def map_error(self, text: str) -> str:
        """A driver's message with its ``:line:column`` positions spelled in our files."""
        return POSITION.sub(lambda m: f"{self.locate(int(m[1]))}:{m[2]}", text)


def shader_root() -> Path:
    """The folder of WGSL files: inside the installed package, else beside it in the repository."""
    here = Path(__file__).resolve().parent
    for root in (here / "shaders", here.parents[1] / "shaders"):
        if root.is_dir():
            return root
    raise ShaderCompileError(
        "The shaders folder is missing from this installation.",
        hint="Install rushlight again from its wheel.",
    )


@cache
def has_shader(path: str) -> bool:
    """Whether a file lies below ``shader_root``."""
    return (shader_root() / path).is_file()


@cache
def read_shader(path: str) -> str:
    """Text of a file below ``shader_root``, by its path with suffix."""
    if not has_shader(path):
        raise ShaderCompileError(f"There is no shader file {path!r}.")
    return (shader_root() / path).read_text(encoding="utf-8")


class _Linker:
    def __init__(self, key: KernelKey) -> None:
        self.key = key
        self.chosen = dict(key.imports)
        self.seen: set[tuple[str, str]] = set()
        self.used: set[str] = set()
        self.lines: list[str] = []
        self.map: list[tuple[str, int]] = []
        self.consts: dict[str, tuple[str, str]] = {}
        self.features: set[str] = set()

    def add(self, path: str, prefix: str) -> None:
        """Append a file's lines, following its imports."""
        if (path, prefix) in self.seen:
            return
        self.seen.add((path, prefix))
        for number, line in enumerate(read_shader(path).splitlines(), 1):
            if found := IMPORT.match(line):
                self.follow(path, number, found["what"], found["prefix"] or "")
                continue
            if found := CONST.match(line):
                self.consts[found["name"]] = (found["type"], found["value"])
                continue
            if found := NEEDS.match(line):
                self.features.add(found["feature"])
                continue
            self.lines.append(FILE_PREFIX.sub(f"{prefix}_", line) if prefix else line)
            self.map.append((path, number))

    def follow(self, path: str, number: int, what: str, prefix: str) -> None:
        if what.endswith(".wgsl"):
            self.add(what, prefix)
            return
        if prefix not in self.chosen:
            raise ShaderCompileError(
                f"{path}:{number} imports {what!r} as {prefix}, which the kernel does not choose."
            )
        self.used.add(prefix)
        self.add(f"{self.chosen[prefix]}.wgsl", prefix)


@cache
def link(key: KernelKey, implied: frozenset[str] = frozenset()) -> LinkedShader:
    """The whole text of a kernel.

    ``implied``: features whose directive the driver's compiler rejects, though it accepts
    what it allows.

    Raises ShaderCompileError for a file that does not exist, a choice the file does not offer
    (import, constant, override), or one that it needs and the key does not make.
    """
    linker = _Linker(key)
    linker.add(f"{key.file}.wgsl", "")
    given = dict(key.consts)
    unknown = [f"import {p}" for p in linker.chosen if p not in linker.used] + [
        f"const {n}" for n in given if n not in linker.consts
    ]
    body = "\n".join(linker.lines)
    overrides = set(OVERRIDE.findall(body))
    unknown += [f"override {n}" for n, _ in key.overrides if n not in overrides]
    if unknown:
        raise ShaderCompileError(f"{key.file}.wgsl has no {', no '.join(unknown)}.")
    prelude = [DIRECTIVES[f] for f in sorted(linker.features - implied)]
    prelude += [
        f"const {name}: {kind} = {given.get(name, value)};"
        for name, (kind, value) in linker.consts.items()
    ]
    line_map = tuple([("prelude", 0)] * len(prelude) + linker.map)
    code = "\n".join([*prelude, body, ""])
    features = frozenset(linker.features)
    return LinkedShader(key.file, code, dict(key.overrides), features, line_map)


def struct_fields(code: str, name: str) -> tuple[tuple[str, str], ...]:
    """(field, scalar type) of a WGSL struct of scalars; empty if there is none of that name."""
    found = re.search(rf"struct {name}\s*\{{([^}}]*)\}}", code)
    return tuple(FIELD.findall(found[1])) if found else ()


def pack_params(key: KernelKey, values: Mapping[str, float]) -> bytes:
    """The bytes of the shader's ``struct Params``, filled by name, padded to 16.

    Raises ShaderCompileError when the names are not exactly those of the struct.
    """
    fields = struct_fields(link(key).code, "Params")
    names = [name for name, _ in fields]
    if set(names) != set(values):
        raise ShaderCompileError(
            f"{key.file}.wgsl has Params {sorted(names)}, but the plan gives {sorted(values)}."
        )
    packed = b"".join(
        struct.pack("<" + SCALARS[kind], values[name] if kind == "f32" else int(values[name]))
        for name, kind in fields
    )
    return packed + bytes(-len(packed) % 16)


def binding_modes(code: str) -> tuple[str, ...]:
    """``read``, ``read_write`` or ``uniform`` of each ``@binding``, in order."""
    found = re.findall(r"@binding\((\d+)\)\s*var<(?:storage,\s*)?(\w+)>", code)
    return tuple(mode for _, mode in sorted(found, key=lambda item: int(item[0])))
