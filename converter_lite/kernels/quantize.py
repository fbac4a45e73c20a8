"""Affine quantization of arrays: ``real = scale * (q - zero_point)``.

Scales and zero points are scalars (per tensor) or vectors along one axis (per channel).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]


SLICED_FROM = 8 << 20
"""Bytes of values from which on they are quantized slice by slice, so that intermediate results stay small."""


def along_axis(values: NDArray[Any], rank: int, axis: int | None) -> NDArray[Any]:
    """Reshape a per-channel vector so that it broadcasts along ``axis`` of an array of ``rank`` dimensions."""
    if axis is None or values.ndim == 0:
        return values
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)


def round_half_even(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Round as QuantizeLinear does (ONNX operator specification): ties go to the even integer."""
    return np.rint(values)


def round_half_away(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Round as the device runtimes do (C ``round``): ties go away from zero."""
    rounded = np.asarray(np.abs(values) + 0.5)  # then in place: weights are large
    np.floor(rounded, out=rounded)
    return np.copysign(rounded, values, out=rounded)


def quantize(
    values: FloatArray,
    scale: FloatArray,
    zero_point: IntArray,
    *,
    qmin: int,
    qmax: int,
    axis: int | None = None,
) -> IntArray:
    """Quantize to integers in ``[qmin, qmax]``, ties to even, saturating.

    Shapes:
        values: any; scale, zero_point: scalar, or ``(values.shape[axis],)``.

    Returns:
        int32 array of the shape of ``values`` (the caller narrows it to its storage type).
    """
    grid = (along_axis(scale, values.ndim, axis), along_axis(zero_point, values.ndim, axis), qmin, qmax)
    if values.nbytes <= SLICED_FROM or values.ndim == 0:
        return _quantize(values, *grid).astype(np.int32)
    result = np.empty(values.shape, np.int32)
    rows = max(1, len(values) * SLICED_FROM // values.nbytes)
    for start in range(0, len(values), rows):
        part = slice(start, start + rows)
        s, z = (g[part] if g.ndim and g.shape[0] > 1 else g for g in grid[:2])
        result[part] = _quantize(values[part], s, z, qmin, qmax)
    return result


def _quantize(
    values: FloatArray, scale: FloatArray, zero_point: IntArray, qmin: int, qmax: int
) -> NDArray[np.floating]:
    q = np.asarray(values / scale)
    np.rint(q, out=q)
    q += zero_point
    return np.clip(q, qmin, qmax, out=q)


def dequantize(
    q_values: NDArray[np.integer], scale: FloatArray, zero_point: IntArray, *, axis: int | None = None
) -> FloatArray:
    """Inverse of :func:`quantize` up to rounding; float32, the arithmetic of ONNX DequantizeLinear."""
    s = along_axis(scale, q_values.ndim, axis)
    z = along_axis(zero_point, q_values.ndim, axis)
    return ((q_values.astype(np.int32) - z).astype(np.float32) * s).astype(np.float32)
