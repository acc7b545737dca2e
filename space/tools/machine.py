"""The machine under the project: the `.venv`, Debian packages, node, and running commands.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import ctypes.util
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
LOCKS = ROOT / "space" / "locks"
_BIN = "Scripts" if os.name == "nt" else "bin"
PYTHON = VENV / _BIN / ("python.exe" if os.name == "nt" else "python")

# What a test of the real thing needs beyond Python: a browser, and a Vulkan driver for wgpu
# (mesa's lavapipe computes on the CPU, so it is there on every machine).
APT_PACKAGES = {
    "chromium": "the browser that the tests drive",
    "firefox-esr": "another one, for what must not depend on Chromium",
    "mesa-vulkan-drivers": "a software Vulkan adapter for native WebGPU",
    "libvulkan1": "the Vulkan loader",
    "libatomic1": "a library that Playwright's driver loads",
}


class BuildError(Exception):
    """Something that the person at the keyboard can put right; printed without a traceback."""


def say(text: str) -> None:
    """Prints one progress line at once, also when the output is a pipe."""
    print(f"[build] {text}", flush=True)


def cache_dir() -> Path:
    """Where fetched files are kept between clones: $RUSHLIGHT_CACHE or ~/.cache/rushlight."""
    folder = os.environ.get("RUSHLIGHT_CACHE")
    path = Path(folder).expanduser() if folder else Path.home() / ".cache" / "rushlight"
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(command: Sequence[str | Path], *, env: dict[str, str] | None = None) -> int:
    """Runs a command in the repository's root with its output shown; gives its exit code."""
    full_env = {**os.environ, **(env or {})}
    return subprocess.run([str(part) for part in command], cwd=ROOT, env=full_env).returncode


def run_quiet(
    command: Sequence[str | Path], *, what: str, cwd: Path = ROOT, env: dict[str, str] | None = None
) -> str:
    """Runs a command out of sight and gives its output; shows all of it when it fails.

    Raises BuildError naming `what` was being done.
    """
    words = [str(part) for part in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        print(done.stdout + done.stderr, file=sys.stderr)
        raise BuildError(f"{what} failed (exit code {done.returncode}): {' '.join(words)}")
    return done.stdout


def project_version() -> str:
    """The one version number, from pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def is_debian_root() -> bool:
    """Whether system packages can be installed without asking anybody."""
    return shutil.which("apt-get") is not None and hasattr(os, "geteuid") and os.geteuid() == 0


def apt_install(packages: Sequence[str]) -> None:
    """Installs Debian packages (root only)."""
    say(f"installing {', '.join(packages)} with apt-get")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run_quiet(["apt-get", "update", "-q"], what="apt-get update", env=quiet)
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    run_quiet(command, what="apt-get install", env=quiet)


# --- the virtual environment -------------------------------------------------------------------


def in_venv() -> bool:
    """Whether this process already runs in the project's own `.venv`."""
    return Path(sys.prefix).resolve() == VENV.resolve()


def ensure_venv() -> None:
    """Makes or refreshes `.venv` from the lock files; does nothing when it is up to date."""
    stamp = VENV / "rushlight-stamp"
    wanted = _venv_stamp()
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    if not PYTHON.exists():
        _make_venv()
    say("installing Python packages into .venv (a minute or two the first time)")
    _pip_install("--require-hashes", "-r", LOCKS / "python.txt")
    _pip_install("--no-deps", "--no-build-isolation", "-e", ".")
    if find_npm() is None:
        say("no npm on this machine: installing node into .venv")
        _pip_install("--require-hashes", "-r", LOCKS / "node.txt")
    stamp.write_text(wanted)


def _venv_stamp() -> str:
    digest = hashlib.sha256()
    digest.update(sys.version.encode() + str(ROOT).encode())
    for path in (LOCKS / "python.txt", LOCKS / "node.txt", ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _make_venv() -> None:
    if importlib.util.find_spec("ensurepip") is None:  # Debian ships it apart
        if not is_debian_root():
            raise BuildError(
                "this Python cannot make virtual environments; run\n"
                "    sudo apt-get update && sudo apt-get install -y python3-venv"
            )
        apt_install(["python3-venv"])
    say(f"making .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    run_quiet([sys.executable, "-m", "venv", VENV], what="making .venv")


def _pip_install(*arguments: str | Path) -> None:
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    run_quiet(command, what="installing Python packages")


# --- node --------------------------------------------------------------------------------------


def _node_path() -> str:
    """The machine's own node first, then the one inside `.venv`."""
    return os.environ.get("PATH", "") + os.pathsep + str(VENV / _BIN)


def find_npm() -> str | None:
    """The npm command to use, or None."""
    return shutil.which("npm", path=_node_path())


def find_node() -> str | None:
    """The node command to use, or None."""
    return shutil.which("node", path=_node_path())


def node_env() -> dict[str, str]:
    """Environment in which npm finds its node."""
    return {"PATH": _node_path(), "NO_UPDATE_NOTIFIER": "1"}


# --- system parts ------------------------------------------------------------------------------


def find_chromium() -> str | None:
    """The machine's Chromium, or None (Playwright's own is then used if it is installed)."""
    for name in ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


def find_firefox() -> str | None:
    """The machine's Firefox, or None."""
    return shutil.which("firefox-esr") or shutil.which("firefox")


def missing_system_parts() -> list[str]:
    """Debian packages whose parts are not on this machine."""
    missing = []
    if find_chromium() is None:
        missing.append("chromium")
    if find_firefox() is None:
        missing.append("firefox-esr")
    if sys.platform == "linux":
        folders = [Path("/usr/share/vulkan/icd.d"), Path("/etc/vulkan/icd.d")]
        if not any(folder.glob("*.json") for folder in folders if folder.is_dir()):
            missing.append("mesa-vulkan-drivers")
        for package, library in (("libvulkan1", "vulkan"), ("libatomic1", "atomic")):
            is_there = any(Path("/usr/lib").glob(f"*/lib{library}.so.1"))
            if not is_there and ctypes.util.find_library(library) is None:
                missing.append(package)
    return missing


def ensure_system_parts() -> list[str]:
    """Installs the missing parts where it can, else prints how; gives what is still missing."""
    missing = missing_system_parts()
    if missing and is_debian_root():
        apt_install(missing)
        missing = missing_system_parts()
    if not missing:
        return []
    for package in missing:
        say(f"missing: {package} ({APT_PACKAGES[package]})")
    if shutil.which("apt-get"):
        say(f"run: sudo apt-get update && sudo apt-get install -y {' '.join(missing)}")
    elif "chromium" in missing:
        say(f"run: {PYTHON} -m playwright install chromium")
    return missing
