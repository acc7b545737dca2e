"""The command line: ``rushlight run | devices | inspect | tokenize | logits | parity | bench``.

One module per family of commands; ``app`` assembles them. Needs the ``native`` extra.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..errors import EngineError
from .streams import StdoutError, standard_streams

EXIT_MISMATCH = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""What a shell shows for a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status: 0 well, 1 mismatch, 2 error, 130 Ctrl-C.

    Errors are one line and a hint on stderr. RUSHLIGHT_DEBUG=1 shows the traceback instead. When
    the reader of the output leaves (``rushlight inspect … | head``), it ends quietly with 141.
    """
    try:
        with standard_streams():
            status = _run(list(sys.argv[1:] if arguments is None else arguments))
    except StdoutError as error:
        if error.is_broken_pipe:
            return EXIT_BROKEN_PIPE
        what = f"Standard output cannot be written: {error}."
        print_error(EngineError(what, code="output"))
        return EXIT_ERROR
    return status


def _run(arguments: list[str]) -> int:
    """Run a command; report every error but those of standard output."""
    is_debug = os.environ.get("RUSHLIGHT_DEBUG") == "1"
    try:
        from .app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        what = f"The command line needs {error.name}, which is not installed."
        hint = "pip install 'rushlight[native]'"
        print_error(EngineError(what, hint=hint, code="missing_package"))
        return EXIT_ERROR
    try:
        return run_app(arguments)
    except StdoutError:
        raise
    except EngineError as error:
        if is_debug:
            raise
        print_error(error)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if is_debug:
            raise
        hint = "This is a fault of Rushlight: report it with what RUSHLIGHT_DEBUG=1 shows."
        print_error(EngineError(f"{type(error).__name__}: {error}", hint=hint, code="internal"))
    return EXIT_ERROR


def print_error(error: EngineError) -> None:
    """Write an error for a person to stderr."""
    print(f"error [{error.code}]: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
