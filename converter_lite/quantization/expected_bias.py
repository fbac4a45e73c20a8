"""Bias correction without data, from what normalizations say of a layer's input.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019, section 4.2.1.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.quantization.constants import has_channel_bias
from converter_lite.quantization.expected_input import expected_channel_mean
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.targets.operands import bias_of, weight_of


def correct_expected_bias(node: ir.Node, quantized: QuantizedModel) -> None:
    """Subtract ``sum(weight error * expected input)`` from the bias of a Conv or Gemm, where a normalization tells its input.

    Args:
        node: A node with a weight in the plan; others are left as they are, as are those without a bias of their own.
        quantized: Its graph is changed.
    """
    weight, bias = weight_of(node), bias_of(node)
    mean = expected_channel_mean(node.inputs[0])
    if weight is None or bias is None or mean is None or weight.name is None or node.op_type not in ("Conv", "Gemm"):
        return
    if not has_channel_bias(node):
        return
    array, old = g.constant(weight), g.constant(bias)
    if array is None or old is None:
        return
    error = quantized.plan.weights[weight.name].dequantize(quantized.integers(weight.name)).astype(
        np.float64
    ) - array.astype(np.float64)
    if node.op_type == "Gemm":
        error = error if g.int_attribute(node, "transB", 0) else error.T
        shift = error @ mean if error.shape[1] == len(mean) else None
    else:
        shift = _conv_shift(error, mean, g.int_attribute(node, "group", 1))
    if shift is not None:
        bias.const_value = ir.Tensor(
            (old.astype(np.float64) - shift.reshape(old.shape)).astype(np.float32), name=bias.name
        )


def _conv_shift(error: NDArray[np.float64], mean: NDArray[np.float64], group: int) -> NDArray[np.float64] | None:
    """Mean shift per output channel. Shapes: error ``(O, I/group, kH, kW)``, mean ``(I,)``."""
    outputs, inputs = error.shape[:2]
    if inputs * group != len(mean):
        return None
    sums = error.reshape(outputs, inputs, -1).sum(axis=2)
    means = mean.reshape(group, inputs)
    return np.einsum("goi,gi->go", sums.reshape(group, outputs // group, inputs), means).reshape(-1)
