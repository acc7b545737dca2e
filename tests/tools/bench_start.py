"""How long from a fresh worker to a model's first token, and which step takes what.

The page's own worker is booted, loads the model and answers, as in a tab that is opened again: a
round before the first one that counts stores the model in the browser (OPFS) and learns the
adapter. A step ends where the next one is announced; medians of the rounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, sync_playwright

from rushlight.cli.common import print_table
from space.tools import machine, site_builder
from space.tools.server import SiteServer
from tests.browser.driver import add_harness
from tests.tools import chromium
from tests.tools.parity_all import default_model

TINY = machine.ROOT / "tests" / "data" / "golden" / "llama-f32.gguf"
FIRST_TOKEN = "first token"
Start = dict[str, float]
"""Milliseconds by step, in their order."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the numbers."""
    parser = argparse.ArgumentParser(prog="python build.py bench --start", description=__doc__)
    parser.add_argument("--model", metavar="FILE", action="append",
                        help="default: a tiny one, then Gemma 3 270M")  # fmt: skip
    parser.add_argument("--backends", default="cpu", metavar="A,B", help="cpu, webgpu")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="that count")
    parser.add_argument("--beside", metavar="DIR", help="another built site, measured in turn")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    args = parser.parse_args(argv)
    sites = {"here": site_builder.build_site(machine.ROOT / "dist" / "test-site", model="none")}
    if args.beside:
        sites["beside"] = Path(args.beside)
    found: dict[str, dict[str, Start]] = {}
    for model in args.model or [str(TINY), default_model()]:
        for backend in args.backends.split(","):
            title = f"{Path(model).name}, {backend}"
            machine.say(f"start: {title}")
            found[title] = measure(sites, Path(model), backend, args.rounds)
            show(title, found[title])
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


def measure(sites: dict[str, Path], model: Path, backend: str, n_rounds: int) -> dict[str, Start]:
    """Medians of each site's warm starts; the sites take turns."""
    rounds: dict[str, list[Start]] = {name: [] for name in sites}
    with ExitStack() as stack:
        browser = chromium.launch(stack.enter_context(sync_playwright()))
        stack.callback(browser.close)
        host = stack.enter_context(SiteServer(model.resolve().parent, is_shared=True))
        pages: dict[str, Callable[[], Start]] = {}
        for name, path in sites.items():
            server = stack.enter_context(SiteServer(path))
            page = browser.new_context().new_page()
            page.goto(server.url + add_harness(path))
            pages[name] = starter(page, backend, f"{host.url}{model.name}")
        for i in range(n_rounds + 1):
            for name, start in pages.items():
                took = start()
                rounds[name].append(took)
                machine.say(f"  round {i}, {name}: {sum(took.values()) / 1e3:.2f} s")
    return {
        name: {step: median(r.get(step, 0.0) for r in took[1:]) for step in took[-1]}
        for name, took in rounds.items()
    }


def starter(page: Page, backend: str, url: str) -> Callable[[], Start]:
    """A function that starts a fresh worker in a page and gives the time of each step."""
    origin = {"kind": "url", "url": url}
    ask = {"messages": [{"role": "user", "content": "Hello"}], "options": {"maxTokens": 1}}
    calls = [
        ["boot", {"backend": backend, "model": origin}],
        ["loadModel", origin, {}],
        ["chat", ask],
    ]

    def start() -> Start:
        return step_times(page.evaluate("(calls) => window.talk(calls)", calls))

    return start


def step_times(answers: list[dict[str, Any]]) -> Start:
    """Milliseconds of each step, out of the events of boot, load and chat."""
    for answer in answers:
        if not answer["answer"]["ok"]:
            raise RuntimeError(answer["answer"]["error"])
    *before, chat = answers
    marks = [(ms, event["step"]) for answer in before for ms, event in answer["events"]]
    marks.append((before[-1]["ms"], FIRST_TOKEN))
    times: Start = {"worker": marks[0][0]}
    ends = [ms for ms, _ in marks[1:]] + [chat["events"][0][0] if chat["events"] else chat["ms"]]
    for (began, step), ended in zip(marks, ends, strict=True):
        times[step] = times.get(step, 0.0) + ended - began
    return times


def show(title: str, found: dict[str, Start]) -> None:
    """Print the steps of each site beside one another, and their sum."""
    steps = list(dict.fromkeys(step for start in found.values() for step in start))
    rows = [(step, *(f"{start.get(step, 0.0):.0f}" for start in found.values())) for step in steps]
    rows.append(("all", *(f"{sum(start.values()):.0f}" for start in found.values())))
    print_table(("ms", *found), rows, title=f"warm start: {title}")


if __name__ == "__main__":
    raise SystemExit(main())
