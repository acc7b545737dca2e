"""Stage 2: one file per architecture; its name is the file's ``general.architecture``.

A model module has one function, ``build(config, tensors) -> Graph``. Adding an architecture is
adding a module; there is no registry.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ..graph.verify import verify


def architectures() -> list[str]:
    """The names this engine can build a graph for."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def build_graph(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The verified graph of a file, from its configuration and tensor shapes.

    Raises ``UnsupportedModelError`` for an unknown architecture, ``GraphError`` when tensors are
    missing or have the wrong shape.
    """
    known = architectures()
    if config.architecture not in known:
        raise UnsupportedModelError(
            f"The architecture {config.architecture!r} is not supported.",
            hint=f"Supported architectures: {', '.join(known)}.",
        )
    module = importlib.import_module(f"{__name__}.{config.architecture}")
    graph: Graph = module.build(config, tensors)
    verify(graph, tensors)
    return graph
