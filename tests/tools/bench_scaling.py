"""How time grows with the context and with the prompt, on a tiny model; a table and an SVG.

Decoding should grow in line with the keys it reads and prefill a little faster than the prompt;
a curve that bends upwards shows work that is repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from rushlight import Model, _sync
from rushlight.bench import bench_ids
from rushlight.cli.common import print_table
from space.tools.machine import ROOT
from tests.tools.svg_plot import Series, plot
from tests.unit.gguf_bytes import unpack_gguf, write_gguf

CONTEXTS = (0, 1024, 4096, 16384)
PROMPTS = (64, 128, 256, 512, 1024, 2048)
N_DECODE = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and write the picture."""
    parser = argparse.ArgumentParser(prog="python build.py bench --scaling", description=__doc__)
    parser.add_argument("--devices", default="numpy,gpu", metavar="A,B")
    parser.add_argument("--out", default=str(ROOT / "dist" / "scaling.svg"), metavar="FILE")
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    args = parser.parse_args(argv)
    data = long_model()
    decode, prefill = [], []
    for device in args.devices.split(","):
        model = Model.load(data, device, n_ctx=max(CONTEXTS) + 64)
        prefill.append(Series(device, tuple((n, prefill_ms(model, n)) for n in PROMPTS)))
        decode.append(Series(device, tuple((n, decode_ms(model, n)) for n in CONTEXTS)))
        model.close()
    panels = {"one token after a context of": decode, "a prompt of": prefill}
    for title, series in panels.items():
        header = ("tokens", *(f"{s.name} ms" for s in series))
        lengths = [n for n, _ in series[0].points]
        rows = [(str(n), *(f"{s.points[i][1]:.2f}" for s in series)) for i, n in enumerate(lengths)]
        print_table(header, rows, title=title)
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    Path(args.out).write_text(plot(panels, x="tokens", y="ms"), encoding="utf-8")
    print(f"picture: {args.out}")
    if args.json:
        numbers = {title: {s.name: s.points for s in series} for title, series in panels.items()}
        Path(args.json).write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    return 0


def long_model() -> bytes:
    """The tests' tiny llama, with a context long enough to measure."""
    metadata, tensors = unpack_gguf(ROOT / "tests" / "data" / "golden" / "llama-f32.gguf")
    return write_gguf(None, {**metadata, "llama.context_length": 32768}, tensors)


def prefill_ms(model: Model, n_tokens: int) -> float:
    """Median of three prompts of a length."""
    session, times = model.default_session, []
    for _ in range(4):
        session.reset()
        started = time.perf_counter()
        _sync.run(session.run(bench_ids(model, n_tokens), "argmax"))
        times.append((time.perf_counter() - started) * 1e3)
    return median(times[1:])


def decode_ms(model: Model, n_context: int) -> float:
    """Median of a few steps that follow a context of a length."""
    session, times = model.default_session, []
    session.reset()
    found = _sync.run(session.run(bench_ids(model, n_context + 1), "argmax"))
    for _ in range(N_DECODE + 1):
        assert found is not None
        started = time.perf_counter()
        found = _sync.run(session.run([int(found[-1])], "argmax"))
        times.append((time.perf_counter() - started) * 1e3)
    return median(times[1:])


if __name__ == "__main__":
    raise SystemExit(main())
