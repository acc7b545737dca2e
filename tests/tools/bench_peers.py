"""Measure this engine beside its peers: same file, same machine, equal threads, one run.

On the CPU: our page beside wllama in the same Chromium, and page and native beside llama.cpp's
native build. On the GPU: native beside llama.cpp's Vulkan build, on the same adapter. All are
opened first and then measured in turn, round by round, so that a busy machine slows all of them;
ratios are of medians. Only the ratios of one run mean something.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rushlight.cli.common import print_table
from space.tools import machine, wasm_builder
from tests.tools.parity_all import default_model
from tests.tools.peers.subject import Subject, Work, prompt_name

SUBJECTS = ("page", "wllama", "native", "llama.cpp", "gpu", "vulkan")


@dataclass(frozen=True)
class Target:
    """A ratio we hold ourselves to: ``ours`` over ``peer``."""

    ours: str
    peer: str
    decode: float
    prefill: float


TARGETS = (
    Target("page", "wllama", 3.0, 3.0),
    Target("page", "llama.cpp", 0.5, 0.3),
    Target("native", "llama.cpp", 0.5, 0.3),
    Target("gpu", "vulkan", 2.0, 2.0),
)

Speeds = dict[tuple[str, int], dict[str, float]]
"""Medians in tokens per second, by subject and number of threads."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the subjects asked for; print speeds and ratios."""
    args = _parser().parse_args(argv)
    wasm_builder.build()  # the native engine takes what is there
    prefill = tuple(args.prefill)
    work = Work(args.model or default_model(), args.decode, prefill)
    speeds: Speeds = {}
    devices: dict[str, str] = {}
    for n_threads in args.threads:
        with ExitStack() as stack:
            subjects = stack.enter_context(_open(args.subjects, work, n_threads))
            devices |= {f"{name}, {n_threads}": s.device for name, s in subjects.items()}
            found = measure(subjects, args.rounds)
        speeds |= {(name, n_threads): numbers for name, numbers in found.items()}
    what = ("decode", *(prompt_name(n) for n in prefill))
    show(speeds, devices, what, args.rounds)
    if args.json:
        report = [{"subject": s, "threads": n, **numbers} for (s, n), numbers in speeds.items()]
        Path(args.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python build.py bench --peers", description=__doc__)
    parser.add_argument("--model", metavar="FILE", help="default: Gemma 3 270M")
    parser.add_argument("--subjects", type=_subjects, default=SUBJECTS[:4], metavar="A,B",
                        help=f"of {', '.join(SUBJECTS)} (default: the first four)")  # fmt: skip
    parser.add_argument("--threads", type=_numbers, default=[1, 2], metavar="N,N",
                        help="default: 1,2")  # fmt: skip
    parser.add_argument("--prefill", type=_numbers, default=[128, 512], metavar="N,N",
                        help="prompt lengths (default: 128,512)")  # fmt: skip
    parser.add_argument("--decode", type=int, default=32, metavar="N",
                        help="decoded tokens (default: 32)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="the median of so many is taken (default: 5)")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    return parser


def _subjects(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SUBJECTS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SUBJECTS)}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


@contextmanager
def _open(names: Sequence[str], work: Work, n_threads: int) -> Iterator[dict[str, Subject]]:
    """The subjects with so many threads, all at once."""
    from tests.tools.peers import llama_cpp, native

    found: dict[str, Subject] = {}
    with ExitStack() as stack:
        for name in names:
            machine.say(f"peers: opening {name}, {n_threads} threads")
            if name == "native":
                opened: Any = native.rushlight_native(work, n_threads)
            elif name == "gpu":
                opened = native.rushlight_native(work, n_threads, "gpu")
            elif name in ("llama.cpp", "vulkan"):
                gpu = "vulkan" if name == "vulkan" else "cpu"
                opened = llama_cpp.llama_cpp(work, n_threads, gpu)
            else:
                continue  # below, in one browser
            found[name] = stack.enter_context(opened)
        if {"page", "wllama"} & set(names):
            from tests.tools.peers.browser import browser_subjects

            found |= stack.enter_context(browser_subjects(names, work, n_threads))
        yield found


def measure(subjects: dict[str, Subject], n_rounds: int) -> dict[str, dict[str, float]]:
    """Medians of each subject's rounds; one round more, the first, warms up."""
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in subjects}
    for i in range(n_rounds + 1):
        machine.say(f"peers: round {i} of {n_rounds}")
        for name, subject in subjects.items():
            found = subject.round()
            rounds[name].append(found)
            machine.say(f"  {name}: {', '.join(f'{w} {v:.1f}' for w, v in found.items())}")
    return {
        name: {what: median(r[what] for r in found[1:]) for what in found[0]}
        for name, found in rounds.items()
    }


def show(speeds: Speeds, devices: dict[str, str], what: Sequence[str], n_rounds: int) -> None:
    """Print the speeds, then each pair's ratios beside its targets."""
    rows = [(s, str(n), *(f"{numbers[w]:.1f}" for w in what)) for (s, n), numbers in speeds.items()]
    print_table(("subject", "threads", *what), rows, title=f"tokens/s, medians of {n_rounds}")
    rows = []
    for target in TARGETS:
        for (subject, n_threads), ours in speeds.items():
            peer = speeds.get((target.peer, n_threads))
            if subject == target.ours and peer is not None:
                ratios = (f"{ours[w] / peer[w]:.2f}" for w in what)
                goal = f"{target.decode:g} decode, {target.prefill:g} prefill"
                rows.append((f"{target.ours} / {target.peer}", str(n_threads), *ratios, goal))
    print_table(("ratio", "threads", *what, "target"), rows, title="ratios")
    for name, device in devices.items():
        print(f"{name} threads: {device}")


if __name__ == "__main__":
    raise SystemExit(main())
