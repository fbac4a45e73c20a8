"""Parts of a graph that run one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that run together.

    Attributes:
        inputs: Values that it reads from elsewhere.
        outputs: Its values that later parts, or the user, read.
        needed_later: All values that are still needed after it has run.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    needed_later: frozenset[str]


def parts(graph: ir.Graph, groups: Iterable[list[ir.Node]]) -> list[Part]:
    """What runs of the graph's nodes, all of them in order, read and compute for each other."""
    later = {value.name or "" for value in graph.outputs}
    found: list[Part] = []
    for nodes in reversed(list(groups)):
        made = {output.name or "" for node in nodes for output in node.outputs}
        values = {v for node in nodes for v in g.values_read(node) if v.graph is graph}
        read = {v.name or "" for v in values if v.const_value is None or v.is_graph_input()}
        outputs = tuple(name for node in nodes for v in node.outputs if (name := v.name or "") in later)
        found.append(Part(tuple(sorted(read - made)), outputs, frozenset(later)))
        later = (later - made) | (read - made)
    return found[::-1]
