"""Expected inputs of a layer without data, derived from the normalization before it.

A normalized tensor has mean beta and standard deviation |gamma| per channel; behind a Relu or Clip its mean is that of a clipped
normal distribution.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019, section 4.2.1.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.passes.layer_norm import normalization_parameters

MEAN_KEEPING = ("MaxPool", "AveragePool", "GlobalAveragePool", "Flatten", "Identity", "Dropout", "Resize")
"""Operators that are taken to keep channel means (exact for averages, a lower bound for MaxPool)."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


def expected_channel_mean(value: ir.Value | None) -> NDArray[np.float64] | None:
    """float64 ``(channels,)``, or ``None`` if no folded BatchNormalization determines it."""
    if value is None:
        return None
    known = value.meta.get(BATCHNORM)
    if known is not None:
        return np.asarray(known[0], np.float64)
    node = value.producer()
    if node is None:
        return None
    if node.op_type in MEAN_KEEPING:
        mean = expected_channel_mean(node.inputs[0])
        shape = value.shape
        return mean if mean is None or shape is None or (len(shape) > 1 and shape[1] == len(mean)) else None
    bounds = g.clamp_bounds(node) if node.op_type in ("Relu", "Clip") else None
    source = node.inputs[0].meta.get(BATCHNORM) if bounds is not None and node.inputs[0] is not None else None
    if bounds is None or source is None:
        return None
    return clipped_normal_mean(np.asarray(source[0], np.float64), np.asarray(source[1], np.float64), *bounds)


def expected_rows(value: ir.Value, count: int) -> NDArray[np.float32] | None:
    """Rows as expected behind a normalization over the last axis: normal variables with its offset and scale.

    Real rows have more outliers, but these show which channels are large. Every call gives the same rows.

    Returns:
        ``(count, channels)``, or ``None`` where no such normalization gives ``value``.
    """
    parameters = normalization_parameters(value)
    scale, offset = (None if parameters is None else g.constant(parameter) for parameter in parameters or (None, None))
    if scale is None or scale.ndim != 1 or (offset is not None and offset.shape != scale.shape):
        return None
    normal = np.random.default_rng(0).standard_normal((count, len(scale)))
    mean = np.zeros(len(scale)) if offset is None else offset.astype(np.float64)
    return (normal * scale.astype(np.float64) + mean).astype(np.float32)


def clipped_normal_mean(
    mean: NDArray[np.float64], std: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """Mean of a normal variable cut to ``[low, high]`` (values outside move to the nearest bound)."""
    std = np.maximum(std, 1e-12)
    a, b = (low - mean) / std, (high - mean) / std
    inside = _cdf(b) - _cdf(a)
    middle = mean * inside + std * (_pdf(a) - _pdf(b))
    lower = low * _cdf(a) if math.isfinite(low) else 0.0
    upper = high * (1.0 - _cdf(b)) if math.isfinite(high) else 0.0
    return middle + lower + upper


def _pdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def _cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))
