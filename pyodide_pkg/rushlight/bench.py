"""How fast is a loaded model here, and what does one step cost?

The same measurements run natively and inside Pyodide (``measure_async``); nothing prints here.
Speeds are of this machine at this moment: compare only numbers of one run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from . import _sync
from .backends.profile import ProfileTable
from .backends.simd_common import SimdExecutor
from .backends.webgpu_common import WebGpuExecutor
from .errors import InvalidInputError

if TYPE_CHECKING:
    from .model import Model
    from .session import Session

N_START = 16
"""Tokens already in the context when decoding is measured."""

N_SPARE = 8
"""Tokens of context beyond what is measured."""


@dataclass(frozen=True)
class BenchOptions:
    """What to measure: prompt lengths to prefill, and tokens to decode after ``N_START``."""

    prefill: tuple[int, ...] = (128, 512)
    n_decode: int = 32

    @classmethod
    def quick(cls) -> BenchOptions:
        """A fraction of the work, for slow machines and software adapters."""
        return cls(prefill=(32,), n_decode=4)

    @property
    def n_ctx(self) -> int:
        """The context the measurements need."""
        return max(*self.prefill, N_START) + self.n_decode + N_SPARE

    def fitted(self, n_ctx: int) -> BenchOptions:
        """As much of this as fits into a context; raises InvalidInputError if nothing does."""
        n_decode = min(self.n_decode, n_ctx - N_SPARE - N_START)
        if n_decode < 1:
            raise InvalidInputError(
                f"A context of {n_ctx} tokens is too short to measure anything in;"
                f" {N_START + N_SPARE + 1} are needed."
            )
        longest = n_ctx - N_SPARE - n_decode
        return BenchOptions(tuple(sorted({min(n, longest) for n in self.prefill})), n_decode)


@dataclass
class BenchResult:
    """Everything the bench measures on one backend. Counters are per decoded token."""

    backend: str
    adapter: str
    notes: tuple[str, ...] = ()
    kernels: str = ""
    load_s: float = 0.0
    prefill_tokens_per_s: dict[int, float] = field(default_factory=dict)
    decode_tokens_per_s: float = 0.0
    decode_ms_median: float = 0.0
    python_step_ms: float | None = None
    dispatches_per_token: float = 0.0
    submits_per_token: float = 0.0
    bytes_read_per_token: float = 0.0
    peak_rss_bytes: int | None = None
    device_bytes: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self)


def measure(
    model: Model,
    options: BenchOptions,
    *,
    load_s: float = 0.0,
    on_step: Callable[[str], None] = lambda label: None,
) -> BenchResult:
    """Return the measurements of a loaded model; the synchronous form of ``measure_async``."""
    return _sync.run(measure_async(model, options, load_s=load_s, on_step=on_step))


async def measure_async(
    model: Model,
    options: BenchOptions,
    *,
    load_s: float = 0.0,
    on_step: Callable[[str], None] = lambda label: None,
) -> BenchResult:
    """Return the measurements of a loaded model. ``on_step`` hears what is measured next."""
    info = model.device
    result = BenchResult(info.backend, info.adapter, info.notes, info.kernels, load_s)
    session = model.default_session
    on_step("warming up")
    await session.run(bench_ids(model, N_START), "argmax")  # first use compiles and allocates
    for n_tokens in options.prefill:
        on_step(f"prefill of {n_tokens} tokens")
        session.reset()
        started = time.perf_counter()
        await session.run(bench_ids(model, n_tokens), "argmax")
        result.prefill_tokens_per_s[n_tokens] = n_tokens / (time.perf_counter() - started)
    on_step(f"decode of {options.n_decode} tokens")
    await _measure_decode(model, options.n_decode, result)
    result.peak_rss_bytes = peak_rss_bytes()
    result.device_bytes = dict(model.executor.stats.memory_bytes)
    return result


async def _measure_decode(model: Model, n_tokens: int, result: BenchResult) -> None:
    session, stats = model.default_session, model.executor.stats
    session.reset()
    found = await session.run(bench_ids(model, N_START), "argmax")
    assert found is not None
    found = await session.run([int(found[-1])], "argmax")  # the decode plan's first use
    before = (stats.dispatches, stats.submits, stats.bytes_read)
    times, python_ms = [], []
    for _ in range(n_tokens):
        assert found is not None
        started, device_ms = time.perf_counter(), stats.device_ms
        found = await session.run([int(found[-1])], "argmax")
        times.append(time.perf_counter() - started)
        python_ms.append(times[-1] * 1e3 - (stats.device_ms - device_ms))
    after = (stats.dispatches, stats.submits, stats.bytes_read)
    result.decode_tokens_per_s = n_tokens / sum(times)
    result.decode_ms_median = median(times) * 1e3
    if stats.device_ms:
        result.python_step_ms = median(python_ms)
    per_token = [(b - a) / n_tokens for a, b in zip(before, after, strict=True)]
    result.dispatches_per_token, result.submits_per_token, result.bytes_read_per_token = per_token


def profile(
    model: Model, options: BenchOptions, *, on_step: Callable[[str], None] = lambda label: None
) -> ProfileTable:
    """Return where the time goes; the synchronous form of ``profile_async``."""
    return _sync.run(profile_async(model, options, on_step=on_step))


async def profile_async(
    model: Model, options: BenchOptions, *, on_step: Callable[[str], None] = lambda label: None
) -> ProfileTable:
    """Return the time of every kernel in one prompt (the shortest) and ``n_decode`` tokens."""
    executor = model.executor
    if not isinstance(executor, (WebGpuExecutor, SimdExecutor)):
        raise InvalidInputError(
            f"The {model.device.backend} backend has no kernels to profile.",
            hint="Use --device gpu or --device cpu.",
        )
    n_prompt = min(options.prefill)
    session = model.session()
    on_step("warming up")
    await _prefill_and_decode(session, model, n_prompt, 1)
    on_step(f"profiling a prompt of {n_prompt} tokens and {options.n_decode} more")
    found: ProfileTable = executor.start_profile()
    try:
        await _prefill_and_decode(session, model, n_prompt, options.n_decode)
    finally:
        executor.stop_profile()
    return found


async def _prefill_and_decode(session: Session, model: Model, n_prompt: int, n_decode: int) -> None:
    session.reset()
    found = await session.run(bench_ids(model, n_prompt), "argmax")
    for _ in range(n_decode):
        assert found is not None
        found = await session.run([int(found[-1])], "argmax")


def bench_ids(model: Model, n_tokens: int) -> list[int]:
    """Return a prompt of exactly ``n_tokens`` ordinary tokens, the same at every run."""
    text = "The quick brown fox jumps over the lazy dog near the river bank. " * (n_tokens // 8 + 1)
    ids = model.tokenizer.encode(text)
    return (ids * (n_tokens // len(ids) + 1))[:n_tokens]


def peak_rss_bytes() -> int | None:
    """Return the most memory this process has held; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


def table_rows(results: Sequence[BenchResult]) -> list[tuple[str, ...]]:
    """Return a table, header first: one row a measure, one column a backend."""
    lengths = sorted({n for r in results for n in r.prefill_tokens_per_s})
    rows: list[tuple[str, Callable[[BenchResult], str]]] = [
        ("adapter", lambda r: r.adapter),
        *([("kernels", lambda r: r.kernels)] if any(r.kernels for r in results) else []),
        ("load, s", lambda r: f"{r.load_s:.2f}"),
        *(
            (f"prefill {n}, tokens/s", lambda r, n=n: _number(r.prefill_tokens_per_s.get(n)))
            for n in lengths
        ),
        ("decode, tokens/s", lambda r: _number(r.decode_tokens_per_s)),
        ("decode, ms a token (median)", lambda r: _number(r.decode_ms_median)),
        ("of these Python, ms", lambda r: _number(r.python_step_ms)),
        ("dispatches a token", lambda r: f"{r.dispatches_per_token:.0f}"),
        ("submits a token", lambda r: f"{r.submits_per_token:.0f}"),
        ("bytes read back a token", lambda r: f"{r.bytes_read_per_token:.0f}"),
        ("peak memory of the process", lambda r: format_bytes(r.peak_rss_bytes)),
        *(
            (f"device memory: {kind}", lambda r, kind=kind: format_bytes(r.device_bytes.get(kind)))
            for kind in sorted({k for r in results for k in r.device_bytes})
        ),
    ]
    header = ("", *(r.backend for r in results))
    return [header, *((label, *(cell(r) for r in results)) for label, cell in rows)]


def format_bytes(n_bytes: float | None) -> str:
    """Return a size for people: ``241.4 MiB``."""
    if n_bytes is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.0f} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.2f} GiB"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
