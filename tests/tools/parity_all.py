"""Compare every backend with the reference data and print one table.

numpy and the CPU kernels, natively and in the page, answer every item. Software GPUs are slow, so
they answer the items of SAMPLE, unless ``--all`` is given or the adapter is hardware. Exit status
1 if any backend disagrees or could not be asked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rushlight.cli.common import print_table
from rushlight.errors import EngineError
from rushlight.parity import MAX_LOGIT_ERROR, MIN_MARGIN, Item, compare, read_items, summary
from space.tools import machine, vendor

BACKENDS = ("numpy", "cpu", "gpu", "browser-cpu", "browser-webgpu")
SAMPLE = {
    "gpu": (*(f"p{i:02}" for i in range(10)), "p25", "p30", "long0"),
    "browser-webgpu": ("p00", "p06", "p30"),
}
"""What a software GPU answers: whole items, and natively one past the sliding window."""

SAMPLE_SIZE = 2
"""Items a software GPU answers of data that has none of SAMPLE's names."""

HEADER = (
    *("backend", "adapter", "items", "ids", "argmax", "greedy steps", "undecided"),
    *("logit error", "seconds", ""),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; give the exit status."""
    args = _parser().parse_args(argv)
    items = read_items(args.data, names=args.names or (), limit=args.limit)
    model = args.model or default_model()
    totals = []
    for backend in args.backends:
        chosen = choose(backend, items, is_everything=args.all)
        machine.say(f"parity: {backend}, {len(chosen)} of {len(items)} items")
        totals.append(ask(backend, chosen, args.data, model))
    print_table(HEADER, [row(total) for total in totals], title="parity")
    print_problems(totals)
    if args.json:
        Path(args.json).write_text(json.dumps(totals, indent=1), encoding="utf-8")
    return 0 if all(total["ok"] for total in totals) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python build.py parity", description=__doc__)
    data = machine.ROOT / "tests" / "data" / "gemma3-270m.json"
    parser.add_argument("--data", metavar="FILE", default=str(data), help="reference answers")
    parser.add_argument("--model", metavar="FILE", help="the model they are of (default: Gemma)")
    parser.add_argument("--backends", type=_backends, default=BACKENDS, metavar="A,B",
                        help=f"of {', '.join(BACKENDS)} (default: all)")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="every item, on software GPUs too")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N items")
    parser.add_argument("--names", type=lambda text: text.split(","), metavar="A,B",
                        help="only these items")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="also write the results here")
    return parser


def _backends(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in BACKENDS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(BACKENDS)}")
    return names


def default_model() -> str:
    """The Gemma file; $RUSHLIGHT_GEMMA names another copy of it."""
    return os.environ.get("RUSHLIGHT_GEMMA") or str(vendor.ensure_default_model()[0])


def choose(backend: str, items: list[Item], *, is_everything: bool) -> list[Item]:
    """The items that a backend is asked."""
    if is_everything or backend not in SAMPLE or (backend == "gpu" and is_hardware_gpu()):
        return items
    sample = [item for item in items if item.name in SAMPLE[backend]]
    return sample or sorted(items, key=lambda item: len(item.ids))[:SAMPLE_SIZE]


def is_hardware_gpu() -> bool:
    """Whether the native GPU backend has an adapter that is not software."""
    try:
        from rushlight.backends.webgpu_native import NativeDevice

        NativeDevice(allow_software=False).close()
    except (EngineError, ImportError):
        return False
    return True


def ask(backend: str, items: list[Item], data: str, model: str) -> dict[str, Any]:
    """One backend's totals; a backend that could not be asked has ``problem`` and is not ok."""
    try:
        if backend.startswith("browser-"):
            total = ask_browser(backend.removeprefix("browser-"), items, model)
        else:
            total = ask_native(backend, items, data, model)
    except Exception as error:
        total = {"ok": False, "problem": f"{type(error).__name__}: {error}"}
    return {"name": backend, **total}


def ask_native(device: str, items: list[Item], data: str, model: str) -> dict[str, Any]:
    """Run `rushlight parity` in a process of its own, so that its memory is given back."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        names = ",".join(item.name for item in items)
        command = [sys.executable, "-m", "rushlight.cli", "parity", "-m", model, "--data", data]
        command += ["--device", device, "--names", names, "--json", str(out)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if not out.exists():
            return {"ok": False, "problem": f"exit status {done.returncode}, see above"}
        total: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return total


def ask_browser(backend: str, items: list[Item], model: str) -> dict[str, Any]:
    """Compare the answers of the built page's worker in Chromium.

    ``browser_results`` yields (item, Answer, adapter) in order.
    """
    from tests.browser.driver import browser_results

    results, adapter = [], ""
    for item, answer, its_adapter in browser_results(backend, items, model):
        result = compare(item, answer)
        machine.say(f"  {item.name}: {result.problem or 'ok'} ({answer.seconds:.1f} s)")
        results.append(result)
        adapter = its_adapter
    return {**summary(results), "backend": f"browser-{backend}", "adapter": adapter}


def row(total: dict[str, Any]) -> tuple[str, ...]:
    """One backend's line of the table."""
    if "n_items" not in total:
        return (total["name"], *[""] * 8, f"NOT ASKED: {total['problem']}")
    error = total["max_logit_error"]
    n_ids_right = total["n_items"] - total["n_tokenized_wrong"]
    return (
        total["name"],
        total["adapter"],
        str(total["n_items"]),
        f"{n_ids_right}/{total['n_items']}",
        f"{total['n_argmax'] - total['n_argmax_wrong']}/{total['n_argmax']}",
        str(total["n_greedy"]),
        str(total["n_greedy_excused"]),
        "-" if error is None else f"{error:.1e}",
        f"{total['seconds']:.0f}",
        "agrees" if total["ok"] else f"{total['n_failed']} DISAGREE",
    )


def print_problems(totals: list[dict[str, Any]]) -> None:
    """Say what was compared and name every item that differs."""
    print(
        f"\nCompared where the reference's margin is at least {MIN_MARGIN:g}; a continuation may"
        f"\npart at a step below it. Last logits within {MAX_LOGIT_ERROR:g} of their range."
    )
    for total in totals:
        for item in total.get("items", []):
            if item["problem"]:
                print(f"{total['name']} {item['name']}: {item['problem']}")


if __name__ == "__main__":
    sys.exit(main())
