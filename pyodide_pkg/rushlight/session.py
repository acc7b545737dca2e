"""A session owns KV state: the tokens a device holds, and how to reuse them.

Chat, tools and servers are layers above that only call sessions.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np
from numpy.typing import NDArray

from .backends.base import Progress, ProgressFn, Want
from .candidates import Candidates, SampleInputs
from .decoding import Decoder, RunAhead
from .embedding import require_logits
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
        require_logits(model.graph)
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

    @overload
    async def run(
        self,
        ids: Sequence[int],
        want: Want,
        *,
        turn: int | None = None,
        all_rows: bool = False,
        progress: ProgressFn | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> NDArray[Any] | None: ...

    @overload
    async def run(
        self,
        ids: Sequence[int],
        want: SampleInputs,
        *,
        turn: int | None = None,
        progress: ProgressFn | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Candidates | None: ...

    async def run(
        self,
        ids: Sequence[int],
        want: Want | SampleInputs,
        *,
        turn: int | None = None,
        all_rows: bool = False,
        progress: ProgressFn | None = None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> NDArray[Any] | Candidates | None:
        """Append ``ids`` by chunks; the result for the last token, or for each of ``ids``.

        ``want`` is an array's name, or what a draw needs: then the answer is its candidates.

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
        results: list[NDArray[Any] | Candidates] = []
        size = self._model.n_batch
        for start in range(0, len(ids), size):
            chunk = list(ids[start : start + size])
            is_last = start + size >= len(ids)
            rows = range(len(chunk)) if all_rows else range(len(chunk) - is_last, len(chunk))
            result = await self._run_chunk(
                chunk, list(rows), want if all_rows or is_last else "none"
            )
            self._check_turn(turn)
            self.tokens.extend(chunk)
            if result is not None:
                results.append(result)
            if progress:
                progress(Progress("prefill", "prompt", start + len(chunk), len(ids)))
            if is_cancelled() and not is_last:
                return None
        if results and isinstance(results[0], Candidates):
            return results[0]
        return np.concatenate(cast("list[NDArray[Any]]", results)) if results else None

    async def _run_chunk(
        self, chunk: list[int], rows: list[int], want: Want | SampleInputs
    ) -> NDArray[Any] | Candidates | None:
        executor, position = self._model.executor, len(self.tokens)
        if isinstance(want, SampleInputs):
            return await executor.candidates(self._state, chunk, position, want)
        return await executor.forward(self._state, chunk, position, rows, want)

    async def run_ahead(self, token: int, n_steps: int, turn: int) -> list[int]:
        """Greedy steps from ``token`` on; each counts only once it is given to ``accept``."""
        self._check_turn(turn)
        made = await self._model.executor.run_ahead(self._state, token, len(self.tokens), n_steps)
        self._check_turn(turn)
        return made

    async def draw_from(self, token: int, inputs: SampleInputs, turn: int) -> Candidates:
        """Append one token; the candidates for the one after it. ``run`` without its chunks."""
        self._check_turn(turn)
        found = await self._model.executor.candidates(
            self._state, (token,), len(self.tokens), inputs
        )
        self._check_turn(turn)
        self.tokens.append(token)
        return found

    def accept(self, token: int, turn: int) -> None:
        """Take a token that the device already holds as the next one."""
        self._check_turn(turn)
        self.tokens.append(token)

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
        ahead = RunAhead(self._model.executor.max_ahead, options.run_ahead)
        decoder = Decoder(self, sampler, turn, ahead)
        history = list(ids)
        token = await decoder.first(
            ids[stats.n_reused :], history, progress=options.progress, is_cancelled=is_cancelled
        )
        stats.prefill_ms = (time.perf_counter() - started) * 1e3
        decode_started = time.perf_counter()
        while True:
            if token is None or is_cancelled():
                stats.finish_reason = "cancelled"
                return
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
            n_left = min(options.max_tokens - stats.n_generated, self.n_ctx - len(self.tokens))
            token = await decoder.following(token, history, n_left)
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
