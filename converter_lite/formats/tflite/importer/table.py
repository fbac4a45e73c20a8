"""Operators of TensorFlow Lite as ONNX nodes, one module per family."""

from __future__ import annotations

from types import ModuleType

from converter_lite.formats.registration import joined
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer import (
    activation,
    arithmetic,
    blocks,
    complex_numbers,
    control,
    convolution,
    detection,
    grids,
    indexing,
    landmarks,
    linear,
    normalization,
    padding,
    pooling,
    recurrent,
    reduction,
    resizing,
    shaping,
    slicing,
    variables,
)
from converter_lite.formats.tflite.importer.context import Handler

FAMILIES: tuple[ModuleType, ...] = (
    convolution,
    pooling,
    resizing,
    blocks,
    padding,
    linear,
    recurrent,
    activation,
    normalization,
    arithmetic,
    reduction,
    shaping,
    slicing,
    indexing,
    detection,
    grids,
    control,
    variables,
    complex_numbers,
)

HANDLERS: dict[str, Handler] = joined(*(family.HANDLERS for family in FAMILIES))
"""Operator -> function that translates it."""

_STATE = "it keeps a state between runs, which an ONNX graph has not"
_RANDOM = "what it gives differs from run to run"
_TEXT = "it works on texts or on tables of a resource"

REASONS: dict[str, str] = {
    **dict.fromkeys(("RNN", "SVDF"), _STATE),
    **dict.fromkeys(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"), _RANDOM),
    **dict.fromkeys(("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "HASHTABLE_LOOKUP"), _TEXT),
    **dict.fromkeys(("LSH_PROJECTION", "SKIP_GRAM"), _TEXT),
}
"""Operators that are known and not translated -> why."""

CUSTOM: dict[str, Handler] = joined(convolution.CUSTOM, detection.CUSTOM, landmarks.CUSTOM)
"""Custom operator -> function that translates it."""


def handler_of(op: Operator) -> Handler | None:
    """What translates an operator."""
    return (CUSTOM if op.is_custom else HANDLERS).get(op.kind)
