"""Clips whose bounds are constants."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite.graph import input_at, scalar
from converter_lite.passes.rewrite import is_op, replace

_FLOAT_MAX = float(np.finfo(np.float32).max)


def clip_bounds(node: ir.Node) -> tuple[float, float] | None:
    """Constant ``(lowest, highest)`` result of a Relu or Clip, infinite where unbounded; ``None`` for all else.

    ReLU6 has no operator in ONNX: it is the Clip for which this returns ``(0.0, 6.0)``.
    """
    if is_op(node, "Relu"):
        return 0.0, math.inf
    if not is_op(node, "Clip"):
        return None
    low = _bound(node, 1, "min", -math.inf)
    high = _bound(node, 2, "max", math.inf)
    return None if low is None or high is None else (low, high)


def _bound(node: ir.Node, index: int, name: str, default: float) -> float | None:
    """One bound: an attribute before opset 11, an input since; infinite where it is the largest float."""
    attr = node.attributes.get(name)
    value = input_at(node, index)
    if attr is not None:
        bound: float | None = attr.as_float()
    elif value is None:
        return default
    else:
        bound = scalar(value)
    return math.copysign(math.inf, bound) if bound is not None and abs(bound) >= _FLOAT_MAX else bound


def recognize_relu(model: ir.Model) -> int:
    """Replace a Clip that only removes negative values by Relu.

    ::

        x ─ Clip(min=0, max=∞ or left out) ─ y      becomes      x ─ Relu ─ y

    Refused: bounds that are not constant, an upper bound, types other than float.
    """
    return sum(_recognize(node) for node in list(model.graph) if is_op(node, "Clip"))


def _recognize(node: ir.Node) -> bool:
    source = node.inputs[0]
    if source is None or source.dtype != ir.DataType.FLOAT or clip_bounds(node) != (0.0, math.inf):
        return False
    replace([node], ir.node("Relu", inputs=[source]))
    return True
