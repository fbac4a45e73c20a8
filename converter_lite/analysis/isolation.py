"""Isolating the layers of a quantized graph: each one reads what the float graph computes, so errors do not propagate.

Every tensor that both graphs have becomes an input (:data:`STAND_IN`), and every layer ends in an output (:data:`ALONE`) of its
own, so one graph computes all local errors, and each layer can be extracted by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.analysis.alignment import Layer, Shape
from converter_lite.analysis.channel_map import ChannelMap
from converter_lite.analysis.taps import Tap
from converter_lite.kernels.params import QuantParams
from converter_lite.reports.cutting import STAND_IN, cut, integers, parts

ALONE = "{}@alone"
"""Name of the output that holds a layer's result."""

REPEATED = "{}@repeated"
"""Name of integers that are computed once more, for that output: an integer output of the model is called like its tensor."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """How a tensor of the quantized graph relates to the float one.

    Attributes:
        tap: Where it is.
        held: Order and factors of its channels, ``None`` if they are those of the float one.
    """

    tap: Tap
    held: ChannelMap | None = None

    @property
    def is_equalized(self) -> bool:
        """Whether there are factors of an equalization."""
        return self.held is not None and self.held.factors is not None

    @property
    def is_reordered(self) -> bool:
        """Whether the channels have another order."""
        return self.held is not None and self.held.order is not None

    @property
    def entry_params(self) -> QuantParams | None:
        """Grid of the value that following layers read; ``None`` if it holds real numbers."""
        return self.tap.params if self.tap.entry == self.tap.value else None

    def to_quantized(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the quantized graph holds at this point for these float values."""
        if self.held is not None:
            values = self.held.to_quantized(values)
        params = self.entry_params
        return values if params is None else integers(values, params)

    def to_float(self, values: NDArray[Any]) -> NDArray[Any]:
        """The float values that the quantized graph's values represent."""
        real = values if self.tap.params is None else self.tap.params.dequantize(values)
        return real if self.held is None or not self.held.fits(real.shape) else self.held.to_float(real)


class Isolated:
    """The cut graph.

    Args:
        quantized: Graph with integers; not changed.
        layers: Tensors where it is cut.

    Attributes:
        computed: Tensors whose layers can be computed alone.
    """

    def __init__(self, quantized: ir.Model, layers: Iterable[Layer]) -> None:
        self._model = quantized.clone()
        graph = self._model.graph
        layers = list(layers)
        outputs = {value.name for value in graph.outputs}
        values = {output.name: output for node in graph for output in node.outputs}
        graph.outputs.clear()
        entries = Counter(layer.tap.entry for layer in layers)
        self.computed: list[str] = []
        for layer in layers:
            entry, tap = values.get(layer.tap.entry), values.get(layer.tap.value)
            if entry is None or tap is None or entries[layer.tap.entry] > 1:
                continue
            is_final = entry.name in outputs and not entry.uses()
            self._cut(layer, entry, tap, is_final=is_final)
            self.computed.append(layer.tensor)
        graph.sort()

    def _cut(self, layer: Layer, entry: ir.Value, tap: ir.Value, *, is_final: bool) -> None:
        graph, unknown = self._model.graph, ir.TensorType(ir.DataType.FLOAT)
        tensor, (shape, held_shape) = layer.tensor, layer.shapes
        result = entry if tap is entry else _repeated(graph, tap, entry)
        own = result.producer() if tap is not entry else None
        if not is_final:
            uses = [use for use in entry.uses() if use.node is not own]
            stand_in = cut(graph, entry, STAND_IN.format(tensor), uses)
            if shape != held_shape:
                stand_in.shape = ir.Shape(shape)
                held = _reshaped(graph, stand_in, held_shape)
                for node, position in uses:
                    node.replace_input_with(position, held)
        if shape != held_shape:
            result = _reshaped(graph, result, shape)
        final = ir.node("Identity", [result], name=ALONE.format(tensor))
        final.outputs[0].name = ALONE.format(tensor)
        final.outputs[0].type = result.type or unknown
        graph.append(final)
        graph.outputs.append(final.outputs[0])

    def graph_of(self, tensors: Iterable[str]) -> ir.Model:
        """A graph that computes these layers alone, with the inputs that they need."""
        return parts(self._model, (ALONE.format(tensor) for tensor in tensors))


def _repeated(graph: ir.Graph, tap: ir.Value, entry: ir.Value) -> ir.Value:
    """A copy of the QuantizeLinear behind ``entry``: the original will read the stand-in."""
    quantize = tap.producer()
    assert quantize is not None
    inputs = [entry, *quantize.inputs[1:]]
    node = ir.node("QuantizeLinear", inputs, attributes=dict(quantize.attributes), name=REPEATED.format(quantize.name))
    node.outputs[0].name, node.outputs[0].type = REPEATED.format(tap.name), tap.type
    graph.append(node)
    return node.outputs[0]


def _reshaped(graph: ir.Graph, value: ir.Value, shape: Shape) -> ir.Value:
    """A value in another shape; its last axis of more than one element takes the size that a sample has."""
    last = max((axis for axis, size in enumerate(shape) if size != 1), default=None)
    sizes = np.array([-1 if axis == last else size for axis, size in enumerate(shape)], np.int64)
    name = g.unique_name(graph, f"{value.name}_reshaped")
    node = ir.node("Reshape", [value, g.add_initializer(graph, f"{name}_shape", sizes)], name=name)
    node.outputs[0].name, node.outputs[0].type = name, value.type
    graph.append(node)
    return node.outputs[0]


def fed_tensors(model: ir.Model) -> Mapping[str, str]:
    """Input of a cut graph -> tensor of the float graph that it represents; inputs of the model represent themselves."""
    ending = STAND_IN.format("")
    return {str(v.name): str(v.name).removesuffix(ending) for v in model.graph.inputs}
