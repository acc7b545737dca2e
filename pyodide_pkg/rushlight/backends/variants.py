"""Which kernels an adapter gets: those that are right on it, and of these the fastest.

The variants are rows of ``plan/variant.py``. The first time an adapter is seen, each runs op cases
on that very device against the numpy reference, and is dropped, visibly, where it fails. Of the
ones left the fastest on a layer of the model's shapes is taken, for decode and for prefill apart.
Both findings are remembered per adapter, driver and engine. A software adapter gets what is made
for it, and another variant only where that one is wrong.
"""

from __future__ import annotations

import asyncio
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
from ..plan.variant import BY_NAME, PHASES, VARIANTS, Variant, default_variant
from ..shaders import shader_root
from .auto import is_in_event_loop
from .base import LoadOptions, Progress, ProgressFn
from .file_store import cache_dir
from .variant_trials import Trial, time_variant, timed_layer, trials_for
from .webgpu_common import Device


class Store(Protocol):
    """Small texts that outlive the process or page; losing them only costs time."""

    async def recall(self, key: str) -> str | None:
        """The text under a key, if it is there and readable."""

    async def remember(self, key: str, text: str) -> None:
        """Keep a text, if that is possible."""


@dataclass(frozen=True)
class Choice:
    """The variant of each phase, what was dropped on the way, and the times that decided."""

    phases: Mapping[Phase, str]
    notes: tuple[str, ...] = ()
    times_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def words(self) -> str:
        """The choice for a person: ``rows``, or ``decode rows, prefill tiles``."""
        names = set(self.phases.values())
        if len(names) == 1:
            return str(names.pop())
        return ", ".join(f"{phase} {name}" for phase, name in self.phases.items())


def offered(device: Device) -> tuple[str, ...]:
    """The variants that a device has the features for."""
    return tuple(v.name for v in VARIANTS if set(v.features) <= device.features)


def candidates_for(text: str) -> dict[Phase, list[Variant]]:
    """The variants that a caller allows in each phase.

    "auto" allows all, "exact" those that compute in float32. Names, joined by "+", allow only
    these in the phases where they differ from the others, and all in the rest. Raises
    InvalidInputError for a name that is none.
    """
    names = set(text.split("+"))
    if text not in ("auto", "exact") and not names <= set(BY_NAME):
        known = ["auto", "exact", *BY_NAME]
        raise InvalidInputError(
            f"The kernel variant {text!r} is unknown.",
            hint=f"Choose one of: {', '.join(known)}; or two joined, as in subgroups+tiles_f16.",
        )
    found: dict[Phase, list[Variant]] = {}
    for phase in PHASES:
        able = [v for v in VARIANTS if phase in v.phases and (v.is_exact or text != "exact")]
        found[phase] = [v for v in able if v.name in names] or able
    return found


async def choose_variants(
    device: Device, graph: Graph, file: GgufFile, options: LoadOptions, progress: ProgressFn
) -> Choice:
    """The kernels for a model on a device.

    Where ``options.variant`` forces one it is tested but not timed, and refused if it is wrong.
    Raises DeviceError when no variant passes its self-test.
    """
    assert isinstance(options.variant, str)
    usable = _usable(device, options.variant)
    memory = await _Memory.of(device)
    trials = trials_for(graph, file, options.kv_dtype)
    favourite = default_variant(is_software=device.is_software)
    waiting = {phase: sorted(usable[phase], key=lambda v: v != favourite) for phase in PHASES}
    right: dict[Phase, list[Variant]] = {phase: [] for phase in PHASES}
    notes = []
    while pairs := _next_to_test(waiting, right, device.is_software):
        await _test(memory, device, pairs, trials, progress)
        for phase, variant in pairs:
            if failure := memory.failure(phase, variant, trials):
                name = variant.name
                notes.append(f"{name} kernels are not used for {phase} here: {failure}.")
            else:
                right[phase].append(variant)
    for variants in right.values():
        if not variants:
            raise DeviceError(
                f"No kernels give right answers on {device.info.adapter}: {' '.join(notes)}",
                hint="Use the CPU instead, and report this with the adapter's name.",
            )
    times = await _times(memory, device, graph, file, right, progress)
    await memory.save()
    phases = {phase: _best(right[phase], times.get(phase, {}), favourite) for phase in PHASES}
    return Choice(phases, tuple(notes), times)


def _usable(device: Device, text: str) -> dict[Phase, list[Variant]]:
    """Of the variants that are allowed, those whose features the device has."""
    usable: dict[Phase, list[Variant]] = {}
    for phase, variants in candidates_for(text).items():
        usable[phase] = [v for v in variants if set(v.features) <= device.features]
        if not usable[phase]:
            missing = {f for v in variants for f in v.features} - device.features
            raise DeviceError(
                f"The kernels {text!r} need what this adapter lacks: {', '.join(sorted(missing))}.",
                hint="Use the variant 'auto'.",
            )
    return usable


def _next_to_test(
    waiting: dict[Phase, list[Variant]], right: Mapping[Phase, list[Variant]], is_software: bool
) -> list[tuple[Phase, Variant]]:
    """Takes what is tested next from what waits: all, or one by one until something is right.

    On a software adapter nothing is faster than what is made for it, and compiling takes seconds.
    """
    pairs = []
    for phase, variants in waiting.items():
        if is_software and right[phase]:
            continue
        n = 1 if is_software else len(variants)
        pairs += [(phase, variant) for variant in variants[:n]]
        del variants[:n]
    return pairs


def _best(variants: list[Variant], times: Mapping[str, float], favourite: Variant) -> str:
    """The fastest; the expected one unless another is faster by its ``gain``."""

    def rank(variant: Variant) -> tuple[float, bool]:
        is_other = variant != favourite
        return times.get(variant.name, 0.0) * (variant.gain if is_other else 1.0), is_other

    return min(variants, key=rank).name


async def _test(
    memory: _Memory,
    device: Device,
    pairs: list[tuple[Phase, Variant]],
    trials: tuple[Trial, ...],
    progress: ProgressFn,
) -> None:
    """Put what the variants' kernels do on the trials into the memory.

    In an event loop the trials run together: while the driver compiles one's kernels, others are
    planned. Then a failure counts only if it shows up alone too, since errors of a device do not
    say whose they are.
    """
    wanted: dict[str, tuple[Variant, Trial]] = {}
    for phase, variant in pairs:
        for trial in trials:
            for key, whose in _keys(variant, trial).items():
                if trial.phase == phase and key not in memory.tests:
                    wanted[key] = (whose, trial)
    n_done = 0

    async def one(key: str) -> None:
        nonlocal n_done
        variant, trial = wanted[key]
        progress(Progress("plan", f"Checking the kernels ({variant.name})", n_done, len(wanted)))
        memory.tests[key] = await _failure(device, variant, trial)
        n_done += 1

    if is_in_event_loop():
        await asyncio.gather(*(one(key) for key in wanted))
        wanted = {key: value for key, value in wanted.items() if memory.tests[key]}
    for key in wanted:
        await one(key)


def _keys(variant: Variant, trial: Trial) -> dict[str, Variant]:
    """How the memory calls a trial of a variant's kernels, and the variants that they are of."""
    names = variant.kernels_of(trial.phase, trial.op.name)
    return {f"{name}/{trial.name}": BY_NAME[name] for name in names}


async def _failure(device: Device, variant: Variant, trial: Trial) -> str:
    """What is wrong with a variant on one case; empty if nothing."""
    try:
        return await trial.failure(device, variant)
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
    names = list(dict.fromkeys(v.name for all_ in right.values() if len(all_) > 1 for v in all_))
    layer = None if device.is_software or not names else timed_layer(graph, file)
    if layer is None:
        return {}
    known = memory.times.setdefault(layer.words(), {})
    for i, name in enumerate(names):
        variant = BY_NAME[name]
        phases = [p for p in PHASES if variant in right[p] and name not in known.get(p, {})]
        if not phases:
            continue
        progress(Progress("plan", f"Timing the kernels ({name})", i, len(names)))
        for phase, ms in (await time_variant(device, name, layer, phases)).items():
            known.setdefault(phase, {})[name] = round(ms, 4)
    return {p: {v.name: known[p][v.name] for v in right[p]} for p in PHASES if len(right[p]) > 1}


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

    def failure(self, phase: Phase, variant: Variant, trials: tuple[Trial, ...]) -> str:
        """The first thing that is wrong with a variant that was tested; empty if nothing."""
        found = (self.tests[key] for t in trials if t.phase == phase for key in _keys(variant, t))
        return next((failure for failure in found if failure), "")

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
