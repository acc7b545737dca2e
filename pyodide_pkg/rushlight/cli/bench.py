"""``rushlight bench``: speed, steps and memory of a model on one device."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..backends.profile import HEADER
from ..bench import BenchOptions, measure, profile, table_rows
from .common import (
    DeviceOption,
    FloorFlag,
    JsonFlag,
    KvOption,
    ModelOption,
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
    floor: FloorFlag = False,
    is_profile: Annotated[
        bool, typer.Option("--profile", help="Instead, the time and bytes of every GPU kernel.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Measure load time, prefill and decode speed, dispatches and memory.

    rushlight bench -m model.gguf --device gpu

        rushlight bench -m model.gguf --device gpu --profile
    """
    options = BenchOptions.quick() if quick else BenchOptions()
    loaded, load_s = load_model(
        model, device, n_ctx=options.n_ctx, kv_dtype=kv, variant=variant, floor=floor
    )
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
