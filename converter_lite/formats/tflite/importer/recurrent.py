"""Recurrent layers: one ONNX operator where it computes the same, otherwise step by step.

Gates of the file are in the order input, forget, cell, output; those of ONNX in the order input, output, forget, cell. States
that the file keeps from run to run are zero at the beginning of each run, as after a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator
from converter_lite.formats.tflite.enums import Activation
from converter_lite.formats.tflite.importer.context import INSIDE_OTHER, Handler, Importer, same_grid
from converter_lite.graph import lazy_tensor
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.plan import NodeMode

STEP = 25
"""Operators of a step that is written out."""

INPUT, FORGET, CELL, OUTPUT = range(4)
"""Gates in the order of the file."""

HIDDEN = 4
"""Place of what is in front of the projection among the inner tensors of an operator."""

ONNX_GATES = (INPUT, OUTPUT, FORGET, CELL)

NORMALIZING_EPSILON = 1e-8
"""Added to the variance of gates that are normalized. Source: the runtime's ``kernel_utils``."""

_FUNCTIONS = {int(Activation.TANH): "Tanh", int(Activation.RELU): "Relu"}
"""Activations of cell and output."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Numbers of the tensors of an LSTM in one direction; :data:`NOT_GIVEN` for what is left out.

    Attributes:
        inputs, recurrent: Weights of the gates.
        peepholes: From the cell to the gates input, forget, output.
        biases: Of the gates.
        projection: Weight and bias of what becomes the output.
        states: Output and cell before the first step.
        normalized: Coefficients of gates that are normalized.
    """

    inputs: tuple[int, ...]
    recurrent: tuple[int, ...]
    peepholes: tuple[int, ...]
    biases: tuple[int, ...]
    projection: tuple[int, int]
    states: tuple[int, int]
    normalized: tuple[int, ...] = (NOT_GIVEN,) * 4

    @property
    def is_coupled(self) -> bool:
        """Whether the input gate is what the forget gate leaves."""
        return self.inputs[INPUT] == NOT_GIVEN

    @property
    def has_peepholes(self) -> bool:
        """Whether gates see the cell."""
        return self.peepholes[2] != NOT_GIVEN


def _numbers(op: Operator, start: int, count: int) -> tuple[int, ...]:
    """Numbers of some inputs; those behind the last one are left out."""
    found = op.inputs[start : start + count]
    return (*found, *[NOT_GIVEN] * (count - len(found)))


def _layer(op: Operator, start: int, states: int, normalized: int | None = None) -> Layer:
    weight, bias = _numbers(op, start + 15, 2)
    output, cell = _numbers(op, states, 2)
    return Layer(
        _numbers(op, start, 4),
        _numbers(op, start + 4, 4),
        _numbers(op, start + 8, 3),
        _numbers(op, start + 11, 4),
        (weight, bias),
        (output, cell),
        _numbers(op, normalized, 4) if normalized is not None else (NOT_GIVEN,) * 4,
    )


def _sequence_lstm(ctx: Importer, op: Operator) -> None:
    if op.get("diagonal_recurrent_tensors"):
        raise ModelError("recurrent weights that are diagonals of matrices")
    layer = _layer(op, 1, 18, 20)
    steps = _ordered(ctx, op, op.inputs[0])
    result = _run(ctx, op, layer, steps, reverse=False)
    ctx.bind(
        op.outputs[0], _relabelled(ctx, result, _stored_grid(ctx, op, layer), ctx.params(op.outputs[0])), _order(op)
    )


def _stored_grid(ctx: Importer, op: Operator, layer: Layer) -> QuantParams | None:
    """The grid of the integers that a step gives: that of the inner value in front of a projection, if there is none."""
    inner = op.intermediates[HIDDEN] if len(op.intermediates) > HIDDEN else NOT_GIVEN
    if layer.projection[0] == NOT_GIVEN and inner != NOT_GIVEN and ctx.params(inner) is not None:
        return ctx.params(inner)
    return ctx.params(layer.states[0]) if layer.states[0] != NOT_GIVEN else None


def _relabelled(ctx: Importer, value: ir.Value, own: QuantParams | None, named: QuantParams | None) -> ir.Value:
    """Integers of one grid, taken for those of another one, as the runtime does where a file gives them two."""
    if own is None or named is None or same_grid(own, named):
        return value
    rounded = ctx.add("Identity", [value])
    ctx.builder.plan.activations[str(rounded.name)] = own
    value = ctx.add("Mul", [rounded, ctx.number(float(named.scale / own.scale))])
    shift = (int(own.zero_point) - int(named.zero_point)) * float(named.scale)
    return ctx.add("Add", [value, ctx.number(shift)]) if shift else value


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
    forward = _run(ctx, op, _layer(op, 1, 35), steps, reverse=False)
    backward = _run(ctx, op, _layer(op, 18, 37), steps, reverse=True)
    _bind_both(ctx, op, forward, backward)


def _bind_both(ctx: Importer, op: Operator, forward: ir.Value, backward: ir.Value) -> None:
    if op.get("merge_outputs"):
        ctx.bind(op.outputs[0], ctx.add("Concat", [forward, backward], axis=2), _order(op))
        return
    ctx.bind(op.outputs[0], forward, _order(op))
    ctx.bind(op.outputs[1], backward, _order(op))


def _run(ctx: Importer, op: Operator, layer: Layer, steps: ir.Value, *, reverse: bool) -> ir.Value:
    """Outputs of all steps, ``(time, batch, units)``.

    Raises:
        ModelError: They cannot be written.
    """
    count = steps.shape[0] if steps.shape is not None else None
    length = count if isinstance(count, int) else None
    if _fits_operator(ctx, op, layer, length):
        return _operator(ctx, op, layer, steps, reverse=reverse)
    if length is None:
        raise ModelError(
            "an open number of steps of a layer that ONNX has no operator for (a bounded cell, a projection, normalized gates)",
            hint="steps are written one by one; --inputShape fixes their number",
        )
    ctx.builder.count(STEP * length)
    return _unrolled(ctx, op, layer, steps, length, reverse=reverse)


def _fits_operator(ctx: Importer, op: Operator, layer: Layer, length: int | None) -> bool:
    """Whether ONNX's LSTM computes the same.

    A cell that begins with zero grows by less than one in a step: its bound does nothing in the first steps.
    """
    bound = float(op.get("cell_clip"))
    starts_with_zero = all(_is_zero_state(ctx, index) for index in layer.states)
    is_bounded = bound > 0 and not (length is not None and length <= bound and starts_with_zero)
    plain = layer.projection[0] == NOT_GIVEN and all(index == NOT_GIVEN for index in layer.normalized)
    own, state = _stored_grid(ctx, op, layer), ctx.params(layer.states[0]) if layer.states[0] != NOT_GIVEN else None
    if own is not None and state is not None and not same_grid(own, state):
        return False
    return plain and not (is_bounded or (bound > 0 and _function(op) != "Tanh"))


def _function(op: Operator) -> str:
    """What cell and output go through.

    Raises:
        ModelError: ONNX's layers do not have it.
    """
    kind = int(op.get("activation"))
    if kind not in _FUNCTIONS:
        raise ModelError(f"its activation is number {kind}; tanh and relu are translated")
    return _FUNCTIONS[kind]


def _is_zero_state(ctx: Importer, index: int) -> bool:
    return index == NOT_GIVEN or ctx.tensor(index).is_variable


def _operator(ctx: Importer, op: Operator, layer: Layer, steps: ir.Value, *, reverse: bool) -> ir.Value:
    builder = ctx.builder
    units = ctx.stored(layer.recurrent[FORGET]).dims[-1]
    weights = [_gates(ctx, group, name) for group, name in ((layer.inputs, "w"), (layer.recurrent, "r"))]
    peepholes = _peepholes(ctx, layer) if layer.has_peepholes else None
    states = [_state(ctx, index) for index in layer.states]
    function = _function(op)
    decision = NodeMode.FLOAT
    if any(ctx.is_planned(weight) for weight in weights) and not ctx.is_integer:
        decision, builder.reason = NodeMode.WEIGHT, INSIDE_OTHER
    outputs = builder.add(
        "LSTM",
        [steps, *weights, _biases(ctx, layer), None, *states, peepholes],
        3,
        decision=NodeMode.INTEGER if ctx.is_integer else decision,
        hidden_size=units,
        direction="reverse" if reverse else "forward",
        activations=None if function == "Tanh" else ["Sigmoid", function, function],
    )
    return ctx.add("Squeeze", [outputs[0], ctx.int64([1], "axes")])


def _gates(ctx: Importer, group: Sequence[int], name: str) -> ir.Value:
    """Weights of all gates in one, ``(1, 4 * units, columns)``; integers stay in the plan, with scales for each row.

    What a forget gate leaves is the gate with the opposite sign: one minus the logistic function of a number is that of its
    negative.
    """
    parts = [ctx.stored(index) if index != NOT_GIVEN else None for index in (group[gate] for gate in ONNX_GATES)]
    signs = [-1 if part is None else 1 for part in parts]
    forget = ctx.stored(group[FORGET])
    stored = [part if part is not None else forget for part in parts]
    rows, columns = forget.dims
    if any(part.dims != (rows, columns) for part in stored):
        raise ModelError("weights of its gates differ in shape")

    def reals() -> NDArray[np.float32]:
        found = [sign * np.asarray(constants.reals(part), np.float32) for sign, part in zip(signs, stored, strict=True)]
        return np.concatenate(found)[None]

    label = f"{ctx.builder.name}_{name}"
    made = ctx.builder.initializer(
        lazy_tensor(reals, ir.DataType.FLOAT, (1, 4 * rows, columns), keep_small=True), label
    )
    params = [constants.weight_params(part, part.axis) for part in stored]
    if all(p is not None and p.spec.signed and p.spec.symmetric and p.spec.axis in (None, 0) for p in params):
        scales = [np.broadcast_to(p.scale, (rows,)) for p in params if p is not None]
        integers = np.concatenate(
            [sign * part.array.astype(np.int16) for sign, part in zip(signs, stored, strict=True)]
        )
        spec = QuantSpec(8, symmetric=True, narrow_range=bool(integers.min(initial=0) > -128), axis=1)
        if integers.max(initial=0) <= spec.qmax and all(p is not None and p.spec.bits <= 8 for p in params):
            scale = np.concatenate(scales).astype(np.float32)
            ctx.builder.plan.weights[str(made.name)] = QuantParams(scale, np.zeros(scale.shape, np.int32), spec)
            ctx.builder.q_weights[str(made.name)] = integers.astype(np.int8)[None]
    return made


def _biases(ctx: Importer, layer: Layer) -> ir.Value:
    """Those of the input; ONNX adds others for the state."""
    units = ctx.stored(layer.recurrent[FORGET]).dims[0]
    parts = []
    for gate in ONNX_GATES:
        index, sign = layer.biases[gate], 1
        if gate == INPUT and layer.is_coupled:
            index, sign = layer.biases[FORGET], -1
        parts.append(np.zeros(units, np.float32) if index == NOT_GIVEN else sign * ctx.array(index).astype(np.float32))
    whole = np.concatenate([*parts, np.zeros(4 * units, np.float32)])[None]
    return ctx.builder.initializer(ir.Tensor(whole), f"{ctx.builder.name}_b")


def _peepholes(ctx: Importer, layer: Layer) -> ir.Value:
    into, forget, out = layer.peepholes
    forgets = ctx.array(forget).astype(np.float32)
    inputs = -forgets if into == NOT_GIVEN else ctx.array(into).astype(np.float32)
    whole = np.concatenate([inputs, ctx.array(out).astype(np.float32), forgets])[None]
    return ctx.builder.initializer(ir.Tensor(whole), f"{ctx.builder.name}_p")


def _state(ctx: Importer, index: int) -> ir.Value | None:
    """A state before the first step, ``None`` for zero."""
    if _is_zero_state(ctx, index):
        return None
    return ctx.add("Unsqueeze", [ctx.value(index), ctx.int64([0], "axes")])


# -- step by step -----------------------------------------------------------------------------------------------------


def _unrolled(ctx: Importer, op: Operator, layer: Layer, steps: ir.Value, length: int, *, reverse: bool) -> ir.Value:
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
        if not _is_zero_state(ctx, index):
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
    function = _function(op)
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
        output = _product(ctx, output, weight, bias)
        output = _bounded(ctx, output, float(op.get("proj_clip")))
    return output, cell


def _read_back(ctx: Importer, op: Operator, layer: Layer, output: ir.Value) -> ir.Value:
    """The output of a step as the next one reads it."""
    state = ctx.params(layer.states[0]) if layer.states[0] != NOT_GIVEN else None
    return _relabelled(ctx, output, _stored_grid(ctx, op, layer), state)


def _bounded(ctx: Importer, value: ir.Value, bound: float) -> ir.Value:
    return ctx.add("Clip", [value, ctx.number(-bound), ctx.number(bound)]) if bound > 0 else value


def _product(ctx: Importer, value: ir.Value, weight: int, bias: int = NOT_GIVEN) -> ir.Value:
    inputs = [value, ctx.weight(weight, (0, 1))]
    if bias != NOT_GIVEN:
        inputs.append(ctx.constant(bias, (0,)))
    decision = NodeMode.INTEGER if ctx.is_integer else NodeMode.WEIGHT if ctx.is_planned(inputs[1]) else NodeMode.FLOAT
    return ctx.add("Gemm", inputs, decision=decision, transB=1)


def _gate(ctx: Importer, layer: Layer, gate: int, x: ir.Value, output: ir.Value) -> ir.Value:
    """A gate before its activation; the bias of one that is normalized comes later."""
    bias = layer.biases[gate] if layer.normalized[gate] == NOT_GIVEN else NOT_GIVEN
    return ctx.add("Add", [_product(ctx, x, layer.inputs[gate], bias), _product(ctx, output, layer.recurrent[gate])])


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


# -- plain layers -----------------------------------------------------------------------------------------------------


def _plain(ctx: Importer, op: Operator, steps: ir.Value, start: int, *, reverse: bool) -> ir.Value:
    """A layer without gates: input weights, recurrent weights, biases."""
    weights, recurrent, bias, state = _numbers(op, start, 4)
    if not _is_zero_state(ctx, state):
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
        activations=[_function(op)],
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
    before = _product(ctx, joined, weight, bias)
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
