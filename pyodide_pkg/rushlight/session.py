"""A session owns KV state: the tokens a device holds, and how to reuse them.

Chat, tools and servers are layers above that only call sessions.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .backends.auto import breathe
from .backends.base import Progress, ProgressFn, Want
from .errors import ContextFullError, EngineError, InvalidInputError

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
        self._turn = 0
        self.tokens: list[int] = []

    @property
    def n_ctx(self) -> int:
        """Most tokens this session can hold."""
        return self._model.n_ctx

    @property
    def model(self) -> Model:
        """The model this session belongs to."""
        return self._model

    def reset(self) -> None:
        """Forget every token; a generation under way on this session ends with an error."""
        self.take_turn()
        self.tokens = []

    def take_turn(self) -> int:
        """Make the caller the one who goes on; whoever went before is refused from here on."""
        self._turn += 1
        return self._turn

    def _check_turn(self, turn: int) -> None:
        if turn != self._turn:
            raise InvalidInputError(
                "Something else has used this session since this generation began.",
                hint="Give each conversation a session of its own: model.session().",
                code="session_moved",
            )

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
        turn: int | None = None,
        all_rows: bool = False,
        progress: ProgressFn | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> NDArray[Any] | None:
        """Append ``ids`` by chunks; the result for the last token, or for each of ``ids``.

        ``turn`` is what ``take_turn`` gave, for a caller that goes on after other calls. Returns
        None when cancelled between chunks; what was run stays in ``tokens``.
        """
        turn = self.take_turn() if turn is None else turn
        self._check_turn(turn)
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
            self._check_turn(turn)
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
        turn = self.take_turn()
        stats.n_prompt, stats.n_reused = len(ids), self.reuse(ids)
        sampler = self._model.sampler(options)
        want: Want = "argmax" if sampler.is_plain_argmax else "logits"
        history = list(ids)
        result = await self.run(
            ids[stats.n_reused :],
            want,
            turn=turn,
            progress=options.progress,
            is_cancelled=is_cancelled,
        )
        stats.prefill_ms = (time.perf_counter() - started) * 1e3
        decode_started = time.perf_counter()
        while True:
            if result is None or is_cancelled():
                stats.finish_reason = "cancelled"
                return
            token = int(result[0]) if want == "argmax" else sampler.sample(result[0], history)
            if token < 0:
                raise bad_logits()
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
            result = await self.run([token], want, turn=turn, is_cancelled=is_cancelled)
            stats.decode_ms = (time.perf_counter() - decode_started) * 1e3

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Any:
        """Continue a prompt in this session; see ``Model.generate``."""
        return self._model.generate(prompt, session=self, **options)


def bad_logits() -> EngineError:
    """The error for an output that holds no number: there is no likeliest token."""
    return EngineError(
        "The model's output is not a number.",
        hint="The file may be damaged: download it again.",
        code="bad_logits",
    )


def check_ids(ids: Sequence[int], n_vocab: int) -> list[int]:
    """Token ids as a non-empty list of ints inside the vocabulary.

    Raises ``InvalidInputError`` for anything else; text and fractions are not taken as ids.
    """
    if isinstance(ids, str | bytes | bytearray) or not isinstance(ids, Iterable):
        raise InvalidInputError(
            f"Token ids were expected, not {type(ids).__name__}.",
            hint="Give a list of whole numbers; model.tokenizer.encode(text) makes one.",
        )
    checked = []
    for i in ids:
        if isinstance(i, bool | np.bool_) or not isinstance(i, int | np.integer):
            raise InvalidInputError(f"The token id {i!r} is not a whole number.")
        checked.append(int(i))
    if not checked:
        raise InvalidInputError("The prompt is empty.", hint="Give at least one token.")
    for token in checked:
        if not 0 <= token < n_vocab:
            raise InvalidInputError(
                f"The token id {token} is outside the vocabulary of {n_vocab}.",
                hint="Use ids made by this model's tokenizer.",
            )
    return checked
