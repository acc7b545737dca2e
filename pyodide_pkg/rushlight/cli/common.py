"""What the commands share: their options, loading with a progress bar, tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.table import Table

from ..backends.auto import DEVICES
from ..backends.base import Progress as Step
from ..backends.base import ProgressFn
from ..errors import InvalidInputError, shown_text
from ..model import Model
from ..ops.opdef import KV_DTYPES, KvDtype
from ..plan.variant import BY_NAME

MAX_SHOWN = 2000
"""Characters of one cell or line about a file; a tensor's name has at most half as many."""

ModelOption = Annotated[
    str, typer.Option("--model", "-m", metavar="FILE|URL", help="A .gguf file or its address.")
]
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="|".join(DEVICES), help="Where to compute."),
]
ContextOption = Annotated[
    int | None,
    typer.Option("--ctx", metavar="N", help="Tokens of context [default: up to 4096]."),
]
KvOption = Annotated[
    str,
    typer.Option(
        "--kv",
        metavar="|".join(KV_DTYPES),
        help="Precision of the KV cache; q8_0 takes little more than half of f16's memory.",
    ),
]
VariantOption = Annotated[
    str,
    typer.Option(
        "--variant",
        metavar="auto|exact|NAME",
        help=f"Kernels: auto tests and times them on this adapter, once; exact leaves out those "
        f"that compute in fewer bits than float32. Forced on a GPU: {', '.join(BY_NAME)}, or one "
        "for each phase, as in subgroups+tiles_f16. On the CPU: int8 (auto) or exact.",
    ),
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="N",
        show_default=False,
        help="Threads of the CPU kernels [default: suits the machine].",
    ),
]
FloorFlag = Annotated[
    bool,
    typer.Option(
        "--floor", help="Open the GPU with no more than every WebGPU device grants (a check)."
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[ProgressFn]:
    """A listener that shows the engine's progress on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda step: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(step: Step) -> None:
            total = step.total or None
            if step.step not in tasks:
                tasks[step.step] = bars.add_task(step.step, total=total)
            bars.update(tasks[step.step], completed=step.done, total=total)

        yield show


def load_model(
    model: str,
    device: str,
    *,
    n_ctx: int | None = None,
    kv_dtype: str = "f16",
    floor: bool = False,
    quiet: bool = False,
    **options: Any,
) -> tuple[Model, float]:
    """Return the loaded model and the seconds it took; says on stderr where it runs."""
    checked: KvDtype = check_kv(kv_dtype)
    if floor:
        if device not in ("auto", "gpu"):
            raise InvalidInputError(f"--floor is about the GPU, not {device!r}.")
        device = "floor"
    started = time.perf_counter()
    with progress_bar(quiet=quiet) as progress:
        loaded = Model.load(
            model, device, n_ctx=n_ctx, kv_dtype=checked, progress=progress, **options
        )
    seconds = time.perf_counter() - started
    if not quiet:
        info = loaded.device
        say(f"{model_name(loaded)} on {info.backend} ({info.adapter}), loaded in {seconds:.1f} s")
        if info.kernels:
            names = f" (of {', '.join(info.kernel_names)})" if info.kernel_names else ""
            say(f"kernels: {info.kernels}{names}")
        for note in info.notes:
            say(f"note: {note}")
    return loaded, seconds


def check_kv(kv_dtype: str) -> KvDtype:
    """Return the precision of the KV cache, checked."""
    for known in KV_DTYPES:
        if kv_dtype == known:
            return known
    raise InvalidInputError(f"--kv is {kv_dtype!r}.", hint=f"Choose {', '.join(KV_DTYPES)}.")


def model_name(model: Model) -> str:
    """Return the model's own name, or its file's."""
    name = model.file.metadata.get("general.name")
    if isinstance(name, str) and name.strip():
        return printable(name.strip())[:100]
    return printable(Path(model.file.parts[0].name).name)


def printable(text: str) -> str:
    """Return text from a file without control characters that a terminal would obey, and short."""
    return shown_text("".join(c if c.isprintable() else " " for c in text[:MAX_SHOWN]), MAX_SHOWN)


def say(text: str) -> None:
    """Write a line for the person to stderr; stdout is for results."""
    print(shown_text(text, MAX_SHOWN), file=sys.stderr, flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print a table to stdout; columns after the first are as wide as they need to be."""
    console = Console(highlight=False)
    if not console.is_terminal:  # in a file or pipe, no row may be cut to 80 columns
        console = Console(highlight=False, width=max(80, _width(header, rows)))
    if title:
        print(f"\n{title}")
    table = Table(box=None, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_escaped(cell) for cell in row))
    console.print(table)


def _width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    widest = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    return sum(widest) + 2 * len(widest) + 2


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))
