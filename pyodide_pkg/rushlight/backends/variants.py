"""Which kernels an adapter gets: those that are right on it, and of these the fastest.

A variant is a way of spreading the same work over threads. The first time an adapter is seen,
each variant runs op cases on that very device against the numpy reference, and is dropped,
visibly, where it fails. Of the ones left the fastest on a layer of the model's shapes is taken,
for decode and for prefill apart. Both findings are remembered per adapter, driver and engine.
A software adapter gets what is made for it, and another variant only where that one is wrong.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol, cast

from ..errors import DeviceError, DeviceLostError, EngineError, InvalidInputError
from ..gguf.reader import GgufFile
from ..graph.ir import Graph
from ..graph.rewrite import Phase
from ..plan.builder import Variant
from ..shaders import shader_root
from .base import LoadOptions, Progress, ProgressFn
from .file_store import cache_dir
from .variant_trials import PHASES, Trial, time_variant, timed_layer, trials_for
from .webgpu_common import Device


@dataclass(frozen=True)
class KernelVariant:
    """A way of running every op: the planner's name for it, and the device features it needs."""

    name: Variant
    features: tuple[str, ...] = ()
    is_for_software: bool = False
    """Whether it is what a software adapter is expected to want."""


CLEARLY_FASTER = 1.2

VARIANTS = (KernelVariant("tiles"), KernelVariant("rows", is_for_software=True))
"""Every variant; a new one is a row here and the files that the planner picks by its name."""


class Store(Protocol):
    """Small texts that outlive the process or page; losing them only costs time."""

    async def recall(self, key: str) -> str | None:
        """The text under a key, if it is there and readable."""

    async def remember(self, key: str, text: str) -> None:
        """Keep a text, if that is possible."""


@dataclass(frozen=True)
class Choice:
    """The variant of each phase, what was dropped on the way, and the times that decided."""

    phases: Mapping[Phase, Variant]
    notes: tuple[str, ...] = ()
    times_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def words(self) -> str:
        """The choice for a person: ``rows``, or ``decode rows, prefill tiles``."""
        names = set(self.phases.values())
        if len(names) == 1:
            return str(names.pop())
        return ", ".join(f"{phase} {name}" for phase, name in self.phases.items())


def check_variant(name: str) -> None:
    """Raise InvalidInputError unless ``name`` is "auto" or a variant."""
    names = ["auto", *(variant.name for variant in VARIANTS)]
    if name not in names:
        raise InvalidInputError(
            f"The kernel variant {name!r} is unknown.", hint=f"Choose one of: {', '.join(names)}."
        )


def default_variant(is_software: bool) -> Variant:
    """What to run where nothing was tested or timed."""
    return next(v.name for v in VARIANTS if v.is_for_software == is_software)


async def choose_variants(
    device: Device, graph: Graph, file: GgufFile, options: LoadOptions, progress: ProgressFn
) -> Choice:
    """The kernels for a model on a device.

    ``options.variant`` forces one: it is tested but not timed, and refused if it is wrong.
    Raises DeviceError when no variant passes its self-test.
    """
    assert isinstance(options.variant, str)
    check_variant(options.variant)
    candidates = [v for v in VARIANTS if options.variant in ("auto", v.name)]
    missing = {f for v in candidates for f in v.features} - device.features
    usable = [v.name for v in candidates if not missing & set(v.features)]
    if not usable:
        raise DeviceError(
            f"The kernels {options.variant!r} need what this adapter lacks: {sorted(missing)}.",
            hint="Use the variant 'auto'.",
        )
    memory = await _Memory.of(device)
    trials = trials_for(graph, file)
    favourite = default_variant(device.is_software)
    right: dict[Phase, list[Variant]] = {phase: [] for phase in PHASES}
    notes = []
    for name in sorted(usable, key=lambda name: name != favourite):
        failures = await _test(memory, device, name, trials, progress)
        for phase in PHASES:
            if phase in failures:
                notes.append(f"{name} kernels are not used for {phase} here: {failures[phase]}.")
            else:
                right[phase].append(name)
        if device.is_software and all(right.values()):
            break  # nothing is faster there than what is made for it, and compiling takes seconds
    for names in right.values():
        if not names:
            raise DeviceError(
                f"No kernels give right answers on {device.info.adapter}: {' '.join(notes)}",
                hint="Use the CPU instead, and report this with the adapter's name.",
            )
    times = await _times(memory, device, graph, file, right, progress)
    await memory.save()
    favourite = default_variant(device.is_software)
    phases = {
        phase: _best(names, times.get(phase, {}), favourite) for phase, names in right.items()
    }
    return Choice(phases, tuple(notes), times)


def _best(names: list[Variant], times: Mapping[str, float], favourite: Variant) -> Variant:
    """The fastest; the expected one unless another is clearly faster, since timings are noisy."""

    def rank(name: Variant) -> tuple[float, bool]:
        is_other = name != favourite
        return times.get(name, 0.0) * (CLEARLY_FASTER if is_other else 1.0), is_other

    return min(names, key=rank)


async def _test(
    memory: _Memory, device: Device, name: Variant, trials: tuple[Trial, ...], progress: ProgressFn
) -> dict[Phase, str]:
    """The first failure of a variant in each phase where it has one."""
    failures: dict[Phase, str] = {}
    for i, trial in enumerate(trials):
        if trial.phase in failures:
            continue
        key = f"{name}/{trial.name}"
        if key not in memory.tests:
            progress(Progress("plan", f"Checking the kernels ({name})", i, len(trials)))
            memory.tests[key] = await _failure(device, name, trial)
        if memory.tests[key]:
            failures[trial.phase] = memory.tests[key]
    return failures


async def _failure(device: Device, name: Variant, trial: Trial) -> str:
    """What is wrong with a variant on one case; empty if nothing."""
    try:
        return await trial.failure(device, name)
    except DeviceLostError:
        raise
    except EngineError as error:
        return f"{trial.name}: {error.message.splitlines()[0]}"


async def _times(
    memory: _Memory,
    device: Device,
    graph: Graph,
    file: GgufFile,
    right: Mapping[Phase, list[Variant]],
    progress: ProgressFn,
) -> dict[str, dict[str, float]]:
    """Milliseconds of each variant on the model's first layer, where there is a choice."""
    names = list(dict.fromkeys(n for names in right.values() if len(names) > 1 for n in names))
    layer = None if device.is_software or not names else timed_layer(graph, file)
    if layer is None:
        return {}
    known = memory.times.setdefault(layer.words(), {})
    for i, name in enumerate(names):
        phases = [p for p in PHASES if name in right[p] and name not in known.get(p, {})]
        if not phases:
            continue
        progress(Progress("plan", f"Timing the kernels ({name})", i, len(names)))
        for phase, ms in (await time_variant(device, name, layer, phases)).items():
            known.setdefault(phase, {})[name] = round(ms, 4)
    return {p: {n: known[p][n] for n in right[p]} for p in PHASES if len(right[p]) > 1}


class _Memory:
    """What is known of an adapter; a text that cannot be read counts as nothing known."""

    def __init__(self, store: Store, key: str, known: dict[str, Any]) -> None:
        self._store, self._key, self._known = store, key, known
        self._before = json.dumps(known)

    @classmethod
    async def of(cls, device: Device) -> _Memory:
        """What the device's store holds of this adapter, driver and engine."""
        stamp = {"adapter": device.identity, "engine": engine_stamp()}
        key = f"adapter-{zlib.crc32(device.identity.encode()):08x}"
        known: Any = None
        try:
            known = json.loads(await device.store.recall(key) or "null")
        except ValueError:
            pass  # half written or from another program: written anew below
        if not _is_known(known) or {k: known.get(k) for k in stamp} != stamp:
            known = {**stamp, "tests": {}, "times_ms": {}}
        return cls(device.store, key, known)

    @property
    def tests(self) -> dict[str, str]:
        """Failure of each "variant/op/case"; empty for one that passed."""
        return cast("dict[str, str]", self._known["tests"])

    @property
    def times(self) -> dict[str, dict[str, dict[str, float]]]:
        """Milliseconds by layer, phase and variant."""
        return cast("dict[str, dict[str, dict[str, float]]]", self._known["times_ms"])

    async def save(self) -> None:
        """Write what was learnt, if anything."""
        text = json.dumps(self._known)
        if text != self._before:
            await self._store.remember(self._key, text)


def _is_known(known: Any) -> bool:
    """Whether a parsed text has the form that ``_Memory`` writes."""
    if not isinstance(known, dict):
        return False
    tests, times = known.get("tests"), known.get("times_ms")
    return (
        isinstance(tests, dict)
        and all(isinstance(failure, str) for failure in tests.values())
        and isinstance(times, dict)
        and all(isinstance(ms, float) for ms in _leaves(times))
    )


def _leaves(values: Any) -> list[Any]:
    """The values at phase and variant level; a wrong depth shows as something not a float."""
    found: list[Any] = []
    for phases in values.values():
        for by_name in phases.values() if isinstance(phases, dict) else [phases]:
            found += by_name.values() if isinstance(by_name, dict) else [by_name]
    return found


def dropped_kernels() -> list[str]:
    """What this engine's self-test found wrong on adapters that this machine's cache remembers."""
    found = []
    for path in sorted((cache_dir() / "adapters").glob("*.json")):
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if _is_known(known) and known.get("engine") == engine_stamp():
            wrong = {(k.partition("/")[0], v) for k, v in known["tests"].items() if v}
            found += [f"{name} kernels on {known['adapter']}: {v}" for name, v in sorted(wrong)]
    return found


def engine_stamp() -> str:
    """The engine's version and a checksum of its shaders: tests and times hold for these."""
    checksum = 0
    for path in sorted(shader_root().rglob("*.wgsl")):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    try:
        return f"{version('rushlight')}+{checksum:08x}"
    except PackageNotFoundError:  # run from the source tree
        return f"source+{checksum:08x}"
