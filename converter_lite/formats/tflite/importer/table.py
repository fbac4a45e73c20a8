"""Operators of TensorFlow Lite as ONNX nodes, one module per family."""

from __future__ import annotations

from converter_lite.formats.registration import joined
from converter_lite.formats.tflite.importer import (
    activation,
    arithmetic,
    blocks,
    control,
    convolution,
    detection,
    grids,
    indexing,
    linear,
    normalization,
    padding,
    pooling,
    recurrent,
    reduction,
    resizing,
    shaping,
    slicing,
)
from converter_lite.formats.tflite.importer.context import Handler

HANDLERS: dict[str, Handler] = joined(
    activation.HANDLERS,
    arithmetic.HANDLERS,
    blocks.HANDLERS,
    control.HANDLERS,
    convolution.HANDLERS,
    detection.HANDLERS,
    grids.HANDLERS,
    indexing.HANDLERS,
    linear.HANDLERS,
    normalization.HANDLERS,
    padding.HANDLERS,
    pooling.HANDLERS,
    recurrent.HANDLERS,
    reduction.HANDLERS,
    resizing.HANDLERS,
    shaping.HANDLERS,
    slicing.HANDLERS,
)
"""Operator -> function that translates it."""

_STATE = "it keeps a state between runs, which an ONNX graph has not"

REASONS: dict[str, str] = {
    **dict.fromkeys(("RNN", "SVDF", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"), _STATE),
    **dict.fromkeys(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"), "random numbers cannot be proven"),
    **dict.fromkeys(("RFFT2D", "REAL", "IMAG", "COMPLEX_ABS"), "complex numbers are not read"),
}
"""Operators that are known and not translated -> why."""
