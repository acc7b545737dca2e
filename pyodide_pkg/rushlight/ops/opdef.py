"""What an op is: one definition that every backend is held to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ..errors import GraphError
from ..graph.ir import Attr, Shape

Shapes = Mapping[str, Shape]
KvDtype = Literal["f32", "f16", "q8_0"]
"""How a cache stores keys and values."""
KV_DTYPES: tuple[KvDtype, ...] = get_args(KvDtype)
Infer = Callable[[Shapes, Mapping[str, Attr]], dict[str, Shape]]


@dataclass(frozen=True)
class AttrSpec:
    """One attribute: its type, and its default (None: the node must give it)."""

    type: type
    default: Attr | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One input for one op, drawn from a fixed seed, run on every backend.

    ``shapes`` gives each port's shape; ports holding a weight may carry a storage type in
    ``types`` (``{"weight": "Q8_0"}``), all others are float32. ``nmse`` is the largest allowed
    normalised mean squared error against the reference. The tokens before ``position`` are run
    first; the context has room for ``n_ctx`` tokens if that is more, and caches hold ``kv``.
    """

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    position: int = 0
    nmse: float = 1e-10
    n_ctx: int = 0
    kv: KvDtype = "f32"


@dataclass(frozen=True)
class OpDef:
    """Name, ports, attributes, shape rule, numpy reference and test cases of one operation.

    ``reference`` takes the ports and attributes as keyword arguments, in float32, and returns
    one array, or a tuple in the order of ``outputs``. ``weights`` names the ports that hold a
    tensor of the file rather than a computed value; ``state`` those that hold a state.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    infer: Infer
    reference: Callable[..., Any]
    attrs: Mapping[str, AttrSpec] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()

    def full_attrs(self, given: Mapping[str, Attr]) -> dict[str, Attr]:
        """``given`` completed with defaults; the node is assumed to be verified."""
        filled = {k: given.get(k, spec.default) for k, spec in self.attrs.items()}
        return {k: value for k, value in filled.items() if value is not None}


def same_as(port: str, out: str = "y") -> Infer:
    """Shape rule: the output has the shape of ``port``."""
    return lambda shapes, attrs: {out: shapes[port]}


def require(condition: bool, message: str) -> None:
    """Raise the shape-rule error of the verifier unless ``condition`` holds."""
    if not condition:
        raise GraphError(message)
