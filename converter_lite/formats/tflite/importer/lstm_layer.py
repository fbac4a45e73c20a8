"""An LSTM as the file describes it: its weights, and the grids of its integers.

Gates of the file are in the order input, forget, cell, output; those of ONNX in the order input, output, forget, cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator
from converter_lite.formats.tflite.enums import Activation
from converter_lite.formats.tflite.importer.context import Importer
from converter_lite.formats.tflite.importer.values import same_grid
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.plan import NodeMode

INPUT, FORGET, CELL, OUTPUT = range(4)
"""Gates in the order of the file."""

HIDDEN = 4
"""Place of what is in front of the projection among the inner tensors of an operator."""

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


def numbers_of(op: Operator, start: int, count: int) -> tuple[int, ...]:
    """Numbers of some inputs; those behind the last one are left out."""
    found = op.inputs[start : start + count]
    return (*found, *[NOT_GIVEN] * (count - len(found)))


def layer_of(op: Operator, start: int, states: int, normalized: int | None = None) -> Layer:
    """A layer whose weights of the input, states, and coefficients of gates begin at these inputs."""
    weight, bias = numbers_of(op, start + 15, 2)
    output, cell = numbers_of(op, states, 2)
    return Layer(
        numbers_of(op, start, 4),
        numbers_of(op, start + 4, 4),
        numbers_of(op, start + 8, 3),
        numbers_of(op, start + 11, 4),
        (weight, bias),
        (output, cell),
        numbers_of(op, normalized, 4) if normalized is not None else (NOT_GIVEN,) * 4,
    )


def function_of(op: Operator) -> str:
    """What cell and output go through.

    Raises:
        ModelError: ONNX's layers do not have it.
    """
    kind = int(op.get("activation"))
    if kind not in _FUNCTIONS:
        raise ModelError(f"its activation is number {kind}; tanh and relu are translated")
    return _FUNCTIONS[kind]


def is_zero_state(ctx: Importer, index: int) -> bool:
    """Whether a state before the first step is zero: left out, or kept by the file from run to run."""
    return index == NOT_GIVEN or ctx.tensor(index).is_variable


def stored_grid(ctx: Importer, op: Operator, layer: Layer) -> QuantParams | None:
    """The grid of the integers that a step gives: that of the inner value in front of a projection, if there is none."""
    inner = op.intermediates[HIDDEN] if len(op.intermediates) > HIDDEN else NOT_GIVEN
    if layer.projection[0] == NOT_GIVEN and inner != NOT_GIVEN and ctx.params(inner) is not None:
        return ctx.params(inner)
    return ctx.params(layer.states[0]) if layer.states[0] != NOT_GIVEN else None


def relabelled(ctx: Importer, value: ir.Value, own: QuantParams | None, named: QuantParams | None) -> ir.Value:
    """Integers of one grid, taken for those of another one, as the runtime does where a file gives them two."""
    if own is None or named is None or same_grid(own, named):
        return value
    rounded = ctx.add("Identity", [value])
    ctx.builder.plan.activations[str(rounded.name)] = own
    value = ctx.add("Mul", [rounded, ctx.number(float(named.scale / own.scale))])
    shift = (int(own.zero_point) - int(named.zero_point)) * float(named.scale)
    return ctx.add("Add", [value, ctx.number(shift)]) if shift else value


def product(ctx: Importer, value: ir.Value, weight: int, bias: int = NOT_GIVEN) -> ir.Value:
    """A value times the transpose of stored weights, with a stored bias if there is one."""
    inputs = [value, ctx.weight(weight, (0, 1))]
    if bias != NOT_GIVEN:
        inputs.append(ctx.constant(bias, (0,)))
    decision = NodeMode.INTEGER if ctx.is_integer else NodeMode.WEIGHT if ctx.is_planned(inputs[1]) else NodeMode.FLOAT
    return ctx.add("Gemm", inputs, decision=decision, transB=1)
