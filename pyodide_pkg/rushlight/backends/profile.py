"""Where a step's time goes: each dispatch of a plan with its time and the bytes it moves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..plan.plan import Binding, Dispatch, Plan
from .webgpu_program import Program

LAYER = re.compile(r"\bblk\.\d+\.")
TIMESTAMPS = "Times are the device's own timestamps around each dispatch."
ALONE = (
    "This device has no timestamp-query: each dispatch was submitted and waited for alone, so "
    "times include that."
)
HEADER = ("plan", "kernel", "shape", "calls", "ms", "share", "MiB", "GB/s")


@dataclass
class ProfileRow:
    """All runs of one kernel on one kind of tensor; layers are counted together."""

    plan: str
    kernel: str
    shape: str
    calls: int = 0
    ms: float = 0.0
    n_bytes: float = 0.0
    share: float = 0.0
    """Of the time that all kernels of the same plan took."""

    @property
    def gb_per_s(self) -> float:
        """Bytes moved over time; each byte of weights and activations counts once."""
        return self.n_bytes / self.ms / 1e6 if self.ms else 0.0

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of ``HEADER``."""
        numbers = (f"{self.ms:.2f}", f"{self.share:.1%}", f"{self.n_bytes / 2**20:.2f}")
        return (
            *(self.plan, self.kernel, self.shape, str(self.calls), *numbers),
            f"{self.gb_per_s:.2f}",
        )


class ProfileTable:
    """Times by kernel; a device's own kind of profile adds them."""

    note: str
    """How the times were taken."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], ProfileRow] = {}

    def count(self, plan: str, label: str, shape: str, ms: float, n_bytes: float) -> None:
        """Note one run of one kernel."""
        key = (plan, LAYER.sub("blk.*.", label), shape)
        row = self._rows.setdefault(key, ProfileRow(*key))
        row.calls += 1
        row.ms += float(ms)
        row.n_bytes += n_bytes

    def rows(self) -> list[ProfileRow]:
        """By plan, and within a plan the slowest first."""
        totals: dict[str, float] = {}
        for row in self._rows.values():
            totals[row.plan] = totals.get(row.plan, 0.0) + row.ms
        for row in self._rows.values():
            row.share = row.ms / totals[row.plan] if totals[row.plan] else 0.0
        names = list(totals)
        return sorted(self._rows.values(), key=lambda row: (names.index(row.plan), -row.ms))

    def to_json(self) -> dict[str, Any]:
        """The profile as plain values."""
        rows = [{**asdict(row), "gb_per_s": row.gb_per_s} for row in self.rows()]
        return {"note": self.note, "rows": rows}

    def text(self) -> str:
        """The table as lines of fixed width."""
        table = [HEADER, *(row.cells() for row in self.rows())]
        widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
        n_words = HEADER.index("calls")
        lines = [
            "  ".join(
                cell.ljust(width) if i < n_words else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        ]
        return "\n".join([*lines, "", self.note])


class Profile(ProfileTable):
    """Collects dispatch times of a program while a device fills it; see ``Device.profile``."""

    def __init__(self, program: Program, n_ctx: int, *, has_timestamps: bool) -> None:
        super().__init__()
        self.has_timestamps = has_timestamps
        self.note = TIMESTAMPS if has_timestamps else ALONE
        self._plans, self._n_ctx = program.plans, n_ctx

    def add(
        self, plan: int, order: Sequence[int], times_ms: Sequence[float], step: Sequence[int]
    ) -> None:
        """Note how long each dispatch of ``order`` took; ``step`` is n_tokens, position, n_out."""
        chosen = self._plans[plan]
        for index, ms in zip(order, times_ms, strict=True):
            dispatch = chosen.dispatches[index]
            n_bytes = moved_bytes(chosen, index, step, self._n_ctx)
            self.count(chosen.name, dispatch.label, shape_words(dispatch), ms, n_bytes)


def shape_words(dispatch: Dispatch) -> str:
    """The sizes that a kernel was made for, and the storage types it reads."""
    sizes = dict(dispatch.kernel.overrides)
    words = []
    rows = [sizes[name] for name in ("N_ROWS", "N_Q", "N_K", "N_V") if name in sizes]
    if "N_COLS" in sizes:
        words.append(
            "x".join(f"{n:.0f}" for n in ([sum(rows)] if rows else []) + [sizes["N_COLS"]])
        )
    elif "N_HEAD" in sizes:
        quarter = dict(dispatch.kernel.consts).get("D4", "0u").removesuffix("u")
        dim = sizes.get("HEAD_DIM", int(quarter) * 4)
        words.append("/".join(f"{sizes[n]:.0f}" for n in ("N_HEAD", "N_HEAD_KV") if n in sizes))
        words[-1] += f"x{dim:.0f}"
    types = [path.removeprefix("quants/") for _, path in dispatch.kernel.imports]
    words += dict.fromkeys(t.upper() for p, t in zip(dispatch.kernel.imports, types, strict=True)
                           if t != p[1])  # fmt: skip
    return " ".join(words)


def weight_bytes(plan: Plan, order: Sequence[int], step: Sequence[int], n_ctx: int) -> float:
    """Bytes of weights that the dispatches of ``order`` must read once."""
    kinds = {slot.name: slot.kind for slot in plan.slots}
    return sum(
        _binding_bytes(plan, i, binding, step, n_ctx)
        for i in order
        for binding in plan.dispatches[i].bindings
        if kinds[binding.slot] == "weight"
    )


def moved_bytes(plan: Plan, index: int, step: Sequence[int], n_ctx: int) -> float:
    """Bytes that a dispatch must read and write once; ``step``: n_tokens, position, n_out."""
    bindings = plan.dispatches[index].bindings
    return sum(_binding_bytes(plan, index, b, step, n_ctx) for b in bindings)


def _binding_bytes(
    plan: Plan, index: int, binding: Binding, step: Sequence[int], n_ctx: int
) -> float:
    slot = next(slot for slot in plan.slots if slot.name == binding.slot)
    size = binding.n_bytes or slot.n_bytes - binding.offset
    return size * _part(plan, index, binding, slot.kind, step, n_ctx)


def _part(
    plan: Plan, index: int, binding: Binding, kind: str, step: Sequence[int], n_ctx: int
) -> float:
    """How much of a binding a step touches, 0 to 1."""
    n_tokens, position, n_out = (int(n) for n in step[:3])
    key = plan.dispatches[index].kernel
    sizes: Mapping[str, float] = dict(key.overrides)
    if kind == "weight":
        if "N_EXPERT" in sizes:
            # At most: tokens may share experts, whose rows are then read once.
            return min(1.0, n_tokens * sizes["N_USED"] / sizes["N_EXPERT"])
        return min(1.0, n_tokens / sizes["N_ROWS"]) if key.file == "get_rows" else 1.0
    if kind == "constant":
        return n_tokens / n_ctx if binding.slot.startswith("rope.") else 1.0
    if kind == "state":
        read = position + n_tokens if key.file.startswith("attention") else n_tokens
        window = sizes.get("WINDOW", 0.0)
        return min(read, window + n_tokens if window else read) / n_ctx
    if kind == "scratch":
        if index >= plan.head_start > 0 or binding.slot.startswith("out."):
            return min(1.0, n_out / plan.n_out_max)
        return n_tokens / plan.n_tokens_max
    return 0.0  # uniforms and token ids
