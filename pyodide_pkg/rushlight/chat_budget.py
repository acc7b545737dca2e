"""What one rendering of an untrusted chat template may use: steps, time, text and memory.

Two kinds of limit. A *value* must be small when written out in full (``measure``), so that no
single operation on it can take long. And everything a rendering *makes* is charged by its bytes,
kept or not: a template may hold many values that are each small enough.
"""

from __future__ import annotations

import sys
import time
from types import GeneratorType
from typing import Any

from jinja2.runtime import LoopContext
from jinja2.utils import Namespace

from .errors import TemplateError

MAX_STEPS = 300_000
MAX_SECONDS = 5.0
MAX_TEXT = 2_000_000
"""Characters of one value written out in full; a conversation has at most half as many."""
MAX_OUTPUT = 4_000_000
"""Characters written in all, captured output (macros, set blocks) included."""
MAX_ITEMS = 100_000
MAX_DEPTH = 100
MAX_INT_BITS = 4096
MAX_BYTES = 128_000_000
"""Memory of every text, list and number made, as if none of it were ever freed."""

_OBJECT_BYTES = 600
_NUMBER_CHARS = 25


def limit_error(what: str) -> TemplateError:
    """Return the error for a template that asks for too much."""
    return TemplateError(
        f"The model's chat template {what}.",
        hint="Use another conversion of this model; this template cannot be run safely.",
        code="template_limit",
    )


class Size:
    """A value written out in full: its characters, its items at all depths, how deep it goes.

    Raises TemplateError as soon as one of them is over its limit, whatever the value is.
    """

    def __init__(self, value: Any) -> None:
        self.chars = self.items = self.depth = 0
        self._add(value, 0)

    def _add(self, value: Any, depth: int) -> None:
        if isinstance(value, str):
            self.chars += len(value)
        elif isinstance(value, int):
            if value.bit_length() > MAX_INT_BITS:
                raise limit_error("computes a number that is too large")
            self.chars += value.bit_length() // 3 + 1
        elif isinstance(value, float):
            self.chars += _NUMBER_CHARS
        elif isinstance(value, (list, tuple, dict, set, Namespace, LoopContext)):
            parts = _parts(value)
            self.items += len(parts)
            self.depth = max(self.depth, depth)
            if depth > MAX_DEPTH or self.items > MAX_ITEMS:
                raise limit_error("makes a list that is too large")
            for part in parts:
                self._add(part, depth + 1)
        if self.chars > MAX_TEXT:
            raise limit_error(f"makes a text of more than {MAX_TEXT} characters")


def _parts(value: Any) -> Any:
    if isinstance(value, LoopContext):  # ``"{0.nextitem}".format(loop)`` reaches the items
        return (value._iterable,)
    if isinstance(value, Namespace):
        value = value._Namespace__attrs  # its one field
    return [*value.keys(), *value.values()] if isinstance(value, dict) else value


class Budget:
    """What one rendering may still use. Each method raises TemplateError when it is used up."""

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._output = MAX_OUTPUT
        self._bytes = MAX_BYTES
        self._deadline = time.monotonic() + MAX_SECONDS

    def spend(self, steps: int = 1) -> None:
        """Charge for work."""
        self._steps -= steps
        if self._steps < 0 or time.monotonic() > self._deadline:
            raise limit_error(f"runs for more than {MAX_STEPS} steps or {MAX_SECONDS:g} seconds")

    def write(self, n_chars: int) -> None:
        """Charge for output."""
        self._output -= n_chars
        if self._output < 0:
            raise limit_error(f"writes more than {MAX_OUTPUT} characters")

    def allocate(self, n_bytes: int) -> None:
        """Charge for memory."""
        self._bytes -= n_bytes
        if self._bytes < 0:
            raise limit_error(f"makes more than {MAX_BYTES} bytes of text and lists")

    def admit(self, value: Any) -> Any:
        """Return a value if it is small when written out in full; generators become lists."""
        if isinstance(value, GeneratorType):
            value = self.listed(value)
        Size(value)
        return value

    def made(self, value: Any, *, with_items: bool = False) -> Any:
        """Admit and charge for a new value, ``with_items`` if those are new too."""
        value = self.admit(value)
        self.allocate(_n_bytes(value))
        if with_items and isinstance(value, (list, tuple)):
            self.allocate(sum(map(sys.getsizeof, value)))
        return value

    def listed(self, items: Any) -> list[Any]:
        """Return the items of something without a length."""
        found = []
        for item in items:
            self.spend()
            found.append(item)
            if len(found) > MAX_ITEMS:
                raise limit_error("makes a list that is too large")
        return found

    def counted(self, items: Any) -> Any:
        """Charge for going over ``items``, which come back with a known length."""
        if not hasattr(items, "__len__"):
            items = self.made(self.listed(items))
        self.spend(len(items))
        return items


def _n_bytes(value: Any) -> int:
    """The memory of a value without what it refers to."""
    if isinstance(value, (str, int, float, list, tuple, dict, set)):
        return sys.getsizeof(value)
    return 0 if value is None else _OBJECT_BYTES
