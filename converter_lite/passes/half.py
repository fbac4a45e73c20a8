"""Constants in half the space: float32 initializers stored as float16 behind a Cast, which runtimes fold when they load."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g

SMALLEST = 64
"""Constants with fewer elements stay: the Cast would take more space than is saved, and scales keep their precision."""

FLOAT16_MAX = float(np.finfo(np.float16).max)

KEPT = ("QuantizeLinear", "DequantizeLinear")
"""Readers that require float32 scales."""


def store_constants_as_float16(model: ir.Model) -> int:
    """Store large float32 constants as float16, in place; returns how many. Values beyond float16's range stay float32."""
    graph = model.graph
    count = 0
    for name, value in list(graph.initializers.items()):
        if value.dtype is not ir.DataType.FLOAT or not value.uses() or value.is_graph_output():
            continue
        if any(node.op_type in KEPT for node, _ in value.uses()):
            continue
        array = g.constant(value)
        if array is None or array.size < SMALLEST or float(np.abs(array.astype(np.float64)).max()) > FLOAT16_MAX:
            continue
        stored = g.add_initializer(graph, f"{name}_float16", array.astype(np.float16))
        cast = ir.node("Cast", [stored], attributes={"to": ir.DataType.FLOAT.value}, name=f"{name}_cast")
        cast.outputs[0].shape, cast.outputs[0].dtype, cast.outputs[0].name = value.shape, value.dtype, f"{name}_float32"
        for node, position in list(value.uses()):
            node.replace_input_with(position, cast.outputs[0])
        graph.insert_before(next(iter(graph)), cast)  # before every reader, those inside of subgraphs included
        del graph.initializers[name]
        count += 1
    return count
