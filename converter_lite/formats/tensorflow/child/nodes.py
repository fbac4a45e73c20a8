"""Nodes of a GraphDef that others need."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from converter_lite.formats.child import Shape


def node_of(tensor: str) -> str:
    """Name of the node that gives a tensor (``name``, ``name:1``) or must have run before (``^name``)."""
    return tensor.lstrip("^").split(":")[0]


def reachable(graph: Any, ends: Iterable[str]) -> list[Any]:
    """Nodes that tensors need, in the order of the graph."""
    by_name = {node.name: node for node in graph.node}
    found: set[str] = set()
    pending = deque(node_of(tensor) for tensor in ends)
    while pending:
        name = pending.popleft()
        if name in by_name and name not in found:
            found.add(name)
            pending += map(node_of, by_name[name].input)
    return [node for node in graph.node if node.name in found]


def pruned(graph: Any, ends: Iterable[str]) -> Any:
    """The graph without nodes that the tensors do not need."""
    kept = type(graph)()
    kept.CopyFrom(graph)
    del kept.node[:]
    kept.node.extend(reachable(graph, ends))
    return kept


def placeholder_shape(node: Any) -> Shape | None:
    """Sizes of a placeholder, ``None`` where it does not even say how many."""
    if "shape" not in node.attr or node.attr["shape"].shape.unknown_rank:
        return None
    return [None if dim.size < 0 else dim.size for dim in node.attr["shape"].shape.dim]
