"""The LayerNormalization that exporters spell out."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.graph import attribute, constant, input_at, int_attribute, single_consumer
from converter_lite.passes.rewrite import (
    constant_operand,
    consumers,
    for_each,
    int_values,
    is_number,
    is_op,
    number,
    replace,
)

SINCE = 17
"""Operator set in which LayerNormalization appeared."""


@for_each("Sqrt", since=SINCE)
def fuse_layer_norm(_graph: ir.Graph, root: ir.Node) -> bool:
    """Recognize the normalization over the last axis with its scale and offset.

    ::

        x ─┬─────────────────────────────┐
           └─ ReduceMean(-1) ─────────── Sub ─┬───────────────────────────────────────────────────┐
                                              └─ Pow(2) | Mul ─ ReduceMean(-1) ─ Add(ε) ─ Sqrt ── Div ─ Mul(γ) ─ Add(β)

        becomes      x ─ LayerNormalization(γ, β) ─ y

    Refused: other axes, ``keepdims=0``, γ or β that are not vectors along the last axis, another reader of a value between,
    an opset below 17.
    """
    variance = _variance(root)
    if variance is None:
        return False
    epsilon, plus, mean_of_squares, square, centred = variance
    centring = centred.producer()
    source, mean = _centring(centring)
    quotient = single_consumer(root.outputs[0])
    if centring is None or source is None or mean is None or quotient is None or not is_op(quotient, "Div"):
        return False
    if quotient.inputs[0] is not centred or set(consumers(centred)) != {square, quotient}:
        return False
    affine = _affine(quotient, source)
    if affine is None or centred.is_graph_output():
        return False
    parameters, tail = affine
    new = ir.node("LayerNormalization", inputs=[source, *parameters], attributes={"axis": -1, "epsilon": epsilon})
    replace([mean, centring, square, mean_of_squares, plus, root, quotient, *tail], new)
    return True


def normalization_parameters(value: ir.Value) -> tuple[ir.Value, ir.Value | None] | None:
    """Scale and offset (γ, β) of the normalization over the last axis that gives ``value``, as one operator or spelled out."""
    node = value.producer()
    if node is not None and is_op(node, "LayerNormalization"):
        scale, offset = input_at(node, 1), input_at(node, 2)
        return None if scale is None or int_attribute(node, "axis", -1) != -1 else (scale, offset)
    found: dict[str, ir.Value] = {}
    for op_type in ("Add", "Mul"):
        operands = constant_operand(node) if node is not None and is_op(node, op_type) else None
        if operands is not None:
            node, found[op_type] = operands[0].producer(), operands[1]
    if node is None or "Mul" not in found or not is_op(node, "Div"):
        return None
    centring, root = (None if operand is None else operand.producer() for operand in node.inputs)
    is_normalized = _centring(centring)[1] is not None and root is not None and is_op(root, "Sqrt")
    return (found["Mul"], found.get("Add")) if is_normalized else None


def _variance(root: ir.Node) -> tuple[float, ir.Node, ir.Node, ir.Node, ir.Value] | None:
    """``(ε, Add, ReduceMean, square, centred value)`` above the square root."""
    plus = _only_source(root.inputs[0], root)
    operands = constant_operand(plus) if plus is not None and is_op(plus, "Add") else None
    epsilon = number(operands[1]) if operands is not None else None
    if plus is None or operands is None or epsilon is None:
        return None
    mean = _only_source(operands[0], plus)
    if mean is None or not _averages_last_axis(mean):
        return None
    square = _only_source(mean.inputs[0], mean)
    centred = _squared(square)
    return None if square is None or centred is None else (epsilon, plus, mean, square, centred)


def _only_source(value: ir.Value | None, reader: ir.Node) -> ir.Node | None:
    """The node behind ``value`` when nothing but ``reader`` reads it."""
    if value is None or single_consumer(value) is not reader:
        return None
    return value.producer()


def _squared(node: ir.Node | None) -> ir.Value | None:
    if node is None:
        return None
    if is_op(node, "Pow") and is_number(input_at(node, 1), 2.0):
        return node.inputs[0]
    return node.inputs[0] if is_op(node, "Mul") and node.inputs[0] is node.inputs[1] else None


def _centring(node: ir.Node | None) -> tuple[ir.Value | None, ir.Node | None]:
    """``(x, ReduceMean)`` of ``x - mean(x)``."""
    if node is None or not is_op(node, "Sub") or node.inputs[0] is None:
        return None, None
    mean = _only_source(node.inputs[1], node)
    if mean is None or mean.inputs[0] is not node.inputs[0] or not _averages_last_axis(mean):
        return None, None
    return node.inputs[0], mean


def _averages_last_axis(node: ir.Node) -> bool:
    if not is_op(node, "ReduceMean") or not int_attribute(node, "keepdims", 1) or node.inputs[0] is None:
        return False
    axes = int_values(input_at(node, 1)) if input_at(node, 1) is not None else attribute(node, "axes")
    shape = node.inputs[0].shape
    if not isinstance(axes, (list, tuple)) or len(axes) != 1:
        return False
    return axes[0] == -1 or (shape is not None and axes[0] == len(shape) - 1)


def _affine(quotient: ir.Node, source: ir.Value) -> tuple[list[ir.Value], list[ir.Node]] | None:
    """Scale and (if there is one) offset behind the quotient, and the nodes that apply them."""
    scaling = single_consumer(quotient.outputs[0])
    gamma = _vector_operand(scaling, "Mul", source)
    if scaling is None or gamma is None:
        return None
    adding = single_consumer(scaling.outputs[0])
    beta = _vector_operand(adding, "Add", source)
    if adding is None or beta is None:
        return [gamma], [scaling]
    return [gamma, beta], [scaling, adding]


def _vector_operand(node: ir.Node | None, op_type: str, source: ir.Value) -> ir.Value | None:
    operands = constant_operand(node) if node is not None and is_op(node, op_type) else None
    if operands is None or source.shape is None or not len(source.shape):
        return None
    array = constant(operands[1])
    return operands[1] if array is not None and array.shape == (source.shape[-1],) else None
