"""An LSTM step by step, where ONNX's operator does not compute the same."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.formats.tflite.container import NOT_GIVEN, Operator
from converter_lite.formats.tflite.importer.context import Importer
from converter_lite.formats.tflite.importer.lstm_layer import (
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    Layer,
    function_of,
    is_zero_state,
    product,
    relabelled,
    stored_grid,
)

STEP = 25
"""Operators of a step that is written out."""

NORMALIZING_EPSILON = 1e-8
"""Added to the variance of gates that are normalized. Source: the runtime's ``kernel_utils``."""


def unrolled(ctx: Importer, op: Operator, layer: Layer, steps: ir.Value, length: int, *, reverse: bool) -> ir.Value:
    """Outputs of all steps, ``(time, batch, units)``, from as many copies of a step as there are."""
    parts = [steps]
    if length > 1:
        parts = ctx.add_many("Split", [steps, ctx.int64([1] * length, "sizes")], length, axis=0)
    state = _first_states(ctx, layer, parts[0])
    outputs: list[ir.Value] = []
    for part in reversed(parts) if reverse else parts:
        x = ctx.add("Squeeze", [part, ctx.int64([0], "axes")])
        output, cell = _step(ctx, op, layer, x, *state)
        state = _read_back(ctx, op, layer, output), cell
        outputs.append(ctx.add("Unsqueeze", [output, ctx.int64([0], "axes")]))
    if reverse:
        outputs.reverse()
    return outputs[0] if length == 1 else ctx.add("Concat", outputs, axis=0)


def _first_states(ctx: Importer, layer: Layer, step: ir.Value) -> tuple[ir.Value, ir.Value]:
    sizes = ctx.stored(layer.recurrent[FORGET]).dims
    widths = (sizes[1], sizes[0])
    found = []
    for index, width in zip(layer.states, widths, strict=True):
        if not is_zero_state(ctx, index):
            found.append(ctx.value(index))
            continue
        batch = ctx.add("Gather", [ctx.add("Shape", [step]), ctx.int64([1], "axes")])
        shape = ctx.add("Concat", [batch, ctx.int64([width])], axis=0)
        found.append(ctx.add("Expand", [ctx.number(0.0, "zero"), shape]))
    return found[0], found[1]


def _step(
    ctx: Importer, op: Operator, layer: Layer, x: ir.Value, output: ir.Value, cell: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Output and cell after a step; ``x``: (batch, columns)."""
    function = function_of(op)
    gates = {gate: _gate(ctx, layer, gate, x, output) for gate in range(4) if layer.inputs[gate] != NOT_GIVEN}
    forget = ctx.add("Sigmoid", [_seen(ctx, layer, FORGET, gates[FORGET], cell)])
    if layer.is_coupled:
        into = ctx.add("Sub", [ctx.number(1.0, "one"), forget])
    else:
        into = ctx.add("Sigmoid", [_seen(ctx, layer, INPUT, gates[INPUT], cell)])
    fresh = ctx.add(function, [_normalized(ctx, layer, CELL, gates[CELL])])
    cell = ctx.add("Add", [ctx.add("Mul", [forget, cell]), ctx.add("Mul", [into, fresh])])
    cell = _bounded(ctx, cell, float(op.get("cell_clip")))
    out = ctx.add("Sigmoid", [_seen(ctx, layer, OUTPUT, gates[OUTPUT], cell)])
    output = ctx.add("Mul", [out, ctx.add(function, [cell])])
    weight, bias = layer.projection
    if weight != NOT_GIVEN:
        output = product(ctx, output, weight, bias)
        output = _bounded(ctx, output, float(op.get("proj_clip")))
    return output, cell


def _read_back(ctx: Importer, op: Operator, layer: Layer, output: ir.Value) -> ir.Value:
    """The output of a step as the next one reads it."""
    state = ctx.params(layer.states[0]) if layer.states[0] != NOT_GIVEN else None
    return relabelled(ctx, output, stored_grid(ctx, op, layer), state)


def _bounded(ctx: Importer, value: ir.Value, bound: float) -> ir.Value:
    return ctx.add("Clip", [value, ctx.number(-bound), ctx.number(bound)]) if bound > 0 else value


def _gate(ctx: Importer, layer: Layer, gate: int, x: ir.Value, output: ir.Value) -> ir.Value:
    """A gate before its activation; the bias of one that is normalized comes later."""
    bias = layer.biases[gate] if layer.normalized[gate] == NOT_GIVEN else NOT_GIVEN
    return ctx.add("Add", [product(ctx, x, layer.inputs[gate], bias), product(ctx, output, layer.recurrent[gate])])


def _seen(ctx: Importer, layer: Layer, gate: int, value: ir.Value, cell: ir.Value) -> ir.Value:
    """A gate with what it sees of the cell, normalized if it is."""
    number = {INPUT: 0, FORGET: 1, OUTPUT: 2}[gate]
    index = layer.peepholes[number]
    if index != NOT_GIVEN:
        value = ctx.add("Add", [value, ctx.add("Mul", [cell, ctx.constant(index, (0,))])])
    return _normalized(ctx, layer, gate, value)


def _normalized(ctx: Importer, layer: Layer, gate: int, value: ir.Value) -> ir.Value:
    index = layer.normalized[gate]
    if index == NOT_GIVEN:
        return value
    bias = layer.biases[gate]
    inputs = [value, ctx.constant(index, (0,)), *([ctx.constant(bias, (0,))] if bias != NOT_GIVEN else [])]
    return ctx.add("LayerNormalization", inputs, axis=-1, epsilon=NORMALIZING_EPSILON)
