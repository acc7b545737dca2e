"""Everything that can go wrong, as one tree of exceptions.

EngineError
├── ModelFormatError          the bytes are not a well-formed model file
├── UnsupportedModelError     a well-formed file that this engine cannot run
│   └── UnsupportedTypeError  a tensor's storage type has no implementation here
├── UnsupportedOpError        a backend lacks an operation that the graph uses
├── GraphError                a graph document breaks a rule (cited by number)
├── TokenizerError            the vocabulary in the file cannot be used
├── TemplateError             the chat template in the file cannot be used
├── SourceError               bytes could not be read from where they live
├── InvalidInputError         an argument from the caller is out of range
├── ContextFullError          the conversation no longer fits the context
└── DeviceError
    ├── NoAdapterError
    ├── NoKernelsError        the CPU kernels are missing or do not load here
    ├── ShaderCompileError
    ├── OutOfDeviceMemoryError
    └── DeviceLostError

A message says what failed and quotes the value; ``hint`` is the next step a person can take.
Values come from files and servers that nobody vouches for, so every text is made safe to show
here, once, for terminals, logs and pages alike.
"""

from __future__ import annotations

MAX_CHARS = 500
"""Characters of a message or hint; what a file adds to one can be of any length."""


def shown_text(text: object, max_chars: int = MAX_CHARS, *, keep: str = "") -> str:
    """Return ``text`` as it can be shown: on one line, nothing a terminal obeys, not too long.

    Control characters (except those in ``keep``) are written as escapes; an ellipsis stands for
    the middle of what is too long.
    """
    text = _shortened(str(text), max_chars)
    if text.isprintable():
        return text
    return _shortened(
        "".join(c if c.isprintable() or c in keep else _escape(c) for c in text), max_chars
    )


def _shortened(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    n_end = max_chars // 4
    return f"{text[: max_chars - n_end - 1]}…{text[-n_end:]}"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


class EngineError(Exception):
    """Anything Rushlight reports to a person: a code, a message and the next step."""

    code = "engine"
    max_chars = MAX_CHARS
    keep = ""

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        self.message = shown_text(message, self.max_chars, keep=self.keep)
        self.hint = shown_text(hint, self.max_chars, keep=self.keep)
        super().__init__(self.message)
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ModelFormatError(EngineError):
    """The bytes are not a well-formed model file; names the field and its offset."""

    code = "model_format"


class UnsupportedModelError(EngineError):
    """The file is well-formed, but its architecture or settings cannot be run."""

    code = "unsupported_model"


class UnsupportedTypeError(UnsupportedModelError):
    """A tensor's storage type has no implementation on the chosen backend."""

    code = "unsupported_type"


class UnsupportedOpError(EngineError):
    """A backend has no lowering for an operation of the graph; raised before any weight is read."""

    code = "unsupported_op"


class GraphError(EngineError):
    """A graph document breaks one of the numbered rules in ``graph/verify.py``."""

    code = "graph"


class TokenizerError(EngineError):
    """The vocabulary in the file is missing a part, or is of an unknown kind."""

    code = "tokenizer"


class TemplateError(EngineError):
    """The chat template in the file failed, asked for too much, or refused the messages."""

    code = "template"


class SourceError(EngineError):
    """Bytes could not be read: a missing file, a refused request, a short body."""

    code = "source"


class InvalidInputError(EngineError):
    """An argument is outside what the model accepts."""

    code = "invalid_input"


class ContextFullError(EngineError):
    """The tokens no longer fit the context that was allocated."""

    code = "context_full"


class DeviceError(EngineError):
    """The compute device refused or failed."""

    code = "device"


class NoAdapterError(DeviceError):
    """No GPU adapter is available to this process or page."""

    code = "no_adapter"


class NoKernelsError(DeviceError):
    """The CPU kernels are missing from this installation, or nothing here can run them."""

    code = "no_kernels"


class ShaderCompileError(DeviceError):
    """A kernel was rejected by the driver; carries file and line of our source, and its log."""

    code = "shader_compile"
    max_chars = 4000
    keep = "\n\t"


class OutOfDeviceMemoryError(DeviceError):
    """A buffer could not be allocated on the device."""

    code = "out_of_device_memory"


class DeviceLostError(DeviceError):
    """The device went away while in use."""

    code = "device_lost"


def check_count(name: str, value: object, low: int = 1) -> None:
    """Raise ``InvalidInputError`` unless an argument is a whole number of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise InvalidInputError(
            f"{name} is {value!r}.", hint=f"Give a whole number of at least {low}."
        )


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ``InvalidInputError`` unless an argument is one of a few words."""
    if value not in choices:
        raise InvalidInputError(
            f"{name} is {value!r}.", hint=f"Choose one of: {', '.join(choices)}."
        )
