"""Our own page's worker in Chromium, on the CPU kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser

from tests.browser.driver import Call, Harness, ask_worker, runner
from tests.tools.peers.subject import N_CTX, Work, prompt_name


class RushlightPage:
    """A tab with the harness, whose worker holds the model."""

    name = "rushlight page"

    def __init__(self, run: Harness, work: Work, n_threads: int) -> None:
        self._run, self._work, self.n_threads = run, work, n_threads
        options = {"n_threads": n_threads, "n_ctx": N_CTX}
        about = self._ask(Call("open_for_rounds", options, work.model))
        self.device = str(about["adapter"])
        assert about["n_threads"] == n_threads, about

    def round(self) -> dict[str, float]:
        """See ``Subject``."""
        options = {"n_decode": self._work.n_decode, "prefill": list(self._work.prefill)}
        found = self._ask(Call("measure_round", options))
        speeds = found["prefill_tokens_per_s"].items()
        return {
            "decode": float(found["decode_tokens_per_s"]),
            **{prompt_name(int(n)): float(speed) for n, speed in speeds},
        }

    def _ask(self, call: Call) -> Any:
        return ask_worker(self._run, "cpu", [call]).values[0]


@contextmanager
def rushlight_page(
    browser: Browser, harness_url: str, work: Work, n_threads: int
) -> Iterator[RushlightPage]:
    """Our page's worker with so many threads."""
    context = browser.new_context()
    try:
        tab = context.new_page()
        tab.set_default_timeout(600_000)
        yield RushlightPage(runner(tab, harness_url, is_kept=True), work, n_threads)
    finally:
        context.close()
