"""``rushlight devices``: the GPU adapters of this machine, and which of them is used."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from ..backends.wgpu_adapter import FoundAdapter, find_adapters
from ..errors import NoAdapterError
from .common import JsonFlag


def devices_command(as_json: JsonFlag = False) -> None:
    """List this machine's adapters, and say why one is used and another is not.

    rushlight devices
    """
    why = ""
    found: list[FoundAdapter] = []
    try:
        found = find_adapters()
    except NoAdapterError as error:
        why = f"{error.message} {error.hint}".strip()
    if as_json:
        typer.echo(json.dumps({"adapters": [asdict(each) for each in found], "why_none": why}))
        return
    for each in found:
        typer.echo(f"{each.name}  ({each.kind}, {each.api})")
        typer.echo(f"    {each.verdict}")
    if why:
        typer.echo(why)
    typer.echo("CPU")
    is_auto = not any(each.is_auto for each in found)
    typer.echo(f"    --device cpu{', and what auto takes' if is_auto else ''}.")
