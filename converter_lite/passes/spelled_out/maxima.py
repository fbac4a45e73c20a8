"""Places of maxima, and what is put there."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, remove, replace, take_over
from converter_lite.passes.spelled_out.inserting import insert, reduced, reshaped


@for_each("MaxPool")
def spell_out_places_of_maxima(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace the second output of a MaxPool, which unpooling reads, by each window's first maximum and a table of its places.

    (ArgMax takes another one of equal elements in some runtimes, and windows of zeros are common behind a Relu.)

    Refused: windows that overlap, are padded or dilated, other tensors than pictures, and unknown sizes.
    """
    x, kernel = node.inputs[0], g.ints_attribute(node, "kernel_shape")
    shape, plain = g.static_shape(x), (*(1 for _ in kernel),)
    if len(node.outputs) < 2 or not node.outputs[1].uses() or x is None or shape is None or len(shape) != 4:
        return False
    modes = any(g.int_attribute(node, name, 0) for name in ("ceil_mode", "storage_order"))
    overlaps = g.ints_attribute(node, "strides", plain) != kernel or g.ints_attribute(node, "dilations", plain) != plain
    if (
        modes
        or overlaps
        or any(g.ints_attribute(node, "pads"))
        or g.text_attribute(node, "auto_pad", "NOTSET") != "NOTSET"
    ):
        return False
    (height, width), (rows, columns) = shape[2:], kernel
    down, right, planes = height // rows, width // columns, math.prod(shape[:2])
    windows = _windows(graph, node, x, (planes, down, rows, right, columns))
    first = _first_maximum(graph, node, windows)
    table = (np.arange(rows)[:, None] * width + np.arange(columns)).reshape(-1)
    corners = np.arange(planes)[:, None, None] * height * width + np.arange(down)[:, None] * rows * width
    stored = [
        g.add_initializer(graph, f"{node.name}_{name}", numbers.astype(np.int64))
        for name, numbers in (("places", table), ("corners", corners + np.arange(right) * columns))
    ]
    within = insert(graph, node, "Gather", [stored[0], first], (planes, down, right), axis=0)
    places = insert(graph, node, "Add", [within, stored[1]], (planes, down, right))
    result = reshaped(graph, node, places, (*shape[:2], down, right))
    for value in (within, places, result):
        value.type = ir.TensorType(ir.DataType.INT64)
    settings = {name: attribute.value for name, attribute in node.attributes.items()}
    pooled = insert(graph, node, "MaxPool", [x], g.static_shape(node.outputs[0]), **settings)
    take_over(result, node.outputs[1])
    take_over(pooled, node.outputs[0])
    remove(node)
    return True


@for_each("MaxUnpool")
def spell_out_unpooling(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a MaxUnpool, whose places count through the whole tensor, by a ScatterElements into a row of zeros.

    Refused: unknown sizes, and a given shape.
    """
    x, places, shape = node.inputs[0], node.inputs[1], g.static_shape(node.outputs[0])
    if x is None or x.dtype is None or places is None or shape is None or g.input_at(node, 2) is not None:
        return False
    count = math.prod(g.static_shape(x) or ())
    nothing = g.add_initializer(graph, f"{node.name}_nothing", np.zeros(math.prod(shape), x.dtype.numpy()))
    row = reshaped(graph, node, places, (count,))
    row.type = places.type
    filled = insert(
        graph, node, "ScatterElements", [nothing, row, reshaped(graph, node, x, (count,))], (math.prod(shape),), axis=0
    )
    replace(
        [node], ir.node("Reshape", [filled, g.add_initializer(graph, f"{node.name}_shape", np.array(shape, np.int64))])
    )
    return True


def _windows(graph: ir.Graph, node: ir.Node, x: ir.Value, sizes: tuple[int, ...]) -> ir.Value:
    """The elements of each window along the last axis: ``(planes, windows down, windows right, elements)``."""
    planes, down, rows, right, columns = sizes
    shape = g.static_shape(x)
    assert shape is not None
    if shape[2:] != (down * rows, right * columns):
        ends = g.add_initializer(graph, f"{node.name}_ends", np.array([down * rows, right * columns], np.int64))
        starts, axes = (
            g.add_initializer(graph, f"{node.name}_{name}", np.array(numbers, np.int64))
            for name, numbers in (("starts", [0, 0]), ("axes", [2, 3]))
        )
        x = insert(graph, node, "Slice", [x, starts, ends, axes], (*shape[:2], down * rows, right * columns))
    split = reshaped(graph, node, x, sizes)
    turned = insert(graph, node, "Transpose", [split], (planes, down, right, rows, columns), perm=[0, 1, 3, 2, 4])
    return reshaped(graph, node, turned, (planes, down, right, rows * columns))


def _first_maximum(graph: ir.Graph, node: ir.Node, windows: ir.Value) -> ir.Value:
    """Number of the first largest element along the last axis: those that are the largest count from their number down to 1."""
    *outer, count = g.static_shape(windows) or (0,)
    largest = reduced(graph, node, "ReduceMax", windows, [3])
    is_largest = insert(graph, node, "Equal", [windows, largest], (*outer, count))
    is_largest.type = ir.TensorType(ir.DataType.BOOL)
    marked = insert(graph, node, "Cast", [is_largest], (*outer, count), to=ir.DataType.FLOAT.value)
    weights, one, all_of_them = (
        g.add_initializer(graph, f"{node.name}_{name}", np.array(numbers, np.float32))
        for name, numbers in (("down", np.arange(count, 0, -1)), ("least", 1), ("count", count))
    )
    weighted = insert(graph, node, "Mul", [marked, weights], (*outer, count))
    found = insert(graph, node, "Max", [reduced(graph, node, "ReduceMax", weighted, [3]), one], (*outer, 1))
    number = insert(graph, node, "Sub", [all_of_them, found], (*outer, 1))
    place = insert(
        graph, node, "Cast", [reshaped(graph, node, number, tuple(outer))], outer, to=ir.DataType.INT64.value
    )
    place.type = ir.TensorType(ir.DataType.INT64)
    return place
