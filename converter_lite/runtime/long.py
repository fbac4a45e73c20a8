"""Running a graph of many nodes: in parts, because what a runtime does to load a graph grows with the square of its nodes.

onnxruntime 1.31 loads 3,000 nodes with Q/DQ pairs in 1.0 seconds of processor time and 12,000 in 9.1; in parts it takes 0.3
seconds a thousand, and gives the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.runtime.engine import Feed, Session
from converter_lite.runtime.parts import Part, parts

LONG = 8_000
"""Nodes from which a graph is run in parts."""

PART = 250
"""Nodes of a part; more where it is better not cut."""

LONGEST = 4 * PART
"""Nodes at which it is cut anywhere: integers may then be computed in float, which is as exact."""

Open = Callable[[ir.Model], Session]


def is_long(model: ir.Model) -> bool:
    """Whether a graph should run in parts. Sequences and optional values cannot be handed from one to another."""
    graph = model.graph
    return len(graph) >= LONG and not any("Sequence" in node.op_type or "Optional" in node.op_type for node in graph)


class LongSession:
    """A :class:`converter_lite.runtime.engine.Session` of the parts of a graph, each opened when it first runs.

    Args:
        model: The graph, sorted.
        opens: Makes a session of a part.
    """

    def __init__(self, model: ir.Model, opens: Open) -> None:
        self.output_names = [value.name or "" for value in model.graph.outputs]
        self._model, self._opens = model, opens
        self._parts = parts(model.graph, _groups(model.graph))
        self._values = {v.name or "": v for node in model.graph for v in node.outputs}
        self._values.update({v.name or "": v for v in model.graph.inputs})
        self._sessions: list[Session | None] = [None] * len(self._parts)
        self._lock = Lock()

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Outputs by name for one sample.

        Raises:
            ModelError: The runtime refuses a part or the sample.
        """
        values = dict(feed)
        for index, part in enumerate(self._parts):
            given = {name: values[name] for name in part.inputs}
            found = self._session(index, given).run(given)
            values = {name: array for name, array in values.items() if name in part.needed_later} | found
        return {name: values[name] for name in self.output_names}

    def _session(self, index: int, given: Feed) -> Session:
        with self._lock:
            session = self._sessions[index]
            if session is None:
                session = self._sessions[index] = self._opens(self._extracted(self._parts[index], given))
            return session

    def _extracted(self, part: Part, given: Feed) -> ir.Model:
        """A part as a model; what it is given says the types that the graph leaves out."""
        inputs, outputs = ([self._values[name] for name in names] for names in (part.inputs, part.outputs))
        graph = g.extracted(self._model.graph, inputs, outputs)
        for value in graph.inputs:
            array = given[value.name or ""]
            if value.dtype is None:
                value.dtype = ir.DataType.from_numpy(array.dtype)
            if value.shape is None:
                value.shape = ir.Shape([None] * array.ndim)
        return ir.Model(graph, ir_version=self._model.ir_version)


def _groups(graph: ir.Graph) -> Iterator[list[ir.Node]]:
    """Nodes in order, cut behind QuantizeLinear where there are such, so that what runs in integers stays together."""
    has_pairs = any(node.op_type == "QuantizeLinear" for node in graph)
    left = Counter(value for node in graph for value in g.values_read(node))
    waiting: set[ir.Value] = set()
    group: list[ir.Node] = []
    for node in graph:
        group.append(node)
        for value in g.values_read(node):
            left[value] -= 1
            if not left[value]:
                waiting.discard(value)
        if node.op_type == "DequantizeLinear":
            waiting.update(value for value in node.outputs if left[value])
        is_between = not waiting and (node.op_type == "QuantizeLinear" or not has_pairs)
        if len(group) >= PART and (is_between or len(group) >= LONGEST):
            yield group
            group = []
    if group:
        yield group
