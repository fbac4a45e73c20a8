"""Relu and Clip in the terms of the runtime's kernels."""

from __future__ import annotations

from math import inf

import onnx_ir as ir

from converter_lite.formats.mindspore_lite.enums import ActivationType as Kind
from converter_lite.graph import clamp_bounds
from converter_lite.kernels.params import QuantParams

LEAST_SCALE = 6 / 2**31
"""Of integers with a Relu6: below it the runtime's bound, 6 / scale, is no 32-bit integer, and on x86 everything becomes zero."""

_KINDS = {(0.0, 6.0): Kind.RELU6, (0.0, inf): Kind.RELU}


def inner_activation(node: ir.Node, params: QuantParams | None = None) -> Kind:
    """The activation that a convolution or matrix product can compute by itself: Relu and Relu6, else NONE.

    Args:
        node: What follows it.
        params: Grid of the result; integers of a very fine one end far below 6, so that Relu is the same.
    """
    bounds = clamp_bounds(node)
    kind = Kind.NONE if bounds is None else _KINDS.get(bounds, Kind.NONE)
    is_fine = params is not None and float(params.scale.max()) < LEAST_SCALE
    return Kind.RELU if kind is Kind.RELU6 and is_fine else kind
