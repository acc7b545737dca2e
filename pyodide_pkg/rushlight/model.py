"""A loaded model: file, graph, tokenizer and the device that runs it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import _sync
from .backends.auto import DEVICES, IN_BROWSER, create_executor
from .backends.base import (
    DeviceInfo,
    Executor,
    LoadOptions,
    Progress,
    ProgressFn,
)
from .embedding import embed_texts, hidden_states
from .errors import InvalidInputError, ModelFormatError, check_choice, check_count
from .fit import MemoryNeed, memory_need
from .generate import GenerateOptions, Generation
from .gguf.config import ModelConfig, read_architecture, read_config
from .gguf.http_rules import is_web_address
from .gguf.reader import GgufFile
from .gguf.source import AsyncSource, Source, SyncAsAsync
from .gguf.splits import open_parts, open_parts_async
from .graph.ir import Graph
from .models import build_graph, require_known
from .ops.kv_cache import require_cache
from .ops.opdef import KV_DTYPES, KvDtype
from .sampling import Sampler, SamplingParams, require_known_options
from .session import Session, check_ids
from .tokenizer import Tokenizer, load_tokenizer

DEFAULT_N_CTX = 4096
"""Context allocated unless asked otherwise: a file's trained context can need gigabytes of KV."""

ModelSource = str | Path | bytes | Source | AsyncSource
BeforeMemory = Callable[[MemoryNeed], Awaitable[None]]
ContextSize = int | Callable[[int], int] | None
"""Tokens of context; or how many, given how many the model was trained for."""
KvChoice = KvDtype | Callable[[Graph], KvDtype]
"""How the cache keeps values; or what the graph decides."""


def _nothing(graph: Graph, file: GgufFile) -> None:
    """Do nothing before the weights are read."""


def _ignore(progress: Progress) -> None:
    """A listener for callers that want no progress."""


async def _open(source: ModelSource) -> tuple[GgufFile, list[AsyncSource]]:
    if IN_BROWSER and is_web_address(source):
        from .gguf.fetch_source import FetchSource

        first: AsyncSource = await FetchSource.open(str(source))
        return await open_parts_async(first, FetchSource.open)
    if inspect.iscoroutinefunction(getattr(source, "read", None)):
        open_part = getattr(source, "open_part", None)
        return await open_parts_async(cast(AsyncSource, source), open_part)
    file, sources = open_parts(cast("str | Path | bytes | Source", source))
    return file, [SyncAsAsync(part) for part in sources]


def _asking(
    before_memory: BeforeMemory, graph: Graph, n_ctx: int, kv_dtype: KvDtype
) -> Callable[[Mapping[str, int]], Awaitable[None]]:
    """What executors call with the bytes of their plan."""
    return lambda by_kind: before_memory(memory_need(by_kind, graph, n_ctx, kv_dtype))


def _is_callers(source: ModelSource) -> bool:
    """Whether the source was opened by the caller, who also closes it."""
    return not isinstance(source, str | Path | bytes)


def _context(asked: ContextSize, trained: int) -> int:
    if callable(asked):
        asked = asked(trained)
    wanted = asked if asked is not None else min(trained, DEFAULT_N_CTX)
    if not 1 <= wanted <= trained:
        raise InvalidInputError(
            f"A context of {wanted} tokens was asked for.",
            hint=f"This model was trained for 1 to {trained}.",
        )
    return wanted


def _check_vocabulary(tokenizer: Tokenizer, config: ModelConfig) -> None:
    if tokenizer.n_vocab != config.n_vocab:
        raise ModelFormatError(
            f"tokenizer.ggml.tokens has {tokenizer.n_vocab} entries, but token_embd.weight has "
            f"{config.n_vocab} rows.",
            hint="The file was made by a faulty converter; try another file of the model.",
        )


class Model:
    """A model ready to run; make one with ``Model.load`` or ``await Model.load_async``."""

    def __init__(
        self,
        file: GgufFile,
        config: ModelConfig,
        graph: Graph,
        tokenizer: Tokenizer,
        executor: Executor,
        options: LoadOptions,
    ) -> None:
        self.file, self.config, self.tokenizer, self.graph = file, config, tokenizer, graph
        self._executor, self._options = executor, options
        self._is_closed = False
        self._source_notes: tuple[str, ...] = ()
        self._session: Session | None = None

    @staticmethod
    def load(source: ModelSource, device: str = "auto", **options: Any) -> Model:
        """Load a GGUF file from a path, an http(s) URL or bytes.

        ``device``: "auto", "gpu", "floor" (a GPU within the limits that each must have), "cpu" or
        "numpy". Options: ``n_ctx`` (tokens of context), ``kv_dtype`` ("f16", "f32" or "q8_0"),
        ``n_batch`` (tokens per prefill chunk), ``progress`` (called with ``Progress``), ``pre``
        (overrides the file's pre-tokenizer name), ``variant`` ("exact": kernels of full precision;
        or forces one: "tiles" or another row of ``plan/variant.py`` on a GPU, "int8" on the CPU),
        ``threads`` (of the CPU kernels; 0 is as many as suit the machine).
        Raises an ``EngineError`` that names what is wrong with the file or device.
        """
        return _sync.run(Model.load_async(source, device, **options))

    @staticmethod
    async def load_async(
        source: ModelSource,
        device: str | Executor = "auto",
        *,
        n_ctx: ContextSize = None,
        kv_dtype: KvChoice = "f16",
        n_batch: int = 256,
        progress: ProgressFn = _ignore,
        before_weights: Callable[[Graph, GgufFile], None] = _nothing,
        before_memory: BeforeMemory | None = None,
        pre: str | None = None,
        variant: str = "auto",
        threads: int = 0,
    ) -> Model:
        """The awaitable form of ``load``; the only one that works on a page's GPU.

        ``before_weights`` is called once everything but the weights was read and found good;
        ``before_memory`` is awaited once the memory for it is planned. Either may refuse.
        """
        if n_ctx is not None and not callable(n_ctx):
            check_count("n_ctx", n_ctx)
        check_count("n_batch", n_batch)
        check_count("threads", threads, low=0)
        if not callable(kv_dtype):
            check_choice("kv_dtype", kv_dtype, KV_DTYPES)
        if not hasattr(device, "forward"):
            check_choice("device", device, DEVICES)
        progress(Progress("header", "Reading the header"))
        file, sources = await _open(source)
        try:
            require_known(read_architecture(file.metadata))
            config = read_config(file.metadata, file.tensors)
            wanted = _context(n_ctx, config.n_ctx_train)
            config = replace(config, n_ctx=wanted)
            graph = build_graph(config, {name: t.shape for name, t in file.tensors.items()})
            kv = kv_dtype(graph) if callable(kv_dtype) else kv_dtype
            require_cache(graph, kv)
            tokenizer = load_tokenizer(file.metadata, pre)
            _check_vocabulary(tokenizer, config)
            need = None if before_memory is None else _asking(before_memory, graph, wanted, kv)
            n_batch = graph.chunk_size(wanted, n_batch)
            options = LoadOptions(wanted, kv, n_batch, variant, before_memory=need)
            before_weights(graph, file)
            executor = create_executor(device, threads) if isinstance(device, str) else device
            await executor.load(graph, file, sources, options, progress)
        finally:
            if not _is_callers(source):
                for part in sources:
                    await part.close()
        progress(Progress("ready", "Ready", 1, 1))
        model = Model(file, config, graph, tokenizer, executor, options)
        notes = (str(getattr(part, "note", "")) for part in sources)
        model._source_notes = tuple(dict.fromkeys(note for note in notes if note))
        return model

    @property
    def executor(self) -> Executor:
        """What runs the graph; raises once the model is closed."""
        if self._is_closed:
            raise InvalidInputError("The model is closed.", hint="Load it again.", code="closed")
        return self._executor

    @property
    def device(self) -> DeviceInfo:
        """Backend and adapter in use, and every fall-back taken."""
        info = self._executor.info
        return replace(info, notes=(*info.notes, *self._source_notes))

    @property
    def n_ctx(self) -> int:
        """Tokens a session can hold."""
        return self._options.n_ctx

    @property
    def kv_dtype(self) -> KvDtype:
        """How keys and values of past tokens are kept."""
        return self._options.kv_dtype

    @property
    def n_batch(self) -> int:
        """Tokens run in one prefill chunk."""
        return self._options.n_batch

    @property
    def n_vocab(self) -> int:
        """Rows of the output, one logit each."""
        return self.config.n_vocab

    def check_ids(self, ids: Sequence[int]) -> list[int]:
        """Token ids as a non-empty list inside the vocabulary; else ``InvalidInputError``."""
        return check_ids(ids, self.n_vocab)

    def sampler(self, options: GenerateOptions) -> Sampler:
        """A fresh sampler for one generation."""
        return Sampler(options.sampling)

    def session(self) -> Session:
        """A new session with its own KV cache on the device."""
        return Session(self)

    @property
    def default_session(self) -> Session:
        """The session that ``generate`` and ``logits`` share; made at first use."""
        if self._session is None:
            self._session = Session(self)
        return self._session

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 256,
        stop: str | Sequence[str] | None = (),
        ignore_eos: bool = False,
        session: Session | None = None,
        progress: ProgressFn | None = None,
        run_ahead: int | None = None,
        **sampling: Any,
    ) -> Generation:
        """Continue a prompt; iterate the result with ``for`` or ``async for``.

        Sampling options are the fields of ``SamplingParams`` (``temperature=0`` is greedy). What
        the session already holds of the prompt is not computed again. ``run_ahead`` fixes how
        many greedy steps a device runs at once; else their measured time decides.
        """
        if session is not None and session.model is not self:
            raise InvalidInputError("The session belongs to another model.")
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        require_known_options(sampling, inspect.signature(self.generate).parameters)
        params = SamplingParams(**sampling)
        if unknown := [i for i in params.logit_bias if i >= self.n_vocab]:
            raise InvalidInputError(
                f"logit_bias names the id {unknown[0]}; the vocabulary has {self.n_vocab}."
            )
        options = GenerateOptions(max_tokens, params, stop, ignore_eos, progress, run_ahead)
        return Generation(
            session or self.default_session, self.tokenizer, self.check_ids(ids), options
        )

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Logits after each token: float32 [n_tokens, n_vocab]."""
        return _sync.run(self.logits_async(ids))

    async def logits_async(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Logits after each token: float32 [n_tokens, n_vocab]."""
        return await self._run_all(ids, "logits")

    def argmax(self, ids: Sequence[int]) -> NDArray[np.int32]:
        """The most likely token after each token: int32 [n_tokens]."""
        return _sync.run(self.argmax_async(ids))

    async def argmax_async(self, ids: Sequence[int]) -> NDArray[np.int32]:
        """The most likely token after each token: int32 [n_tokens]."""
        return await self._run_all(ids, "argmax")

    async def _run_all(self, ids: Sequence[int], want: Any) -> NDArray[Any]:
        checked = self.check_ids(ids)
        session = self.default_session
        session.reset()
        result = await session.run(checked, want, all_rows=True)
        assert result is not None
        return result

    def embed(
        self, texts: str | Sequence[str], *, normalise: bool = True, truncate: bool = False
    ) -> NDArray[np.float32]:
        """A vector for each text: float32 [n, n_embd], of length 1 unless ``normalise`` is off.

        A text must fit the model's context, or ``truncate`` drops its end. Raises
        ``UnsupportedModelError`` for a model that makes no vectors, ``ContextFullError`` for a
        text that is too long.
        """
        return _sync.run(self.embed_async(texts, normalise=normalise, truncate=truncate))

    async def embed_async(
        self, texts: str | Sequence[str], *, normalise: bool = True, truncate: bool = False
    ) -> NDArray[np.float32]:
        """The awaitable form of ``embed``."""
        return await embed_texts(self, texts, normalise=normalise, truncate=truncate)

    def hidden_states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """An encoder's last state of each token: float32 [n_tokens, n_embd]."""
        return _sync.run(hidden_states(self, ids))

    async def hidden_states_async(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """The awaitable form of ``hidden_states``."""
        return await hidden_states(self, ids)

    def close(self) -> None:
        """Give back the device's memory."""
        self._session = None
        self._is_closed = True
        self._executor.close()


__all__ = ["DEFAULT_N_CTX", "Model", "ModelSource"]
