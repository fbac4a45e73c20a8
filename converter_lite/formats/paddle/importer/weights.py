"""Weights that a Paddle program holds as integers with scales."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.graph import lazy_tensor


def are_finite(integers: NDArray[np.integer], scales: NDArray[np.float32], axis: int | None) -> bool:
    """Whether all products are finite, judged by those of the extremes along ``axis`` (of the scales; ``None``: all)."""
    others = None if axis is None else tuple(i for i in range(integers.ndim) if i != axis)
    with np.errstate(over="ignore"):
        ends = [end(integers, axis=others, keepdims=True).astype(np.float32) * scales for end in (np.min, np.max)]
    return bool(np.all(np.isfinite(ends)))


def products(integers: NDArray[np.integer], scales: NDArray[np.float32]) -> ir.TensorProtocol:
    """The real values, computed when they are read; shapes broadcast."""

    def multiplied() -> NDArray[np.float32]:
        return np.multiply(integers, scales, dtype=np.float32)

    return lazy_tensor(multiplied, ir.DataType.FLOAT, integers.shape, keep_small=True)
