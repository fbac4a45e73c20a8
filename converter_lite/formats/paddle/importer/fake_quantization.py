"""Quantized Paddle programs: fake-quantization operators become scales on the operator that computes.

Two generations of PaddleSlim models exist. The older one puts ``fake_quantize_*`` before and ``fake_*dequantize_*`` behind an
operator whose weight holds integers as floats. The newer one puts ``quantize_linear`` and ``dequantize_linear`` around tensors
and keeps weights as int8. Training graphs that were not frozen have ``fake_*quantize_dequantize_*`` with float weights. All are
converted to what ``.nb`` files have: integer weights, ``enable_int8``, ``Input0_scale``, ``Filter0_scale``.

In all of them ``scale`` means the largest absolute value; the step is that over ``2**(bits-1) - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.paddle.program import Operator, Program, attr, floats
from converter_lite.kernels.quantize import along_axis, round_half_away

FAKE_QUANTIZE = ("fake_quantize_range_abs_max", "fake_quantize_moving_average_abs_max", "fake_quantize_abs_max")
FAKE_WEIGHT = (
    "fake_quantize_dequantize_abs_max",
    "fake_channel_wise_quantize_dequantize_abs_max",
)
FAKE_ACTIVATION = ("fake_quantize_dequantize_moving_average_abs_max", "fake_quantize_dequantize_range_abs_max")
FAKE_DEQUANTIZE = ("fake_channel_wise_dequantize_max_abs", "fake_dequantize_max_abs")
OBSERVERS = ("moving_average_abs_max_scale",)

FOLDED = (
    *(*FAKE_QUANTIZE, *FAKE_WEIGHT, *FAKE_ACTIVATION, *FAKE_DEQUANTIZE, *OBSERVERS),
    *("quantize_linear", "dequantize_linear"),
)
"""Operators that :func:`fold_quantization` removes."""

WEIGHT_SLOTS = {
    "conv2d": ("Input", "Filter", "Output", 0),
    "depthwise_conv2d": ("Input", "Filter", "Output", 0),
    "conv2d_transpose": ("Input", "Filter", "Output", 1),
    "depthwise_conv2d_transpose": ("Input", "Filter", "Output", 1),
    "mul": ("X", "Y", "Out", 1),
    "matmul": ("X", "Y", "Out", 1),
    "matmul_v2": ("X", "Y", "Out", 1),
    "lookup_table_v2": ("Ids", "W", "Out", 1),
}
"""Operators whose weights are integers: slots of data, weight and output, channel axis of the weight."""

Parameters = dict[str, NDArray[Any]]


@dataclass(slots=True)
class _State:
    """What is known while the operators are visited in order.

    Attributes:
        parameters: Constants of the program; those that turn out to be quantized become integers.
        renamed: What a removed operator wrote -> the variable behind it.
        steps: What a removed operator wrote -> the step that it was rounded to last. A variable may be rounded in several ways.
        weights: Parameter -> its steps, and their axis.
        raw: What an operator with a weight wrote -> the operator.
        widened: Inputs of operators that make reals of integers: PIR programs cast weights in front of them.
    """

    parameters: Parameters
    renamed: dict[str, str] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    weights: dict[str, tuple[NDArray[np.float32], int | None]] = field(default_factory=dict)
    raw: dict[str, Operator] = field(default_factory=dict)
    widened: set[str | None] = field(default_factory=set)

    def alias(self, made: str, source: str, step: float | None = None) -> None:
        """Another name for a variable, rounded to ``step`` or as it was."""
        known = self.steps.get(source) if step is None else step
        self.renamed[made] = self.resolve(source)
        if known is not None:
            self.steps[made] = known

    def resolve(self, name: str) -> str:
        """The variable behind removed operators; a cycle in a damaged program ends where it began."""
        seen = set()
        while name in self.renamed and name not in seen:
            seen.add(name)
            name = self.renamed[name]
        return name


def fold_quantization(program: Program, parameters: Parameters, *, where: str = "") -> tuple[Program, Parameters]:
    """The program without quantization operators, and parameters with integers where they were quantized.

    A program without any is returned unchanged.

    Raises:
        ModelError: A scale is missing or makes no sense, or weights are not integers of the stated width.
    """
    if all(op.type not in FOLDED for op in program.main.operators):
        return program, parameters
    state = _State(dict(parameters))
    state.widened = {op.input("X") for op in program.main.operators if op.type in FAKE_DEQUANTIZE}
    kept: list[Operator] = []
    for op in program.main.operators:
        try:
            kept.extend(_folded(state, op, where))
        except MISFITS as error:
            raise ModelError(f"the attributes of {op.type} make no sense: {error}", where=where) from None
    main = program.main
    block = type(main)(main.index, main.parent, main.variables, kept, main.forward)
    return Program([block, *program.blocks[1:]], program.version), state.parameters


def _folded(state: _State, op: Operator, where: str) -> list[Operator]:
    """The operator with what is known about its tensors; none if it only says how a tensor is quantized."""
    if _removed(state, op, where):
        return []
    copy = Operator(op.type, _resolved(state, op.inputs), op.outputs, dict(op.attributes))
    if op.type in WEIGHT_SLOTS:
        _attach(state, op, copy, where)
    for names in op.outputs.values():  # a name that is written again has a new meaning
        for name in names:
            state.renamed.pop(name, None)
            state.steps.pop(name, None)
    return [copy]


def _resolved(state: _State, slots: dict[str, list[str]]) -> dict[str, list[str]]:
    return {slot: [state.resolve(name) for name in names] for slot, names in slots.items()}


def _removed(state: _State, op: Operator, where: str) -> bool:
    """Whether the operator only says how a tensor is quantized, which is then recorded."""
    if op.type in FAKE_QUANTIZE or op.type in FAKE_ACTIVATION:
        _note_activation(state, op, "X", "Out", "InScale", where)
    elif op.type in FAKE_WEIGHT:
        _note_float_weight(state, op, where)
    elif op.type in FAKE_DEQUANTIZE:
        _fake_dequantize(state, op, where)
    elif op.type == "cast" and op.output("Out") in state.widened and _is_integer_weight(state, op.input("X")):
        state.alias(_name(op.output("Out"), where), _name(op.input("X"), where))
    elif op.type == "quantize_linear":
        _quantize_linear(state, op, where)
    elif op.type == "dequantize_linear":
        _dequantize_linear(state, op, where)
    elif op.type in OBSERVERS:
        state.alias(_name(op.output("Out"), where), _name(op.input("X"), where))
    else:
        return False
    return True


def _name(name: str | None, where: str) -> str:
    if name is None:
        raise ModelError("a quantization operator lacks an input or output", where=where)
    return name


def _levels(op: Operator, where: str, key: str = "bit_length") -> int:
    bits = op.get(key, 8)
    bits = bits[0] if isinstance(bits, tuple) and bits else bits
    if not isinstance(bits, int) or not 2 <= bits <= 8:
        raise ModelError(f"{op.type} has {bits} bits", where=where, hint="2 to 8 bits can be read")
    levels = int(2 ** (bits - 1) - 1)
    if op.get("qmax", levels) != levels:
        raise ModelError(f"{op.type} reaches to {op.get('qmax')}: these are no integers of {bits} bits", where=where)
    return levels


def _largest(state: _State, name: str | None, where: str) -> NDArray[np.float32]:
    array = state.parameters.get(name or "")
    if array is None or array.size == 0:
        raise ModelError(f"the scale {name} is not a parameter of the model", where=where)
    flat = array.reshape(-1).astype(np.float32)
    if not np.all(np.isfinite(flat)) or np.any(flat < 0):
        raise ModelError(f"the scale {name} is not finite and positive", where=where)
    return np.maximum(flat, np.float32(1e-30))


def _note_activation(state: _State, op: Operator, source: str, result: str, scale: str, where: str) -> None:
    given, made = _name(op.input(source), where), _name(op.output(result), where)
    data, largest = state.resolve(given), _largest(state, op.input(scale), where)[:1]
    if data in state.parameters and op.type in FAKE_ACTIVATION:  # a weight with the scale that training gave it
        state.alias(made, given)
        _round_weight(state, op, data, largest, where)
    else:
        state.alias(made, given, float(largest[0] / np.float32(_levels(op, where))))


def _note_float_weight(state: _State, op: Operator, where: str) -> None:
    """A float weight that training rounded in every step: quantize it as that operator does."""
    name, made = _name(op.input("X"), where), _name(op.output("Out"), where)
    array = state.parameters.get(name)
    state.renamed[made] = name
    if array is None:  # an activation with a scale found at run time: nothing to keep
        return
    array = _usable(array, name, where)
    axis, levels = int(op.get("quant_axis", 0)), _levels(op, where)
    if not 0 <= axis < array.ndim:
        raise ModelError(f"{op.type} has quant_axis {axis} for a weight of {array.ndim} dimensions", where=where)
    per_channel = op.type.startswith("fake_channel_wise")
    axes = tuple(a for a in range(array.ndim) if a != axis) if per_channel else None
    largest = np.maximum(np.abs(array).max(axis=axes).reshape(-1).astype(np.float32), np.float32(1e-30))
    steps = (largest / np.float32(levels)).astype(np.float32, copy=False)
    spread = along_axis(steps, array.ndim, axis) if per_channel else steps[0]
    integers = np.clip(round_half_away(array / spread), -levels, levels)
    state.parameters[name] = integers.astype(np.int8)
    state.weights[name] = (steps, axis)


def _quantize_linear(state: _State, op: Operator, where: str) -> None:
    given, made = _name(op.input("X"), where), _name(op.output("Y"), where)
    data = state.resolve(given)
    if op.get("only_observer", False):
        state.alias(made, given)
        return
    largest = _largest(state, op.input("Scale"), where)
    if data in state.parameters:
        state.alias(made, given)
        _round_weight(state, op, data, largest, where)
    else:
        state.alias(made, given, float(largest[0] / np.float32(_levels(op, where))))


def _round_weight(state: _State, op: Operator, name: str, largest: NDArray[np.float32], where: str) -> None:
    """A float weight behind ``quantize_linear``: quantization-aware training that kept its float weights."""
    array, levels, axis = _usable(state.parameters[name], name, where), _levels(op, where), int(op.get("quant_axis", 0))
    steps = largest / np.float32(levels)
    if steps.size > 1 and (not 0 <= axis < array.ndim or array.shape[axis] != steps.size):
        raise ModelError(f"the weight {name} has {steps.size} scales for shape {list(array.shape)}", where=where)
    spread = along_axis(steps, array.ndim, axis) if steps.size > 1 else steps[0]
    rounded = np.rint(array / spread) if op.get("round_type", 1) == 0 else round_half_away(array / spread)
    state.parameters[name] = np.clip(rounded, -levels, levels).astype(np.int8)
    state.weights[name] = (steps, axis)


def _dequantize_linear(state: _State, op: Operator, where: str) -> None:
    given, made = _name(op.input("X"), where), _name(op.output("Y"), where)
    data = state.resolve(given)
    state.alias(made, given)
    if op.get("only_observer", False) or data in state.weights or data not in state.parameters:
        return
    levels = _levels(op, where)
    steps = _largest(state, op.input("Scale"), where) / np.float32(levels)
    state.parameters[data] = _as_integers(state.parameters[data], data, where)
    state.weights[data] = (steps, int(op.get("quant_axis", 0)))


def _usable(array: NDArray[Any], name: str, where: str) -> NDArray[np.float32]:
    """A weight that can be rounded: floats, all of them of ordinary size."""
    if array.dtype.kind != "f" or array.size == 0 or not np.all(np.abs(array) < 1e30):
        raise ModelError(f"the weight {name} is empty, not float or not finite", where=where)
    return array.astype(np.float32, copy=False)


def _as_integers(array: NDArray[Any], name: str, where: str) -> NDArray[np.int8]:
    if array.dtype == np.int8:
        return array
    within = array.dtype.kind == "f" and bool(np.all(np.abs(array) <= 128))  # NaN is not within either
    rounded = np.rint(array) if within else array
    if not within or not np.array_equal(rounded, array):
        raise ModelError(f"the weight {name} should hold integers of 8 bits, and does not", where=where)
    return rounded.astype(np.int8)


def _attach(state: _State, op: Operator, copy: Operator, where: str) -> None:
    """Give an operator the scales of its data and of its weight."""
    data_slot, weight_slot, out_slot, _ = WEIGHT_SLOTS[op.type]
    data, weight = copy.input(data_slot), copy.input(weight_slot)
    if op.output(out_slot) is not None:
        state.raw[_name(op.output(out_slot), where)] = copy
    if data is None or weight is None:
        return
    if weight in state.weights:
        steps, axis = state.weights[weight]
        _check_axis(state, copy, weight, steps, axis, where)
        _enable(copy, weight_slot, steps)
    step = state.steps.get(_name(op.input(data_slot), where))
    if step is not None:
        copy.attributes[f"{data_slot}0_scale"] = floats([step])


def _check_axis(
    state: _State, op: Operator, weight: str, steps: NDArray[np.float32], axis: int | None, where: str
) -> None:
    """Scales have to lie along the axis that the operator computes one result for."""
    if axis is None or steps.size == 1:
        return
    wanted, rank = WEIGHT_SLOTS[op.type][3], state.parameters[weight].ndim
    if op.get("trans_y", False) or op.get("transpose_Y", False):
        wanted = 0
    if axis % max(rank, 1) != wanted:
        raise ModelError(f"the weight {weight} of {op.type} has scales along axis {axis}, not {wanted}", where=where)


def _enable(op: Operator, weight_slot: str, steps: NDArray[np.float32]) -> None:
    op.attributes["enable_int8"] = attr(True)
    op.attributes["bit_length"] = attr(8)
    op.attributes[f"{weight_slot}0_scale"] = floats(steps)


def _is_integer_weight(state: _State, name: str | None) -> bool:
    array = state.parameters.get(name or "")
    return array is not None and array.dtype == np.int8


def _fake_dequantize(state: _State, op: Operator, where: str) -> None:
    """Behind a weight, as in PIR programs, or behind the operator that computes with it."""
    given, made = _name(op.input("X"), where), _name(op.output("Out"), where)
    name = state.resolve(given)
    if name not in state.parameters:
        _dequantize_output(state, op, where)
        return
    state.alias(made, given)
    state.parameters[name] = _as_integers(state.parameters[name], name, where)
    if op.type == "fake_channel_wise_dequantize_max_abs":
        steps = _fake_steps(state, op, where)
    else:
        steps = _largest(state, op.input("Scale"), where) / np.float32(_max_range(op, where))
    state.weights[name] = (steps, int(op.get("quant_axis", 0)))


def _fake_steps(state: _State, op: Operator, where: str) -> NDArray[np.float32]:
    if op.type == "fake_channel_wise_dequantize_max_abs":
        return _largest(state, op.input("Scales"), where) / np.float32(_levels(op, where, "quant_bits"))
    return np.asarray([_per_tensor_step(op, where)], np.float32)


def _dequantize_output(state: _State, op: Operator, where: str) -> None:
    """The older kind: the scales of weight and data stand behind the operator."""
    result, made = _name(op.input("X"), where), _name(op.output("Out"), where)
    computing = state.raw.get(result)
    if computing is None:
        raise ModelError(f"{op.type} does not follow an operator that computes with integers", where=where)
    _, weight_slot, out_slot, _ = WEIGHT_SLOTS[computing.type]
    weight = _name(computing.input(weight_slot), where)
    steps = _fake_steps(state, op, where)
    if weight not in state.weights:
        if weight not in state.parameters:
            raise ModelError(f"the weight {weight} is not a parameter of the model", where=where)
        state.parameters[weight] = _as_integers(state.parameters[weight], weight, where)
        state.weights[weight] = (steps, None)
    _enable(computing, weight_slot, steps)
    computing.outputs[out_slot] = [made]
    state.raw[made] = computing


def _per_tensor_step(op: Operator, where: str) -> float:
    """``max_range`` is the product of both ranges over the weight's largest value."""
    return 127.0 / _max_range(op, where)


def _max_range(op: Operator, where: str) -> float:
    whole = float(op.get("max_range", 0.0))
    if not whole > 0:
        raise ModelError(f"{op.type} has max_range {whole}", where=where)
    return whole
