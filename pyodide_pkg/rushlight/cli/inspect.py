"""``rushlight inspect``: what is in a file, and who can run it. Reads only the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ..backends.variants import dropped_kernels
from ..bench import format_bytes
from ..inspection import inspect_model
from .common import ContextOption, JsonFlag, KvOption, ModelOption, check_kv, print_table, printable


def inspect_command(
    model: ModelOption,
    graph: Annotated[
        bool, typer.Option("--graph", help="Print the model's graph document (JSON) instead.")
    ] = False,
    as_json: JsonFlag = False,
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor too.")] = False,
    ctx: ContextOption = None,
    kv: KvOption = "f16",
) -> None:
    """Print what a model file holds, and for each backend whether it can run it.

    Only the header is read, also over HTTP.

        rushlight inspect -m model.gguf --tensors
    """
    found = inspect_model(model, n_ctx=ctx, kv_dtype=check_kv(kv))
    if graph:
        print(json.dumps(found.graph_json(), indent=1))
        return
    report = {**found.to_json(), "dropped_kernels": dropped_kernels()}
    if as_json:
        print(json.dumps(report, indent=1))
    else:
        _print_head(report)
        _print_types(report)
        _print_backends(report)
        if tensors:
            _print_tensors(report)


def _print_head(report: Mapping[str, Any]) -> None:
    lines = [
        ("model", report["name"]),
        ("file", f"{', '.join(report['files'])} ({format_bytes(report['n_bytes'])})"),
        ("architecture", report["architecture"]),
        ("parameters", f"{report['n_params']:,}"),
        *((key, _words(value)) for key, value in report["config"].items()),
        ("tokenizer", _tokenizer(report["tokenizer"])),
        _use(report),
    ]
    width = max(len(label) for label, _ in lines)
    for label, value in lines:
        print(f"{label:{width}}  {printable(str(value))}")
    print()


def _use(report: Mapping[str, Any]) -> tuple[str, str]:
    """How the model converses, or what else it is for."""
    if "hidden" in report["outputs"]:
        has_vector = "embedding" in report["outputs"]
        return "use", "embeddings; it writes no text" if has_vector else "states of tokens only"
    n_chars = report["chat_template_chars"]
    none = "none: conversations are written as a plain transcript"
    return "chat template", f"yes ({n_chars} characters)" if n_chars else none


def _tokenizer(found: Mapping[str, Any]) -> str:
    return f"unusable: {found['unusable']}" if "unusable" in found else _words(found)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)


def _print_types(report: Mapping[str, Any]) -> None:
    total = report["tensor_bytes"] or 1
    rows = [
        (
            row["type"],
            str(row["n_tensors"]),
            f"{row['n_elements']:,}",
            format_bytes(row["n_bytes"]),
            f"{100 * row['n_bytes'] / total:.1f} %",
            f"{8 * row['n_bytes'] / row['n_elements']:.2f}" if row["n_elements"] else "-",
        )
        for row in report["types"]
    ]
    print_table(("type", "tensors", "values", "size", "share", "bits a value"), rows)
    print()


def _print_backends(report: Mapping[str, Any]) -> None:
    for backend in report["backends"]:
        name = backend["name"]
        if backend["can_run"]:
            sizes = backend["memory_bytes"]
            parts = ", ".join(f"{kind} {format_bytes(n)}" for kind, n in sizes.items())
            total = format_bytes(sum(sizes.values()))
            print(f"{name}: can run it; {total} at {report['n_ctx']} tokens of context ({parts})")
            if backend["kernels"]:
                print(f"  SIMD kernels: {', '.join(backend['kernels'])}")
            if backend["in_numpy"]:
                print(f"  without one, in numpy: {printable(', '.join(backend['in_numpy']))}")
        else:
            print(f"{name}: cannot run it. {printable(backend['reason'])}")
    for line in report["dropped_kernels"]:
        print(f"not used: {printable(line)}")
    print()


def _print_tensors(report: Mapping[str, Any]) -> None:
    rows = [
        (t["name"], t["type"], " × ".join(map(str, t["shape"])), format_bytes(t["n_bytes"]))
        for t in report["tensors"]
    ]
    print_table(("tensor", "type", "shape", "size"), rows)
