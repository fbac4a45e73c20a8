"""Recurrent layers, written out step by step: the runtime's own LSTM and GRU infer wrong sizes.

Gate order and equations: ONNX operator specification. Products of all inputs with the weights are one product before
the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.enums import ActivationType
from converter_lite.formats.mindspore_lite.exporter.common import Lower, activation, required
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering, Unsupported
from converter_lite.graph import attribute, input_at, int_attribute

_MAX_STEPS = 512
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True, slots=True)
class _Cell:
    """Constants of one direction; ``inner`` is the bias of the recurrent product of GRU's candidate."""

    name: str
    w: NDArray[np.float32]
    r: NDArray[np.float32]
    bias: NDArray[np.float32]
    inner: NDArray[np.float32]
    batch: int
    hidden: int


State = tuple[int | None, ...]
Step = Callable[[Lowering, _Cell, int, State], State]


def _recurrent(ctx: Lowering, node: ir.Node) -> None:
    _refuse_variants(ctx, node)
    x = required(node, 0)
    steps, batch, size = ctx.shape(x)
    hidden = ctx.shape(required(node, 2))[2]
    if steps > _MAX_STEPS:
        raise Unsupported(f"{steps} steps (at most {_MAX_STEPS} are written out)")
    flat = ctx.reshape(ctx.use(x), (steps * batch, size))
    direction = str(attribute(node, "direction", "forward"))
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    results = []
    for number, reverse in enumerate(backward):
        cell = _cell(ctx, node, number, batch, hidden)
        state = tuple(_initial(ctx, node, place, number, len(backward)) for place in (5, 6))
        results.append(_run(ctx, node, cell, flat, range(steps)[:: -1 if reverse else 1], state))
    _bind_outputs(ctx, node, results, (steps, batch, hidden))


def _refuse_variants(ctx: Lowering, node: ir.Node) -> None:
    if "activations" in node.attributes:
        usual = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}[node.op_type]
        given = list(attribute(node, "activations"))  # type: ignore[call-overload]
        if given != usual * (len(given) // len(usual)):
            raise Unsupported("other activations than the usual ones")
    for name in ("clip", "input_forget", "layout"):
        if attribute(node, name, 0):
            raise Unsupported(f"the attribute {name}")
    for place, what in ((4, "sequence_lens"), (7, "peephole weights")):
        if input_at(node, place) is not None:
            raise Unsupported(what)


def _cell(ctx: Lowering, node: ir.Node, number: int, batch: int, hidden: int) -> _Cell:
    w = np.asarray(ctx.array(required(node, 1), "W"), np.float32)[number]
    r = np.asarray(ctx.array(required(node, 2), "R"), np.float32)[number]
    given = input_at(node, 3)
    size = _GATES[node.op_type] * hidden
    halves = np.zeros(2 * size, np.float32) if given is None else np.asarray(ctx.array(given, "B"), np.float32)[number]
    bias, inner = halves[:size].copy(), halves[size:].copy()
    apart = node.op_type == "GRU" and bool(int_attribute(node, "linear_before_reset", 0))
    bias[: 2 * hidden if apart else size] += inner[: 2 * hidden if apart else size]
    candidate = inner[2 * hidden :] if apart else np.zeros(0, np.float32)
    return _Cell(f"{node.name}_{number}", w, r, bias, candidate, batch, hidden)


def _initial(ctx: Lowering, node: ir.Node, place: int, number: int, directions: int) -> int | None:
    value = input_at(node, place)
    if value is None:
        return None
    _, batch, hidden = ctx.shape(value)
    if directions == 1:
        return ctx.reshape(ctx.use(value), (batch, hidden))
    parts = ctx.emit_many(
        "Split",
        [ctx.use(value)],
        [((1, batch, hidden), ctx.dtype(value))] * directions,
        output_num=directions,
        size_splits=[1] * directions,
        axis=0,
    )
    return ctx.reshape(parts[number], (batch, hidden))


def _run(ctx: Lowering, node: ir.Node, cell: _Cell, flat: int, order: range, state: State) -> tuple[list[int], State]:
    """Hidden state after every step, in the order of time, and the last states."""
    inputs = [flat, ctx.add_constant(cell.w, f"{node.name}_w"), ctx.add_constant(cell.bias, f"{node.name}_bias")]
    steps, width = len(order), cell.w.shape[0]
    products = ctx.emit("MatMulFusion", inputs, (steps * cell.batch, width), transpose_b=True)
    parts = _cut_rows(ctx, products, steps, cell.batch)
    hidden: list[int] = [0] * steps
    for time in order:
        state = _STEPS[node.op_type](ctx, cell, parts[time], state)
        assert state[0] is not None
        hidden[time] = state[0]
    return hidden, state


def _cut_rows(ctx: Lowering, index: int, count: int, rows: int) -> list[int]:
    if count == 1:
        return [index]
    tensor = ctx.ms.tensors[index]
    outputs = [((rows, tensor.dims[1]), tensor.dtype)] * count
    return ctx.emit_many("Split", [index], outputs, output_num=count, size_splits=[rows] * count, axis=0)


def _gates(ctx: Lowering, index: int, count: int, hidden: int) -> list[int]:
    tensor = ctx.ms.tensors[index]
    outputs = [((tensor.dims[0], hidden), tensor.dtype)] * count
    return ctx.emit_many("Split", [index], outputs, output_num=count, size_splits=[hidden] * count, axis=1)


def _recurrent_product(ctx: Lowering, cell: _Cell, h: int, rows: slice, bias: NDArray[np.float32] | None = None) -> int:
    key = ("recurrent", cell.name, rows.start, rows.stop)
    matrix = ctx.cached(key, lambda: ctx.add_constant(cell.r[rows], "r"))
    inputs = [h, matrix]
    if bias is not None:
        inputs.append(ctx.cached((*key, "bias"), lambda: ctx.add_constant(bias, "r_bias")))
    return ctx.emit("MatMulFusion", inputs, (cell.batch, len(cell.r[rows])), transpose_b=True)


def _two(ctx: Lowering, op: str, a: int, b: int) -> int:
    return ctx.emit(op, [a, b], ctx.ms.tensors[a].dims)


def _plus(ctx: Lowering, cell: _Cell, x: int, h: int | None, rows: slice) -> int:
    return x if h is None else _two(ctx, "AddFusion", x, _recurrent_product(ctx, cell, h, rows))


def _lstm_step(ctx: Lowering, cell: _Cell, x: int, state: State) -> State:
    h, c = state
    sums = _plus(ctx, cell, x, h, slice(0, 4 * cell.hidden))
    i, o, f, g = _gates(ctx, sums, 4, cell.hidden)
    candidate = activation(ctx, g, ActivationType.TANH)
    memory = _two(ctx, "MulFusion", activation(ctx, i, ActivationType.SIGMOID), candidate)
    if c is not None:
        kept = _two(ctx, "MulFusion", activation(ctx, f, ActivationType.SIGMOID), c)
        memory = _two(ctx, "AddFusion", kept, memory)
    gate = activation(ctx, o, ActivationType.SIGMOID)
    return _two(ctx, "MulFusion", gate, activation(ctx, memory, ActivationType.TANH)), memory


def _gru_step(ctx: Lowering, cell: _Cell, x: int, state: State) -> State:
    h, size = state[0], cell.hidden
    xz, xr, xh = _gates(ctx, x, 3, size)
    update = activation(ctx, _plus(ctx, cell, xz, h, slice(0, size)), ActivationType.SIGMOID)
    reset = activation(ctx, _plus(ctx, cell, xr, h, slice(size, 2 * size)), ActivationType.SIGMOID)
    rows = slice(2 * size, 3 * size)
    if cell.inner.size:
        bias = ctx.cached(("inner", cell.name), lambda: ctx.add_constant(cell.inner, "r_bias"))
        product = bias if h is None else _recurrent_product(ctx, cell, h, rows, cell.inner)
        inner = _two(ctx, "MulFusion", reset, product)
        xh = _two(ctx, "AddFusion", xh, inner)
    elif h is not None:
        xh = _plus(ctx, cell, xh, _two(ctx, "MulFusion", reset, h), rows)
    candidate = activation(ctx, xh, ActivationType.TANH)
    step = _two(ctx, "MulFusion", update, candidate if h is None else _two(ctx, "SubFusion", candidate, h))
    return (_two(ctx, "SubFusion", candidate, step), None)


def _rnn_step(ctx: Lowering, cell: _Cell, x: int, state: State) -> State:
    return (activation(ctx, _plus(ctx, cell, x, state[0], slice(0, cell.hidden)), ActivationType.TANH), None)


_STEPS: dict[str, Step] = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}


def _bind_outputs(
    ctx: Lowering, node: ir.Node, results: list[tuple[list[int], State]], sizes: tuple[int, int, int]
) -> None:
    """Y (steps, directions, batch, hidden), and the last states (directions, batch, hidden)."""
    steps, batch, hidden = sizes
    outputs = [o for o in node.outputs if o.name]
    for place, out in enumerate(node.outputs):
        if out not in outputs:
            continue
        if place == 0:
            parts = [_joined(ctx, states, 0, (steps, 1, batch, hidden)) for states, _ in results]
            index = parts[0] if len(parts) == 1 else ctx.emit("Concat", parts, ctx.shape(out), axis=1)
        else:
            last = [s for _, state in results if (s := state[place - 1]) is not None]
            index = _joined(ctx, last, 0, (len(results), batch, hidden))
        ctx.bind(out, index)


def _joined(ctx: Lowering, parts: list[int], axis: int, dims: tuple[int, ...]) -> int:
    """Equal matrices stacked along their rows, under new dimensions."""
    rows, columns = ctx.ms.tensors[parts[0]].dims
    index = parts[0] if len(parts) == 1 else ctx.emit("Concat", parts, (rows * len(parts), columns), axis=axis)
    return ctx.reshape(index, dims)


TABLE: dict[str, Lower] = dict.fromkeys(_GATES, _recurrent)
