"""Statistics of one tensor, as the debug reports define them.

Source: the columns of the original's round files, recomputed from its measured rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.similarity import cosine_similarity

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the values of a tensor are spread; real units. All zero for an empty tensor.

    Attributes:
        minimum, maximum: Extremes.
        q1, median, q3: Elements ``int(n / 4)``, ``int(n / 2)``, ``int(3 n / 4)`` of the sorted values; nothing is interpolated.
        mean: Arithmetic mean, accumulated in float64.
        deviation: Population standard deviation.
        sparsity: Share of exact zeros.
    """

    minimum: float = 0.0
    q1: float = 0.0
    median: float = 0.0
    q3: float = 0.0
    maximum: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    sparsity: float = 0.0


def distribution(values: NDArray[Any]) -> Distribution:
    """Statistics over all elements, whatever the shape. NaN sorts last and makes the mean and the deviation NaN."""
    flat = values.reshape(-1)
    if flat.size == 0:
        return Distribution()
    ordered = np.sort(flat)
    q1, median, q3 = (float(ordered[int(share * flat.size)]) for share in QUARTILES)
    with np.errstate(invalid="ignore", over="ignore"):
        return Distribution(
            minimum=float(ordered[0]),
            q1=q1,
            median=median,
            q3=q3,
            maximum=float(ordered[-1]),
            mean=float(flat.mean(dtype=np.float64)),
            deviation=float(flat.std(dtype=np.float64)),
            sparsity=1.0 - np.count_nonzero(flat) / flat.size,
        )


def clipped_share(origin: NDArray[Any], dequantized: NDArray[Any]) -> float:
    """Share of original values outside the range of the dequantized ones; 0 if either is empty."""
    if origin.size == 0 or dequantized.size == 0:
        return 0.0
    outside = (origin < dequantized.min()) | (origin > dequantized.max())
    return np.count_nonzero(outside) / origin.size


def similarity(origin: NDArray[Any], dequantized: NDArray[Any]) -> float:
    """Cosine of the angle between both; 1 when both are zero, 0 when only one is.

    NaN where there is no angle: values are not finite, or the shapes differ (outputs whose size depends on the data).
    """
    if origin.shape != dequantized.shape:
        return float("nan")
    with np.errstate(invalid="ignore", over="ignore"):
        return cosine_similarity(origin, dequantized)
