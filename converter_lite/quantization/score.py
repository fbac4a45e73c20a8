"""How far a graph's outputs are from those of the float graph, for searches that compare many graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.execution.ordered import map_ordered
from converter_lite.kernels.similarity import are_both_below, as_numbers, cosine_similarity
from converter_lite.kernels.tails import exceeded_by
from converter_lite.quantization.detections import detection_thresholds
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed, Session
from converter_lite.runtime.serializing import open_session

SCORE_BYTES = 64 << 20
"""Memory for the float outputs; fewer samples are compared if they would need more."""

RARE = 1000
"""Samples of which one may err by more than a goal allows: as it is expected from the tail of those that are compared."""

Outputs = list[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Score:
    """Accuracy of all outputs over all samples.

    Attributes:
        cosine: Mean cosine with the float outputs, of the worst output, over samples in which one of both finds something
            (:mod:`~converter_lite.quantization.detections`); -1 if values are not finite.
        error: Largest absolute difference of any output value; infinite where values are not finite.
        noise: Squared error over squared signal, mean over outputs and such samples; infinite likewise.
        doubt: Standard error of that mean cosine, as far as the samples that are compared stand for others.
        rare_error: The error that one sample of ``RARE`` is expected to exceed, at least ``error``.
        noises: The same as ``noise`` for each sample; 0 where none of its outputs finds something.
    """

    cosine: float
    error: float
    noise: float
    rare_error: float = 0.0
    doubt: float = 0.0
    noises: tuple[float, ...] = field(default=(), compare=False, repr=False)


class Scorer:
    """Compares graphs with one float graph, whose outputs are computed once.

    ``feeds`` are the samples that it compares.

    Every session has one thread and the samples are summed in order, so a score does not depend on their number.

    Args:
        reference: Float graph.
        feeds: Samples; one at least.
        context: Runs the graphs.
    """

    def __init__(self, reference: ir.Model, feeds: Sequence[Feed], context: RunContext) -> None:
        self._context = context
        thresholds = detection_thresholds(reference)
        self._nothing = [thresholds.get(value.name or "", 0.0) for value in reference.graph.outputs]
        self._expected: list[Outputs] = []
        session, room = self._session(reference), SCORE_BYTES
        for feed in feeds:
            outputs = _run(session, feed)
            room -= sum(array.nbytes for array in outputs)
            if self._expected and room < 0:
                break
            self._expected.append(outputs)
        self.feeds = list(feeds[: len(self._expected)])

    def __call__(self, model: ir.Model) -> Score:
        """Score of a graph with the same inputs and outputs as the float graph."""
        session = self._session(model)
        return self.of(lambda sample: _run(session, self.feeds[sample]))

    def of(self, run: Callable[[int], Outputs]) -> Score:
        """Score of what gives the outputs for a number of ``feeds``, in the order of the float graph; called in threads."""

        def compare(item: tuple[int, Outputs]) -> list[_Compared]:
            return [_score(*pair) for pair in zip(item[1], run(item[0]), self._nothing, strict=True)]

        rows = list(map_ordered(compare, enumerate(self._expected), self._context.threads))
        telling = [[row[i] for row in rows if row[i].is_telling] for i in range(len(rows[0]))]
        cosines = [_mean([one.cosine for one in output]) for output in telling if output]
        cosine, doubt = min(cosines, default=(1.0, 0.0))
        noises = [one.noise for output in telling for one in output]
        noise = sum(noises) / max(len(noises), 1)
        errors = [max((one.error for one in row), default=0.0) for row in rows]
        by_sample = tuple(_mean([one.noise for one in row if one.is_telling] or [0.0])[0] for row in rows)
        return Score(cosine, max(errors), noise, float(exceeded_by(1 / RARE, errors)), doubt, by_sample)

    def _session(self, model: ir.Model) -> Session:
        return open_session(self._context.engine, model)


def _run(session: Session, feed: Feed) -> Outputs:
    outputs = session.run(feed)
    return [outputs[name] for name in session.output_names]


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and its standard error: 0 for a single value."""
    mean, count = sum(values) / len(values), len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (count * max(count - 1, 1)))


@dataclass(frozen=True, slots=True)
class _Compared:
    """One output of one sample; where it is not telling, both graphs find nothing in the sample, and only ``error`` counts."""

    cosine: float
    error: float
    noise: float
    is_telling: bool = True


def _score(expected: NDArray[Any], given: NDArray[Any], nothing: float) -> _Compared:
    """Where the float values are finite; values below ``nothing`` find nothing."""
    if expected.size != given.size:
        return _Compared(-1.0, math.inf, math.inf)
    x, y = as_numbers(expected.reshape(-1), given.reshape(-1))
    finite = np.isfinite(x)
    if not np.all(np.isfinite(y[finite])):
        return _Compared(-1.0, math.inf, math.inf)
    x, y = x[finite], y[finite]
    difference = x - y
    error = float(np.abs(difference).max(initial=0.0))
    if are_both_below(x, y, nothing):
        return _Compared(1.0, error, 0.0, is_telling=False)
    signal = max(float(np.sum(x * x)), nothing * nothing, np.finfo(np.float64).tiny)
    noise = float(np.sum(difference * difference)) / signal
    return _Compared(cosine_similarity(x, y), error, noise)
