"""Comparing a written model with the float model it came from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import tee
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import QualityError
from converter_lite.execution.ordered import map_ordered
from converter_lite.kernels.similarity import ErrorSums, as_numbers
from converter_lite.reports.accuracy import OutputAccuracy
from converter_lite.runtime.blocks import BlockSession, run_each
from converter_lite.runtime.engine import Feed, Session

_log = logging.getLogger(__name__)

NOTHING_FOUND = "nothing is found in any sample, so the cosine proves nothing: give samples in which something is"
"""What is said of an output that answers no (:mod:`~converter_lite.quantization.detections`) to all samples."""

ALL_ZERO = "all outputs are 0 in every sample, so the comparison proves nothing: give samples for which they are not"
"""What is said where random numbers are lengths of nothing, for one."""

PARTLY_NAN = "holds NaN, which is not compared,"
"""What is said of an output of which the other values are compared."""

_NO_AXES: Mapping[str, frozenset[int]] = MappingProxyType({})
_NO_THRESHOLDS: Mapping[str, float] = MappingProxyType({})


def compare(
    reference: Session,
    written: Session,
    samples: Iterable[tuple[Feed, Feed]],
    *,
    open_axes: Mapping[str, frozenset[int]] = _NO_AXES,
    thresholds: Mapping[str, float] = _NO_THRESHOLDS,
    threads: int = 1,
) -> tuple[OutputAccuracy, ...]:
    """Accuracy per output over all samples, where the float model's values are finite; texts are right or wrong.

    Outputs of a few samples are in memory at a time, or of all of them for models that run in blocks.

    Args:
        reference: Float model.
        written: Written model, same outputs in the same order.
        samples: Feeds of both (they differ where input types were changed).
        open_axes: Output -> axes whose length depends on what the model computes (boxes that a detector finds). Samples in which
            such a length differs cannot be compared.
        thresholds: Output -> value below which it says that nothing is there, see
            :func:`~converter_lite.quantization.detections.detection_thresholds`. Samples in which both models say so have no
            cosine; it is 1, with a warning, where these are all.
        threads: Samples that run side by side.

    A warning counts the samples that cannot be compared, including those for which the float model gives no finite value; the
    cosine is 0 if none can. Others count the samples in which the float model gives NaN beside numbers, and say that all outputs
    are 0.

    Raises:
        QualityError: The written model gives NaN or infinite values where the float model does not, or different shapes.
    """
    sums = [ErrorSums(nothing=thresholds.get(name, 0.0)) for name in reference.output_names]
    left: Counter[tuple[str, str]] = Counter()
    partly: Counter[str] = Counter()
    count = 0
    for expected, given in _outputs(reference, written, samples, threads):
        count += 1
        pairs = zip(reference.output_names, written.output_names, strict=True)
        for total, (name, written_name) in zip(sums, pairs, strict=True):
            reason = _add(total, expected[name], given[written_name], name, open_axes.get(name, frozenset()))
            if reason:
                left[name, reason] += 1
            elif _holds_nan(expected[name]):
                partly[name] += 1
    for (name, reason), times in left.items():
        _log.warning("output %s %s in %d of %d samples, which are not compared", name, reason, times, count)
    for name, times in partly.items():
        _log.warning("output %s of the float model %s in %d of %d samples", name, PARTLY_NAN, times, count)
    for total, name in zip(sums, reference.output_names, strict=True):
        if 0 < total.empty == total.count:
            _log.warning("output %s: %s", name, NOTHING_FOUND)
    if sums and all(total.count > total.empty and total.max_value == total.max_error == 0.0 for total in sums):
        _log.warning(ALL_ZERO)
    return tuple(_accuracy(name, total, count) for name, total in zip(reference.output_names, sums, strict=True))


def _outputs(
    reference: Session, written: Session, samples: Iterable[tuple[Feed, Feed]], threads: int
) -> Iterator[tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]]:
    """What both models give, in the order of the samples."""
    if isinstance(reference, BlockSession) or isinstance(written, BlockSession):
        first, second = tee(samples)
        return zip(run_each(reference, (a for a, _ in first)), run_each(written, (b for _, b in second)), strict=True)
    return map_ordered(lambda pair: (reference.run(pair[0]), written.run(pair[1])), samples, threads)


def _add(total: ErrorSums, expected: NDArray[Any], given: NDArray[Any], name: str, open_axes: frozenset[int]) -> str:
    """Count a sample, or say why it cannot be compared."""
    if expected.shape != given.shape:
        sizes = list(zip(expected.shape, given.shape, strict=False))
        if expected.ndim == given.ndim and all(a == b or axis in open_axes for axis, (a, b) in enumerate(sizes)):
            return "has another length than that of the float model"
        raise QualityError(
            f"the written model gives shape {list(given.shape)} instead of {list(expected.shape)}",
            where=f"output {name}",
        )
    x, y = as_numbers(expected, given)
    finite = np.isfinite(x)
    if not np.all(np.isfinite(y[finite])):
        raise QualityError("the written model gives NaN or infinite values", where=f"output {name}")
    if x.size and not np.any(finite):
        return "of the float model is NaN or infinite"
    total.add(x[finite], y[finite])
    return ""


def _holds_nan(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _accuracy(name: str, total: ErrorSums, count: int) -> OutputAccuracy:
    if count and not total.count:
        return OutputAccuracy(name, 0.0, 0.0, 0.0, 0.0, 0.0)
    return OutputAccuracy(
        name, total.cosine, total.least_cosine, total.sqnr, total.max_error, total.max_value, total.empty
    )
