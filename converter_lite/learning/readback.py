"""What a network has learnt, as a graph and a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.learning.network import Network
from converter_lite.quantization.biases import add_bias
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.targets.operands import bias_of


def learned(network: Network) -> QuantizedModel:
    """What a quantized network was made from, with the integers, steps, zero points and biases that it has now."""
    start = network.quantized
    if start is None:
        raise ValueError("a float network has learnt nothing that a plan could hold")
    model, plan = start.model.clone(), replace(start.plan)
    plan.activations = {name: grid.learned() for name, grid in network.activations.items()}
    plan.weights = dict(start.plan.weights)
    q_weights = dict(start.q_weights)
    for name, grid in network.weights.items():
        plan.weights[name], q_weights[name] = grid.learned()
    for name, bias in network.biases.items():
        value = model.graph.initializers[name]
        value.const_value = ir.Tensor(bias.detach().numpy().astype(np.float32), name=name)
    for node in model.graph:
        bias_value = bias_of(node)
        if plan.mode(node) is NodeMode.INTEGER and bias_value is not None and bias_value.name in plan.weights:
            assert g.is_constant(bias_value)
            add_bias(node, plan, plan.weights)
    return replace(start, model=model, plan=plan, q_weights=q_weights)
