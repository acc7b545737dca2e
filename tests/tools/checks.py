"""What `build.py check` runs. Each check prints its findings; all run before the verdict."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from space.tools import machine, vendor, wasm_builder
from space.tools.machine import PYTHON, ROOT, say

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50
MAX_LINES = {".py": MAX_MODULE_LINES, ".wgsl": 150, ".js": 300, ".c": 400}

PYTHON_FOLDERS = ("build.py", "pyodide_pkg", "space", "tests")
# Folders of the checkout that are not ours to check; git's ignore rules name the same ones.
_SKIPPED = {".git", ".venv", "dist", "build", "node_modules", "__pycache__"}
_TEXT_SUFFIXES = (
    *(".py", ".js", ".ts", ".wgsl", ".c", ".h", ".md", ".txt", ".json", ".toml"),
    *(".yml", ".yaml", ".html", ".css", ".svg"),
)

# Addresses and folders that only one machine knows; written in pieces so that this file passes.
FORBIDDEN = tuple(
    "".join(pieces)
    for pieces in (
        ("registry.", "npmjs"),
        ("registry.", "yarnpkg"),
        ("pythonhosted", ".org"),
        ("pypi.org", "/simple"),
        ("/wo", "rk/"),
        ("/opt/", "wheels"),
        ("/opt/", "pypi"),
    )
)


def run_all(*, is_fixing: bool = False) -> int:
    """Runs every check; gives 1 if any failed."""
    fix = ["--fix"] if is_fixing else []
    style = [] if is_fixing else ["--check"]
    ruff: list[str | Path] = [PYTHON, "-m", "ruff"]
    checks: list[tuple[str, Callable[[], int]]] = [
        ("lint", lambda: machine.run([*ruff, "check", "--quiet", *fix, *PYTHON_FOLDERS])),
        ("format", lambda: machine.run([*ruff, "format", "--quiet", *style, *PYTHON_FOLDERS])),
        ("types", lambda: machine.run([PYTHON, "-m", "mypy", "pyodide_pkg/rushlight"])),
        ("types of build.py", lambda: machine.run([PYTHON, "-m", "mypy", "build.py"])),
        ("JavaScript types", check_javascript),
        ("budgets", lambda: report(over_budget())),
        ("machine-bound words", lambda: report(forbidden_words())),
        ("duplicates", lambda: report(duplicate_files())),
        ("generated files", check_generated),
        ("kernels", check_kernels),
    ]
    failed = []
    for name, check in checks:
        say(f"check: {name}")
        if check() != 0:
            failed.append(name)
    if failed:
        say(f"check failed: {', '.join(failed)}")
    return 1 if failed else 0


def report(findings: Iterable[str]) -> int:
    """Prints findings; gives 1 if there are any."""
    found = list(findings)
    for line in found:
        print(f"  {line}", flush=True)
    return 1 if found else 0


def project_files() -> list[Path]:
    """The files that are part of the project: those that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        names = done.stdout.split("\0") if done.returncode == 0 else []
    except OSError:  # no git on this machine
        names = []
    if names:
        return sorted(path for name in names if name and (path := ROOT / name).is_file())
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not _SKIPPED & set(path.relative_to(ROOT).parts)
    )


def check_javascript() -> int:
    """Type-checks the page and the worker by their JSDoc."""
    configs = [ROOT / "web" / "jsconfig.json", ROOT / "web" / "jsconfig.service_worker.json"]
    configs.append(ROOT / "worker" / "jsconfig.json")
    node = machine.find_node()
    if node is None:
        return report(["node is missing; remove .venv and run this again to get it"])
    tsc = vendor.ensure_types()
    codes = [machine.run([node, tsc, "--noEmit", "-p", path]) for path in configs if path.exists()]
    return max(codes, default=0)


def check_kernels() -> int:
    """Builds the CPU kernels from nothing and compares them with the recorded hashes."""
    with tempfile.TemporaryDirectory() as folder:
        files = wasm_builder.build(Path(folder))
        if wasm_builder.is_as_recorded(files):
            return 0
    return report(["worker/wasm/kernels.sha256 is stale: run `python build.py wasm`"])


def over_budget() -> list[str]:
    """Files and functions that are longer than their budget."""
    found = []
    for path in project_files():
        limit = MAX_LINES.get(path.suffix)
        if limit is None:
            continue
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT)
        n_lines = text.count("\n")
        if n_lines > limit:
            found.append(f"{name}: {n_lines} lines, budget {limit}")
        if path.suffix == ".py":
            found += [f"{name}:{line}" for line in _long_functions(text)]
    return found


def _long_functions(text: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0]
        has_docstring = ast.get_docstring(node, clean=False) is not None
        n_docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
        n_lines = (node.end_lineno or 0) - node.lineno + 1 - n_docstring
        if n_lines > MAX_FUNCTION_LINES:
            found.append(
                f"{node.lineno}: {node.name} has {n_lines} lines, budget {MAX_FUNCTION_LINES}"
            )
    return found


def forbidden_words() -> list[str]:
    """Lines that name a package registry's host or a folder of one machine."""
    found = []
    for path in project_files():
        if path.suffix not in _TEXT_SUFFIXES and path.suffix:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if not any(word in text for word in FORBIDDEN):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            found += [
                f"{path.relative_to(ROOT)}:{number}: {word}" for word in FORBIDDEN if word in line
            ]
    return found


def duplicate_files() -> list[str]:
    """Files with the same content as another one."""
    seen: dict[str, Path] = {}
    found = []
    for path in project_files():
        content = path.read_bytes()
        if len(content) < 64:  # empty __init__.py and the like
            continue
        digest = hashlib.sha256(content).hexdigest()
        if digest in seen:
            pair = (path.relative_to(ROOT), seen[digest].relative_to(ROOT))
            found.append(f"{pair[0]} is the same as {pair[1]}")
        seen.setdefault(digest, path)
    return found


def check_generated() -> int:
    """Compares the generated documents with what their registries say now."""
    if not (ROOT / "tests" / "tools" / "docs.py").exists():
        return 0
    return machine.run([PYTHON, "-m", "tests.tools.docs", "--check"])
