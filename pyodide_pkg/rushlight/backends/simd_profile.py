"""Where a step's time goes on the CPU: each kernel call on its own, with the bytes it moves."""

from __future__ import annotations

from typing import Any

from ..plan.cpu_program import Call, CpuPlan
from ..plan.plan import Binding
from .profile import ProfileTable

HEADS = ("n_head", "n_head_kv", "head_dim")


class CpuProfile(ProfileTable):
    """Collects times of a CPU plan's calls; see ``SimdExecutor.start_profile``."""

    note = "Each call was run and waited for alone, so times include some 0.02 ms of that."

    def __init__(self, plan: CpuPlan, n_ctx: int) -> None:
        super().__init__()
        self._plan, self._n_ctx = plan, n_ctx
        self._sizes = {slot.name: slot.n_bytes for slot in plan.slots.values()}

    def add(self, index: int, ms: float, n_tokens: int, position: int, n_out: int) -> None:
        """Note how long call ``index`` took in a step of so many tokens and wanted rows."""
        call = self._plan.calls[index]
        rows = n_out if call.args.get("uses_n_out") else n_tokens
        phase = "decode" if n_tokens == 1 else "prefill"
        n_bytes = self._bytes(call, rows, position + n_tokens)
        self.count(phase, call.label or call.kernel, shape_words(call), ms, n_bytes)

    def _bytes(self, call: Call, rows: int, n_keys: int) -> float:
        """Bytes that a call must read and write once."""
        args: Any = call.args
        if call.kernel == "attention":
            keys = min(n_keys, args["window"] or n_keys)
            rows = sum(self._sizes[args[name].slot] for name in ("k_cache", "v_cache"))
            return rows / self._n_ctx * keys
        if call.kernel == "matmul":
            moved = self._sizes[args["weight"].slot] + 4 * rows * (args["n_cols"] + args["n_rows"])
            return float(moved)
        n_values = sum(isinstance(value, Binding) for value in args.values())
        return float(4 * rows * n_values * args.get("n_cols", 0))


def shape_words(call: Call) -> str:
    """The sizes that a call was made for."""
    args = call.args
    if "n_rows" in args:
        return f"{args['n_rows']}x{args['n_cols']}"
    if all(name in args for name in HEADS):
        return f"{args['n_head']}/{args['n_head_kv']}x{args['head_dim']}"
    return str(args.get("n_cols", ""))
