"""A session owns KV state: the tokens a device holds, and how to reuse them.

Chat, tools and servers are layers above that only call sessions.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .backends.auto import breathe
from .backends.base import Progress, ProgressFn, Want
from .errors import ContextFullError, InvalidInputError

if TYPE_CHECKING:
    from .generate import GenerateOptions, Stats
    from .model import Model

FinishReason = Literal["", "stop", "length", "cancelled", "context_full"]


class Session:
    """Token history and device state of one conversation.

    ``tokens`` are those whose keys and values the device holds. A new prompt only prefills what
    differs from them: the longest common prefix is kept, also after an edit in the middle.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._state = model.executor.new_state()
        self.tokens: list[int] = []

    @property
    def n_ctx(self) -> int:
        """Most tokens this session can hold."""
        return self._model.n_ctx

    def reset(self) -> None:
        """Forget every token."""
        self.tokens = []

    def reuse(self, ids: Sequence[int]) -> int:
        """Rewind to the longest prefix shared with ``ids`` and return its length.

        At least one token of ``ids`` is left to run, since its logits are wanted.
        """
        shared = 0
        for held, wanted in zip(self.tokens, ids[:-1], strict=False):
            if held != wanted:
                break
            shared += 1
        shared = self._model.executor.rewind(self._state, shared)
        del self.tokens[shared:]
        return shared

    async def run(
        self,
        ids: Sequence[int],
        want: Want,
        *,
        all_rows: bool = False,
        progress: ProgressFn | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> NDArray[Any] | None:
        """Append ``ids`` by chunks; the result for the last token, or for each of ``ids``.

        Returns None when cancelled between chunks; what was run stays in ``tokens``.
        """
        if len(self.tokens) + len(ids) > self.n_ctx:
            raise ContextFullError(
                f"{len(self.tokens) + len(ids)} tokens do not fit the context of {self.n_ctx}.",
                hint="Start a new conversation, or load the model with a larger context.",
            )
        results: list[NDArray[Any]] = []
        size = self._model.n_batch
        for start in range(0, len(ids), size):
            chunk = list(ids[start : start + size])
            is_last = start + size >= len(ids)
            rows = range(len(chunk)) if all_rows else range(len(chunk) - is_last, len(chunk))
            wanted: Want = want if all_rows or is_last else "none"
            position = len(self.tokens)
            result = await self._model.executor.forward(
                self._state, chunk, position, list(rows), wanted
            )
            self.tokens.extend(chunk)
            if result is not None:
                results.append(result)
            if progress:
                progress(Progress("prefill", "prompt", start + len(chunk), len(ids)))
            await breathe()
            if is_cancelled() and not is_last:
                return None
        return np.concatenate(results) if results else None

    async def stream(
        self,
        ids: Sequence[int],
        options: GenerateOptions,
        stats: Stats,
        is_cancelled: Callable[[], bool],
    ) -> AsyncIterator[int]:
        """Token ids that continue ``ids``, ending token left out; fills ``stats`` as it goes."""
        ids = self._model.check_ids(ids)
        started = time.perf_counter()
        stats.n_prompt, stats.n_reused = len(ids), self.reuse(ids)
        sampler = self._model.sampler(options)
        want: Want = "argmax" if sampler.is_plain_argmax else "logits"
        history = list(ids)
        result = await self.run(
            ids[stats.n_reused :], want, progress=options.progress, is_cancelled=is_cancelled
        )
        stats.prefill_ms = (time.perf_counter() - started) * 1e3
        decode_started = time.perf_counter()
        while True:
            if result is None or is_cancelled():
                stats.finish_reason = "cancelled"
                return
            token = int(result[0]) if want == "argmax" else sampler.sample(result[0], history)
            if token in self._model.tokenizer.eos_ids and not options.ignore_eos:
                stats.finish_reason = "stop"
                return
            history.append(token)
            stats.n_generated += 1
            stats.decode_ms = (time.perf_counter() - decode_started) * 1e3
            yield token
            if stats.n_generated >= options.max_tokens:
                stats.finish_reason = "length"
                return
            if len(self.tokens) >= self.n_ctx:
                stats.finish_reason = "context_full"
                return
            result = await self.run([token], want, is_cancelled=is_cancelled)
            stats.decode_ms = (time.perf_counter() - decode_started) * 1e3

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Any:
        """Continue a prompt in this session; see ``Model.generate``."""
        return self._model.generate(prompt, session=self, **options)


def check_ids(ids: Sequence[int], n_vocab: int) -> list[int]:
    """Token ids as a non-empty list of ints inside the vocabulary."""
    checked = [int(i) for i in ids]
    if not checked:
        raise InvalidInputError("The prompt is empty.", hint="Give at least one token.")
    for token in checked:
        if not 0 <= token < n_vocab:
            raise InvalidInputError(
                f"The token id {token} is outside the vocabulary of {n_vocab}.",
                hint="Use ids made by this model's tokenizer.",
            )
    return checked
