"""``rushlight parity``: does this backend say what the reference says?"""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from ..parity import (
    MAX_LOGIT_ERROR,
    MIN_MARGIN,
    TABLE_HEADER,
    ItemResult,
    answer,
    read_items,
    run_parity,
    summary,
    table_row,
)
from . import EXIT_MISMATCH
from .common import (
    DeviceOption,
    FloorFlag,
    ModelOption,
    ThreadsOption,
    VariantOption,
    load_model,
    print_table,
    say,
)
from .outfile import OutFile


def parity_command(
    model: ModelOption,
    data: Annotated[Path, typer.Option("--data", metavar="FILE.json", help="Reference answers.")],
    device: DeviceOption = "auto",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N items.")] = None,
    names: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only the items with these names.")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the results here.")
    ] = None,
    variant: VariantOption = "exact",
    threads: ThreadsOption = 0,
    floor: FloorFlag = False,
) -> None:
    """Compare a backend with frozen reference answers; exit status 1 on a mismatch.

    Token ids, the most likely token at every position, the greedy continuation and the last
    logits must agree, wherever the reference itself was decided. Kernels that compute in fewer
    bits answer only if --variant names them.

        rushlight parity -m model.gguf --data tests/data/gemma3-270m.json --device cpu --limit 4
    """
    wanted = tuple(name.strip() for name in names.split(",")) if names else ()
    items = read_items(data, names=wanted, limit=limit)
    n_ctx = max(len(item.ids) + len(item.greedy) for item in items) + 1
    with OutFile(json_out) if json_out else nullcontext() as file:
        loaded, _ = load_model(
            model,
            device,
            n_ctx=n_ctx,
            kv_dtype="f32",
            variant=variant,
            threads=threads,
            floor=floor,
        )
        results = run_parity(lambda item: answer(loaded, item), items, _say_result)
        total = summary(results)
        total.update(backend=loaded.device.backend, adapter=loaded.device.adapter)
        if file:
            file.write(json.dumps(total, indent=1).encode())
    print_table(TABLE_HEADER, [table_row(result) for result in results])
    print(verdict(total))
    if not total["ok"]:
        raise typer.Exit(EXIT_MISMATCH)


def verdict(total: dict[str, object]) -> str:
    """Return the result of a run in a sentence."""
    word = "agree" if total["ok"] else "DISAGREE"
    return (
        f"{total['backend']} ({total['adapter']}): {total['n_items']} items {word}"
        f" ({total['n_failed']} failed); {total['n_argmax']} positions and {total['n_greedy']}"
        f" greedy steps compared where the margin is at least {MIN_MARGIN:g},"
        f" {total['n_greedy_excused']} continuations left off at an undecided step;"
        f" last logits within {MAX_LOGIT_ERROR:g} of the range, {total['seconds']:.0f} s"
    )


def _say_result(result: ItemResult) -> None:
    say(f"{result.name}: {'ok' if result.ok else result.problem} ({result.seconds:.1f} s)")
