"""BatchNormalization into the layer before it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.graph import constant, float_attribute, int_attribute, single_consumer
from converter_lite.passes.channelwise import BATCHNORM, Vector, linear_layer, scale_and_shift
from converter_lite.passes.rewrite import for_each, merge_into_producer, sole_output


@for_each("BatchNormalization")
def fold_batchnorm(_graph: ir.Graph, node: ir.Node) -> bool:
    """Fold inference-time normalization with constant statistics into weights and bias.

    ::

        x ─ Conv | ConvTranspose | Gemm ─ BatchNormalization ─ y      becomes      x ─ Conv' ─ y

    Refused: another reader of the layer's output, training mode, statistics that are not constant, a variance that is not
    positive. A normalization behind anything else stays one operator: split into Mul and Add it would cost two kernels and one
    more rounding.

    The layer's output value remembers mean ``beta`` and deviation ``|gamma|`` of its channels under
    ``meta["batchnorm"]``; bias correction without data uses them.
    """
    source = node.inputs[0]
    producer = source.producer() if source is not None else None
    if source is None or producer is None or single_consumer(source) is not node or sole_output(node) is None:
        return False
    if int_attribute(node, "training_mode", 0):
        return False
    layer, statistics = linear_layer(producer), _statistics(node)
    if layer is None or statistics is None:
        return False
    gamma, beta, mean, variance = statistics
    if gamma.size != layer.channels:
        return False
    deviation = variance + float_attribute(node, "epsilon", 1e-5)
    if not np.all(deviation > 0):
        return False
    scale = gamma / np.sqrt(deviation)
    folded = scale_and_shift(layer, scale, beta - mean * scale)
    if folded is None:
        return False
    merge_into_producer(folded, node)
    remembered = (beta.astype(np.float32), np.abs(gamma).astype(np.float32))
    folded.outputs[0].meta[BATCHNORM] = remembered
    return True


def _statistics(node: ir.Node) -> tuple[Vector, Vector, Vector, Vector] | None:
    arrays = [constant(value) for value in node.inputs[1:5]]
    if any(array is None for array in arrays) or len(arrays) != 4:
        return None
    gamma, beta, mean, variance = (np.asarray(array, np.float64).reshape(-1) for array in arrays)
    return gamma, beta, mean, variance
