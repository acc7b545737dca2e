"""Measure this engine beside llama.cpp: same file, same machine, same adapter, one run.

llama.cpp comes from npm (node-llama-cpp, which carries built binaries) into the cache. Rounds of
both alternate, and ratios are of medians, so that a busy machine slows both. Software adapters:
only the ratio means something.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rushlight import Model, _sync
from rushlight.bench import bench_ids
from rushlight.cli.common import print_table
from space.tools import machine
from tests.tools.parity_all import default_model

VERSION = "3.21.1"
PACKAGES = (f"@node-llama-cpp/linux-x64@{VERSION}", f"@node-llama-cpp/linux-x64-vulkan@{VERSION}")
SCRIPT = Path(__file__).with_name("peer.mjs")
PAIRS = {"gpu": "vulkan", "cpu": "cpu"}
"""Our device beside llama.cpp's."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the pairs asked for and print speeds and ratios."""
    parser = argparse.ArgumentParser(prog="python build.py bench --peers", description=__doc__)
    parser.add_argument("--model", metavar="FILE", help="default: Gemma 3 270M")
    parser.add_argument("--devices", default="gpu", metavar="A,B", help="gpu, cpu (default: gpu)")
    parser.add_argument("--prefill", type=int, default=128, help="prompt tokens (default: 128)")
    parser.add_argument("--decode", type=int, default=8, help="decoded tokens (default: 8)")
    parser.add_argument("--rounds", type=int, default=5, help="the median is taken (default: 5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", metavar="FILE", help="also write the numbers here")
    args = parser.parse_args(argv)
    model, folder = args.model or default_model(), install()
    rows, report = [], {}
    for device in args.devices.split(","):
        machine.say(f"peers: rushlight on {device}")
        ours = measure_ours(model, device, args)
        machine.say(f"peers: llama.cpp on {PAIRS[device]}")
        theirs = measure_theirs(folder, model, PAIRS[device], args)
        report[device] = {"rushlight": ours, "llama.cpp": theirs}
        for what in ("prefill", "decode"):
            ratio = ours[what] / theirs[what]
            rows.append((device, what, f"{ours[what]:.2f}", f"{theirs[what]:.2f}", f"{ratio:.2f}"))
        machine.say(f"rushlight: {ours['device']}; llama.cpp: {theirs['device']}")
    header = ("device", "what", "rushlight tokens/s", "llama.cpp tokens/s", "ratio")
    print_table(header, rows, title=f"medians of {args.rounds}, {args.prefill} prompt tokens")
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0


def install() -> Path:
    """Put llama.cpp into the cache, once; give the folder that holds its node_modules."""
    folder = machine.cache_dir() / f"node-llama-cpp-{VERSION}"
    if not (folder / "done").exists():
        machine.say("peers: fetching llama.cpp (node-llama-cpp)")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional"]
        subprocess.run([*npm, f"node-llama-cpp@{VERSION}", *PACKAGES], cwd=folder, check=True)
        (folder / "done").touch()
    return folder


def measure_ours(model_path: str, device: str, args: argparse.Namespace) -> dict[str, Any]:
    """Medians of this engine's prefill and decode, in tokens per second."""
    import time

    model = Model.load(model_path, device, n_ctx=1024)
    session = model.default_session
    prefill, decode = [], []
    for _ in range(args.rounds + 1):
        session.reset()
        started = time.perf_counter()
        _sync.run(session.run(bench_ids(model, args.prefill), "argmax"))
        prefill.append(args.prefill / (time.perf_counter() - started))
        found = _sync.run(session.run([105], "argmax"))
        started = time.perf_counter()
        for _ in range(args.decode):
            assert found is not None
            found = _sync.run(session.run([int(found[-1])], "argmax"))
        decode.append(args.decode / (time.perf_counter() - started))
    adapter = model.device.adapter
    model.close()
    return {"device": adapter, "prefill": median(prefill[1:]), "decode": median(decode[1:])}


def measure_theirs(
    folder: Path, model_path: str, gpu: str, args: argparse.Namespace
) -> dict[str, Any]:
    """Medians of llama.cpp's; raises when it did not use the device asked for."""
    script = folder / SCRIPT.name
    script.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    # Without this, llama.cpp leaves out Vulkan devices that are software, and uses the CPU.
    environment = {**os.environ, "GGML_VK_VISIBLE_DEVICES": "0"}
    numbers = [str(n) for n in (args.threads, args.prefill, args.decode, args.rounds)]
    command = ["node", str(script), os.path.abspath(model_path), gpu, *numbers]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    rounds = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {
        "device": rounds[0]["device"],
        "prefill": median(r["prefill"] for r in rounds),
        "decode": median(r["decode"] for r in rounds),
    }


if __name__ == "__main__":
    raise SystemExit(main())
