"""Convolutions and pools over three dimensions."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

PADS = (0,) * 6


def spell_out_volumes(model: ir.Model) -> int:
    """Replace a Conv over depth, height and width by one over height and width.

    ::

        layers that each layer of the result reads, as channels: Gather ─ Conv (filters with depth as channels) ─ y

    Refused: unknown sizes, filters that are not constant, and ``auto_pad``.
    """
    return sum(_volume(model.graph, node) for node in list(model.graph) if is_op(node, "Conv"))


def _volume(graph: ir.Graph, node: ir.Node) -> bool:
    x, weight = node.inputs[0], g.constant(node.inputs[1])
    shape, result = g.static_shape(x), g.static_shape(node.outputs[0])
    if (
        x is None
        or x.dtype is not ir.DataType.FLOAT
        or weight is None
        or shape is None
        or result is None
        or len(shape) != 5
    ):
        return False
    if g.attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET"):
        return False
    batch, channels, depth, height, width = shape
    filters, reach = weight.shape[0], weight.shape[2]
    layers = result[2]
    strides, dilations = (g.ints_attribute(node, name, (1, 1, 1)) for name in ("strides", "dilations"))
    pads = g.ints_attribute(node, "pads", PADS)
    reads = np.arange(layers)[:, None] * strides[0] + np.arange(reach) * dilations[0] - pads[0]
    deep = _layers(graph, node, x, np.where((reads < 0) | (reads >= depth), depth, reads).ravel())
    split = reshaped(graph, node, deep, (layers, reach, batch * channels, height * width))
    grouped = (layers, batch * channels, reach, height * width)
    turned = insert(graph, node, "Transpose", [split], grouped, perm=(0, 2, 1, 3))
    images = reshaped(graph, node, turned, (layers * batch, channels * reach, height, width))
    flat = np.ascontiguousarray(weight.reshape(filters, -1, *weight.shape[3:]))
    stored = g.add_initializer(graph, f"{node.name}_filters", flat)
    kept = {
        "group": g.int_attribute(node, "group", 1),
        "kernel_shape": weight.shape[3:],
        "strides": strides[1:],
        "dilations": dilations[1:],
        "pads": (*pads[1:3], *pads[4:]),
    }
    made = insert(
        graph, node, "Conv", [images, stored, *node.inputs[2:]], (layers * batch, filters, *result[3:]), **kept
    )
    rows = reshaped(graph, node, made, (layers, batch, filters, math.prod(result[3:])))
    back = insert(graph, node, "Transpose", [rows], (batch, filters, layers, math.prod(result[3:])), perm=(1, 2, 0, 3))
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [back, target]))
    return True


def _layers(graph: ir.Graph, node: ir.Node, x: ir.Value, reads: NDArray[np.int64]) -> ir.Value:
    """Layers of a volume one below the other; that behind the last is zero."""
    batch, channels, depth, height, width = g.static_shape(x) or ()
    size = batch * channels * height * width
    split = reshaped(graph, node, x, (batch * channels, depth, height * width))
    turned = insert(graph, node, "Transpose", [split], (depth, batch * channels, height * width), perm=(1, 0, 2))
    rows = reshaped(graph, node, turned, (depth, size))
    if depth in reads:
        zero = g.add_initializer(graph, f"{node.name}_padding", np.zeros((1, size), np.float32))
        rows = insert(graph, node, "Concat", [rows, zero], (depth + 1, size), axis=0)
    index = g.add_initializer(graph, f"{node.name}_layers", reads.astype(np.int64))
    return insert(graph, node, "Gather", [rows, index], (len(reads), size), axis=0)


def spell_out_deep_pools(model: ir.Model) -> int:
    """Replace a MaxPool or AveragePool over depth, height and width by one over height and width, and one over depth.

    ::

        x (N, C, D, H, W) ─ (N, C D, H, W) ─ pool ─ (N, C, D, H' W') ─ pool ─ y (N, C, D', H', W')

    The number of elements of a window is the product of those along its axes, at the borders, too.

    Refused: unknown sizes, and the indices of a MaxPool.
    """
    return sum(_pool(model.graph, node) for node in list(model.graph) if is_op(node, "MaxPool", "AveragePool"))


def _pool(graph: ir.Graph, node: ir.Node) -> bool:
    x, shape, result = node.inputs[0], g.static_shape(node.inputs[0]), g.static_shape(node.outputs[0])
    if x is None or shape is None or result is None or len(shape) != 5 or len(node.outputs) != 1:
        return False
    batch, channels, depth, height, width = shape
    _, _, layers, rows, columns = result
    pictures = reshaped(graph, node, x, (batch, channels * depth, height, width))
    flat = (batch, channels * depth, rows, columns)
    pooled = insert(graph, node, node.op_type, [pictures], flat, **_along(node, (1, 2), lines=False))
    deep = reshaped(graph, node, pooled, (batch, channels, depth, rows * columns))
    whole = (batch, channels, layers, rows * columns)
    made = insert(graph, node, node.op_type, [deep], whole, **_along(node, (0,), lines=True))
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [made, target]))
    return True


def _along(node: ir.Node, axes: tuple[int, ...], *, lines: bool) -> dict[str, object]:
    """Attributes of a pool for some of its axes; with ``lines``, a last axis of single places stands behind them."""
    kept: dict[str, object] = {
        name: attr
        for name, attr in node.attributes.items()
        if name not in ("kernel_shape", "strides", "dilations", "pads")
    }
    for name in ("kernel_shape", "strides", "dilations"):
        if name in node.attributes:
            sizes = g.ints_attribute(node, name)
            kept[name] = [*(sizes[axis] for axis in axes), *([1] if lines else [])]
    pads = g.ints_attribute(node, "pads", PADS)
    ends = [[pads[axis + side] for axis in axes] + ([0] if lines else []) for side in (0, 3)]
    if "pads" in node.attributes:
        kept["pads"] = [*ends[0], *ends[1]]
    return kept
