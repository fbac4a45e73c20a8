"""Affine quantization of arrays: ``real = scale * (q - zero_point)``.

Scales and zero points are scalars (per tensor) or vectors along one axis (per channel).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]


LARGEST_INT32 = int(np.nextafter(np.float32(2**31), np.float32(0)))
"""Largest int32 that float32 holds: ``2**31 - 1`` would be rounded to a number that int32 does not hold."""

SLICED_FROM = 8 << 20
"""Bytes of values from which they are quantized slice by slice, so that intermediate results stay small."""


def along_axis(values: NDArray[Any], rank: int, axis: int | None) -> NDArray[Any]:
    """Reshape a per-channel vector so that it broadcasts along ``axis`` of an array of ``rank`` dimensions."""
    if axis is None or values.ndim == 0:
        return values
    shape = [1] * rank
    shape[axis] = -1
    return values.reshape(shape)


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

    def rounded(part: FloatArray, scales: FloatArray, zero_points: IntArray) -> NDArray[np.floating]:
        return _quantize(part, scales, zero_points, qmin, qmax)

    return in_slices(rounded, values, scale, zero_point, axis=axis)


def in_slices(
    rounding: Callable[[Any, Any, Any], NDArray[np.floating]],
    values: NDArray[np.floating],
    scale: FloatArray,
    zero_point: IntArray,
    *,
    axis: int | None,
) -> NDArray[np.int32]:
    """``rounding(values, scale, zero_point)`` as integers, a few rows of large arrays at a time.

    Args:
        rounding: Given values with scales and zero points that broadcast.
        values: Of any shape.
        scale: A scalar, or ``(values.shape[axis],)``.
        zero_point: Likewise.
        axis: Of the channels.
    """
    grid = [along_axis(part, values.ndim, axis) for part in (scale, zero_point)]
    if values.nbytes <= SLICED_FROM or values.ndim == 0:
        return rounding(values, *grid).astype(np.int32)
    result = np.empty(values.shape, np.int32)
    rows = max(1, len(values) * SLICED_FROM // values.nbytes)
    for start in range(0, len(values), rows):
        part = slice(start, start + rows)
        result[part] = rounding(values[part], *(g[part] if g.ndim and g.shape[0] > 1 else g for g in grid))
    return result


def _quantize(
    values: FloatArray, scale: FloatArray, zero_point: IntArray, qmin: int, qmax: int
) -> NDArray[np.floating]:
    q = np.asarray(values / scale)
    np.rint(q, out=q)
    q += zero_point
    return np.clip(q, qmin, min(qmax, LARGEST_INT32), out=q)


def dequantize(
    q_values: NDArray[np.integer], scale: FloatArray, zero_point: IntArray, *, axis: int | None = None
) -> FloatArray:
    """Inverse of :func:`quantize` up to rounding; float32, the arithmetic of ONNX DequantizeLinear."""
    s = along_axis(scale, q_values.ndim, axis)
    z = along_axis(zero_point, q_values.ndim, axis)
    return ((q_values.astype(np.int32) - z).astype(np.float32) * s).astype(np.float32)
