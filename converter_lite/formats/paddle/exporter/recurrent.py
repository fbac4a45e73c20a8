"""LSTM and GRU as ``rnn``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    shape,
)
from converter_lite.formats.paddle.exporter.movement import transpose
from converter_lite.formats.paddle.exporter.reshaping import reshape
from converter_lite.formats.paddle.exporter.weights import Transform
from converter_lite.formats.paddle.program import attr, ints, long
from converter_lite.passes.spelled_out.recurrent import MOST_STEPS

GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}
"""Order of Paddle's gates as positions in ONNX' order: i, f, c, o from i, o, f, c; r, z, n from z, r, h."""

REGISTER = 4
"""Floats of a register: the ARM kernel makes NaN of numbers beyond 88 in units that do not fill one."""

WRITTEN_OUT = f"such a layer is written out where it has at most {MOST_STEPS} steps"
"""What helps a layer of a form that ``rnn`` has not."""


def _recurrent(lowering: Lowering, node: ir.Node) -> None:
    _refuse(node)
    hidden = g.int_attribute(node, "hidden_size", 0) or shape(node.inputs[2])[2]
    steps, batch, size = shape(node.inputs[0])
    directions = 2 if g.text_attribute(node, "direction", "forward") == "bidirectional" else 1
    units = _units(lowering, hidden)
    inputs = {
        "Input": [lowering.tensor(node.inputs[0])],
        "PreState": _initial_states(lowering, node, (directions, batch, hidden), units),
        "WeightList": _weights(lowering, node, directions, units - hidden),
    }
    result = node.outputs[0]
    joined = lowering.temporary(f"{result.name}.joined", (steps, batch, directions * units))
    states = 2 if node.op_type == "LSTM" else 1
    unused = [lowering.temporary(f"{node.name}.state", (directions, batch, units)) for _ in range(states)]
    outputs = {"Out": [joined], "State": unused}
    outputs |= {slot: [lowering.temporary(f"{node.name}.{slot.lower()}")] for slot in ("DropoutState", "Reserve")}
    attributes = {
        "mode": attr(node.op_type),
        "hidden_size": attr(units),
        "input_size": attr(size),
        "num_layers": attr(1),
        "is_bidirec": attr(directions == 2),
        "dropout_prob": attr(0.0),
        "seed": attr(0),
        "is_test": attr(True),
    }
    lowering.emit("rnn", inputs, outputs, attributes)
    if units > hidden:
        joined = _without_padding(lowering, joined, (steps, batch, directions, hidden), units)
    if directions == 1:
        reshape(lowering, joined, lowering.result(result), (steps, 1, batch, hidden))
    else:
        split = lowering.temporary(f"{result.name}.split", (steps, batch, directions, hidden))
        reshape(lowering, joined, split, (steps, batch, directions, hidden))
        transpose(lowering, split, lowering.result(result), [0, 2, 1, 3])
    _final_state(lowering, node, (directions, batch, hidden))


def _units(lowering: Lowering, hidden: int) -> int:
    """Units of the operator: for ARM whole registers, of which those behind ``hidden`` have weights of zero and stay at zero."""
    return -(-hidden // REGISTER) * REGISTER if lowering.absorbs and lowering.is_arm else hidden


def _without_padding(lowering: Lowering, joined: str, size: tuple[int, int, int, int], units: int) -> str:
    """The first units of each direction, of shape ``size``."""
    split = lowering.temporary(f"{joined}.units", (*size[:3], units))
    reshape(lowering, joined, split, (*size[:3], units))
    result = lowering.temporary(f"{joined}.hidden", size)
    attributes = {
        "axes": ints((3,)),
        "starts": ints((0,)),
        "ends": ints((size[3],)),
        "infer_flags": ints((1,)),
        "decrease_axis": ints(()),
    }
    lowering.emit("slice", {"Input": [split]}, {"Out": [result]}, attributes)
    return result


def _refuse(node: ir.Node) -> None:
    if any(name in node.attributes for name in ("clip", "activations", "activation_alpha", "activation_beta")):
        raise Unsupported("clip or other activation functions of a recurrent network")
    if g.int_attribute(node, "layout", 0) or g.int_attribute(node, "input_forget", 0):
        raise Unsupported("layout or input_forget of a recurrent network")
    if g.input_at(node, 4) is not None:
        raise Unsupported("sequence lengths of a recurrent network")
    if node.op_type == "LSTM" and g.input_at(node, 7) is not None:
        raise Unsupported("peepholes of an LSTM", WRITTEN_OUT)
    if len(node.outputs) > 2 and g.is_read(node.outputs[2]):
        raise Unsupported("the cell state of an LSTM as an output", WRITTEN_OUT)
    if node.op_type == "GRU" and not g.int_attribute(node, "linear_before_reset", 0):
        raise Unsupported("a GRU with linear_before_reset = 0", f"Paddle-Lite computes the other form; {WRITTEN_OUT}")
    if g.text_attribute(node, "direction", "forward") == "reverse":
        raise Unsupported("a recurrent network that runs backwards only over a number of steps that is not fixed")


def _initial_states(lowering: Lowering, node: ir.Node, size: tuple[int, int, int], units: int) -> list[str]:
    names = []
    for index in (5, 6) if node.op_type == "LSTM" else (5,):
        given = g.input_at(node, index)
        if given is None:
            names.append(lowering.parameter(f"{node.name}.state", np.zeros((*size[:2], units), np.float32)))
            continue
        name = lowering.tensor(given)
        if units > size[2]:
            more = lowering.parameter(f"{node.name}.zeros", np.zeros((*size[:2], units - size[2]), np.float32))
            first, name = name, lowering.temporary(f"{name}.padded", (*size[:2], units))
            lowering.emit("concat", {"X": [first, more]}, {"Out": [name]}, {"axis": attr(2)})
        names.append(name)
    return names


def _final_state(lowering: Lowering, node: ir.Node, size: tuple[int, int, int]) -> None:
    """ONNX' Y_h from Y: the runtime's own states are wrong. The last step, for the backward direction the first."""
    if len(node.outputs) < 2 or not g.is_read(node.outputs[1]):
        return
    directions, batch, hidden = size
    sequence, value = lowering.tensor(node.outputs[0]), node.outputs[1]
    steps = shape(node.inputs[0])[0]
    parts = []
    for direction in range(directions):
        step = 0 if direction else steps - 1
        name = lowering.temporary(f"{value.name}.{direction}", (1, 1, batch, hidden))
        attributes = {
            "axes": ints((0, 1)),
            "starts": ints((step, direction)),
            "ends": ints((step + 1, direction + 1)),
            "infer_flags": ints((1, 1)),
            "decrease_axis": ints(()),
        }
        lowering.emit("slice", {"Input": [sequence]}, {"Out": [name]}, attributes)
        parts.append(name)
    joined = parts[0]
    if directions == 2:
        joined = lowering.temporary(f"{value.name}.joined", (1, directions, batch, hidden))
        lowering.emit("concat", {"X": parts}, {"Out": [joined]}, {"axis": attr(1)})
    reshape(lowering, joined, lowering.result(value), size)


def _weights(lowering: Lowering, node: ir.Node, directions: int, added: int) -> list[str]:
    """All matrices, layer by layer and direction by direction, then all biases in the same order; ``added`` units are zero."""
    matrices, biases = [], []
    if g.constant(node.inputs[1]) is None or g.constant(node.inputs[2]) is None:
        raise Unsupported("weights of a recurrent network are computed at run time")
    gates = GATES[node.op_type]
    bias = g.constant(g.input_at(node, 3))
    if bias is None:
        bias = np.zeros((directions, 2 * shape(node.inputs[1])[1]), np.float32)
    for direction in range(directions):
        first, second = np.split(bias[direction], 2)
        matrices += [_matrix(lowering, node, place, direction, added) for place in (1, 2)]
        for label, array in (("b_ih", first), ("b_hh", second)):
            biases.append(lowering.parameter(f"{node.name}.{label}", _reordered(array, gates, (added,))))
    return matrices + biases


def _matrix(lowering: Lowering, node: ir.Node, place: int, direction: int, added: int) -> str:
    """A weight of one direction.

    The runtime dequantizes integers in place, before the first run, but for some operators only: a look-up in the weight is one,
    and nothing reads what it gives.
    """
    gates, more = GATES[node.op_type], (added, added if place == 2 else 0)
    name = f"{direction} with {added}" if added else str(direction)
    transform = Transform(name, lambda array: _reordered(array[direction], gates, more), axis=2, added=more[1])
    stored = lowering.weight(node, node.inputs[place], transform)
    if stored.attributes:
        rows = lowering.parameter(f"{stored.name}.row", np.zeros((1, 1), np.int64))
        row = lowering.temporary(f"{stored.name}.unread", (1, shape(node.inputs[place])[2] + more[1]))
        attributes = {"padding_idx": long(-1), **stored.attributes}
        lowering.emit("lookup_table", {"W": [stored.name], "Ids": [rows]}, {"Out": [row]}, attributes, alias="def")
    return stored.name


def _reordered(array: NDArray[Any], gates: tuple[int, ...], added: tuple[int, ...]) -> NDArray[Any]:
    """Gates in the runtime's order, each with ``added`` zeros at the end of its axes."""
    parts = [np.pad(part, [(0, count) for count in added]) for part in np.split(array, len(gates))]
    return np.concatenate([parts[gate] for gate in gates])


HANDLERS: dict[str, Handler] = {"LSTM": _recurrent, "GRU": _recurrent}
