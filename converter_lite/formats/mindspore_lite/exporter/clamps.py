"""Relu and Clip in the terms of the runtime's kernels."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.formats.mindspore_lite.enums import ActivationType as Kind
from converter_lite.graph import attribute, input_at, scalar

_FLOAT_MAX = float(np.finfo(np.float32).max)


def inner_activation(node: ir.Node) -> Kind:
    """The activation that a convolution or matrix product can compute by itself: Relu and Relu6, else NONE."""
    if node.domain not in ("", "ai.onnx"):
        return Kind.NONE
    if node.op_type == "Relu":
        return Kind.RELU
    if node.op_type == "Clip":
        low, high = clip_bounds(node)
        if low == 0.0 and high == 6.0:
            return Kind.RELU6
        if low == 0.0 and high == _FLOAT_MAX:
            return Kind.RELU
    return Kind.NONE


def clip_bounds(node: ir.Node) -> tuple[float, float]:
    """Bounds of a Clip; NaN where one is computed at run time."""
    bounds = []
    for index, (name, default) in enumerate((("min", -_FLOAT_MAX), ("max", _FLOAT_MAX)), start=1):
        value = input_at(node, index)
        number = float(attribute(node, name, default)) if value is None else scalar(value)  # type: ignore[arg-type]
        bounds.append(float("nan") if number is None else number)
    return bounds[0], bounds[1]
