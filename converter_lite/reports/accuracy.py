"""How an output of a written file compares with the float model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutputAccuracy:
    """One output of the written file next to the float model.

    Attributes:
        name: Output name.
        cosine: Mean cosine similarity over the samples that are not empty.
        least_cosine: The lowest one.
        sqnr: Signal to quantization noise ratio over all samples, dB; infinite when equal.
        max_error: Largest absolute difference.
        max_value: Largest absolute value of the float output.
        empty: Samples in which neither model finds anything (:mod:`converter_lite.quantization.detections`).
    """

    name: str
    cosine: float
    least_cosine: float
    sqnr: float
    max_error: float
    max_value: float
    empty: int = 0
