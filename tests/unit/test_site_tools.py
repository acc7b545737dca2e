"""The site's policy, headers, offline list and compressed copies, as the build writes them."""

from __future__ import annotations

import ast
import base64
import gzip
import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest

from space.tools import compress, machine, offline, policy, site_builder, vendor, wheels

INDEX = machine.ROOT / "web" / "index.html"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built site in which a few bytes stand in for Pyodide."""
    stand_in = tmp_path / "stand-in.wasm"
    stand_in.write_bytes(b"\0asm" + bytes(4000))
    names = ("pyodide/pyodide.asm.wasm", "pyodide/micropip-1.whl", "vendor/x.LICENSE.txt")
    monkeypatch.setattr(vendor, "ensure_site_files", lambda: dict.fromkeys(names, stand_in))
    return tmp_path / "site"


def sources(csp: str, directive: str) -> list[str]:
    found = re.search(rf"{directive} ([^;]*)", csp)
    assert found
    return found[1].split()


def held_by(site: Path) -> dict[str, object]:
    """The constant SITE of the built service worker."""
    text = (site / "service_worker.js").read_text()
    start = text.index("const SITE = ") + len("const SITE = ")
    return dict(json.JSONDecoder().raw_decode(text, start)[0])


def test_the_policy_lets_no_inline_script_run_and_nothing_in() -> None:
    csp = policy.read_policy(INDEX)
    assert sources(csp, "default-src") == ["'none'"]
    assert sources(csp, "script-src") == ["'self'", "'wasm-unsafe-eval'"]
    assert not re.search(r"unsafe-inline|'unsafe-eval'|blob:| \*[ ;]", csp)
    page = INDEX.read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", page)


def test_hosts_narrow_the_policy() -> None:
    csp = policy.read_policy(INDEX)
    assert sources(policy.narrowed(csp, []), "connect-src") == ["'self'"]
    named = policy.narrowed(csp, ["huggingface.co", "http://localhost:8080", "*.example.org"])
    assert sources(named, "connect-src") == [
        *("'self'", "https://huggingface.co", "https://*.huggingface.co", "https://*.hf.co"),
        *("http://localhost:8080", "https://*.example.org"),
    ]
    rest = re.sub("connect-src [^;]*", "", named)
    assert rest == re.sub("connect-src [^;]*", "", csp)
    for bad in ("example.org; script-src *", "a b", "'unsafe-eval'", "https://x/path", ""):
        with pytest.raises(machine.BuildError, match="--model-host"):
            policy.narrowed(csp, [bad])


def test_one_policy_everywhere(site: Path) -> None:
    site_builder.build_site(site, model="https://models.example/a.gguf", model_hosts=[])
    csp = policy.read_policy(site / "index.html")
    assert sources(csp, "connect-src") == ["'self'", "https://models.example"]
    headers = (site / "_headers").read_text()
    assert f"  Content-Security-Policy: {csp}\n" in headers
    assert held_by(site)["policy"] == csp
    front = (machine.ROOT / "space" / "README.md").read_text().split("---")[1]
    for name, value in policy.ISOLATION.items():
        assert f"  {name}: {value}\n" in headers
        assert f"  {name.lower()}: {value}\n" in front


def test_the_offline_list_has_what_the_page_needs_by_hash(site: Path) -> None:
    (site.parent / "tiny.gguf").write_bytes(b"GGUF")
    site_builder.build_site(site, model=str(site.parent / "tiny.gguf"))
    files = held_by(site)["files"]
    assert isinstance(files, dict)
    for name, integrity in files.items():
        digest = hashlib.sha256((site / name).read_bytes()).digest()
        assert integrity == "sha256-" + base64.b64encode(digest).decode()
    served = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    left_out = {
        *("README.md", "_headers", ".nojekyll", "service_worker.js", "models/tiny.gguf"),
        *("pyodide/micropip-1.whl", "vendor/x.LICENSE.txt"),
    }
    assert {name for name in served - set(files) if not name.endswith(".png")} == left_out
    assert list(files)[-1] == "pyodide/pyodide.asm.wasm", "the largest comes last"


def test_the_version_follows_what_is_held(site: Path) -> None:
    versions = []
    for hosts in (None, None, ["example.org"]):
        site_builder.build_site(site, model="none", model_hosts=hosts)
        versions.append(held_by(site)["version"])
    assert versions[0] == versions[1] != versions[2]
    site_builder.build_site(site, model="none", is_isolating=True)
    assert held_by(site)["isIsolating"] is True
    meta = '<meta name="rushlight-isolation" content="service-worker">'
    assert meta in (site / "index.html").read_text()
    assert offline.precached({"a.js": "1"}) != offline.precached({"a.js": "2"})


def test_compressed_copies_hold_the_same_bytes_and_follow_changes(site: Path) -> None:
    site_builder.build_site(site, model="none", is_compressed=True)
    for name in ("index.html", "pyodide/pyodide.asm.wasm", "service_worker.js"):
        content = (site / name).read_bytes()
        assert gzip.decompress((site / f"{name}.gz").read_bytes()) == content
        node = machine.find_node()
        assert node
        code = (
            "const { brotliDecompressSync } = require('zlib');"
            "process.stdout.write(brotliDecompressSync("
            "require('fs').readFileSync(process.argv[1])))"
        )
        command = [node, "-e", code, str(site / f"{name}.br")]
        assert subprocess.run(command, capture_output=True, check=True).stdout == content
    assert not (site / "icons" / "rushlight-512.png.gz").exists()
    (site / "index.html").write_text("x" * 2000)
    compress.write_beside(site, ["index.html"])
    assert gzip.decompress((site / "index.html.gz").read_bytes()) == b"x" * 2000
    site_builder.build_site(site, model="none")
    assert not list(site.rglob("*.gz")) and not list(site.rglob("*.br"))


@pytest.mark.parametrize("folder", ["pyodide_pkg/rushlight", "space/tools"])
def test_sources_without_words_are_the_same_program_on_the_same_lines(folder: str) -> None:
    """The page's wheel carries no comments and no docstrings; nothing else may differ."""

    class Blank(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.Expr:
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                node.value = ast.Constant("")
            return node

    def program(source: bytes) -> tuple[str, list[int]]:
        tree = Blank().visit(ast.parse(source))
        lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        return ast.dump(tree), lines

    n_before = n_after = 0
    for path in sorted((machine.ROOT / folder).rglob("*.py")):
        source = path.read_bytes()
        lean = wheels.without_words(source)
        assert program(lean) == program(source), path
        n_before, n_after = n_before + len(source), n_after + len(lean)
    assert n_after < 0.9 * n_before
