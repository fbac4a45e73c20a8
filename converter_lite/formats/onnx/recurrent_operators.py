"""LSTMs that onnxruntime computes with integers (DynamicQuantizeLSTM), as the standard LSTM with dequantized weights.

Source: onnxruntime's list of its own operators; :mod:`converter_lite.quantization.qdq.recurrent` writes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.onnx.integer_operators import put_before
from converter_lite.quantization.qdq.recurrent import DOMAIN, GRIDS, OPERATOR

PER_AXIS_OPSET = 13
"""Operator set since which DequantizeLinear takes a scale per channel."""


def spell_out_recurrent_operators(model: ir.Model) -> set[str]:
    """Write them as LSTMs, in place; returns the names of those whose weights stay integers.

    Weights whose directions have scales of their own become floats. Operators whose weights or scales are computed are left as
    they are.
    """
    names = g.Names(model.graph)
    found = [node for node in model.graph if node.domain == DOMAIN and node.op_type == OPERATOR]
    return {str(node.name) for node in found if _spell_out(node, names, axis=g.opset(model) >= PER_AXIS_OPSET)}


def _spell_out(node: ir.Node, names: g.Names, *, axis: bool) -> bool:
    grids = [[g.constant(g.input_at(node, position)) for position in positions] for positions in GRIDS]
    if any(array is None for arrays in grids for array in arrays):
        return False
    weights = [
        _weight(node, i, [a for a in arrays if a is not None], names, axis=axis) for i, arrays in enumerate(grids)
    ]
    node.op_type, node.domain, node.version = "LSTM", "", None
    for (position, *_), weight in zip(GRIDS, weights, strict=True):
        node.replace_input_with(position, weight)
    node.resize_inputs(GRIDS[0][1])
    return not any(g.is_constant(weight) for weight in weights)


def _weight(node: ir.Node, index: int, arrays: list[NDArray[Any]], names: g.Names, *, axis: bool) -> ir.Value:
    """A weight ``(directions, gates * hidden size, columns)``: integers behind a DequantizeLinear, or floats."""
    graph, (position, *_) = node.graph, GRIDS[index]
    assert isinstance(graph, ir.Graph)
    stored, scale, zero = arrays
    integers = stored.transpose(0, 2, 1).astype(np.int16)
    rows = integers.shape[:2]
    scales, zeros = (
        np.broadcast_to(array.reshape(*array.shape, *(1,) * (2 - array.ndim)), rows) for array in (scale, zero)
    )
    integers = integers - zeros.astype(np.int16)[..., None]
    name = f"{node.inputs[position].name}_rows"  # type: ignore[union-attr]
    has_one, fits = bool(np.all(scales == scales.flat[0])), integers.min() >= -128 and integers.max() <= 127
    if fits and (has_one or (axis and np.all(scales == scales[0]))):
        made = [
            g.add_initializer(graph, f"{name}_{part}", array, names=names)
            for part, array in (
                ("quantized", integers.astype(np.int8)),
                ("scale", (scales.flat[0] if has_one else scales[0]).astype(np.float32)),
            )
        ]
        options = {} if has_one else {"axis": 1}
        return put_before(node, "DequantizeLinear", made, names.unique(f"{node.name}/weight_{index}"), **options)
    floats = (integers * scales[..., None]).astype(np.float32)
    return g.add_initializer(graph, name, floats, names=names)
