"""Collects one plan's dispatches: what every lowering is written against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..errors import UnsupportedOpError
from ..graph.ir import Attr, Graph, Node, Shape
from ..ops import OPS
from ..ops.kv_cache import cache_heads
from ..ops.opdef import KvDtype
from ..ops.state import state_parts
from ..shaders import pack_params
from .memory import assign_scratch, lifetimes_of
from .plan import (
    UNIFORM_ALIGN,
    Binding,
    BufferSlot,
    Dispatch,
    InputLayout,
    KernelKey,
    Plan,
)
from .variant import Variant
from .weights import WeightStore

VALUE = "%"
"""Marks a binding to a value that memory planning has not placed yet."""
STEP = Binding("input", 0, 16)


@dataclass(frozen=True)
class DeviceLimits:
    """What a plan must fit; the defaults are what every WebGPU device grants."""

    max_binding_bytes: int = 128 << 20
    max_workgroups: int = 65535
    min_subgroup: int = 4
    """Fewest threads of a subgroup, a power of two; WebGPU's smallest where it is not known."""


@dataclass(frozen=True)
class PlanOptions:
    """One plan's phase and sizes, and what all plans of a model share."""

    name: str
    n_tokens_max: int
    n_out_max: int
    n_ctx: int
    kv_dtype: KvDtype
    variant: Variant
    limits: DeviceLimits


@dataclass
class PlanBuilder:
    """Dispatches over named values; ``finish`` places the values in scratch slots."""

    graph: Graph
    shapes: Mapping[str, Shape]
    options: PlanOptions
    weights: WeightStore
    dispatches: list[Dispatch] = field(default_factory=list)
    slots: dict[str, BufferSlot] = field(default_factory=dict)
    head_start: int = 0
    _n_bytes: dict[str, int] = field(default_factory=dict)
    _alias: dict[str, str] = field(default_factory=dict)
    _pinned: dict[str, str] = field(default_factory=dict)
    _derived: dict[tuple[str, str], list[Binding]] = field(default_factory=dict)
    _params: bytearray = field(default_factory=bytearray)
    _params_at: dict[bytes, int] = field(default_factory=dict)

    # ----- what a lowering asks

    def attrs(self, node: Node) -> dict[str, Attr]:
        """The node's attributes with defaults filled in."""
        return OPS[node.op].full_attrs(node.attrs)

    def n_cols(self, value: str) -> int:
        """Length of a value's rows."""
        n = self.shapes[value][-1]
        assert isinstance(n, int), value
        return n

    def rows_symbol(self, value: str) -> str:
        """``n_tokens`` or ``n_out``: what counts a value's rows."""
        return str(self.shapes[value][0])

    def max_rows(self, symbol: str) -> int:
        """Most rows that a value counted by this symbol can have."""
        return self.options.n_out_max if symbol == "n_out" else self.options.n_tokens_max

    @cached_property
    def cache_heads(self) -> dict[str, int]:
        """Heads in a row of each cache, by the state's name."""
        return cache_heads(self.graph)

    @property
    def is_rows(self) -> bool:
        """Whether kernels of the rows family are wanted."""
        return self.options.variant.lanes == "rows"

    def lanes(self) -> tuple[str, str]:
        """The import that spreads a unit's work over threads."""
        return ("L", f"lib/lanes_{self.options.variant.lanes}")

    def lane_sizes(self, lanes: int) -> dict[str, float]:
        """What the lanes file must know where ``lanes`` threads share a unit."""
        if self.is_rows:
            return {}
        sizes: dict[str, float] = {"LANES": lanes}
        if self.options.variant.lanes == "subgroups":
            sizes["MIN_SUBGROUP"] = self.options.limits.min_subgroup
        return sizes

    def kv_import(self) -> tuple[str, str]:
        """The import that reads and writes cache elements."""
        return ("C", f"kv/{self.options.kv_dtype}")

    def value(self, name: str) -> Binding:
        """An activation, a graph input, or the slot that stands for it."""
        name = self._alias.get(name, name)
        layout = self.input_layout()
        if name == "tokens":
            return Binding("input", layout.tokens, self.options.n_tokens_max * 4)
        if name == "out_rows":
            return Binding("input", layout.out_rows, self.options.n_tokens_max * 4)
        if name not in self._n_bytes:
            rows = self.max_rows(self.rows_symbol(name))
            self._n_bytes[name] = rows * self.n_cols(name) * 4
        return Binding(VALUE + name, 0, self._n_bytes[name])

    def temp(self, name: str, n_bytes: int) -> Binding:
        """A value that only this lowering knows."""
        name = f"{name}.{len(self._n_bytes)}"
        self._n_bytes[name] = n_bytes
        return Binding(VALUE + name, 0, n_bytes)

    def derived(
        self, x: str, form: str, sizes: Sequence[int], emit: Callable[..., None]
    ) -> list[Binding]:
        """Another form of a value, in parts of these many bytes; emitted when first asked for."""
        key = (self._alias.get(x, x), form)
        if key not in self._derived:
            self._derived[key] = [self.temp(f"{x}.{form}", n_bytes) for n_bytes in sizes]
            emit(*self._derived[key])
        return self._derived[key]

    def alias(self, name: str, same_as: str) -> None:
        """Make ``name`` another name of ``same_as``."""
        self._alias[name] = self._alias.get(same_as, same_as)

    def pin(self, value: Binding, slot: str) -> Binding:
        """Give a value a slot of its own, which is read back after the plan."""
        name = value.slot.removeprefix(VALUE)
        self._pinned[name] = slot
        self.slots[slot] = BufferSlot(slot, value.n_bytes, "scratch")
        return Binding(slot, 0, value.n_bytes)

    def state(self, value: str) -> tuple[Binding, ...]:
        """The slots of a state (keys and values), whatever version of it ``value`` names."""
        name = value.partition("@")[0]
        if name not in self.graph.state:
            raise UnsupportedOpError(f"The webgpu backend has no state {value!r}.")
        bindings = []
        decl = self.graph.state[name]
        if decl.kind == "kv":  # each head in whole fours
            n = self.cache_heads.get(name, 1)
            decl = replace(decl, shape=tuple(n * 4 * -(-w // n // 4) for w in decl.shape))
        for part in state_parts(decl, self.options.n_ctx, self.options.kv_dtype):
            slot, n_bytes = f"{name}.{part.name}", part.n_bytes
            if n_bytes > self.options.limits.max_binding_bytes:
                raise UnsupportedOpError(
                    f"{slot} needs {n_bytes} bytes for a context of {self.options.n_ctx}; the "
                    f"adapter binds at most {self.options.limits.max_binding_bytes}.",
                    hint="Load the model with a smaller context.",
                )
            self.slots[slot] = BufferSlot(slot, n_bytes, "state")
            bindings.append(Binding(slot))
        return tuple(bindings)

    # ----- what a lowering says

    def emit(
        self,
        file: str,
        bindings: Sequence[Binding],
        grid: tuple[int, int, int],
        *,
        overrides: Mapping[str, float],
        imports: Sequence[tuple[str, str]] = (),
        consts: Mapping[str, int] | None = None,
        params: Mapping[str, float] | None = None,
        has_step: bool = True,
        label: str = "",
    ) -> None:
        """Add a dispatch; the uniforms are bound after ``bindings``."""
        key = KernelKey(
            file,
            imports=tuple(imports),
            consts=tuple((name, f"{n}u") for name, n in (consts or {}).items()),
            overrides=tuple((name, float(n)) for name, n in overrides.items()),
        )
        bound = list(bindings)
        if params is not None:
            bound.append(self._params_binding(pack_params(key, params)))
        if has_step:
            bound.append(STEP)
        self.dispatches.append(Dispatch(key, tuple(bound), grid, label or file))

    def fold(self, units: int, z: int = 1) -> tuple[int, int, int]:
        """A grid of ``units`` workgroups over x and y, within the limit per dimension."""
        most = self.options.limits.max_workgroups
        if units <= most:
            return (max(1, units), 1, z)
        y = -(-units // most)
        return (-(-units // y), y, z)

    def _params_binding(self, data: bytes) -> Binding:
        if data not in self._params_at:
            self._params_at[data] = len(self._params)
            self._params += data + bytes(-len(data) % UNIFORM_ALIGN)
        return Binding("params", self._params_at[data], len(data))

    # ----- the finished plan

    def input_layout(self) -> InputLayout:
        """Step, tokens and output rows, each at an offset that a binding may have."""
        ids = -(-self.options.n_tokens_max * 4 // UNIFORM_ALIGN) * UNIFORM_ALIGN
        return InputLayout(
            tokens=UNIFORM_ALIGN, out_rows=UNIFORM_ALIGN + ids, n_bytes=UNIFORM_ALIGN + 2 * ids
        )

    def finish(self, outputs: Mapping[str, Binding]) -> Plan:
        """The plan, with every value placed."""
        touched = [
            [
                b.slot[1:]
                for b in d.bindings
                if b.slot[0] == VALUE and b.slot[1:] not in self._pinned
            ]
            for d in self.dispatches
        ]
        placed, sizes = assign_scratch(lifetimes_of(touched, self._n_bytes, self.head_start))
        placed |= self._pinned
        dispatches = tuple(
            replace(d, bindings=tuple(_place(b, placed) for b in d.bindings))
            for d in self.dispatches
        )
        layout = self.input_layout()
        slots = {**self.slots, "input": BufferSlot("input", layout.n_bytes, "input")}
        slots |= {name: BufferSlot(name, size, "scratch") for name, size in sizes.items()}
        if self._params:
            slots["params"] = BufferSlot("params", len(self._params), "params")
        used = {b.slot for d in dispatches for b in d.bindings}
        slots |= {name: slot for name, slot in self.weights.slots.items() if name in used}
        return Plan(
            name=self.options.name,
            n_tokens_max=self.options.n_tokens_max,
            slots=tuple(slots.values()),
            dispatches=dispatches,
            input_layout=layout,
            outputs=dict(outputs),
            params=bytes(self._params),
            head_start=self.head_start,
            n_out_max=self.options.n_out_max,
        )


def _place(binding: Binding, placed: Mapping[str, str]) -> Binding:
    if binding.slot[0] != VALUE:
        return binding
    return replace(binding, slot=placed[binding.slot[1:]])
