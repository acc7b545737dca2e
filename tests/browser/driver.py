"""The harness page outside pytest: parity and bench ask the built page's worker through it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from rushlight.parity import Answer, Item
from space.tools import machine, site_builder
from space.tools.server import SiteServer
from tests.tools import chromium

HERE = Path(__file__).parent
Harness = Callable[..., Any]


def add_harness(site_dir: Path) -> str:
    """Copy the harness into a test's site (never a real one); give its path below the site."""
    folder = site_dir / "harness"
    folder.mkdir(exist_ok=True)
    for path in HERE.glob("harness*.*"):
        shutil.copy2(path, folder / path.name)
    return "harness/harness.html"


def runner(page: Page, url: str, *, is_kept: bool = False) -> Harness:
    """``run(job, **options)`` on a page that shows the harness, each job in a fresh worker.

    With ``is_kept`` all jobs go to one worker, so that a model stays loaded.
    """
    page.on("console", lambda message: print("console:", message.text))
    page.goto(url)
    script = f"([job, options]) => window.{'keep' if is_kept else 'run'}(job, options)"

    def run(job: str, **options: Any) -> Any:
        return page.evaluate(script, [job, options])

    return run


@contextmanager
def open_harness(*, is_real_gpu: bool = False) -> Iterator[Harness]:
    """The harness of a freshly built site in a Chromium of its own."""
    site_dir = site_builder.build_site(machine.ROOT / "dist" / "test-site", model="none")
    path = add_harness(site_dir)
    with SiteServer(site_dir) as server, sync_playwright() as playwright:
        browser = chromium.launch(playwright, is_real_gpu=is_real_gpu)
        try:
            yield runner(browser.new_page(), server.url + path)
        finally:
            browser.close()


@dataclass(frozen=True)
class Call:
    """A call of a function of ``rushlight.browser_checks``, about a model file if there is one."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    model: str | Path | None = None


@dataclass(frozen=True)
class WorkerAnswer:
    """The value of each call, and what it took to start."""

    values: list[Any]
    boot_ms: dict[str, int]
    heap_bytes: int
    heap_growth_bytes: int
    notes: list[str]


def ask_worker(run: Harness, backend: str, calls: Sequence[Call]) -> WorkerAnswer:
    """Make calls in one fresh worker. Raises RuntimeError with the first failure's words."""
    with ExitStack() as servers:
        payload = []
        for call in calls:
            url = None
            if call.model is not None:
                path = Path(call.model).resolve()
                server = servers.enter_context(SiteServer(path.parent, is_shared=True))
                url = f"{server.url}{path.name}"
            payload.append({"name": call.name, "url": url, "options": call.options})
        answer = run("python", backend=backend, calls=payload)
    if "error" in answer:
        raise _failed(answer["error"])
    value = answer["value"]
    for envelope in value["envelopes"]:
        if not envelope["ok"]:
            raise _failed(envelope["error"])
    values = [envelope["value"] for envelope in value["envelopes"]]
    heap = value["heapBytes"]
    return WorkerAnswer(values, value["stepMs"], heap, heap - value["heapBefore"], value["notes"])


def _failed(error: dict[str, Any]) -> RuntimeError:
    return RuntimeError(f"{error['code']}: {error['message']} {error['hint']}".strip())


def items_call(items: Sequence[Item], model: str | Path) -> Call:
    """The call that answers parity items."""
    return Call("answer_items", {"items": [asdict(item) for item in items]}, model)


def browser_results(
    backend: str, items: Sequence[Item], model: str | Path
) -> Iterator[tuple[Item, Answer, str]]:
    """(item, answer, adapter) for each parity item, from the worker on "cpu" or "webgpu"."""
    with open_harness() as run:
        (value,) = ask_worker(run, backend, [items_call(items, model)]).values
    for item, fields in zip(items, value["answers"], strict=True):
        yield item, Answer(**fields), value["adapter"]


def browser_bench(backend: str, model: str | Path, *, is_quick: bool) -> dict[str, Any]:
    """``BenchResult`` fields, and what only the page has: start-up times and Pyodide's heap."""
    with open_harness() as run:
        answer = ask_worker(run, backend, [Call("measure", {"is_quick": is_quick}, model)])
    boot = {f"boot_{step}_s": ms / 1e3 for step, ms in answer.boot_ms.items()}
    heap = {
        "python_heap_bytes": answer.heap_bytes,
        "python_heap_growth_bytes": answer.heap_growth_bytes,
    }
    return {**answer.values[0], **boot, **heap}
