"""What a run measured, by case, and how two cases compare."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

FLOAT = "float"
"""Stands for the float model of a task: case ``mobilenet/float``."""

FLOAT_AGAIN = "float_again"
"""The float model a second time: how far its latency is from the first one's is the noise of the latency ratios."""

OPENVINO = "openvino/"
"""Before a case: its file in OpenVINO."""

BESIDE = "beside/"
"""Before a case: its file in onnxruntime, in the same turns as in OpenVINO."""

Samples = tuple[float, ...]

_LINE = re.compile(
    r"^(?P<file>\S+)\s+(?:top1 (?P<top1>\S+)\s+top5 (?P<top5>\S+)\s+)?"
    r"cos (?P<cosine>\S+) \(least (?P<least>\S+)\)\s+err (?P<error>\S+)\s+(?P<milliseconds>\S+) ms\s+(?P<bytes>\d+) bytes$"
)


def parse_evaluation(output: str) -> list[dict[str, float]]:
    """Figures of each model in the order of the evaluation script's lines; other lines are passed over.

    Returns:
        Per line: ``top1`` and ``top5`` as shares where the task has labels, ``cosine``, ``least``, ``error``,
        ``milliseconds``, ``bytes``.
    """
    matches = (_LINE.match(line.strip()) for line in output.splitlines())
    return [
        {name: float(text) for name, text in match.groupdict().items() if name != "file" and text is not None}
        for match in matches
        if match
    ]


@dataclass(slots=True)
class Figures:
    """Measured values: one per turn, so that cases that ran in turns are compared turn by turn.

    Attributes:
        values: (case, metric) -> values. Metrics: ``seconds``, ``peak`` (bytes), ``latency`` (milliseconds per sample),
            ``top1``, ``top5``, ``cosine``, ``least``, ``error``, ``bytes``.
        failures: Case -> why it gave nothing.
        twins: Pairs of cases that wrote the same bytes: one result, not two.
    """

    values: dict[tuple[str, str], Samples] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    twins: list[tuple[str, str]] = field(default_factory=list)

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
