"""``rushlight bench``: speed, steps and memory of a model on one device."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer

from ..backends.auto import DEVICES
from ..backends.profile import HEADER
from ..bench import BenchOptions, measure, profile, table_rows
from ..errors import InvalidInputError, check_choice
from ..gguf.config import read_config
from ..gguf.splits import open_parts
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


def bench_command(
    model: ModelOption,
    device: DeviceOption = "auto",
    kv: KvOption = "f16",
    quick: Annotated[
        bool, typer.Option("--quick", help="Less work: for slow machines and software GPUs.")
    ] = False,
    variant: VariantOption = "auto",
    threads: ThreadsOption = 0,
    floor: FloorFlag = False,
    is_profile: Annotated[
        bool, typer.Option("--profile", help="Instead, the time and bytes of every kernel.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure load time, prefill and decode speed, dispatches and memory.

    rushlight bench -m model.gguf --device gpu

        rushlight bench -m model.gguf --device gpu --profile
    """
    options = BenchOptions.quick() if quick else BenchOptions()
    check_choice("device", device, DEVICES)
    load = partial(
        load_model, model, device, kv_dtype=kv, variant=variant, threads=threads, floor=floor
    )
    try:
        loaded, load_s = load(n_ctx=options.n_ctx)
    except InvalidInputError:
        n_ctx = trained_context(model)
        if n_ctx >= options.n_ctx:  # then that was not what is wrong
            raise
        options = options.fitted(n_ctx)
        say(f"note: The model's context is {n_ctx} tokens, so less is measured.")
        loaded, load_s = load(n_ctx=options.n_ctx)
    if is_profile:
        found = profile(loaded, options, on_step=say)
        if as_json:
            print(json.dumps(found.to_json()))
            return
        print_table(HEADER, [row.cells() for row in found.rows()])
        print(found.note)
        return
    result = measure(loaded, options, load_s=load_s, on_step=say)
    if as_json:
        print(json.dumps(result.to_json()))
        return
    header, *rows = table_rows([result])
    print_table(header, rows)


def trained_context(model: str) -> int:
    """The most tokens of context that a file's model was made for."""
    file, sources = open_parts(model)
    for source in sources:
        source.close()
    return read_config(file.metadata, file.tensors).n_ctx_train
