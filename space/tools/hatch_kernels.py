"""Puts the built CPU kernels into the wheel, so that an installed rushlight always has them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import wasm_builder


class KernelsHook(BuildHookInterface[Any]):
    """Builds the kernels before a wheel is put together; an sdist carries their sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernels' files to the wheel. An editable install finds them in dist/wasm."""
        if self.target_name != "wheel" or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        for path in wasm_builder.build(Path(self._folder.name)):
            build_data["force_include"][str(path)] = f"rushlight/wasm/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was built."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
