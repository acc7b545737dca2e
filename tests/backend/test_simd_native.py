"""The kernels' memory under wasmtime."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rushlight import Model, _sync
from rushlight.backends.simd_native import NativeCpuExecutor, NativeKernels
from rushlight.errors import UnsupportedModelError
from rushlight.kernels import SYNC_BYTES
from rushlight.ops import OPS, Case
from rushlight.selftest import check_case
from tests.tools.arch_files import model_bytes

SIZE = 8 << 20


@pytest.mark.parametrize(
    ("head_dim", "n_head_kv", "what"), [(2000, 1, "Attention"), (512, 200, "A token's keys")]
)
def test_heads_that_scratch_does_not_hold_are_refused(
    head_dim: int, n_head_kv: int, what: str
) -> None:
    heads = {"n_head": n_head_kv, "n_head_kv": n_head_kv, "head_dim": head_dim, "scale": 1.0}
    width = n_head_kv * head_dim
    case = Case(
        "wide",
        {"qkv": (1, 3 * width), "cache": (width, width)},
        {**heads, "layout": "neox", "n_rot": 0, "base": 1e4},
    )
    check = check_case(OPS["attention_step"], case, lambda: NativeCpuExecutor(1))
    with pytest.raises(UnsupportedModelError, match=what):
        _sync.run(check)


@pytest.mark.skipif(sys.platform != "linux", reason="not applicable: only Linux is asked")
def test_the_memory_asks_for_large_pages() -> None:
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    if "[never]" in enabled:
        pytest.skip("not applicable: this kernel gives no large pages")
    host = NativeKernels(1)
    try:
        _sync.run(host.create(SIZE, 0))
        flags = flags_at(host.memory.ctypes.data)
        assert "hg" in flags
    finally:
        host.close()


def flags_at(address: int) -> list[str]:
    """VmFlags of this process's mapping at an address (proc(5))."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head and not head.endswith(":"):
            first, stop = (int(part, 16) for part in head.split("-"))
            inside = first <= address < stop
        elif inside and head == "VmFlags:":
            return line.split()[1:]
    raise AssertionError("the address is not mapped")


def test_a_late_thread_finds_no_share_of_a_run_that_is_over() -> None:
    """The next step may cut a call into more shares; those of the run before must all be gone."""
    executor = NativeCpuExecutor(2)
    model = Model.load(model_bytes("phi3-long"), executor, kv_dtype="f32", n_batch=16)
    _sync.run(model.session().run(list(range(3, 19)), "none"))
    assert executor.plan is not None
    n_run = executor.plan.head_start
    layout = executor._layout
    syncs = executor.host.read(layout.sync, n_run * SYNC_BYTES).view(np.uint32)
    assert (syncs.reshape(n_run, -1)[:, 0] == 0xFFFFFFFF).all()
    model.close()
