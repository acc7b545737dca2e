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
    ├── ShaderCompileError
    ├── OutOfDeviceMemoryError
    └── DeviceLostError

A message says what failed and quotes the value; ``hint`` is the next step a person can take.
"""

from __future__ import annotations


class EngineError(Exception):
    """Anything Rushlight reports to a person: a code, a message and the next step."""

    code = "engine"

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
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


class ShaderCompileError(DeviceError):
    """A kernel was rejected by the driver; carries file and line of our source."""

    code = "shader_compile"


class OutOfDeviceMemoryError(DeviceError):
    """A buffer could not be allocated on the device."""

    code = "out_of_device_memory"


class DeviceLostError(DeviceError):
    """The device went away while in use."""

    code = "device_lost"
