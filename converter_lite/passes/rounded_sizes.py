"""Sizes that onnxruntime computes and shape inference (onnx 1.23) gets wrong by one.

1. Pools with ``ceil_mode`` whose last window would begin behind the picture: it is left out.
2. Resize by factors: the product with the size is rounded to float32 before it is rounded down, so that 0.7 times 10 is 7.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir

from converter_lite.graph import constant, input_at, int_attribute, ints_attribute, opset, window_pads

_POOLS = ("AveragePool", "LpPool", "MaxPool")

_SINCE_SIZES = 11
"""The first operator set in which a Resize can be given sizes."""


def round_sizes(model: ir.Model, proto: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Give nodes of the message attributes with which inference finds the right sizes.

    Args:
        model: The graph.
        proto: Its skeleton, with the same nodes; changed.
        shapes: Inferred shapes of values; those with an unknown size are left out.

    Returns:
        Whether a node changed, so that inference gives other shapes than ``shapes``.
    """
    changed = False
    for node, message in zip(model.graph, proto.graph.node, strict=True):
        shape = shapes.get(str(node.inputs[0].name)) if node.inputs and node.inputs[0] is not None else None
        if not shape:
            continue
        if node.op_type in _POOLS and int_attribute(node, "ceil_mode", 0):
            changed |= _pool(node, message, shape[2:])
        elif node.op_type == "Resize" and opset(model) >= _SINCE_SIZES:
            changed |= _resize(node, message, proto.graph, shape)
    return changed


def _pool(node: ir.Node, message: onnx.NodeProto, size: tuple[int, ...]) -> bool:
    """Paddings with which rounding down gives the size, unless rounding up gives it."""
    kernel, ones = ints_attribute(node, "kernel_shape"), (1,) * len(size)
    strides, dilations = ints_attribute(node, "strides", ones), ints_attribute(node, "dilations", ones)
    pads = window_pads(node, size, kernel, strides, dilations)
    begins, ends, leaves_out = pads[: len(size)], [], False
    for n, k, s, d, begin, end in zip(size, kernel, strides, dilations, begins, pads[len(size) :], strict=True):
        window = (k - 1) * d + 1
        steps = -(-(n + begin + end - window) // s)
        if steps * s >= n + begin:
            steps, leaves_out = steps - 1, True
        ends.append(max(end, steps * s + window - n - begin))
    wanted = [*begins, *ends]
    found = {a.name: list(a.ints) for a in message.attribute}
    is_set = "ceil_mode" not in found
    if (is_set and found["pads"] == wanted) or not (is_set or leaves_out):
        return False
    kept = [a for a in message.attribute if a.name not in ("pads", "auto_pad", "ceil_mode")]
    del message.attribute[:]
    message.attribute.extend([*kept, onnx.helper.make_attribute("pads", wanted)])
    return True


def _resize(node: ir.Node, message: onnx.NodeProto, graph: onnx.GraphProto, shape: tuple[int, ...]) -> bool:
    """The sizes themselves, where the product alone, rounded down, is another."""
    factors = constant(input_at(node, 2))
    axes = [axis % len(shape) for axis in ints_attribute(node, "axes", tuple(range(len(shape))))]
    if factors is None or factors.size != len(axes):
        return False
    given = np.array([shape[axis] for axis in axes])
    sizes = np.floor(given.astype(np.float32) * factors.astype(np.float32)).astype(np.int64)
    name = f"{node.outputs[0].name}.sizes"
    stored = next((tensor for tensor in graph.initializer if tensor.name == name), None)
    if np.array_equal(
        sizes,
        np.floor(given * factors.astype(np.float64)) if stored is None else onnx.numpy_helper.to_array(stored),
    ):
        return False
    if stored is None:
        stored = graph.initializer.add()
    stored.CopyFrom(onnx.numpy_helper.from_array(sizes, name))
    message.input[:] = [message.input[0], "", "", name]
    return True
