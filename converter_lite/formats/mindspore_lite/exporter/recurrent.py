"""Recurrent layers: the runtime's LSTM where it is right, otherwise written out step by step.

The LSTM of the runtimes has ONNX' gates, weights and biases. The x86 one computes with single rows wrongly, or ends the process,
unless the hidden size is a multiple of 8. The GRU of the runtimes resets before the product, which no PyTorch model does, and is
wrong for more than one row; an RNN there is none.

Written out, products of all inputs with the weights are one product before the first step; nodes and tensors have short names,
since a step has a dozen. Weights that are stored as integers become floats while the file is loaded, once for all steps.

Source: gate order and equations, ONNX operator specification; kernels, run in the released 2.0.0 runtimes (x86-64 and ARM64).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import ActivationType, DataType, QuantType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import Lower, activation, required
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.weights import coded_reals, coded_weight, weight
from converter_lite.graph import attribute, input_at, int_attribute, text_attribute

_MAX_STEPS = 512
_X86_LANES = 8
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@dataclass(frozen=True, slots=True)
class _Cell:
    """Constants of one direction.

    Attributes:
        name: Of the layer and the direction.
        w: Weights of the input, ``(gates * hidden, size)``.
        r: Weights of the state, ``(gates * hidden, hidden)``.
        coded: Whether ``w`` and ``r`` are numbers of a grid, few enough to be coded.
        bias: Of all gates.
        inner: Bias of the recurrent product of GRU's candidate; empty: it is in ``bias``.
    """

    name: str
    w: NDArray[np.float32]
    r: NDArray[np.float32]
    coded: tuple[bool, bool]
    bias: NDArray[np.float32]
    inner: NDArray[np.float32]
    batch: int
    hidden: int


State = tuple[int | None, ...]
Step = Callable[[Lowering, _Cell, list[int], State], State]
"""From what the input gives to the gates (of a GRU: to the first two, and to the candidate), and the states, to the next ones."""


def _recurrent(ctx: Lowering, node: ir.Node) -> None:
    _refuse_variants(ctx, node)
    x = required(node, 0)
    steps, batch, size = ctx.shape(x)
    hidden = ctx.shape(required(node, 2))[2]
    if _has_kernel(node, batch, hidden):
        _kernel(ctx, node, (steps, batch, hidden))
        return
    if steps > _MAX_STEPS:
        raise Unsupported(f"{steps} steps (at most {_MAX_STEPS} are written out)")
    source, made = ctx.use(x), len(ctx.ms.nodes)
    flat = ctx.reshape(source, (steps * batch, size))
    direction = text_attribute(node, "direction", "forward")
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    results = []
    for number, reverse in enumerate(backward):
        cell = _cell(ctx, node, number, batch, hidden)
        state = tuple(_initial(ctx, node, place, number, len(backward)) for place in (5, 6))
        results.append(_run(ctx, node, cell, flat, range(steps)[:: -1 if reverse else 1], state))
    ctx.number_nodes(made)
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


def _has_kernel(node: ir.Node, batch: int, hidden: int) -> bool:
    forward = text_attribute(node, "direction", "forward") in ("forward", "bidirectional")
    return node.op_type == "LSTM" and forward and (batch > 1 or hidden % _X86_LANES == 0)


def _kernel(ctx: Lowering, node: ir.Node, sizes: tuple[int, int, int]) -> None:
    """The runtime's LSTM: input, weights, biases and both initial states; all outputs."""
    steps, batch, hidden = sizes
    x = required(node, 0)
    stored = [weight(ctx, node, required(node, place), pm.identity(3), axis=0) for place in (1, 2)]
    directions = ctx.shape(required(node, 1))[0]
    bias = np.zeros((directions, 8 * hidden)) if (given := input_at(node, 3)) is None else ctx.array(given, "B")
    state = (directions, batch, hidden)
    zeros = ("zeros", state)
    inputs = [
        ctx.use(x),
        *(one.index for one in stored),
        ctx.add_constant(np.asarray(bias, np.float32), f"{node.name}_bias"),
    ]
    for place in (5, 6):
        start = input_at(node, place)
        made = ctx.cached(zeros, lambda: ctx.add_constant(np.zeros(state, np.float32), "zeros"))
        inputs.append(made if start is None else ctx.use(start))
    outputs = [
        ((steps, directions, batch, hidden), DataType.FLOAT32),
        (state, DataType.FLOAT32),
        (state, DataType.FLOAT32),
    ]
    mark = QuantType.WEIGHT if any(one.mark is not QuantType.NONE for one in stored) else QuantType.NONE
    results = ctx.emit_many(
        "LSTM",
        inputs,
        outputs,
        quant_type=mark,
        bidirectional=directions == 2,
        has_bias=True,
        input_size=ctx.shape(x)[2],
        hidden_size=hidden,
        num_layers=1,
        num_directions=directions,
    )
    for value, index in zip(node.outputs, results, strict=False):
        if value.name:
            ctx.bind(value, index)


def _cell(ctx: Lowering, node: ir.Node, number: int, batch: int, hidden: int) -> _Cell:
    w, r = required(node, 1), required(node, 2)
    stored = coded_weight(ctx, node, w), coded_weight(ctx, node, r)
    of_input, of_state = (
        np.asarray(ctx.array(value, what) if reals is None else reals, np.float32)[number]
        for value, what, reals in zip((w, r), "WR", stored, strict=True)
    )
    given = input_at(node, 3)
    size = _GATES[node.op_type] * hidden
    halves = np.zeros(2 * size, np.float32) if given is None else np.asarray(ctx.array(given, "B"), np.float32)[number]
    bias, inner = halves[:size].copy(), halves[size:].copy()
    apart = node.op_type == "GRU" and bool(int_attribute(node, "linear_before_reset", 0))
    bias[: 2 * hidden if apart else size] += inner[: 2 * hidden if apart else size]
    candidate = inner[2 * hidden :] if apart else np.zeros(0, np.float32)
    coded = stored[0] is not None, stored[1] is not None
    return _Cell(f"{node.name}_{number}", of_input, of_state, coded, bias, candidate, batch, hidden)


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
    matrix = _matrix(ctx, cell.w, f"{cell.name}_w", is_coded=cell.coded[0])
    inputs = [flat, matrix, ctx.add_constant(cell.bias, f"{node.name}_bias")]
    steps, width = len(order), cell.w.shape[0]
    products = ctx.emit("MatMulFusion", inputs, (steps * cell.batch, width), transpose_b=True)
    columns = [2 * cell.hidden, cell.hidden] if node.op_type == "GRU" else [width]
    parts = [_cut_rows(ctx, part, steps, cell.batch) for part in _cut_columns(ctx, products, columns)]
    hidden: list[int] = [0] * steps
    for time in order:
        state = _STEPS[node.op_type](ctx, cell, [part[time] for part in parts], state)
        assert state[0] is not None
        hidden[time] = state[0]
    return hidden, state


def _cut_rows(ctx: Lowering, index: int, count: int, rows: int) -> list[int]:
    if count == 1:
        return [index]
    tensor = ctx.ms.tensors[index]
    outputs = [((rows, tensor.dims[1]), tensor.dtype)] * count
    return ctx.emit_many("Split", [index], outputs, output_num=count, size_splits=[rows] * count, axis=0)


def _cut_columns(ctx: Lowering, index: int, sizes: list[int]) -> list[int]:
    if len(sizes) == 1:
        return [index]
    tensor = ctx.ms.tensors[index]
    outputs = [((tensor.dims[0], size), tensor.dtype) for size in sizes]
    return ctx.emit_many("Split", [index], outputs, output_num=len(sizes), size_splits=sizes, axis=1)


def _matrix(ctx: Lowering, array: NDArray[np.float32], name: str, *, is_coded: bool) -> int:
    return coded_reals(ctx, array, name) if is_coded else ctx.add_constant(array, name)


def _recurrent_product(ctx: Lowering, cell: _Cell, h: int, rows: slice, bias: NDArray[np.float32] | None = None) -> int:
    key = ("recurrent", cell.name, rows.start, rows.stop)
    matrix = ctx.cached(key, lambda: _matrix(ctx, cell.r[rows], f"{cell.name}_r", is_coded=cell.coded[1]))
    inputs = [h, matrix]
    if bias is not None:
        inputs.append(ctx.cached((*key, "bias"), lambda: ctx.add_constant(bias, "r_bias")))
    return ctx.emit("MatMulFusion", inputs, (cell.batch, len(cell.r[rows])), transpose_b=True)


def _two(ctx: Lowering, op: str, a: int, b: int) -> int:
    return ctx.emit(op, [a, b], ctx.ms.tensors[a].dims)


def _plus(ctx: Lowering, cell: _Cell, x: int, h: int | None, rows: slice) -> int:
    return x if h is None else _two(ctx, "AddFusion", x, _recurrent_product(ctx, cell, h, rows))


def _lstm_step(ctx: Lowering, cell: _Cell, x: list[int], state: State) -> State:
    h, c = state
    sums = _plus(ctx, cell, x[0], h, slice(0, 4 * cell.hidden))
    i, o, f, g = _cut_columns(ctx, sums, [cell.hidden] * 4)
    candidate = activation(ctx, g, ActivationType.TANH)
    memory = _two(ctx, "MulFusion", activation(ctx, i, ActivationType.SIGMOID), candidate)
    if c is not None:
        kept = _two(ctx, "MulFusion", activation(ctx, f, ActivationType.SIGMOID), c)
        memory = _two(ctx, "AddFusion", kept, memory)
    gate = activation(ctx, o, ActivationType.SIGMOID)
    return _two(ctx, "MulFusion", gate, activation(ctx, memory, ActivationType.TANH)), memory


def _gru_step(ctx: Lowering, cell: _Cell, x: list[int], state: State) -> State:
    (of_gates, xh), h, size = x, state[0], cell.hidden
    both = activation(ctx, _plus(ctx, cell, of_gates, h, slice(0, 2 * size)), ActivationType.SIGMOID)
    update, reset = _cut_columns(ctx, both, [size, size])
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


def _rnn_step(ctx: Lowering, cell: _Cell, x: list[int], state: State) -> State:
    return (activation(ctx, _plus(ctx, cell, x[0], state[0], slice(0, cell.hidden)), ActivationType.TANH), None)


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
