"""LSTMs that quantize their activations at run time, as onnxruntime's operator DynamicQuantizeLSTM.

It quantizes its input and, at every step, its state to uint8 (one scale each), multiplies integers, and adds and activates
floats. Its weights are transposed: ``(directions, columns, gates * hidden size)``, with a scale per direction and row of gates.
There is no such operator for GRU and RNN, nor in any standard operator set.

Its weights are int8 of which no pair saturates a kernel, as those of products are: with uint8 weights it takes 1.1 to 1.4 times
as long, with VNNI and without, for cosines of 0.99995 instead of 0.99992 (random weights).

Source: onnxruntime's list of its own operators (DynamicQuantizeLSTM).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.targets.operands import stored_weights

OPERATOR = "DynamicQuantizeLSTM"
"""The operator that has integer weights."""

DOMAIN = "com.microsoft"
"""Its domain, that of onnxruntime."""

GRIDS = ((1, 8, 9), (2, 10, 11))
"""Positions of the integers, scales and zero points of both weights."""

LEAST_WORK = 25_000
"""Multiplications of a step and direction from which on integers are faster. In onnxruntime 1.32, one thread, 1 to 50 steps,
batches of 1 to 32, with VNNI and without: 8,192 (32 inputs and units) 0.8 to 0.9 times as fast as float, 32,768 0.97 to 1.4,
131,072 1.2 to 2.3, 524,288 1.8 to 3.4."""


def has_integer_form(node: ir.Node) -> bool:
    """Whether a node is an LSTM whose weights are constant floats, steps before the batch."""
    return node.op_type == "LSTM" and len(stored_weights(node)) == 2 and not g.int_attribute(node, "layout", 0)


def is_faster(node: ir.Node) -> bool:
    """Whether integers pay for an LSTM that has the form."""
    shapes = [g.static_shape(weight) or (1, 0, 0) for weight in stored_weights(node)]
    return sum(gates * columns for _, gates, columns in shapes) >= LEAST_WORK


def write_lstm(node: ir.Node, quantized: QuantizedModel, made: dict[str, list[ir.Value]], names: g.Names) -> None:
    """Make the operator of an LSTM that has the form, in place.

    Args:
        node: In a graph of its own, whose constants are those of ``quantized.model``.
        quantized: Gives integers and scales.
        made: weight name -> its integers, scales and zero points; entered here, for other LSTMs with the same weights.
        names: Of the graph.
    """
    graph, weights = node.graph, stored_weights(node)
    assert isinstance(graph, ir.Graph)
    node.op_type, node.domain, node.version = OPERATOR, DOMAIN, None
    node.attributes.pop("layout", None)
    node.resize_inputs(12)
    for weight, positions in zip(weights, GRIDS, strict=True):
        name = weight.name or ""
        if name not in made:
            parts = _grid(name, quantized).items()
            made[name] = [g.add_initializer(graph, f"{name}_{part}", array, names=names) for part, array in parts]
        for position, value in zip(positions, made[name], strict=True):
            node.replace_input_with(position, value)
    graph.opset_imports.setdefault(DOMAIN, 1)


def _grid(name: str, quantized: QuantizedModel) -> dict[str, NDArray[np.generic]]:
    """Integers, scales and zero points of a weight in the operator's form, by the ends of their names."""
    params = quantized.plan.weights[name]
    integers = quantized.integers(name).astype(np.int8)
    rows = integers.shape[:2]
    return {
        "transposed": np.ascontiguousarray(integers.transpose(0, 2, 1)),
        "gate_scale": np.broadcast_to(params.scale, rows).astype(np.float32),
        "gate_zero_point": np.broadcast_to(params.zero_point, rows).astype(np.int8),
    }
