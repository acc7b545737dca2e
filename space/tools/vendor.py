"""Fetches what the page needs and others made: Pyodide, its wheels, page libraries, a model.

`space/vendor.lock.json` lists every file with its sha256 and an ordered list of sources; a source
counts only if it gives those bytes. Files are kept in the cache, so later runs need no network.

A source is one of
    {"npm": NAME, "member": PATH}              a file in an npm package (version in "npm")
    {"pypi": "NAME==VERSION", "member": PATH}  a file in a wheel; without "member" the wheel itself
    {"pypi": ..., "repack": "pure"}            the wheel without its compiled parts
    {"join": [SOURCE, ...]}                    the sources' bytes, one after the other
    {"url": URL}
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import tarfile
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

from space.tools import machine, wheels
from space.tools.machine import ROOT, BuildError, say

LOCK = ROOT / "space" / "vendor.lock.json"
_CHUNK = 1 << 20
_URL_TIMEOUT_S = 60

Source = dict[str, Any]


def read_lock() -> dict[str, Any]:
    """The lock file."""
    lock: dict[str, Any] = json.loads(LOCK.read_text(encoding="utf-8"))
    return lock


def ensure_all() -> None:
    """Fetches everything that is not in the cache yet, the default model included."""
    ensure_site_files()
    ensure_types()
    ensure_npm("axe-core")
    ensure_default_model()


def ensure_site_files() -> dict[str, Path]:
    """The vendored files of the site: path in the site to path in the cache."""
    lock = read_lock()
    files = _ensure(lock["files"])
    files["pyodide/pyodide-lock.json"] = wheels.site_lock(files, machine.cache_dir())
    return files


def ensure_default_model() -> tuple[Path, str]:
    """The default model's file and its sha256."""
    name, entry = next(iter(read_lock()["models"].items()))
    return _ensure({name: entry})[name], entry["sha256"]


def ensure_types() -> Path:
    """Puts TypeScript declarations where the checker looks; gives the `tsc` script's path."""
    packages = read_lock()["npm"]
    for name, package in packages.items():
        if package.get("unpack") == "types":
            _refresh_copy(ensure_npm(name), ROOT / "node_modules" / name, package["version"])
    return ensure_npm("typescript") / "bin" / "tsc"


def ensure_npm(name: str) -> Path:
    """Folder of an npm package that the checks or the tests use; none of these reach the page."""
    lock = read_lock()
    version = lock["npm"][name]["version"]
    target = machine.cache_dir() / "npm" / f"{name.replace('/', '+')}-{version}"
    if not target.is_dir():
        with _Fetcher(lock) as fetcher:
            fetcher.unpack_npm(name, target)
    return target


def _refresh_copy(source: Path, target: Path, version: str) -> None:
    manifest = target / "package.json"
    if manifest.exists() and json.loads(manifest.read_text())["version"] == version:
        return
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _ensure(entries: dict[str, dict[str, Any]]) -> dict[str, Path]:
    """Cache paths of the entries, fetching the missing ones."""
    found = {name: _cache_path(name, entry["sha256"]) for name, entry in entries.items()}
    missing = [name for name, path in found.items() if not _is_verified(path, entries[name])]
    if missing:
        with _Fetcher(read_lock()) as fetcher:
            for name in missing:
                fetcher.fetch(name, entries[name], found[name])
    return found


def _cache_path(name: str, sha256: str) -> Path:
    return machine.cache_dir() / "files" / sha256[:16] / Path(name).name


def _is_verified(path: Path, entry: dict[str, Any]) -> bool:
    """Whether the file is there and is what the lock says; a large file is hashed only once."""
    if not path.is_file() or path.stat().st_size != entry["n_bytes"]:
        return False
    mark = path.with_name(path.name + ".verified")
    status = path.stat()
    seen = f"{entry['sha256']} {status.st_size} {status.st_mtime_ns}"
    if mark.is_file() and mark.read_text() == seen:
        return True
    if file_sha256(path) != entry["sha256"]:
        return False
    mark.write_text(seen)
    return True


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Fetcher:
    """Fetches files into the cache; keeps downloaded archives for its own lifetime only."""

    def __init__(self, lock: dict[str, Any]) -> None:
        self._npm = lock["npm"]
        parent = machine.cache_dir() / "tmp"
        parent.mkdir(exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(dir=parent))

    def __enter__(self) -> _Fetcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def fetch(self, name: str, entry: dict[str, Any], target: Path) -> None:
        """Writes `target` from the first source that gives the locked bytes."""
        target.parent.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"part-{target.name}"
        problems = []
        for source in entry["sources"]:
            say(f"fetching {name} ({_describe(source)})")
            try:
                part.unlink(missing_ok=True)
                self.write(source, part)
            except (BuildError, OSError, KeyError) as error:
                problems.append(f"{_describe(source)}: {error}")
                continue
            found = file_sha256(part)
            if found == entry["sha256"]:
                part.replace(target)
                return
            problems.append(f"{_describe(source)}: sha256 {found}, expected {entry['sha256']}")
        raise BuildError(f"could not fetch {name}\n    " + "\n    ".join(problems))

    def write(self, source: Source, target: Path) -> None:
        """Appends a source's bytes to `target`."""
        with target.open("ab") as out:
            if "join" in source:
                for piece in source["join"]:
                    out.flush()
                    self.write(piece, target)
            elif "npm" in source:
                with tarfile.open(self.npm_archive(source["npm"])) as archive:
                    member = archive.extractfile(source["member"])
                    assert member is not None, source
                    shutil.copyfileobj(member, out, _CHUNK)
            elif "url" in source:
                with urllib.request.urlopen(source["url"], timeout=_URL_TIMEOUT_S) as reply:
                    shutil.copyfileobj(reply, out, _CHUNK)
            else:
                self._write_pypi(source, out.name)

    def _write_pypi(self, source: Source, target: str) -> None:
        wheel = self.pypi_archive(source["pypi"])
        with Path(target).open("ab") as out:
            if "member" in source:
                with zipfile.ZipFile(wheel) as archive, archive.open(source["member"]) as member:
                    shutil.copyfileobj(member, out, _CHUNK)
            elif source.get("repack") == "pure":
                out.write(wheels.repack_pure(wheel))
            else:
                out.write(wheel.read_bytes())

    def npm_archive(self, name: str) -> Path:
        """The package's .tgz, checked against the lock's integrity."""
        package = self._npm[name]
        folder = self._folder / "npm" / name
        if not folder.is_dir():
            folder.mkdir(parents=True)
            self.npm_pack(f"{name}@{package['version']}", folder)
        archive = next(folder.glob("*.tgz"))
        integrity = npm_integrity(archive)
        if integrity != package["integrity"]:
            raise BuildError(f"npm package {name} has integrity {integrity}, not the locked one")
        return archive

    def npm_pack(self, spec: str, folder: Path) -> None:
        """Downloads an npm package's archive."""
        npm = machine.find_npm()
        if npm is None:
            raise BuildError("npm is missing; remove .venv and run this again to get it")
        command: list[str | Path] = [npm, "pack", "--silent", "--pack-destination", folder, spec]
        run_env = machine.node_env()
        machine.run_quiet(command, what=f"npm pack {spec}", cwd=folder, env=run_env)

    def pypi_archive(self, requirement: str) -> Path:
        """The wheel for CPython 3.12 on x86-64 Linux, whatever machine this is."""
        folder = self._folder / "pypi" / requirement
        if not folder.is_dir():
            folder.mkdir(parents=True)
            command: list[str | Path] = [machine.PYTHON, "-m", "pip", "download", "--quiet"]
            command += ["--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
            command += ["--only-binary", ":all:", "--implementation", "cp"]
            command += ["--python-version", "3.12", "--platform", "manylinux2014_x86_64"]
            command += ["--dest", folder, requirement]
            machine.run_quiet(command, what=f"pip download {requirement}")
        return next(folder.glob("*.whl"))

    def unpack_npm(self, name: str, target: Path) -> None:
        """Unpacks an npm package into a folder."""
        say(f"fetching {name} (npm)")
        folder = self._folder / "unpacked" / name
        with tarfile.open(self.npm_archive(name)) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(folder, filter="data")
            else:  # Python before 3.11.4; the archive's hash was checked above
                archive.extractall(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / "package").replace(target)


def npm_integrity(archive: Path) -> str:
    """An npm archive's hash as npm's own lock files write it."""
    digest = hashlib.sha512(archive.read_bytes()).digest()
    return "sha512-" + base64.b64encode(digest).decode()


def _describe(source: Source) -> str:
    if "join" in source:
        return f"{len(source['join'])} pieces from PyPI"
    if "npm" in source:
        return f"npm {source['npm']}"
    return str(source.get("url") or f"PyPI {source['pypi']}")


def relock() -> None:
    """Rewrites all hashes in the lock file from each file's first source.

    To move to another version: change it in the lock file, run this, and read the difference.
    """
    lock = read_lock()
    with _Fetcher(lock) as fetcher:
        for name, package in lock["npm"].items():
            folder = fetcher._folder / "npm" / name
            folder.mkdir(parents=True)
            fetcher.npm_pack(f"{name}@{package['version']}", folder)
            package["integrity"] = npm_integrity(next(folder.glob("*.tgz")))
        for name, entry in {**lock["files"], **lock["models"]}.items():
            say(f"hashing {name}")
            part = fetcher._folder / "relock"
            part.unlink(missing_ok=True)
            fetcher.write(entry["sources"][0], part)
            entry["sha256"], entry["n_bytes"] = file_sha256(part), part.stat().st_size
    LOCK.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    say(f"wrote {LOCK.relative_to(ROOT)}")
