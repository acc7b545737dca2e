"""From where a session can go on, for models whose state is more than a cache by position."""

from __future__ import annotations

from ..graph.ir import Graph
from ..ops.conv import PERIOD, RING


class Held:
    """The positions whose rows a convolution's ring still has: ``low`` to before ``high``.

    An attention cache keeps every position, so a graph without convolutions rewinds anywhere.
    """

    def __init__(self, graph: Graph) -> None:
        kept = [state.shape[0] for state in graph.state.values() if state.kind == "conv"]
        self._n_kept = max(kept, default=0)
        self.low = self.high = 0

    def ran(self, position: int, n_tokens: int) -> None:
        """Note that a chunk was run, whether or not its tokens stay."""
        if position < self.low:
            self.low, self.high = position, position
        # Rows of a longer past that was rewound still take their places in the ring.
        self.high = max(self.high, position + n_tokens)
        self.low = max(self.low, self.high - RING)

    def rewind(self, position: int) -> int:
        """The largest position up to ``position`` from which the state can go on."""
        before = range(max(0, position - self._n_kept), position)
        if all(p >= self.low or p % PERIOD >= PERIOD - self._n_kept for p in before):
            return position
        return position // PERIOD * PERIOD
