"""ONNX operators of a ``.nb`` file, one module per family."""

from __future__ import annotations

from converter_lite.formats.paddle.exporter import (
    activation,
    convolution,
    elementwise,
    indexing,
    logic,
    matrix,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    reshaping,
    resizing,
)
from converter_lite.formats.paddle.exporter.lowering import Handler
from converter_lite.formats.registration import joined

HANDLERS: dict[str, Handler] = joined(
    activation.HANDLERS,
    convolution.HANDLERS,
    elementwise.HANDLERS,
    indexing.HANDLERS,
    logic.HANDLERS,
    matrix.HANDLERS,
    movement.HANDLERS,
    normalization.HANDLERS,
    pooling.HANDLERS,
    recurrent.HANDLERS,
    reduction.HANDLERS,
    reshaping.HANDLERS,
    resizing.HANDLERS,
)
"""ONNX operator -> function that writes it."""
