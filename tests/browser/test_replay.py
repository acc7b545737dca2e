"""worker/gpu.js, replay.js, weights.js and sources.js in Chromium, without Python."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from rushlight.backends.webgpu_common import (
    gather_plane,
)
from rushlight.backends.webgpu_program import program_json, uploads_json
from rushlight.backends.webgpu_step import output_rows, pack_input
from space.tools.server import SiteServer
from tests.unit.tiny_program import SOURCES, expected_logits, tiny_program, weight_file

pytestmark = pytest.mark.browser

DECODE, PREFILL_16, PREFILL_256 = 0, 1, 2
N_DISPATCHES, HEAD = 4, 2
WANT = {"none": 0, "logits": 1, "argmax": 2}


def step(
    state: int, plan: int, tokens: list[int], position: int, rows: list[int], want: str
) -> list[Any]:
    program = tiny_program()
    words = pack_input(program.plans[plan], tokens, position, rows)
    stop = HEAD if want == "none" else N_DISPATCHES
    n_bytes = 0
    if want != "none":
        n_bytes = len(rows) * output_rows(program.plans[plan], want)[1]  # type: ignore[arg-type]
    return [state, plan, 0, stop, WANT[want], n_bytes, words.tolist()]


def replay(harness: Any, steps: list[list[Any]], **more: Any) -> Any:
    program = tiny_program()
    return harness(
        "replay",
        program=program_json(program),
        constants={
            name: base64.b64encode(data).decode()
            for name, data in program.model_plan.constants.items()
        },
        uploads=uploads_json(program.model_plan.uploads),
        source=base64.b64encode(weight_file()[0]).decode(),
        nStates=2,
        steps=steps,
        **more,
    )


@pytest.mark.parametrize("is_floor", [False, True])
def test_plans_give_the_expected_numbers(harness: Any, is_floor: bool) -> None:
    tokens = list(range(3, 15))
    answer = replay(
        harness,
        [
            step(0, PREFILL_16, tokens, 0, [0, 5, 11], "logits"),
            step(1, PREFILL_256, [100, 200], 0, [], "none"),
            step(0, DECODE, [9], 12, [0], "argmax"),
            step(1, DECODE, [7], 2, [0], "logits"),
        ],
        isFloor=is_floor,
    )
    prefill, nothing, argmax, other = answer["value"]["results"]
    np.testing.assert_array_equal(np.reshape(prefill, (3, -1)), expected_logits(tokens, [0, 5, 11]))
    assert nothing is None
    assert argmax == [int(expected_logits([*tokens, 9], [12])[0].argmax())]
    np.testing.assert_array_equal(other, expected_logits([100, 200, 7], [2])[0])
    assert answer["value"]["progress"][-1] == [780, 780]
    limit = answer["value"]["info"]["limits"]["max-storage-buffer-binding-size"]
    assert limit >= 128 << 20
    assert not is_floor or limit == 128 << 20


def test_decode_is_one_submit(harness: Any) -> None:
    steps = [step(0, DECODE, [i], i, [0], "argmax") for i in range(20)]
    answer = replay(harness, steps)["value"]
    assert answer["submits"] == 20
    print(f"{answer['ms'] / 20:.2f} ms a step")


def test_a_rejected_kernel_is_named_with_its_line(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "sum", SOURCES["sum"].replace("var total = 0u", "var total = q"))
    error = replay(harness, [])["error"]
    assert error["code"] == "shader_compile"
    assert error["details"] == {"kernel": 1, "line": 7}


def test_a_lost_device_is_named(harness: Any) -> None:
    error = harness("loseDevice", program=program_json(tiny_program()))["error"]
    assert error["code"] == "device_lost"


def test_a_buffer_above_the_limit_is_refused(harness: Any) -> None:
    program = json.loads(program_json(tiny_program()))
    program["slots"].append(["huge", 1 << 40, "scratch"])
    error = harness("loseDevice", program=json.dumps(program))["error"]
    assert error["code"] == "out_of_device_memory"


def test_planes_are_gathered_as_in_python(harness: Any) -> None:
    rng = np.random.default_rng(0)
    for type_size, planes in ((144, [(0, 4), (4, 12), (16, 128)]), (34, [(0, 2), (2, 32)]),
                              (7, [(0, 3), (3, 4)]), (18, [(0, 18)])):  # fmt: skip
        data = rng.integers(0, 256, 64 * type_size, dtype=np.uint8)
        got = harness("planes", data=data.tolist(), typeSize=type_size, nBlocks=64, planes=planes)[
            "value"
        ]
        for (offset, n), plane in zip(planes, got, strict=True):
            np.testing.assert_array_equal(plane, gather_plane(data.tobytes(), type_size, offset, n))


RANGES = [[0, 10], [1000, 5000], [90000, 10], [5, 5], [99990, 10]]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_web_address_is_read_at_random(harness: Any, tmp_path: Any, has_ranges: bool) -> None:
    data = np.random.default_rng(0).integers(0, 256, 100_000, dtype=np.uint8)
    (tmp_path / "model.gguf").write_bytes(data.tobytes())
    with SiteServer(tmp_path, has_ranges=has_ranges, is_shared=True) as server:
        answer = harness("read", url=f"{server.url}model.gguf", ranges=RANGES)["value"]
    for (offset, n), part in zip(RANGES, answer["parts"], strict=True):
        assert part == data[offset : offset + n].tolist()
    assert answer["size"] == 100_000
    assert answer["name"] == "model.gguf"
    assert ("ignores Range" in answer["note"]) is not has_ranges


def test_a_file_is_read_at_random(harness: Any) -> None:
    answer = harness("read", blob=["0123456789"], ranges=[[2, 3], [0, 0]])["value"]
    assert bytes(answer["parts"][0]) == b"234"
    assert harness("read", blob=["0123"], ranges=[[2, 3]])["error"]["code"] == "out_of_range"


def test_a_missing_file_says_so(harness: Any, site_url: str) -> None:
    error = harness("read", url=f"{site_url}models/none.gguf", ranges=[])["error"]
    assert error["code"] == "not_found"
    assert "none.gguf" in error["message"]


def test_a_host_that_cannot_be_reached_names_cors(harness: Any) -> None:
    error = harness("read", url="http://localhost:9/model.gguf", ranges=[])["error"]
    assert error["code"] == "network"
    assert "CORS" in error["hint"]


class _ShakyHandler(BaseHTTPRequestHandler):
    """Fails twice, once in the middle of a body, then serves the range."""

    data = bytes(range(256)) * 4
    n_asked = 0

    def do_GET(self) -> None:
        kind = type(self)
        kind.n_asked += 1
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = self.data[first : last + 1]
        self.send_response(503 if kind.n_asked == 1 else 206)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Expose-Headers", "Content-Range")
        self.send_header("Cross-Origin-Resource-Policy", "cross-origin")
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: 5 if kind.n_asked == 3 else None])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_a_shaky_host_is_asked_again(harness: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ShakyHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/model.gguf"
        answer = harness("read", url=url, ranges=[[10, 100]])["value"]
    finally:
        server.shutdown()
        server.server_close()
    assert bytes(answer["parts"][0]) == _ShakyHandler.data[10:110]
    assert _ShakyHandler.n_asked == 4
