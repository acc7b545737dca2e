"""Builds the wheel and the static site. Files are replaced only when their content changed."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from space.tools import compress, machine, offline, policy, vendor, wasm_builder, wheels
from space.tools.machine import ROOT, BuildError, say

# Hand-written files that help the developer and are no part of the page.
_NOT_SERVED_SUFFIXES = (".c", ".h", ".d.ts", ".md", ".pyc", ".sha256")
_NOT_SERVED_NAMES = {"package.json", "service_worker.js"}  # the last: made here
_NOT_SERVED_FOLDERS = {"types", "node_modules", "__pycache__", "vendor"}

# What people call the default model, and the terms that its weights come under.
_DEFAULT_ABOUT: dict[str, Any] = {
    "title": "Gemma 3 270M",
    "terms": {"name": "Gemma Terms of Use", "url": "https://ai.google.dev/gemma/terms"},
}


def build_wheel(out: Path) -> Path:
    """Builds the wheel into `out` and gives its path; an up-to-date one is left alone."""
    wheel = out / f"rushlight-{machine.project_version()}-py3-none-any.whl"
    sources = [ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"]
    folders = (ROOT / "pyodide_pkg" / "rushlight", ROOT / "shaders", ROOT / "worker" / "wasm")
    for folder in folders:
        sources += [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    if wheel.exists() and all(p.stat().st_mtime < wheel.stat().st_mtime for p in sources):
        return wheel
    python = machine.PYTHON if machine.PYTHON.exists() else Path(sys.executable)
    command: list[str | Path] = [python, "-m", "hatchling", "build", "-t", "wheel", "-d", out]
    machine.run_quiet(command, what="building the wheel")
    return wheel


def build_site(
    out: Path,
    *,
    model: str | None = None,
    model_hosts: Sequence[str] | None = None,
    is_isolating: bool = False,
    is_compressed: bool = False,
) -> Path:
    """Builds the whole site into `out`.

    `model` is a .gguf file, a URL, "none", or None for the default one. `model_hosts` are the only
    other hosts that the page may ask, with that of `model`; None leaves them open. With
    `is_isolating` the service worker adds the isolation headers. With `is_compressed` a .gz and a
    .br lie beside each file that shrinks.
    """
    wheel = _page_wheel(build_wheel(ROOT / "dist"))
    out.mkdir(parents=True, exist_ok=True)
    files = {name: ROOT / "space" / name for name in ("README.md", "models.json")}
    files |= _served_files(ROOT / "web", "")
    files |= _served_files(ROOT / "worker", "worker/")
    files |= vendor.ensure_site_files()
    files[f"wheels/{wheel.name}"] = wheel
    kernels = _kernel_files()
    files |= {entry["url"]: path for path, entry in kernels.values()}
    default_model, model_files = _model_entry(model)
    info = {
        "version": machine.project_version(),
        "wheel": f"wheels/{wheel.name}",
        "kernels": {build: entry for build, (_, entry) in kernels.items()},
        "default_model": default_model,
    }
    if model_hosts is not None and default_model and not model_files:
        model_hosts = [*model_hosts, "{0.scheme}://{0.netloc}".format(urlsplit(str(model)))]
    texts = {"site.json": json.dumps(info, indent=2) + "\n"}
    texts |= _made_texts(files, texts, model_hosts, is_isolating)
    for name, source in (files | model_files).items():
        if name not in texts:
            _place(source, out / name)
    for name, text in texts.items():
        write_if_changed(out / name, text)
    names = {*files, *texts}
    packed = compress.write_beside(out, names) if is_compressed else set()
    _remove_others(out, names | set(model_files) | packed)
    return out


def _made_texts(
    files: Mapping[str, Path],
    texts: Mapping[str, str],
    model_hosts: Sequence[str] | None,
    is_isolating: bool,
) -> dict[str, str]:
    """The site's texts that no file of the repository is: the index with its policy, and so on."""
    csp = policy.read_policy(files["index.html"])
    if model_hosts is not None:
        csp = policy.narrowed(csp, model_hosts)
    index = files["index.html"].read_text(encoding="utf-8")
    made = {"index.html": policy.filled_index(index, csp, is_isolating=is_isolating)}
    held = offline.precached({**files, **texts, **made})
    source = (ROOT / "web" / "service_worker.js").read_text(encoding="utf-8")
    made["service_worker.js"] = offline.service_worker(source, held, csp, is_isolating=is_isolating)
    # GitHub Pages leaves out what its own site builder would; this file keeps it from running.
    return made | {"_headers": policy.headers_file(csp), ".nojekyll": ""}


def _served_files(folder: Path, prefix: str) -> dict[str, Path]:
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_hidden = any(part.startswith(".") for part in inside.parts)
        is_kept_back = (
            bool(_NOT_SERVED_FOLDERS & set(inside.parts[:-1]))
            or path.name in _NOT_SERVED_NAMES
            or path.name.startswith("jsconfig.")
            or path.name.endswith(_NOT_SERVED_SUFFIXES)
        )
        if path.is_file() and not is_hidden and not is_kept_back:
            found[prefix + inside.as_posix()] = path
    return found


def _page_wheel(wheel: Path) -> Path:
    path = wheel.parent / "page" / wheel.name
    newest = max(source.stat().st_mtime for source in (wheel, Path(wheels.__file__)))
    if not path.exists() or path.stat().st_mtime < newest:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(wheels.page_wheel(wheel))
    return path


def _kernel_files() -> dict[str, tuple[Path, dict[str, str]]]:
    """The CPU kernels by build: the file, and its address and hash as site.json names them."""
    found = {}
    for path in wasm_builder.build():
        if path.suffix == ".wasm":
            build = path.stem.removeprefix("kernels").lstrip("-") or "simd"
            sha256 = vendor.file_sha256(path)
            found[build] = (path, {"url": f"kernels/{path.name}", "sha256": sha256})
    return found


def _model_entry(model: str | None) -> tuple[dict[str, Any] | None, dict[str, Path]]:
    """The model's line in site.json, and the file to put into the site, if it is a file."""
    if model == "none":
        return None, {}
    if model is not None and model.startswith(("http://", "https://")):
        name = Path(urlsplit(model).path).name
        return {"name": name, "url": model, "n_bytes": None, "sha256": None}, {}
    if model is None:
        path, sha256 = vendor.ensure_default_model()
    else:
        path = Path(model).resolve()
        if not path.is_file():
            raise BuildError(f"no model file {model}; give a .gguf file, a URL, or 'none'")
        say(f"hashing {path.name}")
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    url = f"models/{path.name}"
    n_bytes = path.stat().st_size
    entry = {"name": path.name, "url": url, "n_bytes": n_bytes, "sha256": sha256}
    return (entry | _DEFAULT_ABOUT if model is None else entry), {url: path}


def _place(source: Path, target: Path) -> None:
    """Makes `target` equal to `source`; large files are hard-linked where the disk allows."""
    if not source.is_file():
        raise BuildError(f"{source} is missing; the site cannot be built without it")
    if target.is_file():
        if target.samefile(source) or filecmp.cmp(source, target, shallow=True):
            return
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.stat().st_size > 1 << 20 and source.is_relative_to(machine.cache_dir()):
        try:
            os.link(source, target)
            return
        except OSError:
            pass  # another disk, or one without hard links: copy
    temporary = target.with_name(target.name + ".part")
    shutil.copy2(source, temporary)
    temporary.replace(target)


def _remove_others(out: Path, wanted: set[str]) -> None:
    for path in list(_files_under(out)):
        if path.relative_to(out).as_posix() not in wanted:
            path.unlink()
    for folder in sorted((p for p in out.rglob("*") if p.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def _files_under(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def write_if_changed(path: Path, text: str) -> None:
    """Writes a text file unless it already says exactly that."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")  # hashed as it stands
