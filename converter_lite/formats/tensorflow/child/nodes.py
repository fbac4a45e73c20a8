"""Nodes of a GraphDef that others need."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from converter_lite.formats.child import Shape

_FUNCTIONS = attrgetter("library.function")


def node_of(tensor: str) -> str:
    """Name of the node that gives a tensor (``name``, ``name:1``) or must have run before (``^name``)."""
    return tensor.lstrip("^").split(":")[0]


def nodes_of_functions(graph: Any) -> list[Any]:
    """Nodes of the functions that come with a graph."""
    return [node for function in _FUNCTIONS(graph) for node in function.node_def]


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


def in_order(graph: Any) -> Any:
    """The graph with each node behind those that it needs, and otherwise by name.

    TensorFlow's own passes give another order each time.
    """
    by_name = {node.name: node for node in graph.node}
    needs = {name: {node_of(tensor) for tensor in node.input} & by_name.keys() for name, node in by_name.items()}
    readers: dict[str, list[str]] = {}
    for name, sources in needs.items():
        for source in sources:
            readers.setdefault(source, []).append(name)
    ready = sorted(name for name, sources in needs.items() if not sources)
    ordered: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        ordered.append(name)
        for reader in readers.get(name, ()):
            needs[reader].discard(name)
            if not needs[reader]:
                heapq.heappush(ready, reader)
    rest = sorted(by_name.keys() - set(ordered))  # loops of TensorFlow 1
    kept = type(graph)()
    kept.CopyFrom(graph)
    del kept.node[:]
    kept.node.extend(by_name[name] for name in (*ordered, *rest))
    return kept


def placeholder_shape(node: Any) -> Shape | None:
    """Sizes of a placeholder, ``None`` where it does not even say how many."""
    if "shape" not in node.attr or node.attr["shape"].shape.unknown_rank:
        return None
    return [None if dim.size < 0 else dim.size for dim in node.attr["shape"].shape.dim]


def allow_inlining(graph: Any) -> None:
    """Make calls of functions plain that XLA would compile (Keras' convolutions with groups): TensorFlow inlines no others."""
    for marked in (*graph.node, *_FUNCTIONS(graph), *nodes_of_functions(graph)):
        for mark in ("_XlaMustCompile", "_noinline"):
            marked.attr.pop(mark, None)
