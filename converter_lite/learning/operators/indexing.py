"""Operators that read and write at computed places."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir
import torch
from torch import Tensor

from converter_lite import graph as g
from converter_lite.learning.operators.common import Inputs, Operator, axis_of, integers

REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}
"""Of scattered values, as PyTorch calls them."""


def gather(node: ir.Node, inputs: Inputs) -> Tensor:
    """Gather."""
    x, index = inputs[0], inputs[1]
    axis = g.int_attribute(node, "axis", 0) % x.dim()
    index = _from_front(index, x.shape[axis])
    found = x.index_select(axis, index.reshape(-1))
    return found.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def gather_elements(node: ir.Node, inputs: Inputs) -> Tensor:
    """GatherElements."""
    x, axis = inputs[0], axis_of(node, inputs[0], 0)
    return x.gather(axis, _from_front(inputs[1], x.shape[axis]).long())


def gather_nd(node: ir.Node, inputs: Inputs) -> Tensor:
    """GatherND."""
    x, index, batch = inputs[0], inputs[1], g.int_attribute(node, "batch_dims", 0)
    depth, count = index.shape[-1], math.prod(x.shape[:batch])
    inner = x.shape[batch : batch + depth]
    places = _flat_places(index.reshape(count, -1, depth), inner)
    places = places + torch.arange(count).reshape(-1, 1) * math.prod(inner)
    rest = x.shape[batch + depth :]
    rows = x.reshape(count * math.prod(inner), *rest)
    return rows.index_select(0, places.reshape(-1)).reshape(*index.shape[:-1], *rest)


def scatter_elements(node: ir.Node, inputs: Inputs) -> Tensor:
    """ScatterElements."""
    x, axis = inputs[0], axis_of(node, inputs[0], 0)
    return _scattered(node, x, axis, _from_front(inputs[1], x.shape[axis]).long(), inputs[2])


def scatter_nd(node: ir.Node, inputs: Inputs) -> Tensor:
    """ScatterND."""
    x, index, updates = inputs
    depth = index.shape[-1]
    width = math.prod(x.shape[depth:])
    places = _flat_places(index.reshape(-1, depth), x.shape[:depth]).reshape(-1, 1).expand(-1, width)
    rows = x.reshape(math.prod(x.shape[:depth]), width)
    return _scattered(node, rows, 0, places, updates.reshape(-1, width)).reshape(x.shape)


def _scattered(node: ir.Node, x: Tensor, axis: int, places: Tensor, updates: Tensor) -> Tensor:
    reduction = g.text_attribute(node, "reduction", "none")
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction])


def _from_front(index: Tensor, size: int) -> Tensor:
    """Places counted from the front."""
    return torch.where(index < 0, index + size, index)


def _flat_places(index: Tensor, sizes: torch.Size) -> Tensor:
    """Places in a flat tensor from their coordinates, which are the last axis."""
    places = torch.zeros(index.shape[:-1], dtype=torch.int64)
    for number, size in enumerate(sizes):
        places = places * size + _from_front(index[..., number], size)
    return places


def top_k(node: ir.Node, inputs: Inputs) -> list[Tensor]:
    """TopK; of equal values, the first ones."""
    x, axis = inputs[0], axis_of(node, inputs[0], -1)
    largest = bool(g.int_attribute(node, "largest", 1))
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    count = (integers(inputs, 1) or [1])[0]
    return [values.narrow(axis, 0, count), places.narrow(axis, 0, count)]


def arg_of(function: Callable[..., Tensor]) -> Operator:
    """ArgMax, ArgMin."""

    def argument(node: ir.Node, inputs: Inputs) -> Tensor:
        x, axis = inputs[0], axis_of(node, inputs[0], 0)
        is_last = bool(g.int_attribute(node, "select_last_index", 0))
        found = function(x.flip(axis) if is_last else x, axis, bool(g.int_attribute(node, "keepdims", 1)))
        return x.shape[axis] - 1 - found if is_last else found

    return argument


def non_zero(node: ir.Node, inputs: Inputs) -> Tensor:
    """NonZero."""
    del node
    return torch.nonzero(inputs[0]).T
