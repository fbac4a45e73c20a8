"""Ranges that the readers of a tensor tell apart: beyond them, a function is flat, and a grid needs no steps there.

HardSwish gives 0 for everything up to -3, so that a grid from -3 on loses nothing where one from -20 on has steps five times as
large. Sigmoid, Tanh and Gelu are taken as flat where they are within a tenth of a step of 8 bits from their limit; a Sigmoid only
if its results are factors: as probabilities of rare events, 1e-4 and 3e-4 differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.input_shapes import inputs_and_results
from converter_lite.passes.rewrite import consumers, is_op

Range = tuple[float, float]

EVERYTHING: Range = (-math.inf, math.inf)
NOTHING: Range = (math.inf, -math.inf)


def _hard_sigmoid(node: ir.Node) -> Range:
    alpha, beta = (g.float_attribute(node, name, usual) for name, usual in (("alpha", 0.2), ("beta", 0.5)))
    return (-beta / alpha, (1 - beta) / alpha) if alpha > 0 else EVERYTHING


def _clamp(node: ir.Node) -> Range:
    return g.clamp_bounds(node) or EVERYTHING


def _is_factor(value: ir.Value) -> bool:
    return not value.is_graph_output() and all(is_op(node, "Mul") for node in consumers(value))


SATURATING: Mapping[str, Callable[[ir.Node], Range]] = MappingProxyType(
    {
        "Clip": _clamp,
        "Gelu": lambda _: (-4.0, math.inf),
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": lambda _: (-3.0, math.inf),
        "Relu": _clamp,
        "Sigmoid": lambda node: (-8.0, 8.0) if _is_factor(node.outputs[0]) else EVERYTHING,
        "Tanh": lambda _: (-4.0, 4.0),
    }
)
"""Function -> the range outside of which it is flat."""


def readable_ranges(model: ir.Model, sources: Mapping[str, str]) -> dict[str, Range]:
    """Ranges outside of which no reader of a grid can tell numbers apart; only where there is such a range.

    Args:
        model: The graph.
        sources: Tensor -> tensor whose grid it takes.
    """
    found: dict[str, Range] = {}
    for value in inputs_and_results(model.graph):
        source = sources.get(value.name or "")
        if source is not None:
            found[source] = _union(found.get(source, NOTHING), _readable(value, source, sources))
    return {source: readable for source, readable in found.items() if readable not in (EVERYTHING, NOTHING)}


def cut(low: float, high: float, readable: Range, bits: int) -> Range:
    """A range without what cannot be told apart, but for a step: a zero point is rounded, and a grid must not end before."""
    kept = min(max(low, readable[0]), readable[1]), min(max(high, readable[0]), readable[1])
    if kept[0] >= kept[1]:
        return low, high
    step = (kept[1] - kept[0]) / (2**bits - 2)
    return max(low, kept[0] - step), min(high, kept[1] + step)


def _readable(value: ir.Value, source: str, sources: Mapping[str, str]) -> Range:
    if value.is_graph_output():
        return EVERYTHING
    found = NOTHING
    for node in consumers(value):
        if all(sources.get(output.name or "") == source for output in node.outputs):
            continue  # it only moves what has this grid
        found = _union(found, _reading(node, value))
    return found


def _reading(node: ir.Node, value: ir.Value) -> Range:
    gate = _gate(node, value)
    if gate is not None:
        return _hard_sigmoid(gate)[0], math.inf
    function = SATURATING.get(node.op_type) if is_op(node, node.op_type) and node.inputs[0] is value else None
    return EVERYTHING if function is None else function(node)


def _gate(node: ir.Node, value: ir.Value) -> ir.Node | None:
    """The HardSigmoid of a value that a Mul multiplies it with, as HardSwish does."""
    if not is_op(node, "Mul"):
        return None
    makers = [other.producer() for other in node.inputs if other is not None and other is not value]
    gates = [
        maker for maker in makers if is_op(maker, "HardSigmoid") and maker is not None and maker.inputs[0] is value
    ]
    return gates[0] if len(gates) == 1 else None


def _union(first: Range, second: Range) -> Range:
    return min(first[0], second[0]), max(first[1], second[1])
