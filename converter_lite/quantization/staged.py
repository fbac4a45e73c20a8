"""Runs a quantized graph piece by piece over many samples, so that later pieces see what was changed in earlier ones.

A correction of one layer depends on all samples having passed the layers before it. Running the whole graph anew for every layer
would cost the square of the depth; here each layer runs once or twice. Between pieces only integer tensors are kept (the
outputs of QuantizeLinear), one byte per value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.calibration.runner import map_ordered, mean_node
from converter_lite.engine import Engine, Feed

CHEAP = ("DequantizeLinear",)
"""Operators that are run again instead of storing their (four times larger) float result."""


class StagedRun:
    """Evaluates values of a graph in topological order over fixed samples.

    Args:
        model: Graph with Q/DQ pairs; initializers may be changed between calls of :meth:`evaluate`.
        feeds: Samples by graph-input name.
        engine: Runs the pieces.
        threads: Samples run side by side, one thread each.
    """

    def __init__(self, model: ir.Model, feeds: Sequence[Feed], *, engine: Engine, threads: int) -> None:
        self._model = model
        self._engine = engine
        self._threads = threads
        self._values = {v.name: v for v in model.graph.inputs}
        self._stored: list[dict[str, NDArray[Any]]] = [dict(feed) for feed in feeds]

    def evaluate(
        self, value: ir.Value, *, then: str | None = None, later: Sequence[ir.Value] = ()
    ) -> list[NDArray[Any]]:
        """The array of ``value`` for every sample.

        Args:
            value: What to compute.
            then: ``"mean"`` for the mean per channel (axis 1, or the last axis below rank 3) instead of the array.
            later: Everything that will be asked for after this call; decides what is kept.
        """
        node = value.producer()
        keep = [v for v in _stored_form(node.inputs if node else ()) if v.name not in self._values]
        session = self._engine.session(self._piece(value, then, keep), threads=1)
        asked = session.output_names[0]
        results = []
        for stored, outputs in zip(self._stored, map_ordered(session.run, self._stored, self._threads), strict=True):
            results.append(outputs.pop(asked))
            stored.update(outputs)
        self._values.update({v.name: v for v in keep})
        self._forget(later)
        return results

    def _piece(self, value: ir.Value, then: str | None, keep: list[ir.Value]) -> bytes:
        graph = ir.convenience.extract(self._model.graph, list(self._values.values()), [value, *keep])
        if then == "mean":
            mean = mean_node(graph, graph.outputs[0])
            mean.name = "mean_of_output"
            mean.dtype = ir.DataType.FLOAT
            graph.outputs[0] = mean
        model = ir.Model(graph, ir_version=self._model.ir_version)
        return bytes(ir.to_proto(model).SerializeToString())

    def _forget(self, later: Sequence[ir.Value]) -> None:
        """Drop stored tensors that nothing asked for later depends on."""
        live: set[str | None] = set()
        seen: set[ir.Value] = set()
        stack = [i for v in later if (p := v.producer()) is not None for i in p.inputs if i is not None]
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            producer = value.producer()
            if value.name in self._values:
                live.add(value.name)
            elif producer is not None:
                stack.extend(i for i in producer.inputs if i is not None)
        for name in [n for n in self._values if n not in live]:
            del self._values[name]
            for stored in self._stored:
                stored.pop(name or "", None)


def _stored_form(values: Sequence[ir.Value | None]) -> list[ir.Value]:
    """What to keep of a node's inputs: the integers behind a DequantizeLinear, else the value; constants need not be kept."""
    kept = []
    for value in values:
        if value is None or value.const_value is not None:
            continue
        producer = value.producer()
        if producer is not None and producer.op_type in CHEAP:
            source = producer.inputs[0]
            if source is not None and source.const_value is None:
                kept.append(source)
        else:
            kept.append(value)
    return kept


def mean_over_samples(rows: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Mean of per-sample vectors in float64, in sample order."""
    return np.mean(np.stack([np.asarray(row, np.float64) for row in rows]), axis=0)
