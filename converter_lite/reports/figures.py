"""Figures of a quantized model, layer by layer and tensor by tensor, as plain data.

The page (``report.html``), the result for programs (``--json``) and other commands show these figures; none of them computes
its own. :mod:`converter_lite.reports.layers` measures them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

DIGITS = 6
"""Significant digits of figures in JSON."""


class RankedBy(Enum):
    """Where the ranking of the layers comes from."""

    FALLBACK = "fallback"
    """Share of the output's error that is due to a layer, measured by quantizing it alone and by leaving it in float."""
    LOCAL = "local"
    """Noise that a layer adds by itself to its own output, as a share of that of all layers."""
    NONE = "none"
    """Nothing was measured."""


@dataclass(frozen=True, slots=True)
class Errors:
    """The distance of values from those of the float model.

    Attributes:
        cosine: Mean cosine over the samples.
        sqnr: Signal to quantization noise ratio over all samples, dB; infinite when equal.
        max_error: Largest absolute difference, real units.
    """

    cosine: float
    sqnr: float
    max_error: float


@dataclass(frozen=True, slots=True)
class Bins:
    """Two histograms on one set of edges: bin ``i`` holds ``[(first + i) * width, (first + i + 1) * width)``, real units.

    Attributes:
        width: Bin width, a power of two.
        first: Number of the first bin.
        origin: Counts of the float values.
        quantized: Counts of the values of the quantized model.
    """

    width: float
    first: int
    origin: tuple[int, ...]
    quantized: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Quantization of a tensor.

    Attributes:
        bits: Width of its integers.
        low, high: Range that the grid holds, real units; the widest channel's where there are several.
        scales: Number of scales.
        least_scale, largest_scale: Extremes of the scales, real units per step.
        zero_point: Of the first channel.
    """

    bits: int
    low: float
    high: float
    scales: int
    least_scale: float
    largest_scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class TensorFigures:
    """One tensor of the quantized layers.

    Attributes:
        name: Its name in the float graph.
        is_weight: A constant, not an activation.
        shape: Sizes, of the first sample where the model leaves them open; empty when they are not known.
        grid: ``None`` for a tensor that stays float.
        minimum, maximum: Extremes of the float values; ``None`` when nothing was measured.
        clipped: Share of the float values outside ``grid``; 0 with several scales.
        errors: Distance from the float model, everything before the tensor quantized too.
        bins: Histograms, of at most ``layers.OBSERVED_VALUES`` values per sample.
    """

    name: str
    is_weight: bool
    shape: tuple[int, ...] = ()
    grid: Grid | None = None
    minimum: float | None = None
    maximum: float | None = None
    clipped: float = 0.0
    errors: Errors | None = None
    bins: Bins | None = None


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """One node of the optimized graph.

    Attributes:
        name, op_type: As in the ONNX file.
        mode: ``integer``, ``weight``, ``dynamic`` or ``float``.
        reason: Why it is float; empty otherwise.
        bytes_before, bytes_after: Its constants, and those of the branches and bodies that it runs, in the float model and as
            planned (without scales), each counted for the first node that reads it.
        bits: Width of its weight's integers; ``None`` without one.
        local: Error of its output when it alone is quantized.
        accumulated: Error of its output when everything is.
        share: Its part in the ranking; ``None`` if not known.
        inputs, outputs: Names of its quantized tensors, see :attr:`ModelFigures.tensors`.
    """

    name: str
    op_type: str
    mode: str
    reason: str
    bytes_before: int
    bytes_after: int
    bits: int | None = None
    local: Errors | None = None
    accumulated: Errors | None = None
    share: float | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(slots=True)
class ModelFigures:
    """One quantized model.

    Attributes:
        target: Name of the device table.
        layers: Every node, in graph order.
        tensors: Tensors of the quantized layers by name.
        samples: Number of samples behind the errors; 0 when nothing was measured.
        is_real: Whether they were calibration samples (else random data).
        ranked_by: Where the shares of the layers come from.
    """

    target: str
    layers: list[LayerFigures] = field(default_factory=list)
    tensors: dict[str, TensorFigures] = field(default_factory=dict)
    samples: int = 0
    is_real: bool = False
    ranked_by: RankedBy = RankedBy.NONE

    def ranking(self) -> list[LayerFigures]:
        """Layers with a share, largest first; ties in graph order."""
        return sorted(
            (layer for layer in self.layers if layer.share is not None), key=lambda item: -(item.share or 0.0)
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that JSON lacks (infinite SQNR) are ``null``."""
        return {
            "target": self.target,
            "samples": self.samples,
            "real_samples": self.is_real,
            "ranked_by": self.ranked_by.value,
            "layers": [_plain(layer) for layer in self.layers],
            "tensors": [_plain(tensor) for tensor in self.tensors.values()],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, (LayerFigures, TensorFigures, Errors, Grid, Bins)):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return _rounded(value)
    return value


def _rounded(value: float) -> float | None:
    """Six significant digits; cosines near 1 keep the digits of their distance from 1."""
    if not math.isfinite(value):
        return None
    if 0.5 < value <= 1.0:
        return 1.0 - float(f"{1.0 - value:.{DIGITS}g}")
    return float(f"{value:.{DIGITS}g}")
