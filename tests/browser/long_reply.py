"""A made-up reply of any length, with everything that replies are made of."""

from __future__ import annotations

from itertools import count

_WORDS = (
    "rush tallow wick flame light clip iron evening candle reed fat strip stem burn even slow "
    "cheap bright smoke table hour cottage winter hand peel dry dip hold angle minute"
).split()


def _sentence(at: int, n_words: int = 12) -> str:
    words = [_WORDS[(at * 7 + i * (1 + at % 5)) % len(_WORDS)] for i in range(n_words)]
    words[3] = f"**{words[3]}**"
    words[6] = f"`{words[6]}_{at}`"
    words[8] = f"[{words[8]}](https://example.org/{at})"
    return " ".join(words).capitalize() + "."


def long_reply(n_tokens: int) -> str:
    """About ``n_tokens`` tokens: headings, prose, lists, tables and long blocks of code."""
    parts: list[str] = []
    n_characters = 0
    for at in count():
        if n_characters > n_tokens * 4:
            return "\n\n".join(parts) + "\n"
        kind = at % 6
        if kind == 0:
            part = f"## Part {at}\n\n{_sentence(at)} {_sentence(at + 1)}"
        elif kind == 1:
            part = "\n".join(f"{i + 1}. {_sentence(at + i)}" for i in range(24))
        elif kind == 2:
            rows = [f"| {i} | {_WORDS[(at + i) % 30]} | {i * at} |" for i in range(40)]
            part = "\n".join(["| Number | Word | Sum |", "|---|---|--:|", *rows])
        elif kind == 3:
            lines = [f"    total += burn({i}, {_WORDS[i % 30]!r})  # line {i}" for i in range(90)]
            part = "\n".join(["```python", "def evening(total: int) -> int:", *lines, "```"])
        elif kind == 4:
            part = "\n".join(f"- {_sentence(at + i, 9)}\n  - inner {i}" for i in range(16))
        else:
            part = f"> {_sentence(at)}\n\n{_sentence(at)} {_sentence(at + 3)} {_sentence(at + 5)}"
        parts.append(part)
        n_characters += len(part)
    raise AssertionError
