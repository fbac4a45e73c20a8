"""The Gelu that exporters spell out with Erf."""

from __future__ import annotations

import math

import onnx_ir as ir

from converter_lite.graph import single_consumer
from converter_lite.passes.rewrite import for_each, fuse, is_number, is_op, scalar_operand

SINCE = 20
"""Operator set in which Gelu appeared."""


@for_each("Erf", since=SINCE)
def fuse_gelu(_graph: ir.Graph, erf: ir.Node) -> bool:
    """Recognize the exact Gelu, ``x/2 · (1 + erf(x/√2))``.

    ::

        x ─┬─ Div(√2) | Mul(1/√2) ─ Erf ─ Add(1) ─┐
           └─────────────── Mul ── Mul(0.5) ──────┴─ y      becomes      x ─ Gelu ─ y

    The three factors may be multiplied in any order. TensorFlow's ``x/2 · erfc(-x/√2)`` is the same, with a Neg in front of the
    factor and ``1 - erf``. Refused: another constant, another reader of a value between, an opset below 20.
    """
    return fuse(_match(erf), "Gelu")


def spelled_out_gelus(graph: ir.Graph) -> dict[ir.Value, tuple[ir.Value, list[ir.Node]]]:
    """Results of exact Gelus that are spelled out with Erf, at any operator set -> the argument, and the nodes."""
    matches = [_match(node) for node in graph if is_op(node, "Erf")]
    return {match[1][-1].outputs[0]: match for match in matches if match is not None}


def _match(erf: ir.Node) -> tuple[ir.Value, list[ir.Node]] | None:
    """The argument of a Gelu and its nodes, the last one last."""
    scaled = erf.inputs[0]
    scaling = scaled.producer() if scaled is not None else None
    if scaled is None or scaling is None or single_consumer(scaled) is not erf:
        return None
    source = _scaled_source(scaling)
    plus = single_consumer(erf.outputs[0])
    if source is None or plus is None:
        return None
    before = [scaling, erf, plus]
    if is_op(plus, "Sub") and is_number(plus.inputs[0], 1.0):
        negation = source.producer()
        if negation is None or not is_op(negation, "Neg") or single_consumer(source) is not scaling:
            return None
        source, before = negation.inputs[0], [negation, *before]
    elif not is_op(plus, "Add") or scalar_operand(plus, 1.0) is None:
        return None
    tail = None if source is None else _product(plus, source)
    return None if source is None or tail is None else (source, [*before, *tail])


def _scaled_source(node: ir.Node) -> ir.Value | None:
    if is_op(node, "Div"):
        return node.inputs[0] if is_number(node.inputs[1], math.sqrt(2.0)) else None
    return scalar_operand(node, math.sqrt(0.5)) if is_op(node, "Mul") else None


def _product(plus: ir.Node, source: ir.Value) -> list[ir.Node] | None:
    """The nodes that multiply ``plus`` by ``source`` and by one half, the last one last."""
    first = single_consumer(plus.outputs[0])
    if first is None or not is_op(first, "Mul"):
        return None
    other = _other(first, plus.outputs[0])
    half = other.producer() if other is not None else None
    if half is not None and is_op(half, "Mul") and scalar_operand(half, 0.5) is source:
        return [half, first]
    second = single_consumer(first.outputs[0])
    if second is None or not is_op(second, "Mul"):
        return None
    if scalar_operand(first, 0.5) is not None and _other(second, first.outputs[0]) is source:
        return [first, second]
    if other is source and scalar_operand(second, 0.5) is not None:
        return [first, second]
    return None


def _other(node: ir.Node, value: ir.Value) -> ir.Value | None:
    first, second = node.inputs
    return second if first is value else first
