"""Make a conversation fit the context: what is left out, in which order, and what to say then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .chat import ChatPrompt, Message, build_prompt
from .errors import ContextFullError

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

MIN_REPLY = 16
"""Tokens that a prompt leaves for the reply, where the context is not even smaller."""


@dataclass(frozen=True)
class FittedPrompt:
    """A prompt that fits, and what had to go for that.

    ``n_dropped`` counts messages from the start of the conversation, system messages apart.
    ``has_examples`` is about a plain transcript's example exchanges.
    """

    prompt: ChatPrompt
    n_dropped: int
    has_examples: bool


def fit_prompt(
    messages: Sequence[Message],
    metadata: Mapping[str, Any],
    tokenizer: Tokenizer,
    *,
    n_ctx: int,
    n_ctx_train: int,
) -> FittedPrompt:
    """Return the prompt for ``messages`` with room for a reply, oldest exchanges left out.

    Messages that end with the assistant's are a reply to go on with. Where two examples would take
    over a quarter of the context they are left out as well. Raises ContextFullError if the last
    message alone (with the reply begun to it) does not fit.
    """
    continues = messages[-1:] != [] and messages[-1].get("role") == "assistant"

    def build(chosen: Sequence[Message], with_examples: bool) -> ChatPrompt:
        goes_on = continues and chosen[-1] is messages[-1]
        return build_prompt(
            chosen, metadata, tokenizer, with_examples=with_examples, continues=goes_on
        )

    system = [m for m in messages if m.get("role") == "system"]
    rest = [m for m in messages if m.get("role") != "system"]
    limit = n_ctx - min(MIN_REPLY, n_ctx // 8) - 1
    whole = build(messages, True)
    n_examples = 0
    if not whole.has_template:
        short = [{"role": "user", "content": "?"}]
        n_examples = len(build(short, True).ids) - len(build(short, False).ids)
    has_examples = n_examples <= n_ctx // 4
    if has_examples and len(whole.ids) <= limit:
        return FittedPrompt(whole, 0, not whole.has_template)
    starts = _turn_starts(rest)
    last = rest[starts[-1] :]
    alone = whole if len(rest) == len(last) else build([*system, *last], True)
    n_alone = len(alone.ids) - n_examples  # long texts take long to encode: not once more
    if n_alone > limit:
        raise _too_long(n_alone, n_ctx, n_ctx_train)
    has_examples = has_examples and len(alone.ids) <= limit
    # Space is made for several turns at once: each time it is, the cache is of no more use.
    best, low, high = build([*system, *last], has_examples), 0, len(starts) - 1
    if not has_examples and high > 0:
        everything = build(messages, False)
        if len(everything.ids) <= limit:
            return FittedPrompt(everything, 0, False)
        low = 1
    while low < high:
        middle = (low + high) // 2
        prompt = build([*system, *rest[starts[middle] :]], has_examples)
        if len(prompt.ids) <= limit * 3 // 4:
            best, high = prompt, middle
        else:
            low = middle + 1
    return FittedPrompt(best, starts[high], has_examples and not best.has_template)


def _turn_starts(rest: Sequence[Message]) -> list[int]:
    """Where a conversation may begin: at what a user says, and at the last message to answer."""
    starts = [i for i, m in enumerate(rest[:-1]) if i == 0 or m.get("role") == "user"]
    is_begun = len(rest) > 1 and rest[-1].get("role") == "assistant"
    return starts if is_begun else [*starts, max(0, len(rest) - 1)]


def _too_long(n_tokens: int, n_ctx: int, n_ctx_train: int) -> ContextFullError:
    hint = "Shorten the message."
    if n_ctx < n_ctx_train:
        hint = (
            f"Shorten the message, or choose a larger context in the settings "
            f"(this model goes up to {n_ctx_train:,})."
        )
    return ContextFullError(
        f"The message takes {n_tokens:,} tokens; the context holds {n_ctx:,}, reply included.",
        hint=hint,
    )


__all__ = ["FittedPrompt", "fit_prompt"]
