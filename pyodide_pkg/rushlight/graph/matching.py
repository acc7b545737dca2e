"""What a fusion rule sees of a graph, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .ir import Graph, Node


@dataclass(frozen=True)
class Match:
    """Nodes to take out, and nodes to put in at the place of ``anchor``."""

    removed: tuple[Node, ...]
    anchor: Node
    added: tuple[Node, ...]


class View:
    """Who writes and who reads each value of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.writer: dict[str, Node] = {}
        self.readers: dict[str, list[Node]] = {}
        self.outputs = set(graph.outputs.values())
        self.weights = graph.weights
        for node in graph.nodes:
            for value in node.outputs.values():
                self.writer[value] = node
            for value in node.inputs.values():
                self.readers.setdefault(value, []).append(node)

    def written_by(self, value: str | None, op: str) -> Node | None:
        """The node of kind ``op`` that writes ``value``."""
        node = self.writer.get(value or "")
        return node if node is not None and node.op == op else None

    def only(self, value: str | None, op: str) -> Node | None:
        """Like ``written_by``, if nobody else reads the value."""
        node = self.written_by(value, op)
        alone = len(self.readers.get(value or "", ())) == 1 and value not in self.outputs
        return node if alone else None


Rule = Callable[[Node, View], Match | None]
