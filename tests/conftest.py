"""Fixtures that all groups share, and the rule that a skip under CI is a failure."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from space.tools import machine, site_builder, vendor
from space.tools.server import SiteServer
from tests.tools import chromium

IS_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")

# Reasons that are about the case and not about a part that somebody forgot to install.
ALLOWED_SKIPS = ("not applicable: ", "adapter lacks ")


# --- skips under CI ----------------------------------------------------------------------------


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    longrepr = report.longrepr
    reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return reason.removeprefix("Skipped: ")


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not IS_CI or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = _skip_reason(report)
    if not reason.startswith(ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, where every part must be there: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip of a test into a failure under CI."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns a skip of a whole module into a failure under CI."""
    report = yield
    _fail_if_skipped(report)
    return report


# --- files -------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The frozen reference data."""
    return Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def gemma_path() -> Path:
    """The real Gemma 3 270M file; $RUSHLIGHT_GEMMA names another copy of it."""
    if given := os.environ.get("RUSHLIGHT_GEMMA"):
        return Path(given)
    try:
        return vendor.ensure_default_model()[0]
    except machine.BuildError as error:
        pytest.skip(f"the Gemma file cannot be fetched: {error}")


# --- the page ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def site_dir() -> Path:
    """The built site, with the default model."""
    try:
        return site_builder.build_site(machine.ROOT / "dist" / "test-site")
    except machine.BuildError as error:
        pytest.skip(f"the site cannot be built: {error}")


@pytest.fixture(scope="session")
def site_url(site_dir: Path) -> Iterator[str]:
    """Address of the built site on a server of its own; ends with a slash."""
    with SiteServer(site_dir) as server:
        yield server.url


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], browser_type: Any
) -> dict[str, Any]:
    """pytest-playwright's launch options, with the machine's Chromium and WebGPU."""
    options = {**browser_type_launch_args, **chromium.launch_options()}
    executable = options.get("executable_path", browser_type.executable_path)
    if not Path(executable).exists():
        pytest.skip("no Chromium on this machine: python -m playwright install chromium")
    return options
