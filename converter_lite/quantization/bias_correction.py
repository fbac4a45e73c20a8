"""Sequential bias correction: quantization must not move the mean of any output channel.

Layer by layer in graph order, the mean of every output channel of the float model is compared with that of the quantized
model whose earlier layers are already corrected, on real quantized activations; the difference goes into the bias.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019, section 4.2 (empirical
variant). The original corrects each layer on the float input of that layer instead (measured); docs/decisions compares both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import channel_means
from converter_lite.engine import Engine, Feed
from converter_lite.formats.onnx_qdq.materialize import materialize
from converter_lite.log import Log
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.staged import StagedRun, mean_over_samples
from converter_lite.quantization.weights import bias_of, weight_of

CORRECTION_SAMPLES = 64
"""Samples whose means are compared; more change the result by less than the noise between calibration sets."""


def correct_biases(
    quantized: QuantizedModel, feeds: Sequence[Feed], *, engine: Engine, threads: int, log: Log
) -> dict[str, NDArray[np.float64]]:
    """Add the measured shift of every channel to the biases of the float graph in ``quantized``, in place.

    Every weighted integer node to be corrected must have a bias of its own (see :func:`ensure_biases`).

    Returns:
        node name -> shift per output channel, real units.
    """
    model = quantized.model
    nodes = correctable(quantized)
    if not nodes or not feeds:
        return {}
    names = [node.outputs[0].name or "" for node in nodes]
    float_means = channel_means(model, names, feeds, engine=engine, threads=threads)
    working = materialize(quantized)
    by_name = {node.name: node for node in working.graph}
    outputs = [by_name[node.name].outputs[0] for node in nodes]
    run = StagedRun(working, feeds, engine=engine, threads=threads)
    shifts: dict[str, NDArray[np.float64]] = {}
    for i, node in enumerate(log.track(nodes, "correcting biases", len(nodes))):
        rows = run.evaluate(outputs[i], then="mean", later=outputs[i + 1 :])
        shift = float_means[i] - mean_over_samples(rows)
        shifts[node.name or ""] = shift
        bias = bias_of(node)
        assert bias is not None and bias.name is not None
        corrected = _add(bias, shift)
        _update_working(working, quantized, bias.name, corrected)
    return shifts


def ensure_biases(model: ir.Model, *, operators: frozenset[str]) -> None:
    """Give every node of these operators with a constant weight a bias initializer that no other node reads."""
    graph = model.graph
    for node in graph:
        weight = weight_of(node)
        if node.op_type not in operators or weight is None:
            continue
        bias = bias_of(node)
        if bias is None:
            channels = _output_channels(node, weight)
            if channels is None:
                continue
            node.resize_inputs(3)
            node.replace_input_with(2, g.add_initializer(graph, f"{node.name}_bias", np.zeros(channels, np.float32)))
        elif g.is_constant(bias) and len(bias.uses()) > 1:
            array = g.constant(bias)
            assert array is not None
            node.replace_input_with(2, g.add_initializer(graph, f"{node.name}_bias", array))


def correctable(quantized: QuantizedModel) -> list[ir.Node]:
    """Integer nodes with a constant weight and a planned or float bias, in graph order."""
    modes = (NodeMode.INTEGER, NodeMode.WEIGHT)
    return [
        node
        for node in quantized.model.graph
        if quantized.plan.mode(node) in modes and weight_of(node) is not None and g.is_constant(bias_of(node))
    ]


def _output_channels(node: ir.Node, weight: ir.Value) -> int | None:
    shape = g.static_shape(weight)
    if shape is None:
        return None
    if node.op_type == "ConvTranspose":
        return shape[1] * g.int_attribute(node, "group", 1)
    if node.op_type == "Gemm":
        return shape[0] if g.int_attribute(node, "transB", 0) else shape[1]
    return shape[0]


def _add(bias: ir.Value, shift: NDArray[np.float64]) -> NDArray[np.float32]:
    array = g.constant(bias)
    assert array is not None
    corrected = (array.astype(np.float64) + shift.reshape(array.shape)).astype(np.float32)
    bias.const_value = ir.Tensor(corrected, name=bias.name)
    return corrected


def _update_working(working: ir.Model, quantized: QuantizedModel, name: str, corrected: NDArray[np.float32]) -> None:
    """Bring the corrected bias into the graph that the next stages run."""
    params = quantized.plan.weights.get(name)
    stored = working.graph.initializers.get(f"{name}_quantized" if params is not None else name)
    assert stored is not None
    array = corrected if params is None else params.quantize(corrected)
    stored.const_value = ir.Tensor(array, name=stored.name)
