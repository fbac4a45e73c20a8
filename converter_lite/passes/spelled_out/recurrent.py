"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, remove
from converter_lite.passes.spelled_out.inserting import insert, reshaped, split

MOST_STEPS = 64
"""Steps up to which a layer is written out, one after the other."""

ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
"""What ``activations`` is where it is not given, for one direction."""

FUNCTIONS: dict[str, tuple[str, float | None, float | None]] = {
    "elu": ("Elu", 1.0, None),
    "hardsigmoid": ("HardSigmoid", 0.2, 0.5),
    "leakyrelu": ("LeakyRelu", 0.01, None),
    "relu": ("Relu", None, None),
    "sigmoid": ("Sigmoid", None, None),
    "softplus": ("Softplus", None, None),
    "softsign": ("Softsign", None, None),
    "tanh": ("Tanh", None, None),
    "thresholdedrelu": ("ThresholdedRelu", 1.0, None),
}
"""Name in ``activations``, in small letters -> operator, and what ``alpha`` and ``beta`` are where they are not given."""

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

PEEPHOLES = 7
"""The input of an LSTM through which its gates see the cell state."""


def spell_out_recurrent(model: ir.Model) -> int:
    """Write out layers step by step where a runtime lacks a variant, and name no activations that are the usual ones.

    Written out: every RNN, a layer that runs backwards only, an LSTM whose cell state is read or that has peepholes, a GRU that
    resets before the product (``linear_before_reset=0``), other activations, with at most :data:`MOST_STEPS` steps. A longer one
    that runs backwards only is one that runs forwards, over steps in the opposite order.

    Refused: unknown sizes, weights that are not constant, sequence lengths, clipping, other layouts, and activations that are no
    operators.
    """
    nodes = [node for node in model.graph if is_op(node, *GATES)]
    return sum(
        _plain(node) + (_is_needed(node) and (_written_out(model.graph, node) or _turned(model.graph, node)))
        for node in nodes
    )


def spell_out_forms(model: ir.Model) -> int:
    """Write out LSTMs with peepholes, and layers with other activations, as :func:`spell_out_recurrent` does."""
    nodes = [node for node in model.graph if is_op(node, *GATES)]
    return sum(_plain(node) + (_has_other_form(node) and _written_out(model.graph, node)) for node in nodes)


def _plain(node: ir.Node) -> bool:
    given = node.attributes.get("activations")
    usual = ACTIVATIONS[node.op_type] * (2 if _direction(node) == "bidirectional" else 1)
    if given is None or [str(name) for name in given.as_strings()] != usual:
        return False
    del node.attributes["activations"]
    return True


def _direction(node: ir.Node) -> str:
    return g.text_attribute(node, "direction", "forward")


def _is_needed(node: ir.Node) -> bool:
    cell = node.outputs[2] if len(node.outputs) > 2 else None
    resets_before = node.op_type == "GRU" and not g.int_attribute(node, "linear_before_reset", 0)
    is_read = cell is not None and g.is_read(cell)
    return node.op_type == "RNN" or _direction(node) == "reverse" or resets_before or is_read or _has_other_form(node)


def _has_other_form(node: ir.Node) -> bool:
    return g.input_at(node, PEEPHOLES) is not None or "activations" in node.attributes


States = tuple[ir.Value, ir.Value]
"""State and cell state, each ``(batch, hidden)``."""

_Function = tuple[str, dict[str, Any]]
"""An operator and its attributes."""

Step = Callable[[ir.Value, ir.Value, ir.Value], States]
"""From what the input gives to the gates ``(batch, gates * hidden)``, and the states, to the next states."""


@dataclass
class _Layer:
    """A layer and where its steps are put.

    Attributes:
        x: Input, ``(steps, batch, size)``.
        weights: ``(directions, gates * hidden, size)``.
        recurrent: ``(directions, gates * hidden, hidden)``.
        biases: ``(directions, 2 * gates * hidden)``: of the input, then of the state.
        peepholes: ``(directions, 3 * hidden)``: of the gates for input, output and forgetting; ``None`` without.
        functions: Operator and attributes of each activation of all directions, in ONNX' order.
        sizes: Steps, batch, hidden.
    """

    graph: ir.Graph
    node: ir.Node
    x: ir.Value
    weights: NDArray[np.float32]
    recurrent: NDArray[np.float32]
    biases: NDArray[np.float32]
    peepholes: NDArray[np.float32] | None
    functions: list[_Function]
    sizes: tuple[int, int, int]

    def put(
        self, op_type: str, *inputs: ir.Value, shape: tuple[int, ...] | None = None, **attributes: object
    ) -> ir.Value:
        _, batch, hidden = self.sizes
        return insert(self.graph, self.node, op_type, inputs, shape or (batch, hidden), **attributes)

    def constant(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        return g.add_initializer(self.graph, f"{self.node.name}_{name}", array)

    def activated(self, value: ir.Value, number: int, place: int) -> ir.Value:
        """An activation of a direction: of the gates, then of what they let through, then of an LSTM's cell state."""
        op_type, attributes = self.functions[number * len(ACTIVATIONS[self.node.op_type]) + place]
        return self.put(op_type, value, **attributes)

    def parts(self, value: ir.Value, count: int) -> list[ir.Value]:
        """Equal parts along axis 1."""
        _, batch, hidden = self.sizes
        made = split(self.graph, self.node, value, [hidden] * count)
        self.graph.insert_before(self.node, made)
        for part in made.outputs:
            part.shape, part.type = ir.Shape((batch, hidden)), self.node.outputs[0].type
        return list(made.outputs)


def _layer(graph: ir.Graph, node: ir.Node) -> _Layer | None:
    x, shape = node.inputs[0], g.static_shape(node.inputs[0])
    arrays = [g.constant(g.input_at(node, place)) for place in (1, 2, 3, PEEPHOLES)]
    functions = _functions(node)
    if x is None or shape is None or shape[0] > MOST_STEPS or functions is None or g.int_attribute(node, "layout", 0):
        return None
    if "clip" in node.attributes or g.input_at(node, 4) is not None or g.int_attribute(node, "input_forget", 0):
        return None
    weights, recurrent, biases, peepholes = arrays
    if weights is None or recurrent is None or (biases is None and g.input_at(node, 3) is not None):
        return None
    if peepholes is None and g.input_at(node, PEEPHOLES) is not None:
        return None
    if biases is None:
        biases = np.zeros((len(weights), 2 * weights.shape[1]), np.float32)
    return _Layer(
        graph, node, x, weights, recurrent, biases, peepholes, functions, (shape[0], shape[1], recurrent.shape[2])
    )


def _functions(node: ir.Node) -> list[_Function] | None:
    """Activations of all directions; ``None`` where one is no operator. Those that have parameters take them in their order."""
    given = node.attributes.get("activations")
    usual = ACTIVATIONS[node.op_type] * (2 if _direction(node) == "bidirectional" else 1)
    names = usual if given is None else [str(name) for name in given.as_strings()]
    alphas, betas = (iter(floats) for floats in map(partial(_floats, node), ("activation_alpha", "activation_beta")))
    found: list[_Function] = []
    for name in names:
        if name.lower() not in FUNCTIONS:
            return None
        op_type, alpha, beta = FUNCTIONS[name.lower()]
        attributes = {} if alpha is None else {"alpha": next(alphas, alpha)}
        found.append((op_type, attributes if beta is None else {**attributes, "beta": next(betas, beta)}))
    return found if len(found) == len(usual) else None


def _floats(node: ir.Node, name: str) -> list[float]:
    attribute = node.attributes.get(name)
    return [] if attribute is None else [float(number) for number in attribute.as_floats()]


def _written_out(graph: ir.Graph, node: ir.Node) -> bool:
    layer = _layer(graph, node)
    if layer is None:
        return False
    steps, batch, hidden = layer.sizes
    directions = len(layer.weights)
    runs = [_run(layer, number, backwards=number == 1 or _direction(node) == "reverse") for number in range(directions)]
    sequences = [[state for state, _ in run] for run in runs]
    lasts = [run[0 if number == 1 or _direction(node) == "reverse" else -1] for number, run in enumerate(runs)]
    if g.is_read(node.outputs[0]):
        rows = [
            reshaped(graph, node, state, (1, 1, batch, hidden))
            for step in range(steps)
            for state in (sequence[step] for sequence in sequences)
        ]
        flat = layer.put("Concat", *rows, shape=(steps * directions, 1, batch, hidden), axis=0)
        _take(node.outputs[0], reshaped(graph, node, flat, (steps, directions, batch, hidden)))
    for place, value in enumerate(node.outputs[1:]):
        if g.is_read(value):
            ends = [reshaped(graph, node, last[place], (1, batch, hidden)) for last in lasts]
            joined = layer.put("Concat", *ends, shape=(directions, batch, hidden), axis=0)
            _take(value, joined)
    remove(node)
    return True


def _turned(graph: ir.Graph, node: ir.Node) -> bool:
    x, shape, y = node.inputs[0], g.static_shape(node.inputs[0]), node.outputs[0]
    is_plain = g.input_at(node, 4) is None and not g.int_attribute(node, "layout", 0)
    if _direction(node) != "reverse" or x is None or shape is None or not is_plain:
        return False
    order = g.add_initializer(graph, f"{node.name}_order", np.arange(shape[0], dtype=np.int64)[::-1])
    node.replace_input_with(0, insert(graph, node, "Gather", (x, order), shape, axis=0))
    node.attributes["direction"] = ir.AttrString("direction", "forward")
    if not g.is_read(y):
        return True
    back = ir.node("Gather", [y, order], {"axis": 0})
    graph.insert_after(node, back)
    name, y.name = y.name, f"{y.name}_turned"
    y.replace_all_uses_with(back.outputs[0], replace_graph_outputs=True)
    back.replace_input_with(0, y)
    back.outputs[0].name, back.outputs[0].shape, back.outputs[0].type = name, y.shape, y.type
    return True


def _take(old: ir.Value, new: ir.Value) -> None:
    name, new.shape, new.type = old.name, old.shape or new.shape, old.type
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    old.name, new.name = None, name


def _run(layer: _Layer, number: int, *, backwards: bool) -> list[States]:
    """State and cell state of every step of one direction, in the order of the steps."""
    steps, batch, _ = layer.sizes
    gates = layer.weights.shape[1]
    bias, late = _biases(layer, number)
    matrix = layer.constant(f"weights_{number}", np.ascontiguousarray(layer.weights[number].T))
    product = layer.put("MatMul", layer.x, matrix, shape=(steps, batch, gates))
    summed = layer.put("Add", product, layer.constant(f"bias_{number}", bias), shape=(steps, batch, gates))
    kind = layer.node.op_type
    advance = _gru(layer, number, late) if kind == "GRU" else (_lstm if kind == "LSTM" else _rnn)(layer, number)
    state = cell = _initial(layer, 5, number)
    if layer.node.op_type == "LSTM":
        cell = _initial(layer, 6, number)
    found: list[States] = []
    for time in range(steps)[:: -1 if backwards else 1]:
        index = layer.constant(f"step_{time}", np.array(time, np.int64))
        row = layer.put("Gather", summed, index, shape=(batch, gates), axis=0)
        state, cell = advance(row, state, cell)
        found.append((state, cell))
    return found[:: -1 if backwards else 1]


def _initial(layer: _Layer, place: int, number: int) -> ir.Value:
    _, batch, hidden = layer.sizes
    given = g.input_at(layer.node, place)
    if given is None:
        return layer.constant(f"start_{place}_{number}", np.zeros((batch, hidden), np.float32))
    index = layer.constant(f"direction_{number}", np.array(number, np.int64))
    return layer.put("Gather", given, index, axis=0)


def _biases(layer: _Layer, number: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What is added to the input's product, and what only to the state's product of a GRU that resets behind it."""
    of_input, of_state = np.split(layer.biases[number], 2)
    late = np.zeros_like(of_state)
    if layer.node.op_type == "GRU" and g.int_attribute(layer.node, "linear_before_reset", 0):
        hidden = layer.sizes[2]
        late[2 * hidden :] = of_state[2 * hidden :]
    return of_input + of_state - late, late


def _rnn(layer: _Layer, number: int) -> Step:
    _, batch, hidden = layer.sizes
    matrix = layer.constant(f"recurrent_{number}", np.ascontiguousarray(layer.recurrent[number].T))

    def advance(row: ir.Value, state: ir.Value, cell: ir.Value) -> States:
        product = layer.put("MatMul", state, matrix, shape=(batch, hidden))
        return layer.activated(layer.put("Add", row, product), number, 0), cell

    return advance


def _lstm(layer: _Layer, number: int) -> Step:
    """Gates in ONNX' order: input, output, forget, cell."""
    _, batch, hidden = layer.sizes
    matrix = layer.constant(f"recurrent_{number}", np.ascontiguousarray(layer.recurrent[number].T))
    seen = [] if layer.peepholes is None else np.split(layer.peepholes[number], 3)
    factors = [layer.constant(f"peephole_{number}_{gate}", array) for gate, array in enumerate(seen)]

    def opened(gates: list[ir.Value], gate: int, cell: ir.Value) -> ir.Value:
        total = gates[gate]
        if factors:
            total = layer.put("Add", total, layer.put("Mul", cell, factors[gate]))
        return layer.activated(total, number, 0)

    def advance(row: ir.Value, state: ir.Value, cell: ir.Value) -> States:
        product = layer.put("MatMul", state, matrix, shape=(batch, 4 * hidden))
        gates = layer.parts(layer.put("Add", row, product, shape=(batch, 4 * hidden)), 4)
        new = layer.put("Mul", opened(gates, 0, cell), layer.activated(gates[3], number, 1))
        cell = layer.put("Add", layer.put("Mul", opened(gates, 2, cell), cell), new)
        return layer.put("Mul", opened(gates, 1, cell), layer.activated(cell, number, 2)), cell

    return advance


def _gru(layer: _Layer, number: int, late: NDArray[np.float32]) -> Step:
    """Gates in ONNX' order: update, reset, hidden."""
    _, batch, hidden = layer.sizes
    turned = np.ascontiguousarray(layer.recurrent[number].T)
    of_gates = layer.constant(f"recurrent_{number}", np.ascontiguousarray(turned[:, : 2 * hidden]))
    of_hidden = layer.constant(f"recurrent_hidden_{number}", np.ascontiguousarray(turned[:, 2 * hidden :]))
    behind = bool(g.int_attribute(layer.node, "linear_before_reset", 0))
    bias = layer.constant(f"bias_hidden_{number}", late[2 * hidden :]) if behind else None

    def advance(row: ir.Value, state: ir.Value, cell: ir.Value) -> States:
        own = layer.parts(row, 3)
        product = layer.put("MatMul", state, of_gates, shape=(batch, 2 * hidden))
        sums = (layer.put("Add", *pair) for pair in zip(own[:2], layer.parts(product, 2), strict=True))
        update, reset = (layer.activated(gate, number, 0) for gate in sums)
        if bias is not None:
            inner = layer.put("Mul", reset, layer.put("Add", layer.put("MatMul", state, of_hidden), bias))
        else:
            inner = layer.put("MatMul", layer.put("Mul", reset, state), of_hidden)
        new = layer.activated(layer.put("Add", own[2], inner), number, 1)
        return layer.put("Add", new, layer.put("Mul", update, layer.put("Sub", state, new))), cell

    return advance
