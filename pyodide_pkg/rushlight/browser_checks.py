"""Op cases, parity and bench inside the page's worker: what the test harness calls.

Each function takes a source (or None), a backend, options as JSON and a listener for one line of
progress, and answers with an envelope; see ``browser.py``.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from .backends.base import Progress
from .backends.variant_trials import distinct_trials
from .backends.webgpu_browser import BrowserExecutor, JsSource, page_buffers
from .browser import enveloped, make_executor, open_model
from .errors import EngineError
from .kernels import kernel_table
from .model import Model
from .ops import Case, OpDef
from .plan.variant import BY_NAME
from .session import Session

OnStep = Callable[[str], Any]


AT_ONCE = 12
"""Cases under way together: while the driver compiles the kernels of some, others are planned."""


@enveloped
async def run_op_cases(source: None, backend: str, options: str, on_step: OnStep) -> list[Any]:
    """Every op case: [variant, op, case, nmse, limit, error] of each.

    On WebGPU ``{"variants": [name, ..]}`` says whose kernels, each case with every one of them
    that differs for it from those before; with ``"cases"`` only the cases of these names.
    """
    from .selftest import CaseResult, all_cases, check_case

    asked = json.loads(options)
    names = asked.get("cases")
    jobs: list[tuple[str, OpDef, Case, Callable[[], Awaitable[CaseResult]]]] = []
    if backend == "webgpu":
        device = BrowserExecutor().device
        for variant, trial in distinct_trials(BY_NAME[name] for name in asked["variants"]):
            run = partial(trial.result, device, variant)
            jobs.append((variant.name, trial.op, trial.case, run))
    else:
        make = partial(make_executor, backend)
        for op, case in all_cases():
            jobs.append(("exact", op, case, partial(check_case, op, case, make, "exact")))
    running = asyncio.Semaphore(AT_ONCE if backend == "webgpu" else 1)

    async def one(name: str, op: OpDef, case: Case, run: Any) -> list[Any]:
        async with running:
            on_step(f"{name} {op.name}/{case.name}")
            try:
                result = await run()
            except EngineError as error:
                return [name, op.name, case.name, None, case.nmse, f"{error.code}: {error}"]
            return [name, op.name, case.name, result.nmse, result.limit, result.error]

    wanted = [job for job in jobs if not names or job[2].name in names]
    return list(await asyncio.gather(*(one(*job) for job in wanted)))


@enveloped
async def answer_items(source: Any, backend: str, options: str, on_step: OnStep) -> dict[str, Any]:
    """A model's answers to parity items (``{"items": [...]}``), as ``parity.Answer`` fields."""
    from .parity import answer_async, read_item

    model = await open_model(source, backend, kv_dtype="f32", variant="exact")
    answers = []
    try:
        for index, raw in enumerate(json.loads(options)["items"]):
            item = read_item(raw, index)
            on_step(item.name)
            answers.append(asdict(await answer_async(model, item)))
        info = model.device
        return {
            "answers": answers,
            "adapter": ", ".join(filter(None, (info.adapter, info.kernels))),
        }
    finally:
        model.close()


@enveloped
async def logits_and_text(source: Any, backend: str, options: str, on_step: OnStep) -> list[Any]:
    """Each prompt's last logits, decoded one by one, and its greedy text: [rows, ids].

    ``{"prompts": [{"ids", "n_rows", "n_greedy"}], "load": {..}, "files": {name: text}}``; files
    are modules that add architectures.
    """
    asked = json.loads(options)
    if asked.get("files"):
        _add_architectures(asked["files"])
    model = await open_model(source, backend, kv_dtype="f32", **asked.get("load", {}))
    on_step(model.config.architecture)
    answers = []
    try:
        for prompt in asked["prompts"]:
            ids, session, rows = prompt["ids"], model.session(), []
            start = len(ids) - prompt["n_rows"]
            if start:
                await session.run(ids[:start], "none")
            for token in ids[start:]:
                logits = await session.run([token], "logits")
                assert logits is not None
                rows.append(logits[0].tolist())
            text = model.generate(
                ids, max_tokens=prompt["n_greedy"], temperature=0, ignore_eos=True
            )
            await text.text_async()
            answers.append([rows, list(text.ids)])
        return answers
    finally:
        model.close()


@enveloped
async def embed(source: Any, backend: str, options: str, on_step: OnStep) -> dict[str, Any]:
    """Vectors of ``{"texts"}``, and each token's last hidden state (``{"load": {..}}``)."""
    asked = json.loads(options)
    model = await open_model(source, backend, kv_dtype="f32", **asked.get("load", {}))
    try:
        on_step(model.config.architecture)
        ids = [model.tokenizer.encode(text) for text in asked["texts"]]
        return {
            "ids": ids,
            "vectors": (await model.embed_async(asked["texts"])).tolist(),
            "hidden": [(await model.hidden_states_async(i)).tolist() for i in ids],
        }
    finally:
        model.close()


def _add_architectures(files: dict[str, str]) -> None:
    """Put modules where model files are looked for, in a folder of their own."""
    from . import models

    folder = Path(tempfile.mkdtemp())
    for name, text in files.items():
        (folder / name).write_text(text)
    models.__path__.append(str(folder))
    importlib.invalidate_caches()


@enveloped
async def reload(source: Any, backend: str, options: str, on_step: OnStep) -> list[Any]:
    """Load, answer and unload ``n`` times: [buffers when loaded, buffers afterwards] of each."""
    rounds = []
    for i in range(json.loads(options)["n"]):
        on_step(f"round {i}")
        model = await open_model(source, backend, n_ctx=32)
        session = model.session()
        await session.run([1, 2, 3], "argmax")
        await model.argmax_async([1, 2, 3])
        loaded = page_buffers()
        model.close()
        del model, session
        gc.collect()
        rounds.append([loaded, page_buffers()])
    return rounds


@enveloped
async def profile(source: Any, backend: str, options: str, on_step: OnStep) -> dict[str, Any]:
    """Where a model's time goes here: the rows of a ``Profile``, and the device in words."""
    from .bench import BenchOptions, profile_async

    choice = BenchOptions(prefill=(16,), n_decode=json.loads(options).get("n_decode", 4))
    model = await open_model(source, backend, n_ctx=choice.n_ctx)
    try:
        found = await profile_async(model, choice, on_step=on_step)
        return {**found.to_json(), "text": found.text(), "kernels": model.device.kernels}
    finally:
        model.close()


@enveloped
async def measure(source: Any, backend: str, options: str, on_step: OnStep) -> dict[str, Any]:
    """The bench's numbers for a model (``{"is_quick": bool}``), as ``BenchResult`` fields."""
    from .bench import BenchOptions, measure_async

    choice = BenchOptions.quick() if json.loads(options)["is_quick"] else BenchOptions()
    began: dict[str, float] = {}

    def progress(event: Progress) -> None:
        began.setdefault(event.step, time.perf_counter())

    started = time.perf_counter()
    model = await open_model(source, backend, n_ctx=choice.n_ctx, progress=progress)
    load_s = time.perf_counter() - started
    steps = {
        f"load_{step}_s": round(end - start, 3)
        for (step, start), (_, end) in pairwise(began.items())
    }
    try:
        result = await measure_async(model, choice, load_s=load_s, on_step=on_step)
        return {**result.to_json(), **steps}
    finally:
        model.close()


@enveloped
async def continue_ids(source: Any, backend: str, options: str, on_step: OnStep) -> dict[str, Any]:
    """A prompt's logits and its greedy continuation, with what became of the threads.

    ``{"ids", "n_tokens", "variant", "n_threads"}``; ``"loses"`` says how a thread is lost before
    the second token: it "dies" with work in its hands, or the browser "ends" it. With
    ``"beyond_gib"`` the sessions' states lie past so many GiB.
    """
    asked = json.loads(options)
    executor: Any = make_executor(backend, asked.get("n_threads", 0))
    beyond = int(asked.get("beyond_gib", 0)) << 30
    if beyond:
        executor.host.spare_bytes = beyond + (1 << 30)
    model = await Model.load_async(
        JsSource(source), executor, kv_dtype="f32", variant=asked.get("variant", "exact")
    )
    try:
        if beyond:
            assert executor.host.is_wide == (beyond >= 4 << 30)
            assert executor.host.grow(beyond) > 0
        logits = await model.logits_async(asked["ids"])
        session, made = model.session(), list(asked["ids"])
        found = await session.run(made, "argmax")
        for i in range(asked["n_tokens"]):
            assert found is not None
            made.append(int(found[-1]))
            if i == 1 and "loses" in asked:
                await _lose_thread(session, made[-1], asked["loses"])
            found = await session.run(made[-1:], "argmax")
        info = model.device
        return {
            "logits": logits.tolist(),
            "ids": made[len(asked["ids"]) :],
            "device": f"{info.backend}, {info.adapter}, {info.kernels}",
            "notes": list(info.notes),
        }
    finally:
        model.close()


async def _lose_thread(session: Session, token: int, how: str) -> None:
    executor: Any = session.model.executor
    if how == "ends":
        executor.host.end_thread(1)
        await asyncio.sleep(4)  # Chromium lets it run on for two seconds
        return
    table = kernel_table()
    for field, value in (("stall_ms", 300), ("fault", 1)):
        at = executor._layout.control + table.control_at(field)
        executor.host.write(at, value.to_bytes(4, "little"))
    for _ in range(1000):  # a thread that is late for a short step takes no share of it
        if executor.host.notes:
            break
        await executor.forward(session._state, [token], len(session.tokens), [0], "argmax")


_rounds: Model | None = None


@enveloped
async def open_for_rounds(source: Any, backend: str, options: str, on_step: OnStep) -> Any:
    """Load a model that ``measure_round`` measures again and again (``{"n_threads", "n_ctx"}``)."""
    global _rounds
    asked = json.loads(options)
    _rounds = await open_model(source, backend, n_threads=asked["n_threads"], n_ctx=asked["n_ctx"])
    info = _rounds.device
    n_threads = getattr(getattr(_rounds.executor, "host", None), "n_threads", 1)
    return {"adapter": f"{info.adapter}, {info.kernels}", "n_threads": n_threads}


@enveloped
async def measure_round(
    source: None, backend: str, options: str, on_step: OnStep
) -> dict[str, Any]:
    """The bench's numbers for that model (``{"n_decode", "prefill"}``)."""
    from .bench import BenchOptions, measure_async

    assert _rounds is not None, "open_for_rounds first"
    asked = json.loads(options)
    choice = BenchOptions(tuple(asked["prefill"]), asked["n_decode"])
    return (await measure_async(_rounds, choice, on_step=on_step)).to_json()


@enveloped
async def step_costs(source: Any, backend: str, options: str, on_step: OnStep) -> list[Any]:
    """What a decode step costs (``{"n_tokens", "n_ctx"}``), as ``StepCost`` fields."""
    from .bench_steps import step_costs_async

    asked = json.loads(options)
    model = await open_model(source, backend, n_ctx=asked["n_ctx"])
    try:
        return [cost.to_json() for cost in await step_costs_async(model, asked["n_tokens"])]
    finally:
        model.close()


@enveloped
async def check_draws(source: Any, backend: str, options: str, on_step: OnStep) -> dict[str, Any]:
    """A model's tokens in pairs that must be equal, and what they cost.

    ``{"ids", "samplings", "n_tokens"}``: each sampling draws from a device's candidates and from
    all logits; greedy steps run alone and ahead.
    """
    from . import sampling

    asked = json.loads(options)
    ids, n_tokens = asked["ids"], asked["n_tokens"]
    model = await open_model(source, backend, kv_dtype="f32")
    stats = model.executor.stats
    drawn, costs = [], []

    async def made(**choice: Any) -> list[int]:
        before = stats.submits, stats.dispatches, stats.bytes_read
        generation = model.session().generate(ids, max_tokens=n_tokens, ignore_eos=True, **choice)
        await generation.text_async()
        after = stats.submits, stats.dispatches, stats.bytes_read
        costs.append([b - a for a, b in zip(before, after, strict=True)])
        return list(generation.ids)

    try:
        for choice in asked["samplings"]:
            on_step(json.dumps(choice))
            sampler = sampling.Sampler(sampling.SamplingParams(**choice))
            session, one_by_one = model.session(), list[int]()
            for _ in range(n_tokens):
                logits = await session.run(one_by_one[-1:] or ids, "logits")
                assert logits is not None
                one_by_one.append(sampler.sample(logits[0], ids + one_by_one))
            drawn.append([await made(**choice), one_by_one])
        greedy = [await made(temperature=0, run_ahead=depth) for depth in (1, 8)]
        return {"drawn": drawn, "greedy": greedy, "costs": costs, "full_reads": stats.full_reads}
    finally:
        model.close()
