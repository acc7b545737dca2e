"""The merge loop shared by both tokenizer kinds: best pair first, leftmost among equals."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush


def merge_symbols(symbols: list[str], ranks: Mapping[str, int], separator: str) -> list[str]:
    """Join neighbouring symbols while a pair has a rank; lower ranks first, then leftmost.

    A pair is looked up as ``left + separator + right``. Runs in O(n log n): a heap of integer
    keys ``rank * n + left`` and a linked list over ``symbols`` (which is consumed).
    """
    n = len(symbols)
    if n < 2:
        return symbols
    get = ranks.get
    following = list(range(1, n + 1))
    previous = list(range(-1, n - 1))
    # The key of the pair that starts at each symbol now; a heap entry that differs is stale.
    current = [-1] * n
    heap = []
    for i in range(n - 1):
        rank = get(symbols[i] + separator + symbols[i + 1])
        if rank is not None:
            current[i] = key = rank * n + i
            heap.append(key)
    heapify(heap)
    while heap:
        key = heappop(heap)
        i = key % n
        if current[i] != key:
            continue
        j = following[i]
        symbols[i] = merged = symbols[i] + symbols[j]
        symbols[j] = ""
        current[j] = current[i] = -1
        following[i] = k = following[j]
        if k < n:
            previous[k] = i
            rank = get(merged + separator + symbols[k])
            if rank is not None:
                current[i] = key = rank * n + i
                heappush(heap, key)
        p = previous[i]
        if p >= 0:
            current[p] = -1
            rank = get(symbols[p] + separator + merged)
            if rank is not None:
                current[p] = key = rank * n + p
                heappush(heap, key)
    return [symbol for symbol in symbols if symbol]
