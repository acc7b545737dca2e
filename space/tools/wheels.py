"""Wheels for Pyodide: pure repacks, and the lock file that names what the site carries."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
import tokenize
import zipfile
from pathlib import Path

# Packages the site carries, by their name in Pyodide's lock, and what each one imports as.
SITE_PACKAGES = ("numpy", "micropip", "packaging", "jinja2", "markupsafe")
_COMPILED_SUFFIXES = (".so", ".pyd", ".dylib", ".c")
_NOT_FOR_PAGES = (".wasm", ".md", "_native.py", "/native_timer.py", "/wgpu_adapter.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def repack_pure(wheel: Path) -> bytes:
    """A wheel without its compiled parts, tagged for any machine. Equal input, equal bytes.

    For packages whose compiled part is only a faster twin of a Python one.
    """
    members = _members_without(wheel, _COMPILED_SUFFIXES)
    tags = next(name for name in members if name.endswith(".dist-info/WHEEL"))
    members[tags] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    # Stored, not deflated: zlib versions differ, and the bytes must not.
    return _packed(members, zipfile.ZIP_STORED)


def page_wheel(wheel: Path) -> bytes:
    """Our own wheel as the site carries it: without what no page can use, to be fetched sooner.

    The page fetches the CPU kernels' modules itself; what runs outside browsers only, and what
    people read, stays out. Line numbers are those of the sources.
    """
    members = _members_without(wheel, _NOT_FOR_PAGES)
    kept = {
        name: without_words(data) if name.endswith(".py") else data
        for name, data in members.items()
        if "/cli/" not in name
    }
    return _packed(kept, zipfile.ZIP_DEFLATED)


def without_words(source: bytes) -> bytes:
    """Python source with its comments gone and its docstrings empty; the same lines otherwise."""
    text = source.decode()
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if not isinstance(node.value.value, str):
            continue
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        after = lines[last].encode()[node.end_col_offset or 0 :].decode()
        lines[first] = lines[first][: node.col_offset] + '""' + (after if first == last else "")
        lines[first + 1 : last + 1] = [""] * (last - first)
    return ("\n".join(lines) + "\n").encode()


def _members_without(wheel: Path, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in sorted(archive.namelist())
            if not name.endswith(("/", *suffixes))
        }


def _packed(members: dict[str, bytes], compression: int) -> bytes:
    record = next(name for name in members if name.endswith(".dist-info/RECORD"))
    members[record] = _record(members, record)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3  # Unix, wherever this runs
            info.external_attr = 0o644 << 16
            archive.writestr(info, content, compression)
    return out.getvalue()


def _record(members: dict[str, bytes], record: str) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for name, content in members.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            writer.writerow([name, f"sha256={digest.decode()}", len(content)])
    writer.writerow([record, "", ""])
    return out.getvalue().encode()


def site_lock(files: dict[str, Path], cache: Path) -> Path:
    """Writes the Pyodide lock that names only what the site carries; gives its path.

    With Pyodide's own lock, micropip would look for packages that are not on the site, and for
    the jinja2 that it names. Raises KeyError when a package has no file.
    """
    official_path = files["pyodide/pyodide-lock.json"]
    official = json.loads(official_path.read_text(encoding="utf-8"))
    packages = {}
    for name in SITE_PACKAGES:
        entry = official["packages"][name]
        wheel = _wheel_of(name, files)
        if entry["file_name"] != wheel.name:  # ours, newer and pure
            entry["file_name"], entry["version"] = wheel.name, wheel.name.split("-")[1]
            with wheel.open("rb") as file:
                entry["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        packages[name] = entry
    text = json.dumps({"info": official["info"], "packages": packages}, indent=1) + "\n"
    folder = cache / "files" / f"lock-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyodide-lock.json"
    if not path.exists():
        path.write_text(text, encoding="utf-8")
    return path


def _wheel_of(name: str, files: dict[str, Path]) -> Path:
    for path in files.values():
        if path.suffix == ".whl" and path.name.split("-")[0].lower() == name:
            return path
    raise KeyError(f"no wheel for {name} in space/vendor.lock.json")
