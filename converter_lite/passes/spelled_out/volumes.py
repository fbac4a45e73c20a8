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
    """Replace a Conv or ConvTranspose over depth, height and width by one over height and width.

    ::

        layers that each layer of the result reads, as channels: Gather ─ Conv (filters with depth as channels) ─ y
        ConvTranspose of each layer (filters with depth as channels) ─ Gather, Add of what falls on a layer of the result ─ y

    Refused: unknown sizes, filters that are not constant, ``auto_pad``, and an ``output_shape``.
    """
    nodes = list(model.graph)
    read = sum(_volume(model.graph, node) for node in nodes if is_op(node, "Conv") and _can_flatten(node))
    return read + sum(
        _spread_volume(model.graph, node) for node in nodes if is_op(node, "ConvTranspose") and _can_flatten(node)
    )


def _can_flatten(node: ir.Node) -> bool:
    x, result = node.inputs[0], g.static_shape(node.outputs[0])
    is_known = g.constant(node.inputs[1]) is not None and result is not None and "output_shape" not in node.attributes
    is_volume = x is not None and x.dtype is ir.DataType.FLOAT and len(g.static_shape(x) or ()) == 5
    return is_known and is_volume and g.text_attribute(node, "auto_pad", "NOTSET") == "NOTSET"


def _spread_volume(graph: ir.Graph, node: ir.Node) -> bool:
    x, weight, bias = node.inputs[0], g.constant(node.inputs[1]), g.input_at(node, 2)
    batch, channels, depth, height, width = g.static_shape(x) or ()
    _, filters, layers, rows, columns = result = g.static_shape(node.outputs[0]) or ()
    assert x is not None and weight is not None
    reach, size = weight.shape[2], batch * filters * rows * columns
    split = reshaped(graph, node, x, (batch, channels, depth, height * width))
    turned = insert(graph, node, "Transpose", [split], (depth, batch, channels, height * width), perm=(2, 0, 1, 3))
    images = reshaped(graph, node, turned, (depth * batch, channels, height, width))
    flat = np.ascontiguousarray(weight.reshape(channels, -1, *weight.shape[3:]))
    stored = g.add_initializer(graph, f"{node.name}_filters", flat)
    whole = (depth * batch, filters * reach, rows, columns)
    made = insert(graph, node, "ConvTranspose", [images, stored], whole, **_over_pictures(node, weight.shape))
    parts = reshaped(graph, node, made, (depth, batch * filters, reach, rows * columns))
    moved = (depth, reach, batch * filters, rows * columns)
    beside = insert(graph, node, "Transpose", [parts], moved, perm=(0, 2, 1, 3))
    flat_parts = reshaped(graph, node, beside, (depth * reach, size))
    total = _sums(graph, node, flat_parts, _contributions(node, depth, reach, layers))
    back = reshaped(graph, node, total, (layers, batch, filters, rows * columns))
    deep = insert(graph, node, "Transpose", [back], (batch, filters, layers, rows * columns), perm=(1, 2, 0, 3))
    if bias is not None:
        deep = insert(graph, node, "Add", [deep, reshaped(graph, node, bias, (filters, 1, 1))], g.static_shape(deep))
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [deep, target]))
    return True


def _contributions(node: ir.Node, depth: int, reach: int, layers: int) -> NDArray[np.int64]:
    """Which results of layers fall on a layer of the whole result, ``(terms, layers)``; one past the last: nothing."""
    stride, dilation = (g.ints_attribute(node, name, (1, 1, 1))[0] for name in ("strides", "dilations"))
    begin = g.ints_attribute(node, "pads", PADS)[0]
    found: list[list[int]] = [[] for _ in range(layers)]
    for layer in range(depth):
        for tap in range(reach):
            place = layer * stride + tap * dilation - begin
            if 0 <= place < layers:
                found[place].append(layer * reach + tap)
    terms = max(max(map(len, found)), 1)
    return np.array([row + [depth * reach] * (terms - len(row)) for row in found], np.int64).T


def _sums(graph: ir.Graph, node: ir.Node, rows: ir.Value, terms: NDArray[np.int64]) -> ir.Value:
    """Sums of rows; the row behind the last is zero."""
    count, size = g.static_shape(rows) or ()
    if terms.max() == count:
        zero = g.add_initializer(graph, f"{node.name}_nothing", np.zeros((1, size), np.float32))
        rows = insert(graph, node, "Concat", [rows, zero], (count + 1, size), axis=0)
    total: ir.Value | None = None
    for number, term in enumerate(terms):
        index = g.add_initializer(graph, f"{node.name}_term_{number}", np.ascontiguousarray(term))
        picked = insert(graph, node, "Gather", [rows, index], (len(term), size), axis=0)
        total = picked if total is None else insert(graph, node, "Add", [total, picked], (len(term), size))
    assert total is not None
    return total


def _over_pictures(node: ir.Node, weight: tuple[int, ...]) -> dict[str, object]:
    """Attributes of a convolution over depth, height and width, for the last two."""
    strides, dilations = (g.ints_attribute(node, name, (1, 1, 1)) for name in ("strides", "dilations"))
    pads = g.ints_attribute(node, "pads", PADS)
    kept: dict[str, object] = {
        "group": g.int_attribute(node, "group", 1),
        "kernel_shape": weight[3:],
        "strides": strides[1:],
        "dilations": dilations[1:],
        "pads": (*pads[1:3], *pads[4:]),
    }
    if "output_padding" in node.attributes:
        kept["output_padding"] = g.ints_attribute(node, "output_padding")[1:]
    return kept


def _volume(graph: ir.Graph, node: ir.Node) -> bool:
    x, weight = node.inputs[0], g.constant(node.inputs[1])
    batch, channels, depth, height, width = g.static_shape(x) or ()
    result = g.static_shape(node.outputs[0]) or ()
    assert x is not None and weight is not None
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
    whole, kept = (layers * batch, filters, *result[3:]), _over_pictures(node, weight.shape)
    made = insert(graph, node, "Conv", [images, stored, *node.inputs[2:]], whole, **kept)
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
        x (N, C, D, H, W) ─ (N, C, D, H W) ─ global pool ─ y (N, C, 1, 1, 1)

    The number of elements of a window is the product of those along its axes, at the borders, too.

    Refused: unknown sizes, and the indices of a MaxPool.
    """
    nodes = list(model.graph)
    windows = sum(_pool(model.graph, node) for node in nodes if is_op(node, "MaxPool", "AveragePool"))
    return windows + sum(
        _global_pool(model.graph, node) for node in nodes if is_op(node, "GlobalMaxPool", "GlobalAveragePool")
    )


def _global_pool(graph: ir.Graph, node: ir.Node) -> bool:
    x, shape = node.inputs[0], g.static_shape(node.inputs[0])
    if x is None or shape is None or len(shape) != 5:
        return False
    batch, channels, depth, height, width = shape
    picture = reshaped(graph, node, x, (batch, channels, depth, height * width))
    pooled = insert(graph, node, node.op_type, [picture], (batch, channels, 1, 1))
    target = g.add_initializer(graph, f"{node.name}_shape", np.array((batch, channels, 1, 1, 1), np.int64))
    replace([node], ir.node("Reshape", [pooled, target]))
    return True


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
