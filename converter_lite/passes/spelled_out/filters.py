"""Convolutions whose filters are computed while the network runs."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, is_op, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

RANKS = (3, 4)
"""Of what is read: rows, and pictures."""


@for_each("Conv")
def spell_out_computed_filters(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Conv with filters that are computed (correlation of a tracker, mixtures of filters) by a product.

    ::

        x (1, C, H, W) ─ Conv (K filters that pick a place each, for every channel) ─ (1, G, C/G K, places) ─┐
                                             filters (O, C/G, k, k) ─ (1, G, O/G, C/G K) ─────────────── MatMul ─ y

    Refused: unknown sizes, several samples, ``auto_pad``, three dimensions, and filters that only have to be dequantized.
    """
    x, weight, bias = node.inputs[0], node.inputs[1], g.input_at(node, 2)
    shape, filters, result = g.static_shape(x), g.static_shape(weight), g.static_shape(node.outputs[0])
    if x is None or weight is None or shape is None or filters is None or result is None or not _is_computed(weight):
        return False
    if len(shape) not in RANKS or shape[0] != 1 or g.text_attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return False
    groups, places, rows = g.int_attribute(node, "group", 1), math.prod(result[2:]), math.prod(filters[1:])
    read = reshaped(graph, node, _unfolded(graph, node, x, filters[2:]), (1, groups, rows, places))
    by = reshaped(graph, node, weight, (1, groups, filters[0] // groups, rows))
    product = insert(graph, node, "MatMul", [by, read], (1, groups, filters[0] // groups, places))
    if bias is not None:
        product = reshaped(graph, node, product, (1, filters[0], places))
        beside = reshaped(graph, node, bias, (1, filters[0], 1))
        product = insert(graph, node, "Add", [product, beside], (1, filters[0], places))
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [product, target]))
    return True


def _is_computed(weight: ir.Value) -> bool:
    producer = weight.producer()
    is_stored = producer is not None and is_op(producer, "DequantizeLinear") and g.is_constant(producer.inputs[0])
    return weight.dtype is ir.DataType.FLOAT and not is_stored and not g.is_constant(weight)


def _unfolded(graph: ir.Graph, node: ir.Node, x: ir.Value, kernel: tuple[int, ...]) -> ir.Value:
    """What the filters read at each place, one channel below the other: ``(C, K, ...)``."""
    steps = {name: g.ints_attribute(node, name) for name in ("strides", "pads", "dilations") if name in node.attributes}
    is_single = math.prod(kernel) == 1 and set(steps.get("strides", ())) <= {1} and not any(steps.get("pads", ()))
    shape, result = g.static_shape(x) or (), g.static_shape(node.outputs[0]) or ()
    if is_single:
        return x
    count = math.prod(kernel)
    apart = reshaped(graph, node, x, (shape[1], 1, *shape[2:]))
    picks = g.add_initializer(graph, f"{node.name}_picks", np.eye(count, dtype=np.float32).reshape(count, 1, *kernel))
    return insert(
        graph, node, "Conv", [apart, picks], (shape[1], count, *result[2:]), kernel_shape=list(kernel), **steps
    )
