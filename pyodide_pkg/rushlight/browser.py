"""The functions that ``worker/worker.js`` calls: one loaded model and one conversation.

Strings and JSON cross the border, never objects. Each function that can fail answers with an
envelope, ``{"ok": true, "value": ...}`` or ``{"ok": false, "error": {code, message, hint}}``.
"""

from __future__ import annotations

import gc
import json
import traceback
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from pyodide.ffi import JsException

from . import __name__ as _package
from .backends import simd_browser, webgpu_browser
from .backends.base import Executor, Progress
from .backends.numpy_executor import NumpyExecutor, unsupported_type
from .backends.simd_browser import BrowserCpuExecutor, BrowserHost, CpuRoom
from .backends.webgpu_browser import BrowserExecutor, GpuRoom, JsSource, engine_error, page_held
from .backends.webgpu_common import RunCancelledError
from .browser_info import MAX_REPLY_TOKENS, model_info, sampling_of
from .browser_options import changed
from .chat_fit import FittedPrompt, fit_prompt
from .device_report import model_facts
from .embedding import require_logits
from .errors import EngineError, check_choice, shown_text
from .fit import MemoryNeed, Room, WillNotFitError, require_fit
from .generate import Generation
from .gguf.reader import GgufFile
from .graph.ir import Graph
from .model import DEFAULT_N_CTX, Model
from .ops.kv_cache import can_keep
from .ops.opdef import KV_DTYPES, KvDtype
from .sampling import SamplingParams
from .session import Session
from .whole_hash import WholeHash as new_hash  # noqa: N813 - called like a function from JavaScript

NUMPY_BATCH = 16
"""Tokens per prefill chunk in numpy: it blocks the worker, and stop() waits for a chunk."""
BATCH = 256
__all__ = [
    "chat",
    "is_loaded",
    "load_model",
    "new_hash",
    "profile",
    "report",
    "reset",
    "stop",
    "unload",
    "use_devices",
]


class _Loaded:
    """The one model of this worker."""

    def __init__(self, model: Model, name: str) -> None:
        self.model = model
        self.name = name
        self.session = Session(model)
        self.generation: Generation | None = None
        self.n_written = 0
        """Tokens of all replies that came to their end."""


_loaded: _Loaded | None = None
_variant = "auto"


def use_devices(gpu: Any, cpu: Any, variant: str = "auto") -> None:
    """Name the page's ``GpuDevice`` and ``CpuDevice`` (None where there is none), and the kernel
    variant that the page's address asks for."""
    global _variant
    webgpu_browser.use_gpu(gpu)
    simd_browser.use_cpu(cpu)
    _variant = variant


def _failure(error: Exception) -> dict[str, Any]:
    if isinstance(error, JsException):
        error = engine_error(error)
    if isinstance(error, WillNotFitError):
        fit: dict[str, Any] = {"context": 0, "canForce": not error.is_sure}
        if found := error.fitting:
            fit |= {"context": found.n_ctx, "kvDtype": found.kv_dtype}
        return {"code": error.code, "message": error.message, "hint": error.hint, "fit": fit}
    if isinstance(error, EngineError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, MemoryError):
        return {
            "code": "out_of_memory",
            "message": "The page has no memory left for this model.",
            "hint": "Close other tabs, or use a smaller model.",
        }
    traceback.print_exception(error)  # unforeseen: the console shows where
    message = shown_text(f"{type(error).__name__}: {error}")
    return {"code": "worker_failed", "message": message, "hint": ""}


def enveloped(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[str]]:
    """Make an async function answer with an envelope as JSON, and never raise."""

    @wraps(function)
    async def call(*arguments: Any) -> str:
        try:
            envelope = {"ok": True, "value": await function(*arguments)}
        except Exception as error:
            envelope = {"ok": False, "error": _failure(error)}
        return json.dumps(envelope)

    return call


@enveloped
async def load_model(
    source: Any,
    name: str,
    backend: str,
    context: str,
    n_threads: int,
    on_progress: Callable[[str, str, int, int], None],
    is_forced: bool = False,
    kv_dtype: KvDtype = "f16",
) -> dict[str, Any]:
    """Load a ``ByteSource`` of ``worker/sources.js`` in place of the model before it.

    That one is unloaded once everything but the new weights was read and found good, so that a
    file that is refused changes nothing. ``backend``: "webgpu" or "cpu". ``context``: "auto",
    "max" or a number of tokens. ``n_threads`` of the CPU kernels; 0: as many as suit the machine.
    ``on_progress(step, label, done, total)``. ``is_forced``: load although a trial found no room.
    ``kv_dtype``: how the cache keeps values, where the model can have such a cache.
    Returns the protocol's ModelInfo, without the worker's own notes.
    """
    global _loaded
    notes: list[str] = []

    def progress(event: Progress) -> None:
        on_progress(event.step, event.label, event.done, event.total)

    def before_weights(graph: Graph, file: GgufFile) -> None:
        require_logits(graph, "Choose another model for a conversation.")
        for info in (file.tensors[name] for name in graph.weights):
            if info.type.dequantize is None:
                raise unsupported_type(info, backend)
        if backend == "cpu" and simd_browser.has_kernels():
            simd_browser.require_room_for_weights(graph, file)

    async def before_memory(need: MemoryNeed) -> None:
        room, held = _room(backend)
        if room is not None:
            await require_fit(need, held, room, is_forced=is_forced)
        on_progress("plan", f"It fits: {need.words()}", 0, 0)
        _unload()

    model = await open_model(
        source,
        backend,
        n_threads=n_threads,
        progress=progress,
        before_weights=before_weights,
        before_memory=before_memory,
        n_ctx=lambda trained: _context_size(context, trained, notes),
        kv_dtype=lambda graph: _cache_format(kv_dtype, graph, notes),
    )
    _loaded = _Loaded(model, name)
    info = model_info(model, name, backend)
    return {**info, "notes": [*info["notes"], *notes]}


def _room(backend: str) -> tuple[Room | None, int]:
    """What the device says of its memory, and the bytes held there now; None: numpy."""
    if backend == "webgpu":
        return GpuRoom(), page_held()
    if not simd_browser.has_kernels():
        return None, 0
    held = 0 if _loaded is None else sum(_loaded.model.executor.stats.memory_bytes.values())
    return CpuRoom(), held


def _context_size(context: str, trained: int, notes: list[str]) -> int:
    if context == "max":
        return trained
    wanted = DEFAULT_N_CTX if context == "auto" else int(context)
    if wanted > trained and context != "auto":
        notes.append(f"The context is {trained:,} tokens: this model was trained for no more.")
    return min(wanted, trained)


def _cache_format(kv_dtype: KvDtype, graph: Graph, notes: list[str]) -> KvDtype:
    check_choice("kvDtype", kv_dtype, KV_DTYPES)
    if can_keep(graph, kv_dtype):
        return kv_dtype
    notes.append(f"The cache is f16: this model cannot have one of {kv_dtype}.")
    return "f16"


def is_loaded() -> bool:
    """Whether there is a model to chat with."""
    return _loaded is not None


def make_executor(backend: str, n_threads: int = 0) -> Executor:
    """An executor for the protocol's name of a backend; numpy where the kernels do not load."""
    if backend == "webgpu":
        return BrowserExecutor()
    has_kernels = backend == "cpu" and simd_browser.has_kernels()
    return BrowserCpuExecutor(n_threads) if has_kernels else NumpyExecutor()


async def open_model(source: Any, backend: str, *, n_threads: int = 0, **options: Any) -> Model:
    """A model from a ``ByteSource`` of ``worker/sources.js``, with the page's settings."""
    executor = make_executor(backend, n_threads)
    options.setdefault("variant", _variant)
    n_batch = NUMPY_BATCH if isinstance(executor, NumpyExecutor) else BATCH
    try:
        return await Model.load_async(JsSource(source), executor, n_batch=n_batch, **options)
    except BaseException:
        executor.close()
        raise


@enveloped
async def chat(
    messages_json: str, options_json: str, on_token: Callable[[str], None]
) -> dict[str, Any]:
    """Answer the last message, or go on with it if it is the assistant's; pieces of text go to
    ``on_token``. Returns ReplyStats."""
    if _loaded is None:
        raise EngineError("No model is loaded.", code="no_model", hint="Load a model first.")
    loaded, model = _loaded, _loaded.model
    options = {k: v for k, v in json.loads(options_json).items() if v is not None}
    messages = json.loads(messages_json)
    fitted = fit_prompt(
        messages,
        model.file.metadata,
        model.tokenizer,
        n_ctx=model.n_ctx,
        n_ctx_train=model.config.n_ctx_train,
    )
    prompt = fitted.prompt
    generation = model.generate(
        prompt.ids,
        session=loaded.session,
        max_tokens=int(options.get("maxTokens", MAX_REPLY_TOKENS)),
        stop=prompt.stop_strings,
        **vars(changed(sampling_of(model), options)),
    )
    loaded.generation = generation
    text = ""
    try:
        async for piece in generation:
            if not text and messages[-1]["role"] != "assistant":
                piece = piece.lstrip()  # templates and transcripts leave a space before the reply
            if piece:
                text += piece
                on_token(piece)
    except RunCancelledError:
        generation.stats.finish_reason = "cancelled"
    finally:
        loaded.generation = None
        loaded.n_written += len(generation.ids)
    return _reply_stats(generation, fitted, text)


def _reply_stats(generation: Generation, fitted: FittedPrompt, text: str) -> dict[str, Any]:
    stats, prompt = generation.stats, fitted.prompt
    return {
        "finishReason": stats.finish_reason,
        "nPrompt": stats.n_prompt,
        "nReused": stats.n_reused,
        "nGenerated": stats.n_generated,
        "prefillMs": stats.prefill_ms,
        "decodeMs": stats.decode_ms,
        "text": text,
        "nLeftOut": fitted.n_dropped,
        "hasExamples": fitted.has_examples or prompt.has_template,
        "promptText": prompt.text,
    }


@enveloped
async def profile() -> dict[str, Any]:
    """Where the time of a short reply goes, as a table; the conversation is left alone."""
    from .bench import BenchOptions, profile_async

    if _loaded is None:
        raise EngineError("No model is loaded.", code="no_model", hint="Load a model first.")
    model = _loaded.model
    n_prompt = min(32, model.n_ctx // 2)
    options = BenchOptions(prefill=(n_prompt,), n_decode=min(8, model.n_ctx - n_prompt))
    found = await profile_async(model, options)
    kernels = model.device.kernels
    return {"text": f"{model.device.adapter}; kernels: {kernels}\n\n{found.text()}"}


def stop() -> None:
    """End the running reply at the next token, or the next submit of its prompt."""
    if _loaded is None or _loaded.generation is None:
        return
    _loaded.generation.cancel()
    cancel = getattr(_loaded.model.executor, "cancel", None)
    if cancel is not None:
        cancel()


def reset() -> None:
    """Forget the conversation."""
    if _loaded is not None:
        _loaded.session.reset()


def unload() -> None:
    """Free the model and its device memory."""
    _unload()


def _unload() -> None:
    global _loaded
    if _loaded is not None:
        _loaded.model.close()
        _loaded = None
    gc.collect()


def report() -> str:
    """Facts for a bug report as JSON: version, device memory and counters."""
    from importlib.metadata import version

    details: dict[str, Any] = {"defaults": SamplingParams().__dict__}
    device_bytes, adapter = 0, ""
    if _loaded is not None:
        executor = _loaded.model.executor
        adapter = _loaded.model.device.adapter
        device_bytes = sum(executor.stats.memory_bytes.values())
        details |= model_facts(_loaded.model, len(_loaded.session.tokens))
        writing = _loaded.generation
        details["replyTokens"] = _loaded.n_written + (len(writing.ids) if writing else 0)
        if isinstance(executor, BrowserCpuExecutor):
            details["cpu"] = _cpu_report(executor, _loaded.model)
    return json.dumps(
        {
            "version": version(_package),
            "adapter": adapter,
            "deviceBytes": device_bytes,
            "details": details,
        }
    )


def _cpu_report(executor: BrowserCpuExecutor, model: Model) -> dict[str, Any]:
    """The protocol's CpuReport."""
    host, plan = executor.host, executor.plan
    assert plan is not None and isinstance(host, BrowserHost)
    ops = dict.fromkeys(node.op for node in model.graph.nodes)
    return {
        "threads": host.n_threads,
        "build": host.build,
        "variant": executor.variant,
        "accelerated": [op for op in ops if op not in plan.numpy_ops],
        "reference": list(plan.numpy_ops),
        "notes": list(host.notes),
    }
