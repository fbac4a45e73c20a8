"""Grids of biases: 32-bit integers in steps of the input's scale times the weight's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.plan import QuantPlan
from converter_lite.targets.operands import bias_of, weight_of

BIAS_LIMIT = 2.0**30
"""Largest magnitude of a quantized bias; beyond it the weight scale of the channel grows (measured rule of the original)."""


def _bias_operands(
    node: ir.Node, plan: QuantPlan, found: dict[str, QuantParams]
) -> tuple[ir.Value, ir.Value, QuantParams, QuantParams] | None:
    """Bias and weight of a node, and the parameters of its input and weight; ``None`` for a node without bias."""
    bias, weight, data = bias_of(node), weight_of(node), node.inputs[0]
    if bias is None or weight is None or data is None:
        return None
    activation = plan.activations.get(data.name or "")
    return None if activation is None else (bias, weight, activation, found[weight.name or ""])


def widen_for_bias(node: ir.Node, plan: QuantPlan, found: dict[str, QuantParams]) -> None:
    """Enlarge the weight scale where the int32 bias would overflow (a dead channel with a bias)."""
    operands = _bias_operands(node, plan, found)
    if operands is None:
        return
    bias, weight, activation, params = operands
    values = np.abs(np.atleast_1d(g.constant(bias)).astype(np.float64))  # type: ignore[arg-type]
    values = values.reshape(-1, values.shape[-1]).max(axis=0)  # Gemm may add a matrix
    needed = values / (BIAS_LIMIT * float(activation.scale))
    widened = np.maximum(params.scale, needed if params.is_per_channel else needed.max())
    if np.any(widened > params.scale):
        found[weight.name or ""] = replace(params, scale=widened.astype(np.float32))


def add_bias(node: ir.Node, plan: QuantPlan, found: dict[str, QuantParams]) -> None:
    """Put into ``found`` the parameters of a node's int32 bias: scale ``s_input * s_weight``."""
    operands = _bias_operands(node, plan, found)
    if operands is None:
        return
    bias, _, activation, params = operands
    scale: NDArray[np.float64] = activation.scale.astype(np.float64) * params.scale
    axis = None if not params.is_per_channel else len(g.static_shape(bias) or (0,)) - 1
    spec = QuantSpec(bits=32, signed=True, symmetric=True, axis=axis)
    float_scale = np.maximum(scale, np.finfo(np.float32).tiny).astype(np.float32)
    found[bias.name or ""] = QuantParams(float_scale, np.zeros(float_scale.shape, np.int32), spec)
