"""The first layers of a convolutional network, where integers cost accuracy and save no time.

A picture has few channels and many pixels. Integer kernels profit from long sums over channels, which the first convolution and
the depthwise and narrow pointwise ones behind it do not have, while the error of quantizing the picture itself and its first
features reaches every later layer.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.targets.operands import is_depthwise, operator, stored_weight, weight_of
from converter_lite.targets.operators import Role
from converter_lite.targets.policy import DEVICE_STEM, StemLimits

FEW_INPUTS = 4
"""Most channels of a picture."""

FEW_OUTPUTS = 32
"""Most output channels of a first convolution that is as fast in float (measured: 16, 24, 32; 64 and 192 are slower)."""

SMALL_KERNEL = 9
"""Most elements of its kernel (measured: 3 x 3; 7 x 7 and 16 x 16 are slower)."""


def stem(model: ir.Model, limits: StemLimits = DEVICE_STEM) -> list[ir.Node]:
    """The convolution that reads a picture, and the depthwise and narrow ones behind it; empty where integers are faster."""
    total = sum(_size(weight) for node in model.graph if (weight := stored_weight(node)) is not None)
    found: list[ir.Node] = []
    for first in (node for node in model.graph if _reads_picture(node)):
        node: ir.Node | None = first
        while node is not None and sum(_weight_size(other) for other in (*found, node)) <= limits.share * total:
            found.append(node)
            node = _light_layer_behind(node, limits.narrow)
    return found


def _reads_picture(node: ir.Node) -> bool:
    weight = weight_of(node)
    shape = g.static_shape(weight) if weight is not None else None
    if node.op_type != "Conv" or shape is None or g.int_attribute(node, "group", 1) != 1:
        return False
    is_small = shape[1] <= FEW_INPUTS and shape[0] <= FEW_OUTPUTS and math.prod(shape[2:]) <= SMALL_KERNEL
    return is_small and _is_given(node.inputs[0])


def _is_given(value: ir.Value | None) -> bool:
    """Whether it is an input of the model, possibly in another layout."""
    while value is not None and not value.is_graph_input():
        node = value.producer()
        if node is None or node.op_type not in ("Transpose", "Reshape", "Squeeze", "Unsqueeze"):
            return False
        value = node.inputs[0]
    return value is not None


def _light_layer_behind(node: ir.Node, narrow: int) -> ir.Node | None:
    """The depthwise or narrow pointwise convolution that alone reads a layer, or its Relu or Clip."""
    reader = g.single_consumer(node.outputs[0])
    entry = operator(reader) if reader is not None else None
    if reader is not None and entry is not None and entry.role is Role.CLAMP:
        reader = g.single_consumer(reader.outputs[0])
    if reader is None or weight_of(reader) is None:
        return None
    return reader if is_depthwise(reader) or _is_narrow(reader, narrow) else None


def _is_narrow(node: ir.Node, channels: int) -> bool:
    shape = g.static_shape(weight_of(node)) or ()
    is_pointwise = node.op_type == "Conv" and len(shape) > 2 and math.prod(shape[2:]) == 1
    return is_pointwise and max(shape[:2]) <= channels and g.int_attribute(node, "group", 1) == 1


def _weight_size(node: ir.Node) -> int:
    weight = weight_of(node)
    return 0 if weight is None else _size(weight)


def _size(weight: ir.Value) -> int:
    return math.prod(g.static_shape(weight) or (0,))
