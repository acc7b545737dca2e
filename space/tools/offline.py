"""The page's offline copy: which files it holds, each with its hash, written into the worker."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

# Not the page's: texts for people, packages for notebooks, icons for who installs it, and models,
# which are kept elsewhere.
_LEFT_OUT_FOLDERS = ("models/", "pyodide/micropip", "pyodide/packaging")
_LEFT_OUT_SUFFIXES = (".md", "LICENSE.txt", ".png")


def precached(names: Mapping[str, Path | str]) -> dict[str, str]:
    """Each file that the page may need, with its hash as browsers check it (`sha256-…`).

    `names` maps a path in the site to the file or text that is put there. The large ones of
    Pyodide come last, so that a copy that cannot be made fails early.
    """
    wanted = [
        name
        for name in names
        if not name.startswith(_LEFT_OUT_FOLDERS) and not name.endswith(_LEFT_OUT_SUFFIXES)
    ]
    wanted.sort(key=lambda name: (name.startswith("pyodide/"), name))
    return {name: _integrity(names[name]) for name in wanted}


def _integrity(source: Path | str) -> str:
    content = source.encode() if isinstance(source, str) else source.read_bytes()
    return "sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode()


def service_worker(
    source: str, files: Mapping[str, str], policy: str, *, is_isolating: bool
) -> str:
    """The service worker with its constant SITE in front; `version` says what it holds."""
    site = {"files": dict(files), "policy": policy, "isIsolating": is_isolating}
    digest = hashlib.sha256((json.dumps(site) + source).encode()).hexdigest()
    stated = json.dumps({"version": digest[:16], **site}, indent=1)
    return f"// Written by build.py site.\nconst SITE = {stated};\n\n{source}"
