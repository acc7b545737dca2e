"""WebGPU in a page: hands each program to ``worker/gpu.js`` once, then makes one call a step.

Only integers and one typed array cross per step; weights go from their source to the GPU
without entering Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyodide.ffi import JsException, create_proxy, to_js

from ..errors import DeviceError, EngineError, NoAdapterError, ShaderCompileError, SourceError
from ..gguf.source import AsyncSource
from ..plan.plan import WeightUpload
from .base import DeviceInfo, Progress, ProgressFn, RunStats
from .profile import Profile
from .webgpu_common import (
    MIN_SUBGROUP,
    Compile,
    RunCancelledError,
    WebGpuExecutor,
)
from .webgpu_program import Program, program_json, uploads_json
from .webgpu_step import Step

OUTPUTS = (None, "logits", "argmax", "ahead", "candidates", "adjusted", "hidden", "embedding")
"""In the order of ``WANTED`` in ``worker/replay.js``."""
SOURCE_CODES = ("not_found", "forbidden", "network", "source", "out_of_range")

_page_gpu: Any = None


def use_gpu(gpu: Any) -> None:
    """Name the page's ``GpuDevice`` (from ``worker/gpu.js``) that executors will run on."""
    global _page_gpu
    _page_gpu = gpu


def page_buffers() -> dict[str, int]:
    """How many buffers the page's GPU device holds, and their bytes."""
    about = json.loads(_page_gpu.infoJson())
    return {key: int(about[key]) for key in ("nBuffers", "bufferBytes")}


class GpuRoom:
    """A ``fit.Room``: the page's GPU, which tells no total but can be asked for buffers."""

    most_bytes = 0

    async def takes(self, n_bytes: int) -> bool:
        """Allocate so much, beside what is held, and give it back."""
        with js_errors():
            return bool(await _page_gpu.takes(n_bytes))


def page_held() -> int:
    """Bytes of the buffers that the page's GPU holds now."""
    return page_buffers()["bufferBytes"]


class JsSource:
    """A ``ByteSource`` of ``worker/sources.js`` as an ``AsyncSource``."""

    def __init__(self, source: Any) -> None:
        self.js = source
        self.name = str(source.name)
        self.size = int(source.size)

    async def read(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes at ``offset``."""
        with js_errors():
            array = await self.js.read(offset, n)
            data: bytes = array.to_bytes()
            return data

    async def open_part(self, name: str) -> JsSource:
        """Another file of the same model, from where this one is."""
        if not hasattr(self.js, "openPart"):
            raise SourceError(f"{name} was not given.", code="not_found")
        with js_errors():
            return JsSource(await self.js.openPart(name))

    async def close(self) -> None:
        """End reads under way."""
        self.js.abort()


class PageStore:
    """Small texts in the site's cache; see ``worker/store.js``."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu

    async def recall(self, key: str) -> str | None:
        """The text under a key, if it is there and readable."""
        text = await self._gpu.recall(key)
        return str(text) if text else None

    async def remember(self, key: str, text: str) -> None:
        """Keep a text, if the browser allows."""
        await self._gpu.remember(key, text)


class BrowserDevice:
    """The page's GPU device, replaying one program."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self._model: Any = None
        about = json.loads(gpu.infoJson())
        self.limits: Mapping[str, int] = about["limits"]
        self.features, self.implied_features = frozenset(about["features"]), frozenset[str]()
        self.min_subgroup = int(about["minSubgroup"]) or MIN_SUBGROUP
        self.info = DeviceInfo("webgpu", about["adapter"], tuple(about["notes"]))
        self.is_software = bool(about["isSoftware"])
        self.identity = str(about["identity"])
        self.store = PageStore(gpu)
        self._profile: Profile | None = None
        self.stats = RunStats()
        self._program: Program | None = None

    async def create(self, program: Program, progress: ProgressFn) -> None:
        """Allocate buffers in the page and start to compile pipelines."""
        self._program = program
        with js_errors():
            self._model = await self._gpu.createModel(program_json(program))
        for name, data in program.model_plan.constants.items():
            self._model.write(name, 0, to_js(data))
        self._run = self._model.run
        self._assign = [self._model.inputOf(i).assign for i in range(len(program.plans))]

    async def upload(
        self,
        uploads: Sequence[WeightUpload],
        sources: Sequence[AsyncSource],
        progress: ProgressFn,
    ) -> None:
        """Stream every weight into its slot, in JavaScript, then wait for the pipelines."""

        def compiled(done: int, total: int) -> None:
            progress(Progress("compile", "Compiling the kernels", done, total))

        def written(done: int, total: int) -> None:
            progress(Progress("weights", "Reading the weights", done, total))

        for upload in uploads:
            if upload.table:
                self._model.write(upload.slot, upload.table_at, to_js(upload.table))
        parts = await js_sources(sources if uploads else (), self._gpu.bytesSource)
        with js_errors(self._program):
            with proxied(written) as on_progress:
                await self._model.writeWeights(parts, uploads_json(uploads), on_progress)
            with proxied(compiled) as on_progress:
                await self._model.compiled(on_progress)

    def new_state(self) -> int:
        """Allocate the state slots of one session."""
        return int(self._model.newState())

    def free_state(self, state: int) -> None:
        """Give a session's state slots back."""
        if self._model is not None:
            self._model.freeState(state)

    async def run(self, state: int, step: Step) -> NDArray[np.uint8] | None:
        """One call: input words in, dispatches, output words out."""
        self._assign[step.plan](step.input_words)
        for slot, words in step.writes:
            self._model.write(slot, 0, to_js(words.tobytes()))
        stats = self.stats
        stats.dispatches += step.n_dispatches
        try:
            if self._profile is None:
                result = await self._replay(state, step)
            else:
                result = await self._replay_timed(state, step, self._profile)
        except JsException as error:
            raise engine_error(error) from error
        stats.submits = self._model.submits
        stats.device_ms, stats.wait_ms = self._model.runMs, self._model.waitMs
        if result is None:
            return None
        stats.bytes_read += step.read_bytes
        return np.frombuffer(result.to_bytes(), np.uint8)

    def _replay(self, state: int, step: Step) -> Any:
        want = OUTPUTS.index(step.output)
        return self._run(
            state,
            step.plan,
            step.start,
            step.stop,
            want,
            step.read_bytes,
            *step.tail,
            step.n_repeats,
        )

    async def _replay_timed(self, state: int, step: Step, profile: Profile) -> Any:
        words = step.input_words[:3].tolist()
        if profile.has_timestamps:
            result = await self._replay(state, step)
            timed = json.loads(self._model.timer.takeJson())
            profile.add(step.plan, [i for i, _ in timed], [ms for _, ms in timed], words)
            return result
        result, order = None, step.order(step.start, step.stop)
        for n, i in enumerate(order, 1):
            is_last = n == len(order)
            alone = replace(step, start=i, stop=i + 1, tail=(0, 0), n_repeats=1)
            if not is_last:
                alone = replace(alone, output=None, read_bytes=0)
            started = perf_counter()
            result = await self._replay(state, alone)
            profile.add(step.plan, [i], [(perf_counter() - started) * 1e3], words)
        return result

    def profile(self, profile: Profile | None) -> None:
        """Time each dispatch into ``profile`` from now on; None ends that."""
        self._profile = profile
        self._model.profile(profile is not None and profile.has_timestamps)

    def fork(self) -> BrowserDevice:
        """The page's device for another program; closing it leaves this one open."""
        return BrowserDevice(self._gpu)

    def cancel(self) -> None:
        """Make the running step stop at its next submit."""
        if self._model is not None:
            self._model.cancel()

    def close(self) -> None:
        """Destroy the model's buffers; the page keeps its device for the next model."""
        model, self._model = self._model, None
        if model is not None:
            model.destroy()


class BrowserExecutor(WebGpuExecutor):
    """The WebGPU executor on the page's device; ``gpu`` defaults to the one of ``use_gpu``."""

    def __init__(self, gpu: Any = None, *, compile_program: Compile | None = None) -> None:
        gpu = gpu if gpu is not None else _page_gpu
        if gpu is None:
            raise NoAdapterError("This page has no GPU device.", hint="Use the CPU instead.")
        super().__init__(BrowserDevice(gpu), compile_program)


async def js_sources(sources: Sequence[AsyncSource], from_bytes: Any) -> Any:
    """The JavaScript side of sources, as an array; small ones made in Python are copied over."""
    return to_js(
        [
            source.js
            if isinstance(source, JsSource)
            else from_bytes(to_js(await source.read(0, source.size)), source.name)
            for source in sources
        ]
    )


@contextmanager
def proxied(function: Any) -> Iterator[Any]:
    """A Python function that JavaScript may call until the block ends."""
    proxy = create_proxy(function)
    try:
        yield proxy
    finally:
        proxy.destroy()


@contextmanager
def js_errors(program: Program | None = None) -> Iterator[None]:
    """Turn a ``Failure`` thrown by the worker's JavaScript into our exception of that code."""
    try:
        yield
    except JsException as error:
        raise engine_error(error, program) from error


def engine_error(error: Any, program: Program | None = None) -> EngineError:
    """Our exception for a JavaScript error; unknown ones become ``DeviceError``."""
    code = getattr(error, "code", "")
    message = str(getattr(error, "message", error))
    hint = str(getattr(error, "hint", ""))
    if code == "cancelled":
        return RunCancelledError(message)
    if code in SOURCE_CODES:
        return SourceError(message, hint=hint, code=code)
    if code == "shader_compile" and program is not None:
        kernel = program.kernels[int(error.details.kernel)]
        where = kernel.locate(int(error.details.line))
        return ShaderCompileError(f"{where}: the browser rejected the kernel: {message}", hint=hint)
    for kind in DeviceError.__subclasses__():
        if kind.code == code:
            return kind(message, hint=hint)
    return DeviceError(message, hint=hint)
