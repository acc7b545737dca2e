"""Write a conversation as a prompt: with the file's chat template, or as a plain transcript.

What a person types is text, never structure: a ``<|im_end|>`` in a message is tokenized as those
ten characters. Messages are marked before the template runs, wherever they spell a special token,
and the marked stretches of the result are encoded without reading special tokens.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from .errors import EngineError, InvalidInputError, TemplateError, shown_text
from .tokenizer.vocab import read_token_id

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

Message = Mapping[str, str]

ROLES = ("system", "user", "assistant", "tool")
MAX_MESSAGES = 10_000
MAX_MESSAGE_CHARS = 1_000_000
MAX_TEMPLATE_CHARS = 256 * 1024

DESCRIPTION = (
    "This is a conversation between a user and a helpful assistant. "
    "The assistant answers each question in one complete sentence."
)
EXAMPLES = (
    (
        "Why do leaves fall in autumn?",
        "Leaves fall in autumn because trees save water and energy for the winter.",
    ),
    (
        "What is the tallest mountain in the world?",
        "The tallest mountain in the world is Mount Everest.",
    ),
)
# Chosen by asking Gemma 3 270M (base) ten simple questions with each of a dozen wordings.
TRANSCRIPT_STOP = "\nUser:"
TRANSCRIPT_NOTE = (
    "This model has no chat template, so the conversation is written as a plain transcript. "
    "A base model continues text; it was not trained to follow instructions."
)


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation ready for the model.

    ``ids`` are the tokens and ``text`` what they say. Generation ends at ``stop_strings`` (and at
    the tokenizer's ``eos_ids``). ``note`` is for the person when there was no template. White
    space at the start of the reply is no part of it: ``StopMatcher(stops, trim_start=True)``.
    """

    ids: list[int]
    text: str
    stop_strings: tuple[str, ...]
    has_template: bool
    note: str = ""


def build_prompt(
    messages: Sequence[Message],
    metadata: Mapping[str, Any],
    tokenizer: Tokenizer,
    *,
    add_generation_prompt: bool = True,
    with_examples: bool = True,
    continues: bool = False,
) -> ChatPrompt:
    """Return the prompt for ``messages``, each with a ``role`` and its ``content``.

    ``with_examples``: whether a plain transcript begins with two example exchanges.
    ``continues``: the last message is a reply that was cut short; the prompt ends inside it.

    Uses ``tokenizer.chat_template`` of the file's metadata if there is one. Raises TemplateError
    if the template fails or refuses the messages, InvalidInputError for unusable messages.
    """
    return chat_format(metadata, tokenizer).build(
        messages,
        add_generation_prompt=add_generation_prompt,
        with_examples=with_examples,
        continues=continues,
    )


def has_chat_template(metadata: Mapping[str, Any]) -> bool:
    """Return whether the file brings a chat template."""
    return bool(_template_source(metadata))


_FORMATS: WeakKeyDictionary[Tokenizer, ChatFormat] = WeakKeyDictionary()


def chat_format(metadata: Mapping[str, Any], tokenizer: Tokenizer) -> ChatFormat:
    """Return the model's way to write a conversation; compiled once for each tokenizer."""
    known = _FORMATS.get(tokenizer)
    if known is None or known.metadata is not metadata:
        known = _FORMATS[tokenizer] = ChatFormat(metadata, tokenizer)
    return known


class ChatFormat:
    """How one model wants its conversations written."""

    def __init__(self, metadata: Mapping[str, Any], tokenizer: Tokenizer) -> None:
        self.metadata = metadata
        self._tokenizer = tokenizer
        self._source = _template_source(metadata)
        self._template: _Template | None = None

    def build(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        with_examples: bool = True,
        continues: bool = False,
    ) -> ChatPrompt:
        """Return the prompt for ``messages``; see ``build_prompt``."""
        checked = check_messages(messages)
        # A reply to go on with follows the generation prompt as it is: no template trims it, and
        # none closes it.
        begun = _begun_reply(checked) if continues else ""
        add_generation_prompt = add_generation_prompt or continues
        if not self._source:
            text = plain_transcript(
                checked, add_generation_prompt=add_generation_prompt, with_examples=with_examples
            )
            text += f" {_one_speaker(begun, is_begun=True)}" if begun else ""
            ids = self._tokenizer.encode(text, add_special=False)
            bos = self._bos_ids()
            return ChatPrompt(bos + ids, text, (TRANSCRIPT_STOP,), False, TRANSCRIPT_NOTE)
        if self._template is None:
            self._template = _Template(self._source)
        marks = _Marks.unused_in([self._source, begun, *(m["content"] for m in checked)])
        marked = self._marked(checked, marks)
        rendered = self._template.render(
            messages=marked,
            add_generation_prompt=add_generation_prompt,
            tools=None,
            documents=None,
            **self._token_names,
        )
        rendered += marks.around(begun, self._special_texts)
        ids = self._encode(rendered, marks)
        return ChatPrompt(ids, marks.removed(rendered), (), True)

    def _marked(self, messages: list[dict[str, str]], marks: _Marks) -> list[dict[str, str]]:
        special = self._special_texts
        return [{**m, "content": marks.around(m["content"], special)} for m in messages]

    def _encode(self, rendered: str, marks: _Marks) -> list[int]:
        """Return the ids: special tokens are read outside the marks, and BOS comes once."""
        tokenizer = self._tokenizer
        ids: list[int] = []
        for part, is_marked in marks.split(rendered):
            ids += tokenizer.encode(part, add_special=False, parse_special=not is_marked)
        bos = self._bos_ids()
        return ids if ids[:1] == bos else bos + ids

    def _bos_ids(self) -> list[int]:
        bos_id = self._tokenizer.bos_id
        return [bos_id] if self._tokenizer.add_bos and bos_id is not None else []

    @cached_property
    def _special_texts(self) -> _Texts:
        """The texts that the tokenizer would read as control tokens."""
        tokenizer = self._tokenizer
        types = self.metadata.get("tokenizer.ggml.token_type")
        ids: set[int] = set(tokenizer.eos_ids)
        if types is not None:
            # Of 262 144 tokens all but a few thousand are plain (1) or a byte (6).
            array = np.asarray(types)[: tokenizer.n_vocab]
            ids.update(np.flatnonzero((array != 1) & (array != 6)).tolist())
        special = (i for i in sorted(ids) if tokenizer.is_special(i))
        return _Texts(tokenizer.token_bytes(i).decode("utf-8", "replace") for i in special)

    @cached_property
    def _token_names(self) -> dict[str, str]:
        """``bos_token`` and its like, as templates expect them."""
        names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown"}
        found = {"bos_token": "", "eos_token": ""}
        fallback = {"bos": self._tokenizer.bos_id, "eos": self._tokenizer.eos_id}
        for name, key in {**names, "pad_token": "padding"}.items():
            token_id = read_token_id(self.metadata, key)
            token_id = fallback.get(key) if token_id is None else token_id
            if token_id is not None and 0 <= token_id < self._tokenizer.n_vocab:
                piece = self._tokenizer.token_bytes(token_id)
                found[name] = piece.decode("utf-8", "replace")
        return found


def plain_transcript(
    messages: Sequence[Message], *, add_generation_prompt: bool = True, with_examples: bool = True
) -> str:
    """Return the conversation as ``User: …`` / ``Assistant: …`` lines after two examples.

    A system message replaces the one-line description.
    """
    system = [m["content"].strip() for m in messages if m["role"] == "system"]
    lines = [" ".join(system) or DESCRIPTION, ""]
    for question, answer in EXAMPLES if with_examples else ():
        lines += [f"User: {question}", f"Assistant: {answer}"]
    for message in messages:
        if message["role"] != "system":
            name = "Assistant" if message["role"] == "assistant" else "User"
            lines.append(f"{name}: {_one_speaker(message['content'])}")
    if add_generation_prompt:
        lines.append("Assistant:")
    return "\n".join(lines)


def check_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the messages as plain dicts; raises InvalidInputError naming the one at fault."""
    if not 0 < len(messages) <= MAX_MESSAGES:
        raise InvalidInputError(
            f"A conversation of {len(messages)} messages; it must have 1 to {MAX_MESSAGES}.",
            hint="Send at least one user message.",
        )
    total = 0
    for index, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ROLES:
            raise InvalidInputError(
                f"Message {index} has the role {role!r}; it must be one of {', '.join(ROLES)}.",
                hint="Give each message a role and a content.",
            )
        if not isinstance(content, str):
            raise InvalidInputError(
                f"The content of message {index} is {type(content).__name__}, not text.",
                hint="Give each message a role and a content.",
            )
        total += len(content)
    if total > MAX_MESSAGE_CHARS:
        raise InvalidInputError(
            f"The conversation has {total} characters; at most {MAX_MESSAGE_CHARS} are allowed.",
            hint="Start a new chat, or shorten the messages.",
        )
    return [{"role": m["role"], "content": m["content"]} for m in messages]


@dataclass(frozen=True)
class _Marks:
    """Two private-use characters put around stretches of text that are never structure."""

    start: str
    end: str

    @classmethod
    def unused_in(cls, texts: Sequence[str]) -> _Marks:
        """Return two characters that none of the texts holds."""
        used = {c for text in texts for c in set(text)}
        free = (chr(c) for c in range(0xF0000, 0xFFFFE) if chr(c) not in used)
        return cls(next(free), next(free))

    def around(self, content: str, special: _Texts) -> str:
        """Return ``content`` with each special token's text marked."""
        parts, at = [], 0
        for start, end in special.found_in(content):
            parts += [content[at:start], self.start, content[start:end], self.end]
            at = end
        return "".join([*parts, content[at:]])

    def split(self, text: str) -> Iterable[tuple[str, bool]]:
        """Yield (part, whether it was marked). A stray mark still parts the text around it."""
        start, end = re.escape(self.start), re.escape(self.end)
        pieces = re.split(f"{start}([^{start}{end}]*){end}", text)
        for index, piece in enumerate(pieces):
            for part in re.split(f"[{start}{end}]", piece):
                if part:
                    yield part, index % 2 == 1

    def removed(self, text: str) -> str:
        """Return the text without marks."""
        return text.replace(self.start, "").replace(self.end, "")


class _Texts:
    """A set of texts to look for at every place of another text."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = {t for t in texts if t}
        self._lengths = sorted({len(t) for t in self._texts}, reverse=True)
        firsts = "".join(re.escape(c) for c in sorted({t[0] for t in self._texts}))
        self._first = re.compile(f"[{firsts}]") if firsts else None

    def found_in(self, text: str) -> list[tuple[int, int]]:
        """Return the ranges that hold one of the texts, overlapping ones as one range."""
        ranges: list[tuple[int, int]] = []
        for match in self._first.finditer(text) if self._first else ():
            start = match.start()
            for length in self._lengths:
                if text[start : start + length] in self._texts:
                    end = start + length
                    if ranges and start < ranges[-1][1]:
                        start, end = ranges[-1][0], max(end, ranges.pop()[1])
                    ranges.append((start, end))
                    break
        return ranges


class _Template:
    """A compiled chat template."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_TEMPLATE_CHARS:
            raise TemplateError(
                f"The model's chat template has {len(source)} characters; at most "
                f"{MAX_TEMPLATE_CHARS} are allowed.",
                hint="Use another conversion of this model.",
                code="template_limit",
            )
        try:
            from .chat_sandbox import ChatEnvironment
        except ImportError as error:
            raise TemplateError(
                f"The model's chat template needs jinja2, which is not installed ({error}).",
                hint="Install it: pip install jinja2",
            ) from error
        self._environment = ChatEnvironment()
        self._lock = threading.Lock()
        try:
            self._template = self._environment.from_string(source)
        except Exception as error:
            raise _template_error("cannot be read", error) from error

    def render(self, **variables: Any) -> str:
        """Return the rendered text; raises TemplateError with the line of the template."""
        from .chat_budget import Budget

        with self._lock:
            self._environment.budget = Budget()
            try:
                return "".join(self._template.generate(**variables))
            except Exception as error:
                raise _template_error("failed", error) from error


def _template_error(what: str, error: Exception) -> EngineError:
    """Return the error to raise for anything that went wrong in a template."""
    line = getattr(error, "lineno", None) or _template_line(error.__traceback__)
    place = f" at line {line}" if line else ""
    if isinstance(error, EngineError):
        return TemplateError(
            f"{error.message}{place and f' ({place.strip()})'}", hint=error.hint, code=error.code
        )
    is_deep = isinstance(error, RecursionError)
    detail = "too deeply nested" if is_deep else shown_text(error, 300)
    return TemplateError(
        f"The model's chat template {what}{place}: {detail or type(error).__name__}",
        hint="The template came with the file; use another conversion of this model.",
    )


def _template_line(traceback: TracebackType | None) -> int | None:
    """Return the last line of the template in a traceback that jinja2 has mapped back."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _template_source(metadata: Mapping[str, Any]) -> str:
    """Return the file's main chat template, or an empty text."""
    source = metadata.get("tokenizer.chat_template")
    return source if isinstance(source, str) else ""


def _begun_reply(messages: list[dict[str, str]]) -> str:
    """Take the reply that is to go on off the end of ``messages``."""
    if messages[-1]["role"] != "assistant" or len(messages) < 2:
        raise InvalidInputError(
            f"The last message is of the role {messages[-1]['role']!r}; only a reply goes on.",
            hint="End the conversation with the assistant message to go on with.",
        )
    return messages.pop()["content"]


def _one_speaker(content: str, *, is_begun: bool = False) -> str:
    """Return content whose lines cannot be taken for the next speaker's."""
    content = content.lstrip() if is_begun else content.strip()
    return re.sub(r"(?m)^(?=(?:User|Assistant):)", " ", content)
