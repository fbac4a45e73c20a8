"""Recurrent layers.

States that the file keeps from run to run are zero at the beginning of each run, as after a reset.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.lstm import outputs_of
from converter_lite.formats.tflite.importer.lstm_layer import (
    function_of,
    is_zero_state,
    layer_of,
    numbers_of,
    product,
    relabelled,
    stored_grid,
)


def _sequence_lstm(ctx: Importer, op: Operator) -> None:
    if op.get("diagonal_recurrent_tensors"):
        raise ModelError("recurrent weights that are diagonals of matrices")
    layer = layer_of(op, 1, 18, 20)
    steps = _ordered(ctx, op, op.inputs[0])
    result = outputs_of(ctx, op, layer, steps, reverse=False)
    ctx.bind(op.outputs[0], relabelled(ctx, result, stored_grid(ctx, op, layer), ctx.params(op.outputs[0])), _order(op))


def _order(op: Operator) -> tuple[int, ...] | None:
    """ONNX counts time first."""
    return None if op.get("time_major") else (1, 0, 2)


def _ordered(ctx: Importer, op: Operator, index: int) -> ir.Value:
    if ctx.rank(index) != 3:
        raise ModelError(f"its input has {ctx.rank(index)} axes")
    return ctx.value(index, _order(op))


def _bidirectional_lstm(ctx: Importer, op: Operator) -> None:
    """Two layers of which one runs backwards; both may have one result."""
    if any(op.has(position) for position in range(39, 48)):
        raise ModelError("an auxiliary input")
    steps = _ordered(ctx, op, op.inputs[0])
    forward = outputs_of(ctx, op, layer_of(op, 1, 35), steps, reverse=False)
    backward = outputs_of(ctx, op, layer_of(op, 18, 37), steps, reverse=True)
    _bind_both(ctx, op, forward, backward)


def _bind_both(ctx: Importer, op: Operator, forward: ir.Value, backward: ir.Value) -> None:
    if op.get("merge_outputs"):
        ctx.bind(op.outputs[0], ctx.add("Concat", [forward, backward], axis=2), _order(op))
        return
    ctx.bind(op.outputs[0], forward, _order(op))
    ctx.bind(op.outputs[1], backward, _order(op))


def _plain(ctx: Importer, op: Operator, steps: ir.Value, start: int, *, reverse: bool) -> ir.Value:
    """A layer without gates: input weights, recurrent weights, biases."""
    weights, recurrent, bias, state = numbers_of(op, start, 4)
    if not is_zero_state(ctx, state):
        raise ModelError("its first state is computed")
    units = ctx.stored(recurrent).dims[0]
    biases = np.concatenate([ctx.array(bias).astype(np.float32), np.zeros(units, np.float32)])[None]
    made = ctx.builder.add(
        "RNN",
        [
            steps,
            *(_matrix(ctx, index) for index in (weights, recurrent)),
            ctx.builder.initializer(ir.Tensor(biases), f"{ctx.builder.name}_b"),
        ],
        2,
        hidden_size=units,
        direction="reverse" if reverse else "forward",
        activations=[function_of(op)],
    )
    return ctx.add("Squeeze", [made[0], ctx.int64([1], "axes")])


def _matrix(ctx: Importer, index: int) -> ir.Value:
    stored = ctx.stored(index)
    return ctx.builder.initializer(constants.in_order(stored, (0, 1), shape=(1, *stored.dims)), stored.name)


def _sequence_rnn(ctx: Importer, op: Operator) -> None:
    steps = _ordered(ctx, op, op.inputs[0])
    ctx.bind(op.outputs[0], _plain(ctx, op, steps, 1, reverse=False), _order(op))


def _bidirectional_rnn(ctx: Importer, op: Operator) -> None:
    if any(op.has(position) for position in range(9, 12)):
        raise ModelError("an auxiliary input")
    steps = _ordered(ctx, op, op.inputs[0])
    forward, backward = (_plain(ctx, op, steps, start, reverse=reverse) for start, reverse in ((1, False), (5, True)))
    _bind_both(ctx, op, forward, backward)


def _basic_lstm(ctx: Importer, op: Operator) -> None:
    """One step, whose states come in and go out; gates are in the order input, cell, forget, output."""
    if op.get("kernel_type") != 1:
        raise ModelError("it keeps a state between runs, which an ONNX graph has not")
    x, output, weight, bias, cell = op.inputs[:5]
    joined = ctx.add("Concat", [ctx.value(x), ctx.value(output)], axis=1)
    before = product(ctx, joined, weight, bias)
    gates = ctx.add_many("Split", [before], 4, axis=1, num_outputs=4)
    into, forget, out = (ctx.add("Sigmoid", [gates[place]]) for place in (0, 2, 3))
    fresh = ctx.add("Tanh", [gates[1]])
    after = ctx.add("Add", [ctx.add("Mul", [into, fresh]), ctx.add("Mul", [forget, ctx.value(cell)])])
    results = [ctx.add("Mul", [out, ctx.add("Tanh", [after])]), after, joined, before]
    for index, result in zip(op.outputs, results, strict=False):
        ctx.bind(index, result)


HANDLERS: dict[str, Handler] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _sequence_rnn,
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
    "LSTM": _basic_lstm,
}
