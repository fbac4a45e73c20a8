"""Small quantized models whose parameters are chosen so that every number can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from tests.support import build

CONV_RELU = """
g (float[1,1,2,2] x) => (float[1,2,2,2] y) {
    [conv] c = Conv <kernel_shape = [1, 1]> (x, w)
    [relu] y = Relu(c)
}
"""
SAMPLE = {"x": np.array([-1.0, 0.0, 0.6, 2.0], np.float32).reshape(1, 1, 2, 2)}


def activation(scale: float, zero_point: int = 0) -> QuantParams:
    """A grid of uint8."""
    return QuantParams(np.array(scale, np.float32), np.array(zero_point, np.int32), QuantSpec(8, signed=False))


def weight(scales: Sequence[float], *, axis: int | None = 0, bits: int = 8) -> QuantParams:
    """A symmetric signed grid per channel, or per tensor without ``axis``."""
    scale = np.array(scales if axis is not None else scales[0], np.float32)
    spec = QuantSpec(bits, signed=True, symmetric=True, axis=axis)
    return QuantParams(scale, np.zeros(scale.shape, np.int32), spec)


def plan(model: ir.Model, **modes: NodeMode) -> QuantPlan:
    """Modes by node name; the other nodes stay float."""
    made = QuantPlan("CPU")
    for node in model.graph:
        if node.name in modes:
            made.quantize(node, modes[node.name])
        else:
            made.keep_float(node, "test")
    return made


def conv_relu(text: str = CONV_RELU) -> QuantizedModel:
    """``relu(conv(x))`` in integers: x in steps of 0.5 from -2, weights 1 and -0.5, y in steps of 0.25 from 0."""
    model = build(text, w=np.array([1.0, -0.5], np.float32).reshape(2, 1, 1, 1))
    made = plan(model, conv=NodeMode.INTEGER, relu=NodeMode.INTEGER)
    made.activations = {"x": activation(0.5, 4), "y": activation(0.25)}
    made.weights = {"w": weight([0.5, 0.25])}
    return QuantizedModel(model, made)
