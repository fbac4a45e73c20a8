"""Recurrent layers, a step after another."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite import graph as g
from converter_lite.learning.operators.common import Inputs, Operator, given

_State = tuple[Tensor, ...]
"""What a layer hands from step to step: its result, and the memory of an LSTM; each (batch, hidden)."""

_Cell = Callable[[Tensor, _State], _State]
"""The next state, from what the step reads (batch, input) and the state before it."""

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

_USUAL = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""Activation functions of a direction."""


def recurrent(kind: str) -> Operator:
    """LSTM, GRU or RNN with the usual functions, over sequences of full length."""

    def layer(node: ir.Node, inputs: Inputs) -> list[Tensor]:
        x, weight, recurrence = inputs[:3]
        is_batch_first = bool(g.int_attribute(node, "layout", 0))
        x = x.transpose(0, 1) if is_batch_first else x
        _refuse_unusual(kind, node, inputs, x.shape[0])
        hidden, directions = recurrence.shape[-1], len(weight)
        bias = given(inputs, 3)
        bias = torch.zeros(directions, 2 * _GATES[kind] * hidden) if bias is None else bias
        peepholes = given(inputs, 7)
        starts = [given(inputs, 5), given(inputs, 6)][: 2 if kind == "LSTM" else 1]
        all_results, ends = [], []
        for number in range(directions):
            parts = weight[number], recurrence[number], *bias[number].chunk(2)
            cell = _cell(kind, node, parts, None if peepholes is None else peepholes[number])
            state = tuple(_start(start, number, x, hidden, is_batch_first) for start in starts)
            backwards = number == 1 or g.text_attribute(node, "direction", "forward") == "reverse"
            results = []
            for step in (x.flip(0) if backwards else x).unbind(0):
                state = cell(step, state)
                results.append(state[0])
            all_results.append(torch.stack(results[::-1] if backwards else results))
            ends.append(state)
        y = torch.stack(all_results, 1)  # steps, directions, batch, hidden
        last = [torch.stack(parts) for parts in zip(*ends, strict=True)]
        if is_batch_first:
            return [y.permute(2, 0, 1, 3), *(part.transpose(0, 1) for part in last)]
        return [y, *last]

    return layer


def _refuse_unusual(kind: str, node: ir.Node, inputs: Inputs, steps: int) -> None:
    functions = node.attributes["activations"].as_strings() if "activations" in node.attributes else ()
    usual = _USUAL[kind]
    if [name.lower() for name in functions] != [name.lower() for name in usual] * (len(functions) // len(usual)):
        raise ValueError(f"its functions are not {', '.join(usual)}")
    if "clip" in node.attributes or g.int_attribute(node, "input_forget", 0):
        raise ValueError("it clips, or couples gates")
    lengths = given(inputs, 4)
    if lengths is not None and bool((lengths != steps).any()):
        raise ValueError("its sequences are of several lengths")


def _start(start: Tensor | None, number: int, x: Tensor, hidden: int, is_batch_first: bool) -> Tensor:
    if start is None:
        return torch.zeros(x.shape[1], hidden)
    found: Tensor = start.transpose(0, 1)[number] if is_batch_first else start[number]
    return found


def _cell(kind: str, node: ir.Node, parts: tuple[Tensor, ...], peepholes: Tensor | None) -> _Cell:
    if kind == "LSTM":
        return _lstm(parts, peepholes)
    if kind == "GRU":
        return _gru(parts, is_linear_first=bool(g.int_attribute(node, "linear_before_reset", 0)))
    weight, recurrence, bias, more = parts
    return lambda x, state: (torch.tanh(F.linear(x, weight, bias) + F.linear(state[0], recurrence, more)),)


def _lstm(parts: tuple[Tensor, ...], peepholes: Tensor | None) -> _Cell:
    """Gates in the order input, output, forget, cell."""
    weight, recurrence, bias, more = parts

    def step(x: Tensor, state: _State) -> _State:
        h, c = state
        i, o, f, z = (F.linear(x, weight, bias) + F.linear(h, recurrence, more)).chunk(4, -1)
        if peepholes is not None:
            pi, po, pf = peepholes.chunk(3)
            i, f = i + pi * c, f + pf * c
        new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)
        o = o if peepholes is None else o + po * new
        return torch.sigmoid(o) * torch.tanh(new), new

    return step


def _gru(parts: tuple[Tensor, ...], *, is_linear_first: bool) -> _Cell:
    """Gates in the order update, reset, hidden."""
    weight, recurrence, bias, more = parts
    size = recurrence.shape[-1]

    def step(x: Tensor, state: _State) -> _State:
        (h,) = state
        z, r, n = F.linear(x, weight, bias).chunk(3, -1)
        uz, ur = F.linear(h, recurrence[: 2 * size], more[: 2 * size]).chunk(2, -1)
        z, r = torch.sigmoid(z + uz), torch.sigmoid(r + ur)
        last, last_bias = recurrence[2 * size :], more[2 * size :]
        n = n + (r * F.linear(h, last, last_bias) if is_linear_first else F.linear(r * h, last, last_bias))
        return ((1 - z) * torch.tanh(n) + z * h,)

    return step
