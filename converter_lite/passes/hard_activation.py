"""The piecewise linear sigmoid and swish that exporters spell out."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from converter_lite.graph import clamp_bounds, float_attribute, single_consumer
from converter_lite.passes.rewrite import constant_operand, for_each, fuse, is_number, is_op, scalar_operand

HARD_SWISH_SINCE = 14
"""Operator set in which HardSwish appeared."""


@for_each("Div", "Mul")
def fuse_hard_sigmoid(_graph: ir.Graph, node: ir.Node) -> bool:
    """Recognize ``clip(x + 3, 0, 6) / 6``.

    ::

        x ─ Add(3) ─ Clip(0, 6) ─ Div(6) | Mul(1/6) ─ y      becomes      x ─ HardSigmoid(1/6, 1/2) ─ y

    Refused: other constants, another reader of a value between, whole numbers.
    """
    return fuse(_hard_sigmoid(node), "HardSigmoid", alpha=1 / 6, beta=0.5)


@for_each("Div", "Mul", since=HARD_SWISH_SINCE)
def fuse_hard_swish(_graph: ir.Graph, node: ir.Node) -> bool:
    """Recognize ``x · clip(x + 3, 0, 6) / 6`` in either order of the last two steps, and ``x · HardSigmoid(x)``.

    ::

        x ─┬─ Add(3) ─ Clip(0, 6) ─ Div(6) ─┐
           └────────────────────────────── Mul ─ y      becomes      x ─ HardSwish ─ y

    Refused: other constants, another reader of a value between, an opset below 14.
    """
    return fuse(_hard_swish(node), "HardSwish")


Match = tuple[ir.Value, list[ir.Node]]
"""What goes in, and the nodes that compute the pattern from it."""

Gate = Callable[["ir.Value | None", ir.Node], "Match | None"]
"""Matches the pattern that ends at a value which only the given node reads."""


def _hard_sigmoid(node: ir.Node) -> Match | None:
    """The node that divides by six, with what it divides."""
    clipped = _sixth_of(node)
    ramp = _ramp(clipped, node) if clipped is not None else None
    return None if ramp is None else (ramp[0], [*ramp[1], node])


def _hard_swish(node: ir.Node) -> Match | None:
    product = _sixth_of(node)
    multiply = product.producer() if product is not None else None
    if product is not None and multiply is not None and single_consumer(product) is node:
        matched = _weighted(multiply, _ramp)
        if matched is not None:
            return matched[0], [*matched[1], node]
    return _weighted(node, _gate)


def _weighted(node: ir.Node, gate: Gate) -> Match | None:
    """``x · gate(x)`` at a Mul."""
    if not is_op(node, "Mul"):
        return None
    first, second = node.inputs
    for value, source in ((first, second), (second, first)):
        matched = gate(value, node)
        if matched is not None and source is not None and matched[0] is source:
            return source, [*matched[1], node]
    return None


def _gate(value: ir.Value | None, reader: ir.Node) -> Match | None:
    """A hard sigmoid that only ``reader`` reads."""
    producer = value.producer() if value is not None else None
    if value is None or producer is None or single_consumer(value) is not reader:
        return None
    if is_op(producer, "HardSigmoid") and producer.inputs[0] is not None:
        alpha, beta = float_attribute(producer, "alpha", 0.2), float_attribute(producer, "beta", 0.5)
        is_standard = abs(alpha - 1 / 6) < 1e-4 and abs(beta - 0.5) < 1e-4
        return (producer.inputs[0], [producer]) if is_standard else None
    return _hard_sigmoid(producer)


def _ramp(value: ir.Value | None, reader: ir.Node) -> Match | None:
    """``clip(x + 3, 0, 6)`` that only ``reader`` reads."""
    clip = value.producer() if value is not None else None
    if value is None or clip is None or single_consumer(value) is not reader or clamp_bounds(clip) != (0.0, 6.0):
        return None
    shifted = clip.inputs[0]
    plus = shifted.producer() if shifted is not None else None
    if shifted is None or plus is None or not is_op(plus, "Add") or single_consumer(shifted) is not clip:
        return None
    source = scalar_operand(plus, 3.0)
    return None if source is None else (source, [plus, clip])


def _sixth_of(node: ir.Node) -> ir.Value | None:
    operands = constant_operand(node) if is_op(node, "Div", "Mul") else None
    if operands is None:
        return None
    source, number, constant_first = operands
    if number.dtype is None or number.dtype.is_integer():
        return None
    if is_op(node, "Div"):
        return source if not constant_first and is_number(number, 6.0) else None
    return source if is_number(number, 1 / 6) else None
