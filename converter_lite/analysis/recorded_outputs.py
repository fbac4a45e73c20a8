"""Outputs that another runtime recorded, compared with those of the float model on the same samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.analysis.comparison import missed_outputs, results
from converter_lite.analysis.comparison_report import empty_samples, numbers
from converter_lite.analysis.polygraphy import Sample, read_polygraphy
from converter_lite.analysis.recorded import SET, read_archive
from converter_lite.analysis.tensor_errors import TensorError, TensorErrorSums
from converter_lite.data.inputs import format_shape
from converter_lite.errors import DataError, did_you_mean
from converter_lite.log import counted
from converter_lite.quantization.detections import detection_thresholds
from converter_lite.reports.csv_rows import name_field, number_field
from converter_lite.reports.observation import observable
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.runtime.serializing import open_session
from converter_lite.system.files import is_folder

SUFFIXES = (".npz", ".json")
"""Ends of the names of files with outputs."""


@dataclass(frozen=True, slots=True)
class RecordedError:
    """Errors of one recorded tensor; ``is_output`` as in the float model."""

    tensor: str
    error: TensorError
    is_output: bool


@dataclass(frozen=True, slots=True)
class RecordedComparison:
    """The result.

    Attributes:
        errors: In float graph order.
        samples: Number of samples.
        unknown: Recorded names that the float model does not have.
        missed: Outputs of the float model that were not recorded.
    """

    errors: list[RecordedError]
    samples: int
    unknown: tuple[str, ...]
    missed: tuple[str, ...] = ()


def is_recording(path: Path) -> bool:
    """Whether a path is by its name outputs and not a model: a file, or a folder of ``.npz`` files."""
    return path.suffix in SUFFIXES or (is_folder(path) and any(path.glob("*.npz")))


def read_outputs(path: Path, inputs: Path | None = None) -> list[Sample]:
    """The outputs of each sample.

    Args:
        path: A file, or a folder of ``.npz`` files: in the order of their names, as the samples of such a folder and of a
            configuration are, and by their numbers where the samples are numbered.
        inputs: Recorded samples that they are the outputs for.

    Raises:
        DataError: A file cannot be read, or holds nothing.
    """
    if path.suffix == ".json":
        found = read_polygraphy(path)
    else:
        is_numbered = inputs is not None and (inputs.suffix == ".json" or any(inputs.glob(SET.format("*"))))
        files = (
            sorted(path.glob("*.npz"), key=lambda p: (len(p.name) * is_numbered, p.name)) if path.is_dir() else [path]
        )
        found = list(map(read_archive, files))
    if not found or not found[0]:
        raise DataError("it holds no outputs", where=str(path))
    return found


def compare_recorded(
    reference: ir.Model, feeds: Sequence[Feed], recorded: Sequence[Sample], *, where: str, context: RunContext
) -> RecordedComparison:
    """Compare recorded tensors, found by their names, with those of the float model.

    Args:
        reference: Float graph with names.
        feeds: Samples.
        recorded: The outputs for them, in the same order.
        where: Their file, for messages.
        context: Runs the float model.

    Raises:
        DataError: They are of other samples or of another model.
        ModelError: The runtime refuses the model or a sample.
    """
    if len(recorded) != len(feeds):
        raise DataError(
            f"there are outputs for {counted(len(recorded), 'sample')}, and {counted(len(feeds), 'sample')}",
            where=where,
            hint="give --inputs or --samples of the recording",
        )
    known = results(reference)
    names = [name for name in known if name in recorded[0]]
    unknown = tuple(name for name in recorded[0] if name not in names)
    if not names:
        near = did_you_mean(unknown[0], known)
        raise DataError(f"the float model has no tensor called {', '.join(unknown[:5])}{near}", where=where)
    session = open_session(context.engine, observable(reference, names))
    thresholds = detection_thresholds(reference)
    sums = {name: TensorErrorSums(thresholds.get(name, 0.0)) for name in names}
    pairs = list(zip(feeds, recorded, strict=True))
    for index, (feed, given) in enumerate(context.log.track(pairs, "comparing", len(pairs))):
        expected = session.run(feed)
        for name in names:
            array = given.get(name)
            if array is None or array.shape != expected[name].shape or array.dtype.kind not in "fiub":
                shape = "is missing" if array is None else f"is {array.dtype} {format_shape(array.shape)}"
                raise DataError(
                    f"'{name}' of sample {index + 1} {shape}, in the float model {expected[name].dtype} "
                    f"{format_shape(expected[name].shape)}",
                    where=where,
                )
            sums[name].add(expected[name], array.astype(np.float32) if array.dtype == np.float16 else array)
    outputs = {value.name for value in reference.graph.outputs}
    errors = {name: found.result() for name, found in sums.items()}
    listed = [RecordedError(name, error, name in outputs) for name, error in errors.items() if error is not None]
    return RecordedComparison(listed, len(feeds), unknown, missed_outputs(reference, names))


def table(comparison: RecordedComparison, *, worst_first: bool, shown: int) -> Iterator[Sequence[str]]:
    """Rows of the table, the head first."""
    yield ("tensor", "cosine", "least", "SQNR dB", "max error", "max value", "")
    errors = comparison.errors
    if worst_first:
        errors = sorted(errors, key=lambda found: found.error.sqnr)
    for found in errors[:shown]:
        error = found.error
        numbers = f"{error.cosine:.6f}", f"{error.least_cosine:.6f}", f"{error.sqnr:.1f}"
        yield found.tensor, *numbers, f"{error.max_error:.4g}", f"{error.max_value:.4g}", "output" * found.is_output


def notes(comparison: RecordedComparison) -> Iterator[str]:
    """Sentences under the table."""
    for found in comparison.errors:
        if found.error.empty:
            yield empty_samples(found.tensor, found.error)


def csv_text(comparison: RecordedComparison) -> str:
    """All tensors in graph order."""
    lines = ["Tensor,Cosine,LeastCosine,SqnrDb,MaxError,MaxValue,Output"]
    for found in comparison.errors:
        values = map(number_field, (math.nan if v is None else v for v in numbers(found.error).values()))
        lines.append(",".join((name_field(found.tensor), *values, str(found.is_output).lower())))
    return "\n".join(lines) + "\n"


def to_json(comparison: RecordedComparison) -> dict[str, Any]:
    """Plain data; numbers that JSON lacks are ``null``."""
    layers = [
        {
            "tensor": found.tensor,
            "is_output": found.is_output,
            "accumulated": numbers(found.error),
            "empty": found.error.empty,
        }
        for found in comparison.errors
    ]
    return {"samples": comparison.samples, "unmatched_quantized": list(comparison.unknown), "layers": layers}
