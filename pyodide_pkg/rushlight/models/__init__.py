"""Stage 2: one file per architecture; its name is the file's ``general.architecture``.

A model module has one function, ``build(config, tensors) -> Graph``. Adding an architecture is
adding a module; there is no registry. A hyphen in the name is an underscore in the file's.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from ..errors import ModelFormatError, UnsupportedModelError
from ..gguf.config import ModelConfig
from ..graph.ir import Graph
from ..graph.verify import verify


def architectures() -> list[str]:
    """The names this engine can build a graph for."""
    modules = pkgutil.iter_modules(__path__)
    return sorted(m.name.replace("_", "-") for m in modules if not m.name.startswith("_"))


def build_graph(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> Graph:
    """The verified graph of a file, from its configuration and tensor shapes.

    Raises ``UnsupportedModelError`` for an unknown architecture, ``GraphError`` when tensors are
    missing or have the wrong shape, ``ModelFormatError`` when they contradict the metadata.
    """
    require_known(config.architecture)
    _check_layers(config, tensors)
    module = importlib.import_module(f"{__name__}.{config.architecture.replace('-', '_')}")
    graph: Graph = module.build(config, tensors)
    shapes = verify(graph, tensors)
    n_out = shapes[graph.outputs["logits"]][-1] if "logits" in graph.outputs else None
    if n_out not in (None, config.n_vocab):
        raise ModelFormatError(
            f"The output has {n_out} rows, but token_embd.weight has {config.n_vocab}.",
            hint="The file was made by a faulty converter; try another file of the model.",
        )
    return graph


def require_known(architecture: str) -> None:
    """Raise ``UnsupportedModelError`` unless this engine can build the architecture's graph."""
    known = architectures()
    if architecture.replace("_", "-") not in known:
        raise UnsupportedModelError(
            f"The architecture {architecture!r} is not supported.",
            hint=f"Supported architectures: {', '.join(known)}.",
        )


def _check_layers(config: ModelConfig, tensors: Mapping[str, tuple[int, ...]]) -> None:
    for name in tensors:
        layer = name.split(".")[1] if name.startswith("blk.") else ""
        if layer.isdecimal() and int(layer) >= config.n_layer:
            raise ModelFormatError(
                f"{config.architecture}.block_count is {config.n_layer}, but the file has {name}.",
                hint="The file was made by a faulty converter; try another file of the model.",
            )
