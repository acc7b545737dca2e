"""Do two engines say the same thing? Compare a backend's answers with frozen reference data.

``answer`` asks a loaded model about one item; answers that were made elsewhere (in a page, say)
go through the same ``compare``. A disagreement is
excused only where the reference itself was nearly undecided: below ``MIN_MARGIN``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _sync
from .errors import EngineError, InvalidInputError
from .gguf.source import FileSource

if TYPE_CHECKING:
    from .model import Model
    from .tokenizer import Tokenizer

MIN_MARGIN = 0.05
"""Top-1 minus top-2 logit from which the reference counts as decided."""

MAX_LOGIT_ERROR = 2e-4
"""Largest difference allowed between last logits, as a share of that position's range."""


@dataclass(frozen=True)
class Item:
    """One prompt with the reference's answers; see ``tests/data/README.md`` for the fields."""

    name: str
    ids: list[int]
    argmax: list[int]
    margin: list[float]
    greedy: list[int] = field(default_factory=list)
    greedy_margin: list[float] = field(default_factory=list)
    text: str | None = None
    last_top8: list[tuple[int, float]] = field(default_factory=list)
    last_range: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Answer:
    """What a backend said to one item. ``last_logits`` holds the ids of ``last_top8`` in order.

    ``text_ids`` are our tokenizer's ids of the item's text; None where they were not asked for.
    """

    argmax: Sequence[int]
    greedy: Sequence[int]
    text_ids: Sequence[int] | None = None
    last_logits: Sequence[float] | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class ItemResult:
    """The verdict on one item.

    ``argmax_wrong`` and ``greedy_wrong_at`` name what differs although the reference was
    decided. ``greedy_stopped_at`` is an excused divergence: nothing after it was compared.
    """

    name: str
    n_tokens: int
    n_checked: int
    argmax_wrong: list[int]
    greedy_checked: int
    greedy_wrong_at: int | None
    greedy_stopped_at: int | None
    tokens_ok: bool | None
    logit_error: float | None
    problem: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing differs that must not."""
        return not self.problem


def read_items(
    path: str | Path, *, names: Sequence[str] = (), limit: int | None = None
) -> list[Item]:
    """Return the items of a reference file, those named (all if none) and at most ``limit``.

    Raises InvalidInputError naming the field at fault.
    """
    try:
        source = FileSource(path)
        text = source.read(0, source.size)
        source.close()
        data = json.loads(text)
    except (EngineError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{path} cannot be read as reference data: {error}",
            hint="Give a JSON file like tests/data/gemma3-270m.json.",
        ) from error
    found = data.get("items") if isinstance(data, dict) else None
    if not isinstance(found, list) or not found:
        raise InvalidInputError(
            f"{path} has no list called items.",
            hint="Give a JSON file like tests/data/gemma3-270m.json.",
        )
    items = [read_item(raw, index) for index, raw in enumerate(found)]
    if unknown := sorted(set(names) - {item.name for item in items}):
        raise InvalidInputError(
            f"{path} has no item called {', '.join(unknown)}.",
            hint=f"Its items are {', '.join(item.name for item in items)}.",
        )
    chosen = [item for item in items if not names or item.name in names]
    return chosen if limit is None else chosen[:limit]


async def answer_async(model: Model, item: Item) -> Answer:
    """Return a loaded model's answers to one item, timed; runs in a page too.

    Load the model with ``kv_dtype="f32"``: the reference has no rounded KV cache. Its session is
    reused, so the prompt is computed once.
    """
    started = time.perf_counter()
    argmax = [int(token) for token in await model.argmax_async(item.ids)]
    session, last = model.default_session, None
    if item.last_top8:
        n_reused = session.reuse(item.ids)
        logits = await session.run(item.ids[n_reused:], "logits")
        assert logits is not None
        last = [float(logits[-1][token]) for token, _ in item.last_top8]
    greedy: list[int] = []
    if item.greedy:
        generation = model.generate(
            item.ids, max_tokens=len(item.greedy), temperature=0.0, ignore_eos=True
        )
        await generation.text_async()
        greedy = generation.ids
    text_ids = None if item.text is None else tokenize_item(model.tokenizer, item)
    return Answer(argmax, greedy, text_ids, last, time.perf_counter() - started)


def tokenize_item(tokenizer: Tokenizer, item: Item) -> list[int]:
    """Return our ids of the item's text, as many as the reference has if it was cut short there.

    Long items keep the text that their ids are the beginning of.
    """
    assert item.text is not None
    ids = tokenizer.encode(item.text)
    said = tokenizer.decode(item.ids, skip_special=True).rstrip("\ufffd")
    is_cut = len(said) < len(item.text) and item.text.startswith(said)
    return ids[: len(item.ids)] if is_cut else ids


def answer(model: Model, item: Item) -> Answer:
    """Return a loaded model's answers to one item; the synchronous form of ``answer_async``."""
    return _sync.run(answer_async(model, item))


def run_parity(
    ask: Callable[[Item], Answer],
    items: Sequence[Item],
    on_result: Callable[[ItemResult], None] | None = None,
) -> list[ItemResult]:
    """Return the verdict on every item; ``ask`` answers one, ``on_result`` is called after each."""
    results = []
    for item in items:
        results.append(compare(item, ask(item)))
        if on_result:
            on_result(results[-1])
    return results


def compare(item: Item, answer: Answer) -> ItemResult:
    """Return the verdict on one answer."""
    checked = [i for i, margin in enumerate(item.margin) if margin >= MIN_MARGIN]
    wrong = [i for i in checked if _at(answer.argmax, i) != item.argmax[i]]
    n_greedy, wrong_at, stopped_at = _compare_greedy(item, answer.greedy)
    tokens_ok = None if answer.text_ids is None else list(answer.text_ids) == item.ids
    error = _logit_error(item, answer.last_logits)
    problems = [
        "" if tokens_ok is not False else _first_difference(item.ids, answer.text_ids or []),
        f"argmax {_at(answer.argmax, wrong[0])} at {wrong[0]}, not {item.argmax[wrong[0]]}"
        if wrong
        else "",
        f"greedy {_at(answer.greedy, wrong_at)} at step {wrong_at}, not {item.greedy[wrong_at]}"
        if wrong_at is not None
        else "",
        f"logits differ by {error:.1e} of the range"
        if error is not None and not error <= MAX_LOGIT_ERROR
        else "",
    ]
    return ItemResult(
        name=item.name,
        n_tokens=len(item.ids),
        n_checked=len(checked),
        argmax_wrong=wrong,
        greedy_checked=n_greedy,
        greedy_wrong_at=wrong_at,
        greedy_stopped_at=stopped_at,
        tokens_ok=tokens_ok,
        logit_error=error,
        problem="; ".join(p for p in problems if p),
        seconds=answer.seconds,
    )


def summary(results: Sequence[ItemResult]) -> dict[str, Any]:
    """Return the totals of a run, ready for JSON."""
    errors = [r.logit_error for r in results if r.logit_error is not None]
    return {
        "ok": bool(results) and all(r.ok for r in results),
        "n_items": len(results),
        "n_failed": sum(not r.ok for r in results),
        "n_tokenized_wrong": sum(r.tokens_ok is False for r in results),
        "n_argmax": sum(r.n_checked for r in results),
        "n_argmax_wrong": sum(len(r.argmax_wrong) for r in results),
        "n_greedy": sum(r.greedy_checked for r in results),
        "n_greedy_excused": sum(r.greedy_stopped_at is not None for r in results),
        "max_logit_error": max(errors, default=None),
        "seconds": sum(r.seconds for r in results),
        "items": [asdict(r) for r in results],
    }


TABLE_HEADER = ("item", "tokens", "ids", "argmax", "greedy", "logit error", "seconds", "")


def table_row(result: ItemResult) -> tuple[str, ...]:
    """Return one line of the table, as text for each column of ``TABLE_HEADER``."""
    tokens = {None: "-", True: "ok", False: "WRONG"}[result.tokens_ok]
    n_right = result.n_checked - len(result.argmax_wrong)
    greedy = "ok" if result.greedy_wrong_at is None else "WRONG"
    greedy = f"{greedy} {result.greedy_checked}" if result.greedy_checked else "-"
    if result.greedy_stopped_at is not None:
        greedy += f" (undecided at {result.greedy_stopped_at})"
    error = "-" if result.logit_error is None else f"{result.logit_error:.1e}"
    return (
        result.name,
        str(result.n_tokens),
        tokens,
        f"{n_right}/{result.n_checked}",
        greedy,
        error,
        f"{result.seconds:.1f}",
        result.problem,
    )


def _compare_greedy(item: Item, greedy: Sequence[int]) -> tuple[int, int | None, int | None]:
    """Return (steps compared, step that is wrong, step where an undecided one differed)."""
    for step, expected in enumerate(item.greedy):
        if _at(greedy, step) != expected:
            if step < len(greedy) and item.greedy_margin[step] < MIN_MARGIN:
                return step, None, step
            return step + 1, step, None
    return len(item.greedy), None, None


def _logit_error(item: Item, logits: Sequence[float] | None) -> float | None:
    """Return the largest difference as a share of the range; None if nothing was compared."""
    if logits is None or not item.last_top8:
        return None
    spread = item.last_range[1] - item.last_range[0] or 1.0
    if len(logits) != len(item.last_top8) or not all(math.isfinite(v) for v in logits):
        return math.inf
    pairs = zip(logits, item.last_top8, strict=True)
    return max(abs(value - expected) for value, (_, expected) in pairs) / spread


def _first_difference(expected: Sequence[int], found: Sequence[int]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    at = min(len(expected), len(found)) if at is None else at
    return f"token ids differ at {at}: {_at(found, at)}, not {_at(expected, at)}"


def _at(values: Sequence[int], index: int) -> int | None:
    return int(values[index]) if index < len(values) else None


def read_item(raw: Any, index: int = 0) -> Item:
    """Return one item from plain values, checked."""
    place = f"items[{index}]"
    if not isinstance(raw, Mapping):
        raise _bad(place, raw, "an object")
    name = raw.get("name", str(index))
    place += f" ({name})"
    item = Item(
        name=str(name),
        ids=list(_numbers(raw, "ids", place, whole=True)),
        argmax=list(_numbers(raw, "argmax", place, whole=True)),
        margin=list(_numbers(raw, "margin", place)),
        greedy=list(_numbers(raw, "greedy", place, whole=True, needed=False)),
        greedy_margin=list(_numbers(raw, "greedy_margin", place, needed=False)),
        text=raw.get("text"),
        last_top8=_pairs(raw.get("last_top8", []), place),
        last_range=_range(raw.get("last_range", [0, 0]), place),
    )
    if not item.ids or not len(item.ids) == len(item.argmax) == len(item.margin):
        raise _bad(f"{place}.ids", len(item.ids), "as long as argmax and margin, and not empty")
    if len(item.greedy) != len(item.greedy_margin):
        raise _bad(f"{place}.greedy", len(item.greedy), "as long as greedy_margin")
    if item.text is not None and not isinstance(item.text, str):
        raise _bad(f"{place}.text", item.text, "text")
    return item


def _numbers(
    raw: Mapping[str, Any], key: str, place: str, *, whole: bool = False, needed: bool = True
) -> Iterator[Any]:
    values = raw.get(key, None if needed else [])
    if not isinstance(values, list):
        raise _bad(f"{place}.{key}", values, "a list")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise _bad(f"{place}.{key}", value, "whole numbers" if whole else "numbers")
        yield value


def _pairs(value: Any, place: str) -> list[tuple[int, float]]:
    try:
        return [(int(token), float(logit)) for token, logit in value]
    except (TypeError, ValueError, OverflowError):
        raise _bad(f"{place}.last_top8", value, "a list of [id, logit]") from None


def _range(value: Any, place: str) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in value)
    except (TypeError, ValueError, OverflowError):
        raise _bad(f"{place}.last_range", value, "[min, max]") from None
    return low, high


def _bad(place: str, value: Any, wanted: str) -> InvalidInputError:
    return InvalidInputError(
        f"{place} in the reference data is {str(value)[:40]}; it must be {wanted}.",
        hint="See tests/data/README.md for the format.",
    )
