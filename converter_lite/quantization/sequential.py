"""Sequential calibration: a graph runs piece by piece over all samples, so later pieces see what changed in earlier ones.

To correct a layer, all samples must have passed the layers before it. Running the whole graph anew for every layer would cost the
square of the depth; here each layer runs once or twice, or a few times if its input is large: such tensors are computed again
from an earlier one. Between pieces only integer tensors are kept (the outputs of QuantizeLinear), one byte
per value, and float tensors in half precision.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.execution.ordered import map_ordered
from converter_lite.quantization.piece import PartRequest, Piece
from converter_lite.quantization.qdq.parts import FOUR_BITS
from converter_lite.quantization.shared_pieces import SharedPieces
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed

KEPT_BYTES = 64 << 20
"""Bytes of a tensor over all samples above which it is computed again. The first layers of a network that reads pictures run
quickly, and their outputs are most of what would have to be kept."""

COMPUTED_AGAIN = 8
"""Tensors in a row that are computed again; the next one is kept whatever its size, which bounds the time in deep networks."""

TOGETHER = 4
"""Most samples that a thread takes at a time: a layer runs in a few tenths of a millisecond."""

Result = TypeVar("Result")

CHEAP = ("DequantizeLinear",)
"""Operators that are run again instead of storing their (four times larger) float result."""

WEIGHT_STEPS = ("DequantizeLinear", "Mul")
"""Operators between the integers of a stored weight and the layer that reads it."""


class SequentialRun:
    """Evaluates values of a graph in topological order over fixed samples.

    Args:
        model: Graph with Q/DQ pairs; initializers may be changed between calls.
        feeds: Samples by graph-input name.
        context: Runs the pieces, samples with one thread each.
    """

    def __init__(self, model: ir.Model, feeds: Sequence[Feed], context: RunContext) -> None:
        self._model = model
        self._context = context
        self._pieces = SharedPieces(model, context)
        self._values = {v.name: v for v in model.graph.inputs}
        self._stored: list[dict[str, NDArray[Any]]] = [dict(feed) for feed in feeds]
        self._dropped: set[str] = set()
        self._readers: dict[ir.Value, list[ir.Node]] = {}
        for node in model.graph:
            for value in dict.fromkeys(g.values_read(node)):
                self._readers.setdefault(value, []).append(node)

    @property
    def graph(self) -> ir.Graph:
        """The graph that runs."""
        return self._model.graph

    def means(self, value: ir.Value, *, later: Container[ir.Value]) -> list[NDArray[Any]]:
        """Mean per channel of a node's output for every sample (channel axis as in :func:`converter_lite.graph.channel_axis`).

        Args:
            value: Output of a node.
            later: Every output that will be asked for after this call; decides what is kept. A set is fastest.
        """
        node = value.producer()
        keep = [v for v in _stored_form(node.inputs if node else ()) if v.name not in self._values]
        return list(self._run(PartRequest(value, keep, mean=True), lambda _, array: array, later))

    def map(
        self, value: ir.Value, function: Callable[[int, NDArray[Any]], Result], *, later: Container[ir.Value]
    ) -> Iterator[Result]:
        """``function(sample number, array of value)`` for every sample, in order; only a few arrays exist at a time.

        The value's stored form is kept for the outputs that are asked for later, in the place of what it was computed from.

        Args:
            value: A value of the graph.
            function: Called in threads.
            later: As for :meth:`means`.
        """
        keep = [v for v in _stored_form([value]) if v.name not in self._values]
        return self._run(PartRequest(value, keep, mean=False), function, later)

    def hold(self, node: ir.Node, *, later: Container[ir.Value]) -> None:
        """Run as far as the inputs of a node, for :meth:`behind`; ``later`` as for :meth:`means`."""
        keep = [v for v in _stored_form(node.inputs) if v.name not in self._values]
        if keep:
            deque(self._run(PartRequest(keep[0], keep, mean=False), lambda *_: None, later), maxlen=0)

    def behind(self, model: ir.Model) -> Callable[[int], list[NDArray[Any]]]:
        """Outputs, by the number of a sample, of a graph that computes the same up to the values that are held.

        All of its outputs must have been among the ones asked for ``later``.
        """
        values = {v.name: v for v in (*model.graph.inputs, *(o for node in model.graph for o in node.outputs))}
        graph = g.extracted(model.graph, [values[name] for name in self._values], model.graph.outputs)
        piece = Piece(ir.Model(graph, ir_version=model.ir_version), (), self._halves(), self._context)
        return lambda sample: piece.outputs(self._stored[sample])

    def _run(
        self, asked: PartRequest, function: Callable[[int, NDArray[Any]], Result], later: Container[ir.Value]
    ) -> Iterator[Result]:
        piece = self._pieces.piece(list(self._values.values()), asked, self._halves())
        dropped, forgotten = set[str](), list[str | None]()

        def work(item: tuple[int, dict[str, NDArray[Any]]]) -> tuple[Result, dict[str, NDArray[Any]]]:
            found, held = piece.run(item[1])
            return function(item[0], found), held

        threads = self._context.threads
        together = max(min(TOGETHER, len(self._stored) // (2 * threads)), 1)
        done = map_ordered(work, enumerate(self._stored), threads, together=together)
        for stored, (result, outputs) in zip(self._stored, done, strict=True):
            if stored is self._stored[0]:
                dropped = self._too_large(outputs)
                self._values.update({v.name: v for v in asked.keep if v.name not in dropped})
                forgotten = self._unneeded(later)
            stored.update({name: array for name, array in outputs.items() if name not in dropped})
            _remove(stored, forgotten)
            yield result

    def _too_large(self, outputs: dict[str, NDArray[Any]]) -> set[str]:
        """Which tensors, judged by the first sample, are to be recomputed when they are needed."""
        large = {name for name, array in outputs.items() if array.nbytes * len(self._stored) > KEPT_BYTES}
        if len(self._dropped | large) > COMPUTED_AGAIN:
            self._dropped.clear()
            return set()
        self._dropped |= large
        return large

    def _halves(self) -> set[str]:
        """Float tensors that are stored in half precision, in every sample."""
        return {
            name or ""
            for name, value in self._values.items()
            if value.dtype is ir.DataType.FLOAT
            and all(stored[name or ""].dtype == np.float16 for stored in self._stored)
        }

    def forget(self, later: Container[ir.Value]) -> None:
        """Drop stored tensors that none of the outputs asked for later depends on."""
        forgotten = self._unneeded(later)
        for stored in self._stored:
            _remove(stored, forgotten)

    def _unneeded(self, later: Container[ir.Value]) -> list[str | None]:
        """Take the values that no later output depends on from those that are held; their names."""
        names = [name for name, value in self._values.items() if not self._leads_to(value, later)]
        for name in names:
            del self._values[name]
        return names

    def _leads_to(self, value: ir.Value, later: Container[ir.Value]) -> bool:
        """Whether one of the outputs is computed from a value without reading another stored one on the way, or is an input."""
        if value.producer() is None and value in later:
            return True
        pending, seen = [value], {value}
        while pending:
            for node in self._readers.get(pending.pop(), ()):
                if any(output in later for output in node.outputs):
                    return True
                fresh = [v for v in node.outputs if v not in seen and v.name not in self._values]
                seen.update(fresh)
                pending += fresh
        return False


def _remove(stored: dict[str, NDArray[Any]], names: Iterable[str | None]) -> None:
    for name in names:
        stored.pop(name or "", None)


def _stored_form(values: Sequence[ir.Value | None]) -> list[ir.Value]:
    """What to keep of a node's inputs: the integers behind a DequantizeLinear, else the value; constants need not be kept."""
    kept = []
    for value in values:
        if value is None or _is_fixed(value):
            continue
        producer = value.producer()
        if producer is not None and producer.op_type in CHEAP:
            source = producer.inputs[0]
            if source is not None and source.const_value is None:
                kept.append(value if source.dtype in FOUR_BITS else source)
        else:
            kept.append(value)
    return kept


def _is_fixed(value: ir.Value) -> bool:
    """Whether a value is a constant, or a stored weight: integers behind a DequantizeLinear, and a Mul."""
    producer = value.producer()
    if producer is None or producer.op_type not in WEIGHT_STEPS:
        return value.const_value is not None
    return all(source is None or _is_fixed(source) for source in producer.inputs)
