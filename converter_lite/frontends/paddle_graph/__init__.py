"""Paddle operators as ONNX nodes, one module per family: for Paddle models and for ``.nb`` files."""

from __future__ import annotations

from converter_lite.frontends.paddle_graph import (
    activation,
    convolution,
    elementwise,
    indexing,
    matrix,
    movement,
    normalization,
)
from converter_lite.frontends.paddle_graph.importer import Handler


def _joined(*families: dict[str, Handler]) -> dict[str, Handler]:
    table: dict[str, Handler] = {}
    for family in families:
        repeated = table.keys() & family.keys()
        if repeated:
            raise ValueError(f"two families translate {sorted(repeated)}")
        table.update(family)
    return table


HANDLERS = _joined(
    activation.HANDLERS,
    convolution.HANDLERS,
    elementwise.HANDLERS,
    indexing.HANDLERS,
    matrix.HANDLERS,
    movement.HANDLERS,
    normalization.HANDLERS,
)
"""Paddle operator -> function that translates it."""
