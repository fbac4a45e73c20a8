"""What a run measured, by case, and how two cases compare."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

FLOAT = "float"
"""Stands for the float model of a task: case ``mobilenet/float``."""

FLOAT_AGAIN = "float_again"
"""The float model a second time: how far its latency is from the first one's is the noise of the latency ratios."""

OPENVINO = "openvino/"
"""Before a case: its file in OpenVINO."""

BESIDE = "beside/"
"""Before a case: its file in onnxruntime, in the same turns as in OpenVINO."""

EXACT = " exact"
"""Behind a metric of accuracy: the same in exact arithmetic."""

ACCURACY = ("top1", "top5", "cosine", "least", "error")
"""Metrics that are measured as the runtime computes here, and exactly."""

PRECISION = "precision"
"""Metric: largest difference of outputs with and without ``session.x64quantprecision=1``, where kernels saturate."""

MASKED = "latency without VNNI"
"""Metric: as ``latency``, on a processor without VNNI, or as on one (:mod:`bench.without_vnni`)."""

Samples = tuple[float, ...]


def json_lines(output: str) -> list[Any]:
    """What the lines of a process say that are JSON objects; other lines are passed over."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@dataclass(slots=True)
class Figures:
    """Measured values: one per turn, so that cases that ran in turns are compared turn by turn.

    Attributes:
        values: (case, metric) -> values. Metrics: ``seconds``, ``peak`` (bytes), ``latency`` (milliseconds per sample),
            :data:`MASKED`, ``bytes``, those of :data:`ACCURACY` and the same with :data:`EXACT`, :data:`PRECISION`. Files in
            OpenVINO (:data:`OPENVINO`): ``cosine`` with the exact result.
        failures: Case -> why it gave nothing.
        twins: Pairs of cases that wrote the same bytes: one result, not two.
        processor: Kind of the processor; see :func:`converter_lite.execution.processor.processor_kind`.
        masked_on: Kind of the processor that :data:`PRECISION` and :data:`MASKED` were measured on, and whether VNNI was masked.
    """

    values: dict[tuple[str, str], Samples] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    twins: list[tuple[str, str]] = field(default_factory=list)
    processor: str = ""
    masked_on: str = ""

    def add(self, case: str, metric: str, *values: float) -> None:
        """Append values of one case."""
        self.values[case, metric] = self.values.get((case, metric), ()) + values

    def median(self, case: str, metric: str) -> float | None:
        """Median over the turns; ``None`` where nothing was measured."""
        values = self.values.get((case, metric))
        return statistics.median(values) if values else None

    def ratio(self, metric: str, above: str, below: str) -> float | None:
        """Median of the ratios of the turns that both cases took part in; ``None`` where one has no value."""
        ratios = self.ratios(metric, above, below)
        return statistics.median(ratios) if ratios else None

    def ratios(self, metric: str, above: str, below: str) -> list[float]:
        """Ratio of each turn that both cases took part in."""
        pairs = zip(self.values.get((above, metric), ()), self.values.get((below, metric), ()), strict=False)
        return [a / b for a, b in pairs]


MANY_TURNS = 8
"""Turns from which on single ones no longer count for the spread."""


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Lowest and highest value; with many values, the quartiles."""
    if len(values) < MANY_TURNS:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4)
    return low, high
