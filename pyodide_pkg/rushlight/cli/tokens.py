"""``rushlight tokenize`` and ``rushlight logits``: look at single steps of the engine."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ..errors import InvalidInputError
from ..gguf.splits import open_parts
from ..tokenizer import Tokenizer, load_tokenizer
from .common import (
    DeviceOption,
    FloorFlag,
    JsonFlag,
    KvOption,
    ModelOption,
    ThreadsOption,
    VariantOption,
    load_model,
    print_table,
    say,
)
from .outfile import OutFile
from .streams import read_stdin

NPY_LEAD = np.lib.format.magic(1, 0)
MAX_DIGITS = 18
"""Of a token id: Python refuses to read thousands, and no vocabulary is so large."""


def tokenize_command(
    text: Annotated[str, typer.Argument(help="Text to cut into tokens; - reads stdin.")],
    model: ModelOption,
    special: Annotated[
        bool,
        typer.Option("--special/--no-special", help="Add begin and end tokens as the file asks."),
    ] = True,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Read control tokens written in the text.")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="One token a line, with its text.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print the token ids of a text. Only the file's header is read.

    rushlight tokenize -m model.gguf "naïve café"
    """
    if text == "-":
        text = read_stdin()
    tokenizer = open_tokenizer(model)
    ids = tokenizer.encode(text, add_special=special, parse_special=parse_special)
    if as_json:
        print(json.dumps(ids))
    elif table:
        rows = [(str(i), _shown(tokenizer.token_bytes(i))) for i in ids]
        print_table(("id", "text"), rows)
    else:
        print(",".join(map(str, ids)))


def logits_command(
    model: ModelOption,
    ids: Annotated[str, typer.Option("--ids", metavar="N,N,…", help="Token ids.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.npy", help="Where to write.")],
    device: DeviceOption = "auto",
    kv: KvOption = "f32",
    variant: VariantOption = "auto",
    threads: ThreadsOption = 0,
    floor: FloorFlag = False,
) -> None:
    """Write the logits after each token: float32 [n_tokens, n_vocab], as a .npy file.

    rushlight logits -m model.gguf --ids 2,818,5279 --device cpu --out logits.npy
    """
    tokens = parse_ids(ids)
    if not out.parent.is_dir():
        raise InvalidInputError(
            f"There is no folder {out.parent} to write {out.name} in.", hint="Make it first."
        )
    with OutFile(out, NPY_LEAD) as file:
        loaded, _ = load_model(
            model,
            device,
            n_ctx=len(tokens),
            kv_dtype=kv,
            variant=variant,
            threads=threads,
            floor=floor,
        )
        logits = np.ascontiguousarray(loaded.logits(tokens), np.float32)
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, np.lib.format.header_data_from_array_1_0(logits)
        )
        file.write(header.getvalue(), logits.data.cast("B"))
    say(f"{out}: float32 {list(logits.shape)}")


def open_tokenizer(model: str) -> Tokenizer:
    """Return a file's tokenizer without loading its weights."""
    file, sources = open_parts(model)
    for source in sources:
        source.close()
    return load_tokenizer(file.metadata)


def parse_ids(text: str) -> list[int]:
    """Return the ids in ``2,818,5279``; spaces may part them too."""
    words = text.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise InvalidInputError(
            f"--ids is {text[:40]!r}; it must be whole numbers parted by commas.",
            hint="For example --ids 2,818,5279; rushlight tokenize prints them so.",
        )
    if longest := next((word for word in words if len(word) > MAX_DIGITS), ""):
        raise InvalidInputError(f"--ids holds {longest[:40]}…, a number of {len(longest)} digits.")
    return [int(word) for word in words]


def _shown(piece: bytes) -> str:
    try:
        return repr(piece.decode())
    except UnicodeDecodeError:
        return repr(piece)
