"""Recurrent networks: the operator that holds all layers and directions of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.program import Operator

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Kind:
    """What ONNX calls a recurrent network, and the order of its gates as positions in Paddle's order."""

    operator: str
    gates: tuple[int, ...]
    function: str = ""


KINDS = {
    "LSTM": Kind("LSTM", (0, 3, 1, 2)),  # i, o, f, c from i, f, c, o
    "GRU": Kind("GRU", (1, 0, 2)),  # z, r, h from r, z, n
    "RNN_TANH": Kind("RNN", (0,), "Tanh"),
    "RNN_RELU": Kind("RNN", (0,), "Relu"),
}


def _rnn(importer: Importer, op: Operator) -> None:
    if not op.get("is_test", True) and float(op.get("dropout_prob", 0.0)):
        raise ModelError("it is in training mode: its result is random", hint="call eval() before saving the model")
    mode = str(op.get("mode", "LSTM"))
    directions, layers = 2 if op.get("is_bidirec") else 1, int(op.get("num_layers", 1))
    names = op.inputs.get("WeightList", [])
    if mode not in KINDS:
        raise ModelError(f"a recurrent network of kind {mode}")
    if not 0 < layers <= len(names) or len(names) != 4 * directions * layers:
        raise ModelError(f"it has {len(names)} weights, not {4 * directions * layers}")
    lengths = op.input("SequenceLength")
    length = None if lengths is None else importer.compute("Cast", importer.value(lengths), to=int(ir.DataType.INT32))
    states = [importer.value(name) for name in op.inputs.get("PreState", ())]
    value, finals = importer.value(op.input("Input")), []
    for layer in range(layers):
        start = [_part(importer, state, layer * directions, directions, layers) for state in states]
        weights = _weights(importer, names, KINDS[mode], layer, directions, layers)
        value, found = _layer(importer, op, value, [*weights, length, *start], last=layer == layers - 1)
        finals.append(found)
    for place, name in enumerate(op.outputs.get("State", ())):
        parts = [found[place] for found in finals]
        if len(parts) == 1:
            importer.bind(name, parts[0])
        else:
            importer.finish(name, "Concat", *parts, axis=0)


def _part(importer: Importer, state: ir.Value, first: int, count: int, layers: int) -> ir.Value:
    """The initial states of one layer."""
    if layers == 1:
        return state
    limits = (importer.add_constant("layer", [number]) for number in (first, first + count, 0))
    return importer.compute("Slice", state, *limits)


def _weights(
    importer: Importer, names: list[str], kind: Kind, layer: int, directions: int, layers: int
) -> list[ir.Value]:
    """W, R and B of one layer. All matrices come first, layer by layer and direction by direction; then all biases."""
    first = 2 * directions * layer
    behind = 2 * directions * layers
    matrices = [_weight(importer, name, kind.gates) for name in names[first : first + 2 * directions]]
    biases = [_weight(importer, name, kind.gates) for name in names[behind + first : behind + first + 2 * directions]]
    arrays = {
        "W": np.stack(matrices[0::2]),
        "R": np.stack(matrices[1::2]),
        "B": np.stack([np.concatenate(biases[2 * d : 2 * d + 2]) for d in range(directions)]),
    }
    return [importer.initializer(f"{kind.operator}.{label}", array) for label, array in arrays.items()]


def _layer(
    importer: Importer, op: Operator, value: ir.Value, inputs: list[ir.Value | None], *, last: bool
) -> tuple[ir.Value, list[ir.Value]]:
    """One layer: the whole sequence with the directions side by side, and the final states."""
    mode, directions = str(op.get("mode", "LSTM")), 2 if op.get("is_bidirec") else 1
    kind = KINDS[mode]
    attributes: dict[str, Any] = {"hidden_size": int(op.get("hidden_size", 0))}
    attributes["direction"] = "bidirectional" if directions == 2 else "forward"
    if kind.operator == "GRU":
        attributes["linear_before_reset"] = 1
    if kind.function:
        attributes["activations"] = [kind.function] * directions
    states = list(op.outputs.get("State", ())) or ["state", "cell"]
    names = ["sequence", *(states if last else [f"{name}.layer" for name in states])]
    made = importer.node(
        kind.operator, [value, *inputs], attributes, names=names[: 3 if kind.operator == "LSTM" else 2]
    )
    joined = importer.compute("Transpose", made[0], perm=[0, 2, 1, 3])
    shape = importer.add_constant("shape", [0, 0, -1])
    whole = importer.node("Reshape", [joined, shape], names=[output(op) if last else "layer"])[0]
    if last:
        importer.bind(output(op), whole)
    return whole, made[1:]


def _weight(importer: Importer, name: str, gates: tuple[int, ...]) -> Array:
    array = importer.reals(name)
    if array is None or array.ndim == 0 or array.shape[0] % len(gates):
        raise ModelError(f"its weight {name} is not a constant with {len(gates)} gates")
    parts = np.split(array.astype(np.float32), len(gates))
    return np.concatenate([parts[gate] for gate in gates])


HANDLERS: dict[str, Handler] = {"rnn": _rnn}
