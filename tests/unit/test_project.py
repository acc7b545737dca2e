"""Rules of the project that no tool knows: packaging, the seams between parts, the site."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import re
import sys
import zipfile
from pathlib import Path

import pytest

from space.tools import machine, site_builder, vendor, wheels
from tests.tools import checks

PACKAGE = machine.ROOT / "pyodide_pkg" / "rushlight"

# The only modules that may know they run in a browser.
BROWSER_MODULES = {
    "browser.py",
    "backends/simd_browser.py",
    "backends/webgpu_browser.py",
    "gguf/fetch_source.py",
}
PLATFORM_MODULES = {"backends/auto.py"}


def package_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported_roots(path: Path) -> set[str]:
    roots = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            roots.add(node.module.split(".")[0])
    return roots


def test_only_the_browser_seam_imports_pyodide() -> None:
    for path in package_files():
        if path.relative_to(PACKAGE).as_posix() not in BROWSER_MODULES:
            found = imported_roots(path) & {"js", "pyodide", "pyodide_js"}
            assert not found, f"{path.relative_to(PACKAGE)} imports {found}"


def test_only_auto_asks_for_the_platform() -> None:
    for path in package_files():
        if path.relative_to(PACKAGE).as_posix() not in PLATFORM_MODULES:
            assert "emscripten" not in path.read_text(encoding="utf-8"), path


def test_the_core_needs_only_its_declared_packages() -> None:
    optional = {"wasmtime", "wgpu", "typer", "rich", "click", "js", "pyodide", "pyodide_js"}
    allowed = {*sys.stdlib_module_names, "rushlight", "numpy", "jinja2", "markupsafe", *optional}
    for path in package_files():
        unknown = imported_roots(path) - allowed
        assert not unknown, f"{path.relative_to(PACKAGE)} imports {unknown}"


def test_worker_holds_no_python_text() -> None:
    for path in (machine.ROOT / "worker").rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"runPython(Async)?\s*\(", text), path


def test_page_never_writes_unclean_html() -> None:
    for path in (machine.ROOT / "web").rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(inner|outer)HTML\b|insertAdjacentHTML|document\.write", text), (
            path
        )


def test_public_names_exist() -> None:
    import rushlight

    assert 0 < len(rushlight.__all__) <= 20
    assert len(set(rushlight.__all__)) == len(rushlight.__all__)
    for name in rushlight.__all__:
        assert hasattr(rushlight, name), name


def test_changelog_has_this_version() -> None:
    text = (machine.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{machine.project_version()}]" in text


def test_readme_opens_with_the_two_commands() -> None:
    text = (machine.ROOT / "README.md").read_text(encoding="utf-8")
    first_block = text.split("```")[1]
    commands = [line for line in first_block.splitlines() if line.startswith("python build.py")]
    assert [line.split("#")[0].strip() for line in commands] == [
        "python build.py serve",
        "python build.py test",
    ]


def test_links_between_documents_lead_somewhere() -> None:
    for path in checks.project_files():
        if path.suffix != ".md":
            continue
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                assert (path.parent / target).exists(), f"{path.name} links to {target}"


# --- packaging and the site --------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel() -> Path:
    return site_builder.build_wheel(machine.ROOT / "dist")


def test_wheel_is_pure_and_carries_every_shader(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(n for n in names if n.endswith("/METADATA"))
        text = archive.read(metadata).decode()
    for path in (machine.ROOT / "shaders").rglob("*.wgsl"):
        inside = path.relative_to(machine.ROOT / "shaders").as_posix()
        assert f"rushlight/shaders/{inside}" in names
    needed = [line for line in text.splitlines() if line.startswith("Requires-Dist:")]
    core = {re.split(r"[^\w-]", line.split()[1])[0] for line in needed if "extra ==" not in line}
    assert core == {"numpy", "jinja2"}


def test_page_stays_within_its_budget(tmp_path: Path) -> None:
    """600 KB compressed for all of ours that a page fetches: it takes one build of the kernels."""
    site = site_builder.build_site(tmp_path / "site", model="none")
    info = json.loads((site / "site.json").read_text())
    kernels = {site / entry["url"] for entry in info["kernels"].values()}
    others = {"pyodide", "vendor", "kernels", "README.md", "_headers"}
    ours = [
        path
        for path in site.rglob("*")
        if path.is_file() and path.relative_to(site).parts[0] not in others
        if path.suffix != ".png"  # for who installs the page
    ]
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in [*ours, *kernels]}
    kernel_sizes = [sizes.pop(path.name) for path in kernels]
    total = sum(sizes.values()) + max(kernel_sizes)
    assert total < 600_000, sorted(sizes.items(), key=lambda item: -item[1])[:8]


def test_site_names_its_kernels_by_hash(tmp_path: Path) -> None:
    site = site_builder.build_site(tmp_path / "site", model="none")
    kernels = json.loads((site / "site.json").read_text())["kernels"]
    assert set(kernels) == {"simd", "relaxed", "relaxed64"}
    for entry in kernels.values():
        content = (site / entry["url"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    (wheel,) = (site / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "rushlight/wasm/kernels.json" in names
    assert not [name for name in names if name.endswith(".wasm")]  # the page has its own


def test_vendor_lock_pins_everything() -> None:
    lock = vendor.read_lock()
    for name, entry in {**lock["files"], **lock["models"]}.items():
        assert re.fullmatch(r"[0-9a-f]{64}", entry["sha256"]), name
        assert entry["n_bytes"] > 0, name
        assert entry["sources"], name
    for name, package in lock["npm"].items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"]), name
        assert package["integrity"].startswith("sha512-"), name
    for path in machine.LOCKS.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert "://" not in text, f"{path.name} names a host"
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins and all("==" in line for line in pins), path.name


def test_pure_repack_is_the_same_every_time(tmp_path: Path) -> None:
    source = tmp_path / "thing-1.0-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("thing/__init__.py", "x = 1\n")
        archive.writestr("thing/_fast.cpython-312-x86_64-linux-gnu.so", b"\x7fELF")
        archive.writestr("thing-1.0.dist-info/METADATA", "Name: thing\nVersion: 1.0\n")
        archive.writestr("thing-1.0.dist-info/WHEEL", "Root-Is-Purelib: false\n")
        archive.writestr("thing-1.0.dist-info/RECORD", "")
    first, second = wheels.repack_pure(source), wheels.repack_pure(source)
    assert first == second
    repacked = tmp_path / "thing-1.0-py3-none-any.whl"
    repacked.write_bytes(first)
    with zipfile.ZipFile(repacked) as archive:
        names = archive.namelist()
        record = archive.read("thing-1.0.dist-info/RECORD").decode()
        assert b"Tag: py3-none-any" in archive.read("thing-1.0.dist-info/WHEEL")
    assert not [name for name in names if name.endswith(".so")]
    assert len(record.splitlines()) == len(names)


def test_site_is_complete_and_incremental(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "numpy.whl"
    fake.write_bytes(b"not really")
    monkeypatch.setattr(vendor, "ensure_site_files", lambda: {"pyodide/numpy.whl": fake})
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF" + bytes(60))
    out = site_builder.build_site(tmp_path / "site", model=str(model))
    info = json.loads((out / "site.json").read_text())
    assert (out / info["wheel"]).is_file()
    assert info["version"] == machine.project_version()
    assert info["default_model"] == {
        "name": "tiny.gguf",
        "url": "models/tiny.gguf",
        "n_bytes": 64,
        "sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
    }
    assert (out / "index.html").is_file() and (out / "worker" / "protocol.js").is_file()
    assert not (out / "jsconfig.json").exists()

    (out / "left-over.js").write_text("old")
    before = (out / "index.html").stat().st_mtime_ns
    site_builder.build_site(out, model="https://example.org/path/other.gguf")
    info = json.loads((out / "site.json").read_text())
    assert info["default_model"]["url"] == "https://example.org/path/other.gguf"
    assert not (out / "left-over.js").exists() and not (out / "models").exists()
    assert (out / "index.html").stat().st_mtime_ns == before


def test_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(machine.BuildError, match=r"no model file .*nowhere\.gguf"):
        site_builder.build_site(tmp_path / "site", model=str(tmp_path / "nowhere.gguf"))
