"""From a prompt to pieces of text: the loop above a session, iterable both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from . import _sync
from .backends.base import ProgressFn
from .errors import InvalidInputError, check_count
from .sampling import SamplingParams
from .session import FinishReason, Session
from .stopping import StopMatcher, check_stop_strings
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class GenerateOptions:
    """What one generation may do: length, sampling and where it ends."""

    max_tokens: int = 256
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: str | Sequence[str] | None = ()
    ignore_eos: bool = False
    progress: ProgressFn | None = None
    run_ahead: int | None = None
    """Greedy steps that a device runs at once; None: by their measured time."""

    def __post_init__(self) -> None:
        check_count("max_tokens", self.max_tokens)
        object.__setattr__(self, "stop", check_stop_strings(self.stop))


@dataclass
class Stats:
    """Counts and times of one generation, filled while it runs."""

    n_prompt: int = 0
    n_reused: int = 0
    n_generated: int = 0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    finish_reason: FinishReason = ""

    @property
    def decode_tokens_per_s(self) -> float:
        """Tokens per second after the first."""
        return (self.n_generated - 1) / self.decode_ms * 1e3 if self.n_generated > 1 else 0.0

    @property
    def prefill_tokens_per_s(self) -> float:
        """Prompt tokens per second, those reused left out."""
        run = self.n_prompt - self.n_reused
        return run / self.prefill_ms * 1e3 if self.prefill_ms else 0.0


class Generation:
    """Text as it is made: ``for piece in generation`` or ``async for piece in generation``.

    ``cancel()`` ends it at the next token (or prefill chunk); ``stats`` and ``finish_reason``
    tell what happened; ``ids`` are the tokens made so far.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        options: GenerateOptions,
    ) -> None:
        self._session, self._tokenizer = session, tokenizer
        self._prompt, self._options = prompt, options
        self._cancelled = False
        self._is_begun = False
        self.stats = Stats()
        self.ids: list[int] = []

    @property
    def finish_reason(self) -> FinishReason:
        """Why it ended; empty while it runs."""
        return self.stats.finish_reason

    def cancel(self) -> None:
        """Stop soon; pieces already made stay valid."""
        self._cancelled = True

    def __iter__(self) -> Iterator[str]:
        return _sync.iterate(self._pieces())

    def __aiter__(self) -> AsyncIterator[str]:
        return self._pieces()

    def text(self) -> str:
        """Run to the end and return everything."""
        return "".join(self)

    async def text_async(self) -> str:
        """Run to the end and return everything."""
        return "".join([piece async for piece in self])

    async def _pieces(self) -> AsyncIterator[str]:
        if self._is_begun:
            raise InvalidInputError(
                "This generation has already been run.",
                hint="Call generate() again; what the session holds is not computed twice.",
            )
        self._is_begun = True
        detokenizer = self._tokenizer.detokenizer(skip_special=True, continues=True)
        matcher = StopMatcher(check_stop_strings(self._options.stop))
        tokens = self._session.stream(
            self._prompt, self._options, self.stats, lambda: self._cancelled
        )
        async for token in tokens:
            self.ids.append(token)
            piece, stopped = matcher.push(detokenizer.push(token))
            if piece:
                yield piece
            if stopped:
                self.stats.finish_reason = "stop"
                return
        piece, stopped = matcher.push(detokenizer.flush())
        piece += "" if stopped else matcher.flush()
        if stopped:
            self.stats.finish_reason = "stop"
        if piece:
            yield piece
