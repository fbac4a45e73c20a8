"""Paddle operators as ONNX nodes, one module per family: for Paddle models and for ``.nb`` files."""

from __future__ import annotations

from converter_lite.formats.paddle.importer import (
    activation,
    convolution,
    elementwise,
    indexing,
    matrix,
    movement,
    normalization,
)
from converter_lite.formats.paddle.importer.context import Handler
from converter_lite.formats.registration import joined

HANDLERS: dict[str, Handler] = joined(
    activation.HANDLERS,
    convolution.HANDLERS,
    elementwise.HANDLERS,
    indexing.HANDLERS,
    matrix.HANDLERS,
    movement.HANDLERS,
    normalization.HANDLERS,
)
"""Paddle operator -> function that translates it."""
