"""A comparison as text, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from converter_lite.analysis.comparison import Comparison, LayerError
from converter_lite.analysis.tensor_errors import TensorError
from converter_lite.log import counted, shown_below
from converter_lite.reports.csv_rows import name_field, number_field

SHOWN = 20
"""Layers of the table on stdout; CSV and JSON have all."""

CSV_COLUMNS = (
    "Order,Tensor,Operator,Matched,Shape,Cosine,LeastCosine,SqnrDb,MaxError,MaxValue,"
    "LocalCosine,LocalSqnrDb,LocalMaxError,Equalized,Broken"
)


def table(comparison: Comparison, *, worst_first: bool, shown: int = SHOWN) -> Iterator[Sequence[str]]:
    """Rows of the table, the head first."""
    yield ("layer", "operator", "cosine", "SQNR dB", "max error", "alone: cosine", "SQNR dB", "max error", "")
    errors = comparison.worst_first if worst_first else comparison.layers
    for error in errors[:shown]:
        alone = _cells(error.local) if error.local is not None else ("-", "-", "-")
        yield (
            _tail(error.layer.tensor),
            error.layer.op_type,
            *_cells(error.accumulated),
            *alone,
            _mark(comparison, error),
        )


def _tail(name: str, length: int = 44) -> str:
    """The end of a long name, where exporters put what distinguishes it."""
    return name if len(name) <= length else f"…{name[1 - length :]}"


def _cells(error: TensorError) -> tuple[str, str, str]:
    return f"{error.cosine:.6f}", _decibels(error.sqnr), f"{error.max_error:.4g}"


def _decibels(value: float) -> str:
    return "equal" if value == math.inf else f"{value:.1f}"


def _mark(comparison: Comparison, error: LayerError) -> str:
    marks = {
        "broken": comparison.is_broken(error),
        "equalized": error.scaled.is_equalized,
        "reordered": error.scaled.is_reordered,
        "output": error.is_output,
    }
    return ", ".join(word for word, holds in marks.items() if holds)


def summary(comparison: Comparison) -> Iterator[str]:
    """Sentences under the table."""
    found, layers, first = comparison.alignment, comparison.layers, comparison.first_broken
    by_position = len(layers) - comparison.by_name
    yield (
        f"{counted(len(layers), 'layer')} compared: {comparison.by_name} found by name, {by_position} by position; without a "
        f"counterpart: {counted(len(found.unmatched), 'tensor')} of the float model, {found.unmatched_quantized} of the "
        "quantized one"
    )
    if comparison.equalized:
        yield f"layers with a factor per channel (equalization), which is undone before comparing: {comparison.equalized}"
    if comparison.reordered:
        yield f"layers with their channels in another order, which is undone before comparing: {comparison.reordered}"
    for error in comparison.layers:
        if error.accumulated.empty:
            yield empty_samples(error.layer.tensor, error.accumulated)
    if comparison.missed:
        yield f"outputs without a counterpart of their shape, which are not compared: {', '.join(comparison.missed)}"
    if not layers:
        yield "nothing could be compared"
    elif first is None:
        yield f"no layer breaks: all mean cosines reach {comparison.threshold:.15g}"
    else:
        yield (
            f"first layer that breaks: {first.layer.tensor} ({first.layer.op_type}), "
            f"cosine {shown_below(first.accumulated.cosine, comparison.threshold)} below {comparison.threshold:.15g}"
        )


def empty_samples(tensor: str, error: TensorError) -> str:
    """The sentence about an output that answers no to some samples."""
    return f"{tensor}: {counted(error.empty, 'sample')} without a cosine, because neither model finds anything"


def csv_text(comparison: Comparison) -> str:
    """All layers in graph order; names that a spreadsheet would run as a formula get an apostrophe."""
    lines = [CSV_COLUMNS]
    for error in comparison.layers:
        accumulated, local = error.accumulated, error.local
        numbers = (accumulated.cosine, accumulated.least_cosine, accumulated.sqnr)
        alone = () if local is None else (local.cosine, local.sqnr, local.max_error)
        lines.append(
            ",".join(
                (
                    str(error.order),
                    name_field(error.layer.tensor),
                    name_field(error.layer.op_type),
                    error.layer.matched,
                    "x".join(map(str, error.shape)),
                    *map(number_field, (*numbers, accumulated.max_error, accumulated.max_value)),
                    *(map(number_field, alone) if alone else ("", "", "")),
                    str(error.scaled.is_equalized).lower(),
                    str(comparison.is_broken(error)).lower(),
                )
            )
        )
    return "\n".join(lines) + "\n"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Plain data; numbers that JSON lacks are ``null``."""
    found, first = comparison.alignment, comparison.first_broken
    return {
        "samples": comparison.samples,
        "threshold": comparison.threshold,
        "first_broken": None if first is None else first.layer.tensor,
        "matched": {"name": comparison.by_name, "position": len(comparison.layers) - comparison.by_name},
        "missed_outputs": list(comparison.missed),
        "unmatched": found.unmatched,
        "unmatched_quantized": found.unmatched_quantized,
        "worst_first": [error.layer.tensor for error in comparison.worst_first],
        "layers": [_layer(comparison, error) for error in comparison.layers],
    }


def _layer(comparison: Comparison, error: LayerError) -> dict[str, Any]:
    factors = error.scaled.held.factors if error.scaled.held is not None else None
    return {
        "tensor": error.layer.tensor,
        "quantized_tensor": error.layer.tap.value,
        "operator": error.layer.op_type,
        "nodes": list(error.layer.nodes),
        "matched": error.layer.matched,
        "shape": list(error.shape),
        "is_output": error.is_output,
        "accumulated": numbers(error.accumulated),
        "local": None if error.local is None else numbers(error.local),
        "equalized": None if factors is None else {"least": float(factors.min()), "largest": float(factors.max())},
        "reordered": error.scaled.is_reordered,
        "broken": comparison.is_broken(error),
        "empty": error.accumulated.empty,
    }


def numbers(error: TensorError) -> dict[str, float | None]:
    """The errors of a tensor by their names; what JSON lacks is ``None``."""
    values = {
        "cosine": error.cosine,
        "least_cosine": error.least_cosine,
        "sqnr": error.sqnr,
        "max_error": error.max_error,
        "max_value": error.max_value,
    }
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
