"""``rushlight embed``: texts to vectors."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from ..embedding import require_output
from ..errors import InvalidInputError
from .common import (
    ContextOption,
    DeviceOption,
    FloorFlag,
    JsonFlag,
    ThreadsOption,
    VariantOption,
    load_model,
)
from .streams import read_stdin


def embed_command(
    model: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="A .gguf file of an encoder, or its address.")
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; none, or -, reads one a line from stdin.")
    ] = None,
    normalise: Annotated[
        bool,
        typer.Option("--normalise/--raw", help="Vectors of length 1, so that a dot is a cosine."),
    ] = True,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Drop the end of a text that is too long.")
    ] = False,
    ctx: ContextOption = None,
    device: DeviceOption = "auto",
    variant: VariantOption = "auto",
    threads: ThreadsOption = 0,
    floor: FloorFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Print a vector for each text: one a line, or as JSON in the shape of OpenAI's API.

    rushlight embed bge-small.gguf "a black cat" "a stock price" --json
    """
    wanted = _lines() if not texts or texts == ["-"] else texts
    loaded, _ = load_model(
        model,
        device,
        n_ctx=ctx,
        kv_dtype="f32",
        variant=variant,
        threads=threads,
        floor=floor,
        quiet=as_json,
        before_weights=lambda graph, file: require_output(graph, "embedding"),
    )
    vectors = loaded.embed(wanted, normalise=normalise, truncate=truncate)
    rows = [[float(f"{value:.8g}") for value in row] for row in vectors.tolist()]
    if not as_json:
        for row in rows:
            print(" ".join(map(str, row)))
        return
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    json.dump({"object": "list", "data": data}, sys.stdout)
    print()


def _lines() -> list[str]:
    """Texts of stdin, one a line; empty lines are left out."""
    lines = [line for line in read_stdin().splitlines() if line.strip()]
    if not lines:
        raise InvalidInputError(
            "There is no text to embed.", hint="Name one, or give lines on stdin."
        )
    return lines
