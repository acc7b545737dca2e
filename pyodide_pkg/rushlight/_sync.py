"""The one place where asynchronous code is run to its end from synchronous code.

Native executors never wait for an event loop: their coroutines only pause with bare yields, so
they can be stepped. A coroutine that really waits belongs in an event loop (``load_async``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that needs no event loop."""
    try:
        while True:
            if coroutine.send(None) is not None:
                coroutine.close()
                raise RuntimeError("this device must be awaited: use the async form of this call")
    except StopIteration as done:
        value: T = done.value
        return value


def iterate(stream: AsyncIterator[T]) -> Iterator[T]:
    """A synchronous view of an asynchronous iterator that needs no event loop."""

    async def following() -> T:
        return await stream.__anext__()

    while True:
        try:
            value = run(following())
        except StopAsyncIteration:
            return
        yield value
