"""Normalization by neighbouring channels."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped


@for_each("LRN")
def spell_out_local_response(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace an LRN by the mean of squares of neighbouring channels, which is a pool along the channels.

    ::

        x ─┬─ Mul(x, x) ─ Reshape (N, 1, C, places) ─ AveragePool ─ Reshape ─ Mul(alpha) ─ Add(bias) ─ Pow(beta) ─┐
           └────────────────────────────────────────────────────────────────────────────────────────────────── Div ─ y

    Refused: unknown sizes, other tensors than pictures, and windows of an even number of channels.
    """
    x, window = node.inputs[0], g.int_attribute(node, "size", 1)
    shape = g.static_shape(x)
    if x is None or shape is None or len(shape) != 4 or window % 2 == 0 or 0 in shape:
        return False
    numbers = {}
    for name, usual in (("alpha", 0.0001), ("beta", 0.75), ("bias", 1.0)):
        stored = np.array(g.float_attribute(node, name, usual), np.float32)
        numbers[name] = g.add_initializer(graph, f"{node.name}_{name}", stored)
    column = (shape[0], 1, shape[1], int(np.prod(shape[2:])))
    squares = reshaped(graph, node, insert(graph, node, "Mul", [x, x], shape), column)
    pads = {"kernel_shape": [window, 1], "pads": [window // 2, 0, window // 2, 0], "count_include_pad": 1}
    mean = reshaped(graph, node, insert(graph, node, "AveragePool", [squares], column, **pads), shape)
    scaled = insert(graph, node, "Mul", [mean, numbers["alpha"]], shape)
    positive = insert(graph, node, "Add", [scaled, numbers["bias"]], shape)
    replace([node], ir.node("Div", [x, insert(graph, node, "Pow", [positive, numbers["beta"]], shape)]))
    return True
