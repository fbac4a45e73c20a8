"""Paddle operators as ONNX nodes, one module per family: for Paddle models and for ``.nb`` files."""

from __future__ import annotations

from converter_lite.formats.paddle.importer import (
    activation,
    boxes,
    constants,
    convolution,
    detection,
    elementwise,
    functions,
    images,
    indexing,
    matrix,
    matrix_nms,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    slicing,
)
from converter_lite.formats.paddle.importer.context import Handler
from converter_lite.formats.registration import joined

HANDLERS: dict[str, Handler] = joined(
    activation.HANDLERS,
    boxes.HANDLERS,
    constants.HANDLERS,
    convolution.HANDLERS,
    detection.HANDLERS,
    elementwise.HANDLERS,
    functions.HANDLERS,
    images.HANDLERS,
    indexing.HANDLERS,
    matrix.HANDLERS,
    matrix_nms.HANDLERS,
    movement.HANDLERS,
    normalization.HANDLERS,
    pooling.HANDLERS,
    recurrent.HANDLERS,
    reduction.HANDLERS,
    slicing.HANDLERS,
)
"""Paddle operator -> function that translates it."""
