"""Drives the machine's own Firefox by Marionette, the protocol that it has built in.

Playwright drives only a Firefox of its own making. Marionette is a TCP port that takes WebDriver
commands as ``length:[0, id, name, parameters]`` and answers ``length:[1, id, error, value]``.
"""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from space.tools import machine
from space.tools.server import free_port

START_S = 60
PREFERENCES = {
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processCount": 1,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.enabled": False,
}


class Firefox:
    """One tab; commands are WebDriver's."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self._count = 0
        self._read()  # who answers, and how it speaks
        self.command("WebDriver:NewSession", capabilities={})

    def goto(self, url: str) -> None:
        """Load a page."""
        self.command("WebDriver:Navigate", url=url)

    def evaluate(self, script: str, *arguments: Any, timeout_s: float = 120) -> Any:
        """Run the body of an async function in the page and give what it returns."""
        wrapped = (
            "const done = arguments[arguments.length - 1];"
            f"(async (...args) => {{ {script} }})(...arguments)"
            ".then((value) => done({value}), (error) => done({error: String(error)}));"
        )
        self.command("WebDriver:SetTimeouts", script=int(timeout_s * 1e3))
        found = self.command("WebDriver:ExecuteAsyncScript", script=wrapped, args=list(arguments))
        if "error" in found["value"]:
            raise RuntimeError(found["value"]["error"])
        return found["value"].get("value")

    def command(self, name: str, **parameters: Any) -> Any:
        """One command's answer. Raises RuntimeError with the browser's words."""
        self._count += 1
        message = json.dumps([0, self._count, name, parameters]).encode()
        self._connection.sendall(b"%d:%s" % (len(message), message))
        _, _, error, value = self._read()
        if error:
            raise RuntimeError(f"{name}: {error['error']}: {error['message']}")
        return value

    def _read(self) -> Any:
        while b":" not in self._buffer:
            self._receive()
        length, _, rest = self._buffer.partition(b":")
        self._buffer = rest
        while len(self._buffer) < int(length):
            self._receive()
        message, self._buffer = self._buffer[: int(length)], self._buffer[int(length) :]
        return json.loads(message)

    def _receive(self) -> None:
        data = self._connection.recv(1 << 16)
        if not data:
            raise RuntimeError("Firefox has closed the connection")
        self._buffer += data


@contextmanager
def open_firefox() -> Iterator[Firefox]:
    """A headless Firefox with a profile of its own."""
    program = machine.find_firefox()
    assert program is not None, "no Firefox on this machine"
    port = free_port(2828)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        settings = {**PREFERENCES, "marionette.port": port}
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in settings.items()]
        (Path(profile) / "user.js").write_text("".join(lines), encoding="utf-8")
        command = [program, "--headless", "--no-remote", "--marionette", "--profile", profile]
        process = subprocess.Popen(
            [*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with _connect(port, process) as connection:
                yield Firefox(connection)
        finally:
            process.terminate()
            process.wait(timeout=20)


def _connect(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    limit = time.monotonic() + START_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=300)
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("Firefox did not start")
