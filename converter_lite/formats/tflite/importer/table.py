"""Operators of TensorFlow Lite as ONNX nodes, one module per family."""

from __future__ import annotations

from converter_lite.formats.registration import joined
from converter_lite.formats.tflite.importer import (
    activation,
    arithmetic,
    blocks,
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

REASONS: dict[str, str] = {
    "WHILE": "a loop has no counterpart; recurrent layers of Keras are converted without one by unroll=True, or when TensorFlow "
    "finds the whole layer",
}
"""Operators that are known and not translated -> what can be done."""
