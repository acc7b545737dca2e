"""This machine's GPU adapter through wgpu-py: finding it, opening a device, and its errors."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import (
    DeviceError,
    DeviceLostError,
    NoAdapterError,
    OutOfDeviceMemoryError,
)
from .webgpu_common import FLOOR_LIMITS, MIN_SUBGROUP

WANTED_FEATURES = {
    "timestamp-query": "timestamp-query", "shader-f16": "shader-f16", "subgroup": "subgroups",
}  # fmt: skip
"""Asked for where the adapter has them, and WebGPU's names for them; no kernel may need one
without saying so."""
LANGUAGE_FEATURES = frozenset(("packed_4x8_integer_dot_product",))
"""What wgpu-native's compiler always accepts, without listing it."""
IMPLIED_FEATURES = frozenset(("subgroups",))
"""What its compiler accepts where the device has it, but only without the directive."""


@dataclass(frozen=True)
class OpenDevice:
    """A wgpu device, and what is known of the adapter behind it."""

    wgpu: Any
    device: Any
    limits: Mapping[str, int]
    name: str
    identity: str
    """Adapter, driver and API: what a measurement of this device holds for."""
    is_software: bool
    notes: tuple[str, ...]
    features: frozenset[str]
    min_subgroup: int
    pipelines: dict[tuple[str, tuple[tuple[str, float], ...]], Any] = field(default_factory=dict)
    """Compiled kernels by code and constants: self-tests and a model's plans share many."""


KINDS = {
    "DiscreteGPU": "graphics card",
    "IntegratedGPU": "built into the processor",
    "VirtualGPU": "of a virtual machine",
    "CPU": "software",
}
"""wgpu's kinds of adapters, in words."""


@dataclass(frozen=True)
class FoundAdapter:
    """An adapter of this machine, and whether and why it is the one that is used."""

    name: str
    kind: str
    api: str
    verdict: str
    is_auto: bool


def find_adapters() -> list[FoundAdapter]:
    """Every adapter, the one in use first. Raises NoAdapterError where there is none."""
    wgpu, picked = _request_adapter(allow_software=True)
    with _runtime_dir():
        found = [dict(adapter.info) for adapter in wgpu.gpu.enumerate_adapters_sync()]
    return judged(found, dict(picked.info))


def judged(found: Sequence[Mapping[str, Any]], picked: Mapping[str, Any]) -> list[FoundAdapter]:
    """A verdict for each adapter by wgpu's information of all, and of the one it picked."""
    rows = []
    for info in sorted(found, key=lambda info: info != picked):
        is_software = info["adapter_type"] == "CPU"
        is_picked = info == picked
        if is_picked and is_software:
            verdict = "--device gpu. Auto takes the CPU instead: this adapter is software."
        elif is_picked:
            verdict = "--device gpu, and what auto takes: the fastest, as the driver says."
        elif info["device"] == picked["device"]:
            verdict = f"Not used: the same through {picked['backend_type']} is used."
        elif is_software:
            verdict = "Not used: it is software."
        else:
            verdict = f"Not used: the driver prefers {picked['device']} where speed is asked for."
        kind = KINDS.get(str(info["adapter_type"]), "of a kind that the driver does not tell")
        is_auto = is_picked and not is_software
        rows.append(
            FoundAdapter(str(info["device"]), kind, str(info["backend_type"]), verdict, is_auto)
        )
    return rows


def open_device(*, allow_software: bool, floor: bool) -> OpenDevice:
    """Open the adapter with its real limits; ``floor``: default limits and no feature."""
    wgpu, adapter = _request_adapter(allow_software)
    limits = {k: adapter.limits[k] for k in FLOOR_LIMITS if k in adapter.limits}
    features = [f for f in WANTED_FEATURES if f in adapter.features]
    notes: tuple[str, ...] = ()
    if floor:
        limits, features = dict(FLOOR_LIMITS), []
        notes = ("Limited to the WebGPU floor.",)
    with device_errors():
        device = adapter.request_device_sync(required_limits=limits, required_features=features)
    info = adapter.info
    is_software = info["adapter_type"] == "CPU"
    if is_software:
        notes += ("The adapter is software: expect far less speed than from a GPU.",)
    about = [info["device"], info["description"], info["backend_type"], wgpu.__version__]
    return OpenDevice(
        wgpu,
        device,
        {k: int(device.limits[k]) for k in limits},
        str(info["device"]),
        " | ".join(str(part) for part in about),
        is_software,
        notes,
        (frozenset() if floor else LANGUAGE_FEATURES) | {WANTED_FEATURES[n] for n in features},
        # Spelled so by wgpu-py 0.32.
        int(info.get("subgroup_min_size") or info.get("stackgroup_min_size") or MIN_SUBGROUP),
    )


@contextmanager
def _runtime_dir() -> Iterator[None]:
    """Name a runtime folder while drivers are probed: Mesa complains on stderr without one."""
    if sys.platform != "linux" or "XDG_RUNTIME_DIR" in os.environ:
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


def _request_adapter(allow_software: bool) -> tuple[Any, Any]:
    hint = "Install the native extra (pip install 'rushlight[native]') or use device='cpu'."
    try:
        import wgpu
    except ImportError as error:
        raise NoAdapterError("The wgpu package is not installed.", hint=hint) from error
    try:
        with _runtime_dir():
            adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except Exception as error:
        raise NoAdapterError(
            f"No GPU adapter is available: {error}",
            hint="Install a Vulkan driver (mesa-vulkan-drivers has a software one) "
            "or use device='cpu'.",
        ) from error
    if adapter.info["adapter_type"] == "CPU" and not allow_software:
        raise NoAdapterError(
            f"The only GPU adapter, {adapter.info['device']}, is software.",
            hint="Ask for device='gpu' to use it all the same.",
        )
    return wgpu, adapter


@contextmanager
def device_errors() -> Iterator[None]:
    """Turn wgpu's errors into ours, by kind."""
    import wgpu

    try:
        yield
    except wgpu.GPUOutOfMemoryError as error:
        raise OutOfDeviceMemoryError(
            f"The device has no memory left: {error}",
            hint="Use a smaller context or a smaller model.",
        ) from error
    except (wgpu.GPUError, RuntimeError) as error:
        text = str(error)
        if "lost" in text.lower():
            raise DeviceLostError(
                f"The device was lost: {text}", hint="Load the model again."
            ) from error
        raise DeviceError(f"The device refused a command: {text}") from error
