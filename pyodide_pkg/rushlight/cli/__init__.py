"""The command line: ``rushlight run | inspect | tokenize | logits | parity | bench``.

One module per family of commands; ``app`` assembles them. Needs the ``native`` extra.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..errors import EngineError

EXIT_MISMATCH = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status: 0 well, 1 mismatch, 2 error, 130 Ctrl-C.

    Errors are one line and a hint on stderr. RUSHLIGHT_DEBUG=1 shows the traceback instead.
    """
    try:
        from .app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print(
            f"error [missing_package]: The command line needs {error.name}, which is not "
            "installed.\nhint: pip install 'rushlight[native]'",
            file=sys.stderr,
        )
        return EXIT_ERROR
    try:
        return run_app(list(sys.argv[1:] if arguments is None else arguments))
    except EngineError as error:
        if os.environ.get("RUSHLIGHT_DEBUG") == "1":
            raise
        print_error(error)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone (`rushlight inspect … | head`)
        sys.stdout = open(os.devnull, "w")  # the interpreter flushes it at exit
        return EXIT_MISMATCH
    except Exception as error:
        if os.environ.get("RUSHLIGHT_DEBUG") == "1":
            raise
        hint = "This is a fault of Rushlight: report it with what RUSHLIGHT_DEBUG=1 shows."
        print_error(EngineError(f"{type(error).__name__}: {error}", hint=hint, code="internal"))
        return EXIT_ERROR


def print_error(error: EngineError) -> None:
    """Write an error for a person to stderr."""
    print(f"error [{error.code}]: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
