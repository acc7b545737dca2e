"""The page's own worker, asked by its messages: what the page itself has no field for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from rushlight.gguf import BytesSource
from rushlight.gguf.reader import read_header
from rushlight.tokenizer import load_tokenizer
from space.tools.server import SiteServer

pytestmark = pytest.mark.browser

N_TOKENS = 5


@pytest.fixture(scope="module")
def talk(browser: Browser, harness_url: str) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(harness_url)
    yield page
    context.close()


def chats(page: Page, model_url: str, biases: list[Any]) -> list[Any]:
    """The envelopes of one reply for each bias, all greedy."""
    messages = [{"role": "user", "content": "Say it"}]
    asked = [{"temperature": 0, "maxTokens": N_TOKENS, "logitBias": bias} for bias in biases]
    calls = [
        ["boot", {"backend": "cpu"}],
        ["loadModel", {"kind": "url", "url": model_url}, {}],
        *(["chat", {"messages": messages, "options": options}] for options in asked),
    ]
    found = page.evaluate("(calls) => window.talk(calls)", calls)
    envelopes = [one["answer"] for one in found]
    assert envelopes[0]["ok"] and envelopes[1]["ok"], envelopes[:2]
    return envelopes[2:]


def test_logit_bias_decides_and_is_checked(talk: Page, data_dir: Path) -> None:
    path = data_dir / "golden" / "llama-f32.gguf"
    tokenizer = load_tokenizer(read_header(BytesSource(path.read_bytes())).metadata)
    token = tokenizer.encode("Q", add_special=False)[-1]
    outside = tokenizer.n_vocab
    given: list[Any] = [{f"{token}": 100}, None]
    given += [{f"{outside}": 1}, {f"{token}": None}, {f"{token}": 101}, {"a": 1}, {"-1": 1}, [1]]
    with SiteServer(path.parent, is_shared=True) as host:
        forced, plain, *refused = chats(talk, host.url + path.name, given)
    assert forced["value"]["text"].strip() == tokenizer.decode([token] * N_TOKENS).strip()
    assert plain["value"]["text"] != forced["value"]["text"]
    assert [one["error"]["code"] for one in refused] == ["invalid_input"] * len(refused)
    messages = [one["error"]["message"] for one in refused]
    assert str(outside) in messages[0] and str(token) in messages[1] and "101" in messages[2]
