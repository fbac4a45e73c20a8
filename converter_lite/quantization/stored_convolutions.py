"""Convolutions in dynamic quantization: they compute with floats, and only their weights are stored as integers.

Runtimes make floats of these weights when they load a file, so that it takes a quarter of the bytes and no more time; integer
kernels take longer than those for floats (onnxruntime's ConvInteger), or do not exist. Their grids need not be symmetric, as
no kernel computes with them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.calibration.runner import Samples
from converter_lite.quantization.bias_correction import LayerFit, fit_layers, samples_wanted
from converter_lite.quantization.constants import ensure_biases
from converter_lite.quantization.expected_bias import correct_expected_bias
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantizedModel
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import compensated_integers, weight_of

CONVOLUTIONS = ("Conv", "ConvTranspose")
"""Operators whose weights are stored."""


def stored_convolutions(quantized: QuantizedModel) -> list[ir.Node]:
    """Convolutions of the main graph whose weights are stored as integers."""
    plan = quantized.plan
    return [n for n in quantized.model.graph if n.op_type in CONVOLUTIONS and plan.mode(n) is NodeMode.WEIGHT]


def round_convolutions(quantized: QuantizedModel, samples: Samples | None, context: RunContext) -> None:
    """Choose integers so that rounding errors cancel, and correct biases: by samples, or else by what normalizations say.

    Args:
        quantized: Plan with the grids of the weights. Integers are added, and biases of its graph are changed.
        samples: Calibration samples, if there are any.
        context: Runs the graphs.
    """
    nodes = stored_convolutions(quantized)
    if not nodes:
        return
    ensure_biases(quantized.model, operators=frozenset(CONVOLUTIONS))
    for node in nodes:
        weight = weight_of(node)
        assert weight is not None and weight.name is not None
        grid = quantized.plan.weights[weight.name]
        quantized.q_weights[weight.name] = compensated_integers(node, g.floats(weight), grid)
        if samples is None:
            correct_expected_bias(node, quantized)
    if samples is not None:
        feeds = samples.head(samples_wanted(quantized.model, fitted_rounding=False, coarse=False))
        _correct_biases(quantized, {node.name for node in nodes}, feeds, context)


def _correct_biases(
    quantized: QuantizedModel, names: Container[str | None], feeds: Sequence[Feed], context: RunContext
) -> None:
    """Correct the biases of these nodes by samples, while all others compute with floats."""
    nodes = {
        name: node if name in names else NodePlan(node.op_type, NodeMode.FLOAT, "is not corrected")
        for name, node in quantized.plan.nodes.items()
    }
    part = replace(quantized, plan=replace(quantized.plan, nodes=nodes))
    wanted = LayerFit()
    with context.log.stage(wanted.stage):
        fit_layers(part, feeds, wanted, context)
    quantized.model = part.model
