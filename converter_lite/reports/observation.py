"""Values of chosen tensors in the float and in the quantized graph, for one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.calibration.runner import remove_unread
from converter_lite.graph import observation
from converter_lite.kernels.params import QuantParams
from converter_lite.runtime.engine import Engine, Feed, Session
from converter_lite.runtime.serializing import open_session

GROUP_BYTES = 256 * 2**20
"""Float bytes of the tensors that are held at the same time; tensors beyond that are computed in another run of the sample."""


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor in both graphs.

    Attributes:
        origin: Its name in the float graph.
        written: Name of what holds its values in the quantized graph.
        params: Grid of ``written`` if that holds integers.
    """

    origin: str
    written: str
    params: QuantParams | None = None


Measure = Callable[[Pair, NDArray[Any], NDArray[Any]], Result]


def dequantized(pair: Pair, values: NDArray[Any]) -> NDArray[Any]:
    """Real values of a tensor of the quantized graph."""
    return values if pair.params is None else pair.params.dequantize(values)


def observable(model: ir.Model, names: Iterable[str]) -> ir.Model:
    """A copy whose only outputs are the named tensors, without what they do not need."""
    copy = model.clone()
    graph = copy.graph
    produced = (output for node in graph for output in node.outputs)
    values = {value.name: value for value in (*graph.inputs, *graph.initializers.values(), *produced)}
    graph.outputs.clear()
    for name in dict.fromkeys(names):
        values[name].dtype = values[name].dtype or ir.DataType.FLOAT
        graph.outputs.append(values[name])
    remove_unread(graph)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
    return copy


def shapes(model: ir.Model, names: Iterable[str], feed: Feed, *, engine: Engine) -> dict[str, tuple[int, ...]]:
    """Shapes of the named tensors for one sample; their values never leave the runtime.

    Raises:
        ModelError: The runtime refuses the model or the sample.
    """
    names = list(dict.fromkeys(names))
    copy = observable(model, names)
    graph = copy.graph
    values = list(graph.outputs)
    graph.outputs.clear()
    for index, value in enumerate(values):
        node = ir.node("Shape", [value])
        node.outputs[0].name = observation("shape_of", index)
        node.outputs[0].dtype = ir.DataType.INT64
        graph.append(node)
        graph.outputs.append(node.outputs[0])
    found = open_session(engine, copy).run(feed) if names else {}
    return {name: tuple(int(size) for size in found[observation("shape_of", i)]) for i, name in enumerate(names)}


def grouped(pairs: Iterable[Pair], sizes: Mapping[str, tuple[int, ...]]) -> list[list[Pair]]:
    """Pairs in order, cut so that no group of several exceeds ``GROUP_BYTES``."""
    groups: list[list[Pair]] = []
    room = 0
    for pair in pairs:
        size = 4 * prod(sizes[pair.origin])
        if not groups or size > room:
            groups.append([])
            room = GROUP_BYTES
        groups[-1].append(pair)
        room -= size
    return groups


class Observer:
    """Runs both graphs side by side.

    Integers leave the quantized graph as integers and are dequantized here: a runtime fuses the graph as it would without an
    observer, and the copies are a quarter of the size.

    Args:
        reference: Float graph.
        written: Quantized graph.
        groups: What to observe; each group costs one run of both graphs.
        engine: Runs them.
    """

    def __init__(self, reference: ir.Model, written: ir.Model, groups: list[list[Pair]], *, engine: Engine) -> None:
        self._groups: list[tuple[list[Pair], Session, Session]] = []
        for pairs in groups:
            expected = observable(reference, (pair.origin for pair in pairs))
            given = observable(written, (pair.written for pair in pairs))
            self._groups.append((pairs, open_session(engine, expected), open_session(engine, given)))

    def measure(self, feed: Feed, function: Measure[Result], pool: Executor) -> dict[Pair, Result]:
        """``function(pair, origin, written)`` of every pair for one sample; the arrays of one group live at a time.

        Raises:
            ModelError: The runtime refuses the sample.
        """
        results: dict[Pair, Result] = {}
        for pairs, expected, given in self._groups:
            results.update(_measure_group(pairs, (expected, given), feed, function, pool))
        return results


def _measure_group(
    pairs: list[Pair], sessions: tuple[Session, Session], feed: Feed, function: Measure[Result], pool: Executor
) -> dict[Pair, Result]:
    origin, written = pool.map(lambda session: session.run(feed), sessions)
    results = pool.map(lambda pair: function(pair, origin[pair.origin], written[pair.written]), pairs)
    return dict(zip(pairs, results, strict=True))
