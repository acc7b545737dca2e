"""Compressed copies beside the site's files, for servers that send those (`gzip_static` and such).

A copy is made again only if its file has changed. Brotli is node's: Python has none of its own.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

from space.tools import machine
from space.tools.machine import BuildError, say

_SUFFIXES = {".html", ".css", ".js", ".mjs", ".json", ".svg", ".wasm", ".wgsl", ".webmanifest"}
_MIN_BYTES = 1 << 10
_BROTLI = """
const { readFileSync, writeFileSync } = require("fs");
const { brotliCompressSync, constants } = require("zlib");
for (const name of process.argv.slice(1)) {
  const bytes = readFileSync(name);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  writeFileSync(name + ".br", brotliCompressSync(bytes, { params }));
}
"""


def write_beside(out: Path, names: Iterable[str]) -> set[str]:
    """Writes NAME.gz and NAME.br for each text and WebAssembly file; gives the names written."""
    wanted = [name for name in sorted(names) if _is_worth_it(out / name)]
    stale = [out / name for name in wanted if _is_stale(out / name)]
    for path in stale:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    if stale:
        say(f"compressing {len(stale)} files")
        node = machine.find_node()
        if node is None:
            raise BuildError("--compress needs node; remove .venv and run this again to get it")
        machine.run_quiet([node, "-e", _BROTLI, *stale], what="brotli")
    return {name + suffix for name in wanted for suffix in (".gz", ".br")}


def _is_worth_it(path: Path) -> bool:
    return path.suffix in _SUFFIXES and path.stat().st_size >= _MIN_BYTES


def _is_stale(path: Path) -> bool:
    """Whether a copy is missing or another file's: dates do not tell, as copies keep theirs."""
    packed = path.with_name(path.name + ".gz")
    if not packed.exists() or not path.with_name(path.name + ".br").exists():
        return True
    return gzip.decompress(packed.read_bytes()) != path.read_bytes()
