"""Activation functions that a quantized model leaves to the saturation of its integers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.plan import NodeMode, QuantizedModel

KEEPS_SIGN = frozenset({"Relu", "Clip", "Sigmoid", "Softmax", "HardSigmoid", "Exp", "Abs", "Sqrt"}) | frozenset(
    {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Concat", "Split", "Gather", "Slice", "Identity"}
    | {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Resize"}
)
"""Operators whose outputs are never below zero if their inputs are not, so a grid that starts at zero clips nothing."""

COMMON_BOUND = 6.0
"""Upper bound of ReLU6, which devices compute as part of a convolution; a bound this close to it is taken for it."""


def saturation_clamps(node: ir.Node, params: QuantParams | None) -> bool:
    """Whether integers with the parameters of its output end at the bounds of a Relu or Clip, up to the rounding of the grid."""
    bounds = g.clamp_bounds(node)
    if params is None or bounds is None:
        return False
    low, high = params.real_range
    slack = 0.501 * float(params.scale)  # the zero point was rounded by up to half a step
    return float(low) >= bounds[0] - slack and float(high) <= bounds[1] + slack


def add_clamps(quantized: QuantizedModel) -> int:
    """Insert Clips where a float node stands in front of a grid that begins at zero, in place; returns how many.

    Converters drop a ReLU or ReLU6 behind a convolution if the integers of its result begin at zero, since those saturate. Where
    the plan has the convolution compute in float, the Clip has to come back.
    """
    plan, graph, names = quantized.plan, quantized.model.graph, g.Names(quantized.model.graph)
    count = 0
    for node in list(graph):
        if plan.mode(node) is NodeMode.INTEGER or node.op_type in KEEPS_SIGN:
            continue
        for value in node.outputs:
            params = plan.activations.get(value.name or "")
            if params is not None and _begins_at_zero(params) and not value.is_graph_output():
                _clip(quantized, node, value, names)
                count += 1
    return count


def computed_in_float(quantized: QuantizedModel) -> ir.Model:
    """The graph of a quantized model without its integers; what their saturation clamped at zero, Clips clamp."""
    graph = quantized.model.graph
    plan = replace(quantized.plan, nodes={}, activations=dict(quantized.plan.activations))
    for value in dict.fromkeys(graph.outputs):
        if value.name in plan.activations and value.producer() is not None:
            params = plan.activations.pop(value.name)
            _stand_before(graph, value)
            plan.activations[value.name] = params
    add_clamps(replace(quantized, plan=plan))
    return quantized.model


def _stand_before(graph: ir.Graph, value: ir.Value) -> None:
    """Let an Identity give the output, so that a Clip can be put behind what computes it."""
    identity = ir.node("Identity", [value], name=f"{value.name}_identity")
    output = identity.outputs[0]
    output.name, output.shape, output.type = value.name, value.shape, value.type
    value.name = f"{value.name}_computed"
    graph.append(identity)
    g.replace_output(graph, value, output)


def _begins_at_zero(params: QuantParams) -> bool:
    return not params.is_per_channel and int(params.zero_point) == params.spec.qmin


def _clip(quantized: QuantizedModel, node: ir.Node, value: ir.Value, names: g.Names) -> None:
    graph, plan = quantized.model.graph, quantized.plan
    params = plan.activations[str(value.name)]
    high = (params.spec.qmax - params.spec.qmin) * float(params.scale)
    if math.isclose(high, COMMON_BOUND, rel_tol=1e-4):
        high = COMMON_BOUND
    bounds = [
        g.add_initializer(graph, f"{value.name}_{end}", np.asarray(bound, np.float32), names=names)
        for end, bound in (("low", 0.0), ("high", high))
    ]
    users = tuple(value.uses())
    clip = ir.node("Clip", [value, *bounds], name=f"{node.name}_clamp")
    result = clip.outputs[0]
    result.name, result.shape, result.type = f"{value.name}_clamped", value.shape, value.type
    for user, position in users:
        user.replace_input_with(position, result)
    graph.insert_after(node, clip)
    plan.keep_float(clip, "it stands for the saturation of integers")
    plan.activations[str(result.name)] = plan.activations.pop(str(value.name))
