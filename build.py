#!/usr/bin/env python3
"""The task runner. `python build.py` lists the tasks; each has --help.

Standard library only (Python 3.11 or newer). Tasks that need more make `.venv` first and carry on
inside it, so these are the first commands on a fresh machine:

    python build.py serve     chat in the browser
    python build.py test      check everything
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python must be told so
    sys.exit(f"Rushlight needs Python 3.11 or newer; this is {sys.version.split()[0]}")

from space.tools import machine
from space.tools.machine import PYTHON, ROOT, BuildError, say

DIST = ROOT / "dist"
TEST_GROUPS = ("unit", "backend", "model", "browser")


def task_setup(args: argparse.Namespace) -> int:
    """Make .venv, install system parts, fetch the page's libraries and the default model."""
    from space.tools import vendor

    machine.ensure_system_parts()
    if args.relock:
        vendor.relock()
    vendor.ensure_all()
    say("ready")
    return 0


def task_wheel(args: argparse.Namespace) -> int:
    """Build dist/rushlight-<version>-py3-none-any.whl, shaders and kernels included."""
    from space.tools import site_builder

    say(f"wrote {site_builder.build_wheel(DIST).relative_to(ROOT)}")
    return 0


def task_wasm(args: argparse.Namespace) -> int:
    """Build the CPU kernels into dist/wasm, and record the hashes that `check` compares."""
    from space.tools import wasm_builder

    files = wasm_builder.build()
    wasm_builder.HASHES.write_text(wasm_builder.hashes(files), encoding="utf-8", newline="\n")
    say(f"kernels are in {os.path.relpath(wasm_builder.OUT)}")
    return 0


def task_site(args: argparse.Namespace) -> int:
    """Build the static site: page, worker, Pyodide, wheel and model, ready for any web host."""
    from space.tools import site_builder

    out = Path(args.out).resolve()
    site_builder.build_site(
        out,
        model=args.model,
        model_hosts=args.model_host,
        is_isolating=args.isolation,
        is_compressed=args.compress,
    )
    say(f"site is in {os.path.relpath(out)}")
    if not args.check:
        return 0
    machine.ensure_system_parts()
    return _forward("tests.tools.site_check", [str(out)])


def task_serve(args: argparse.Namespace) -> int:
    """Build the site (only what changed) and serve it on this machine."""
    from space.tools import site_builder
    from space.tools.server import SiteServer, free_port

    if args.port and not 0 < args.port < 65536:
        raise BuildError(f"--port {args.port}: a port is a number from 1 to 65535")
    site_builder.build_site(DIST / "site", model=args.model)
    port = args.port or free_port()
    try:
        server = SiteServer(DIST / "site", port=port, is_isolated=not args.no_isolation)
    except OSError as error:
        hint = "leave out --port for the next free one"
        raise BuildError(f"--port {port}: {error.strerror or error}; {hint}") from error
    print(f"\n    Rushlight is at  {server.url}\n\n    Ctrl-C stops it.\n", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("stopped")
    finally:
        server.close()
    return 0


def task_check(args: argparse.Namespace) -> int:
    """Lint, format, types, JavaScript types, size budgets, stale generated files."""
    from tests.tools import checks

    return checks.run_all(is_fixing=args.fix)


def task_test(args: argparse.Namespace) -> int:
    """Run `check`, then the tests: all groups, or the ones named."""
    from space.tools import wasm_builder

    wasm_builder.build()
    groups = args.group or list(TEST_GROUPS)
    missing = machine.ensure_system_parts() if {"backend", "model", "browser"} & set(groups) else []
    if missing and os.environ.get("CI"):
        raise BuildError(f"under CI every part must be there; missing: {', '.join(missing)}")
    failed_check = 0
    if not args.no_check:
        failed_check = task_check(argparse.Namespace(fix=False))
    folders = [ROOT / "tests" / group for group in groups]
    command: list[str | Path] = [PYTHON, "-m", "pytest", *(f for f in folders if f.is_dir())]
    if args.k:
        command += ["-k", args.k]
    if args.quick:
        command += ["-m", "not slow"]
    if os.environ.get("CI"):
        command += ["--durations=40", "--durations-min=3"]
    failed_tests = machine.run([*command, *args.pytest], env={"PYTHONUNBUFFERED": "1"})
    if failed_check:
        say("check failed; its findings are above the tests")
    return failed_tests or failed_check


def run_parity(args: argparse.Namespace) -> int:
    """Compare every backend, the browser's included, with reference data; print one table."""
    machine.ensure_system_parts()
    return _forward("tests.tools.parity_all", args.rest)


def run_bench(args: argparse.Namespace) -> int:
    """Measure every backend and the page in Chromium; --kernels times each op case instead."""
    machine.ensure_system_parts()
    return _forward("tests.tools.bench_all", args.rest)


def _forward(module: str, arguments: list[str]) -> int:
    if not (ROOT / Path(*module.split("."))).with_suffix(".py").exists():
        raise BuildError(f"{module} is not in this tree yet")
    path = os.pathsep.join([str(ROOT), str(ROOT / "pyodide_pkg")])
    return machine.run([PYTHON, "-m", module, *arguments], env={"PYTHONPATH": path})


def task_clean(args: argparse.Namespace) -> int:
    """Remove what was built here; --all also removes .venv and the cache of fetched files."""
    folders = [DIST, ROOT / "build", ROOT / "node_modules", ROOT / "web" / "vendor"]
    folders += [ROOT / name for name in (".mypy_cache", ".pytest_cache", ".ruff_cache")]
    if args.all:
        folders += [machine.VENV, machine.cache_dir()]
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)
            say(f"removed {folder}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python build.py",
        description="Rushlight's task runner.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = parser.add_subparsers(title="tasks", dest="task", metavar="TASK")

    def add(name: str, function: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        text = (function.__doc__ or "").strip()
        task = tasks.add_parser(name, help=text, description=text)
        task.set_defaults(function=function, rest=[])
        return task

    model_help = "a .gguf file, a URL, or 'none' (default: Gemma 3 270M)"
    serve = add("serve", task_serve)
    serve.add_argument("--port", type=int, default=0, help="default: 8000, or the next free one")
    serve.add_argument("--model", metavar="FILE|URL", help=model_help)
    serve.add_argument(
        "--no-isolation", action="store_true", help="leave out the COOP and COEP headers"
    )
    test = add("test", task_test)
    test.add_argument("group", nargs="*", help=f"of {', '.join(TEST_GROUPS)} (default: all)")
    test.add_argument("-k", metavar="WORDS", help="only tests whose name matches (as in pytest)")
    test.add_argument("--quick", action="store_true", help="leave out the slow tests")
    test.add_argument("--no-check", action="store_true", help="leave out `check`")
    test.add_argument(
        "--pytest", nargs=argparse.REMAINDER, default=[], help="everything after goes to pytest"
    )
    check = add("check", task_check)
    check.add_argument("--fix", action="store_true", help="let ruff put right what it can")
    add("wheel", task_wheel)
    add("wasm", task_wasm)
    _add_site_options(add("site", task_site), model_help)
    add("parity", run_parity).epilog = "Options after the task go to tests/tools/parity_all.py."
    add("bench", run_bench).epilog = "Options after the task go to tests/tools/bench_all.py."
    setup = add("setup", task_setup)
    setup.add_argument(
        "--relock", action="store_true", help="rewrite the hashes in space/vendor.lock.json"
    )
    add("clean", task_clean).add_argument("--all", action="store_true", help=".venv and cache too")
    return parser


def _add_site_options(site: argparse.ArgumentParser, model_help: str) -> None:
    site.add_argument("--model", metavar="FILE|URL", help=model_help)
    site.add_argument("--out", metavar="DIR", default=str(DIST / "site"), help="default: dist/site")
    site.add_argument(
        "--model-host",
        metavar="HOST",
        nargs="*",
        help="the only other hosts the page may ask; none named: this site alone (default: any)",
    )
    site.add_argument(
        "--isolation",
        action="store_true",
        help="the service worker adds COOP and COEP, for CPU threads where the host does not",
    )
    site.add_argument(
        "--compress", action="store_true", help="a .gz and a .br beside each file that shrinks"
    )
    site.add_argument(
        "--check",
        action="store_true",
        help="then open it in Chromium as a plain host would serve it",
    )


def parse(argv: list[str]) -> argparse.Namespace | None:
    """The parsed command line; None when no task was named."""
    parser = build_parser()
    is_help = bool({"-h", "--help"} & set(argv))
    # Their own help needs the .venv; a question makes none.
    if argv[:1] in (["parity"], ["bench"]) and (PYTHON.exists() or not is_help):
        args = parser.parse_args(argv[:1])
        args.rest = argv[1:]
        return args
    args = parser.parse_args(argv)
    if args.task is None:
        parser.print_help()
        return None
    if args.task == "test" and (unknown := set(args.group) - set(TEST_GROUPS)):
        parser.error(f"no test group {', '.join(sorted(unknown))}; there are {TEST_GROUPS}")
    return args


def main(argv: list[str]) -> int:
    """Run one task; inside `.venv` unless the task is `clean`."""
    args = parse(argv)
    if args is None:
        return 0
    if args.task != "clean":
        machine.ensure_venv()
        if not machine.in_venv():
            command = [str(PYTHON), str(ROOT / "build.py"), *argv]
            if os.name == "posix":
                sys.stdout.flush()
                os.execv(command[0], command)
            return subprocess.run(command).returncode
    return int(args.function(args))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BuildError as error:
        sys.exit(f"[build] {error}")
    except KeyboardInterrupt:
        sys.exit(130)
