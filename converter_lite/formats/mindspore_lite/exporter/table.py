"""The operator table: ONNX operator -> how it is expressed."""

from __future__ import annotations

from converter_lite.formats.mindspore_lite.exporter import (
    activation,
    arithmetic,
    conv,
    gather,
    linear,
    normalization,
    pad,
    pool,
    recurrent,
    reduce,
    resize,
    shape,
)
from converter_lite.formats.mindspore_lite.exporter.common import Lower

FAMILIES: tuple[dict[str, Lower], ...] = (
    activation.TABLE,
    arithmetic.TABLE,
    conv.TABLE,
    gather.TABLE,
    linear.TABLE,
    normalization.TABLE,
    pad.TABLE,
    pool.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    shape.TABLE,
)

LOWERINGS: dict[str, Lower] = {name: lower for family in FAMILIES for name, lower in family.items()}
"""Every ONNX operator that a file can hold."""
