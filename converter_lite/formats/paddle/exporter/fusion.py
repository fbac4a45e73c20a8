"""Activation functions and biases that the runtime's operators can absorb."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Lowering,
)
from converter_lite.formats.paddle.program import Attribute, attr


@dataclass(frozen=True, slots=True)
class Activation:
    """A fused activation function: its name and the extra attributes of a convolution that has it."""

    kind: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The kind; ``brelu`` is a relu6 with another threshold, which some kernels ignore."""
        threshold = self.attributes.get("fuse_brelu_threshold")
        return self.kind if threshold is None or threshold.value == 6.0 else "brelu"

    def on_convolution(self) -> dict[str, Attribute]:
        """Attributes of conv2d, depthwise_conv2d and conv2d_transpose."""
        if not self.kind:
            return {}
        return {"with_act": attr(True), "act_type": attr(self.kind), **self.attributes}


def recognise(node: ir.Node) -> Activation | None:
    """The fusable function that a node computes, or ``None``."""
    if node.domain:
        return None
    if node.op_type == "Relu":
        return Activation("relu")
    if node.op_type == "LeakyRelu":
        return Activation("leaky_relu", {"leaky_relu_alpha": attr(g.float_attribute(node, "alpha", 0.01))})
    if node.op_type == "HardSwish":
        names = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}
        return Activation("hard_swish", {f"hard_swish_{name}": attr(value) for name, value in names.items()})
    if node.op_type == "Clip":
        return _clip(node)
    return None


def _clip(node: ir.Node) -> Activation | None:
    lower, upper = g.clamp_bounds(node) or (-math.inf, math.inf)
    if lower != 0.0 or upper <= 0.0:
        return None
    if upper > 3e38:
        return Activation("relu")
    return Activation("relu6", {"fuse_brelu_threshold": attr(upper)})


def take_activation(lowering: Lowering, value: ir.Value, allowed: Collection[str]) -> tuple[Activation, ir.Value]:
    """Fuse the function behind ``value`` when it is the only reader; returns it with the value it writes."""
    consumer = g.single_consumer(value)
    if consumer is None or consumer in lowering.done or not lowering.absorbs:
        return Activation(), value
    found = recognise(consumer)
    if found is None or found.name not in allowed or consumer.inputs[0] is not value:
        return Activation(), value
    lowering.done.add(consumer)
    return found, consumer.outputs[0]


def take_bias(lowering: Lowering, value: ir.Value, channels: int) -> tuple[ir.Value | None, ir.Value]:
    """Fuse the addition of a constant vector along the last axis behind ``value``; returns the vector and the sum."""
    consumer = g.single_consumer(value)
    if consumer is None or consumer.op_type != "Add" or consumer in lowering.done or not lowering.absorbs:
        return None, value
    other = consumer.inputs[1] if consumer.inputs[0] is value else consumer.inputs[0]
    array = g.constant(other)
    if array is None or array.size != channels or array.shape[-1:] != (channels,):
        return None, value
    if array.ndim > len(value.shape or ()):
        return None, value
    lowering.done.add(consumer)
    return other, consumer.outputs[0]
