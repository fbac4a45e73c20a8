"""Relu and Clip in the terms of the runtime's kernels."""

from __future__ import annotations

from math import inf

import onnx_ir as ir

from converter_lite.formats.mindspore_lite.enums import ActivationType as Kind
from converter_lite.graph import clamp_bounds

_KINDS = {(0.0, 6.0): Kind.RELU6, (0.0, inf): Kind.RELU}


def inner_activation(node: ir.Node) -> Kind:
    """The activation that a convolution or matrix product can compute by itself: Relu and Relu6, else NONE."""
    bounds = clamp_bounds(node)
    return Kind.NONE if bounds is None else _KINDS.get(bounds, Kind.NONE)
