"""Algorithms that fit the rounding of weights to calibration samples, by the names that a configuration gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.config.names import Rounding
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.adaptive import Layer, fit_grid, fit_rounding


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How integers are chosen from what a layer reads.

    Attributes:
        integers: Integers on a grid that is fixed, as :func:`~converter_lite.quantization.adaptive.fit_rounding` gives them.
        grid: Grid and integers, as :func:`~converter_lite.quantization.adaptive.fit_grid` gives them.
    """

    integers: Callable[[Layer, QuantParams], NDArray[np.int32]]
    grid: Callable[[Layer, QuantParams], tuple[QuantParams, NDArray[np.int32]]]


_ADAPTIVE = Algorithm(fit_rounding, fit_grid)

ALGORITHMS: Mapping[Rounding, Algorithm] = {
    Rounding.ADAPTIVE: _ADAPTIVE,
    Rounding.LEARNED: _ADAPTIVE,
}
"""What is learnt starts from such a fit. Rounding to nearest is not among them: it reads no samples."""
