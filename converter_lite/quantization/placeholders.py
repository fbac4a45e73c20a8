"""A plan filled with placeholder parameters: a dry run writes it into memory to see how large the file would be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.params import QuantSpec, params_from_range
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.placement import quantized_tensors
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import weight_grid, weight_spec
from converter_lite.targets.operands import stored_weights


def with_placeholders(model: ir.Model, plan: QuantPlan, choice: Choice) -> QuantizedModel:
    """The model with a copy of its plan in which each weight has the grid of its extremes, and each activation a grid of its own.

    A file of it has the size of the real one, except for what entropy coding gains from fitted integers.

    Args:
        model: Optimized float graph, as the plan names it.
        plan: Decisions; parameters that it holds are kept.
        choice: Settings and device.

    Raises:
        CalibrationError: A weight is empty, or not finite.
    """
    filled = replace(plan, weights=dict(plan.weights), activations=dict(plan.activations))
    for node in model.graph:
        mode = plan.mode(node)
        for weight in stored_weights(node) if mode is not NodeMode.FLOAT else ():
            array = g.constant(weight)
            if weight.name and weight.name not in filled.weights and array is not None:
                spec = _grid(choice, node, weight)
                filled.weights[weight.name] = weight_grid(array.astype(np.float32, copy=False), spec)
    sources = quantized_tensors(model, filled, choice.target)
    widths = {source: 1.0 + number for number, source in enumerate(dict.fromkeys(sources.values()))}
    for name, source in sources.items():
        own = params_from_range(-widths[source], widths[source], choice.target.activation)
        filled.activations.setdefault(name, own)
    return QuantizedModel(model, filled)


def _grid(choice: Choice, node: ir.Node, weight: ir.Value) -> QuantSpec:
    settings = choice.settings
    if isinstance(settings, WeightSettings):
        axis = settings.storage.axis(node, weight) if settings.per_channel else None
        bits = max(settings.bits, settings.storage.least_bits(node, weight))
        return weight_spec(settings, bits, g.static_shape(weight) or (), axis)
    spec = choice.target.capability(node).weight
    return spec if choice.is_per_channel else replace(spec, axis=None)
