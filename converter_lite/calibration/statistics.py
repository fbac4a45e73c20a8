"""What is known about the values of activations: plain data that can be merged, stored, and read by every method."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from converter_lite.errors import CalibrationError
from converter_lite.kernels.histogram import Histogram, merge


class Need(enum.Flag):
    """Kinds of statistics; a calibration pass collects what the chosen method needs."""

    MINMAX = enum.auto()
    """Global minimum and maximum."""
    OUTLIER = enum.auto()
    """Per-sample values at the 0.01 % and 99.99 % positions, averaged over samples."""
    HISTOGRAM = enum.auto()
    """Distribution of the values."""


@dataclass(slots=True)
class TensorStatistics:
    """Statistics of one activation tensor.

    Attributes:
        samples: Number of samples seen.
        rmin, rmax: Extreme values, exact; ``rmin`` may be 0 for a tensor that is clamped there, whatever its least value.
            Infinite where there was no value yet.
        outliers: Largest number of values per sample beyond an outlier position (0: the tensor is too small to have any).
        low_sum, high_sum: Sums over samples of the values at the outlier positions (float64).
        histogram: Distribution, ``None`` when it was not collected.
        empty: Number of samples in which the tensor held no value (that of an expert that no token was sent to).
    """

    samples: int = 0
    rmin: float = float("inf")
    rmax: float = float("-inf")
    outliers: int = 0
    low_sum: float = 0.0
    high_sum: float = 0.0
    histogram: Histogram | None = None
    empty: int = 0

    @property
    def is_reached(self) -> bool:
        """Whether it held a value in any sample."""
        return self.samples > self.empty

    def add(self, other: TensorStatistics) -> None:
        """Merge the statistics of other samples into these."""
        self.samples += other.samples
        self.empty += other.empty
        self.rmin = min(self.rmin, other.rmin)
        self.rmax = max(self.rmax, other.rmax)
        self.outliers = max(self.outliers, other.outliers)
        self.low_sum += other.low_sum
        self.high_sum += other.high_sum
        if other.histogram is not None:
            self.histogram = other.histogram if self.histogram is None else merge(self.histogram, other.histogram)


@dataclass(slots=True)
class CalibrationStats:
    """Statistics by tensor name."""

    tensors: dict[str, TensorStatistics] = field(default_factory=dict)

    def add(self, name: str, part: TensorStatistics, *, sample: int | None = None) -> None:
        """Merge statistics of some samples of a tensor.

        Args:
            name: The tensor.
            part: Its statistics.
            sample: Number of the sample that they are of, from 1 on, for the message.

        Raises:
            CalibrationError: The values are NaN or infinite.
        """
        if part.is_reached and not (np.isfinite(part.rmin) and np.isfinite(part.rmax)):
            raise CalibrationError(
                "the float model reads or gives NaN or infinite values",
                where=f"tensor {name}" if sample is None else f"tensor {name}, sample {sample}",
                hint="check the model and the preprocessing of the calibration samples",
            )
        self.tensors.setdefault(name, TensorStatistics()).add(part)

    def merge(self, other: CalibrationStats) -> None:
        """Merge the statistics of other samples into these; sums of floats depend on the order in which that is done."""
        for name, part in other.tensors.items():
            self.add(name, part)

    def __getitem__(self, name: str) -> TensorStatistics:
        """Statistics of a tensor.

        Raises:
            CalibrationError: It was never observed.
        """
        try:
            return self.tensors[name]
        except KeyError:
            raise CalibrationError("no calibration sample reached this tensor", where=f"tensor {name}") from None
