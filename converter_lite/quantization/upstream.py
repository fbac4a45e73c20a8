"""Dividing the channels of a tensor at no cost: in the constants that the tensor is computed from.

::

    x ─ MatMul(W) ─ Add(b) ─ Reshape ─ Transpose ─ V          softmax ─ MatMul(V) ─ Transpose ─ Reshape ─ y

The channels of ``y`` are those of ``W`` and ``b``: each step keeps them apart or moves them. So ``y / s`` needs no operator.
Behind a normalization its scale and offset are divided, behind a Mul by a constant that constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import constant_operand, is_op

Factors = NDArray[np.float32]
"""Divisors of a tensor: its rank, 1 along axes on which they do not depend."""


@dataclass(frozen=True, slots=True)
class _Division:
    """A constant operand and what it is divided by, in a form that NumPy broadcasts to it."""

    node: ir.Node
    position: int
    factors: Factors

    def apply(self, graph: ir.Graph, names: g.Names) -> None:
        value = self.node.inputs[self.position]
        assert value is not None
        quotient = np.ascontiguousarray(g.floats(value) / self.factors)
        if g.single_consumer(value) is not None:
            value.const_value, value.shape = ir.Tensor(quotient, name=value.name), ir.Shape(quotient.shape)
        else:
            made = g.add_initializer(graph, f"{value.name}_divided", quotient, names=names)
            self.node.replace_input_with(self.position, made)


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where to divide, and the results that this changes, ``y`` first."""

    divisions: tuple[_Division, ...]
    values: tuple[ir.Value, ...]

    def divide(self, graph: ir.Graph, names: g.Names) -> None:
        """Divide; the graph then computes the quotients."""
        for division in self.divisions:
            division.apply(graph, names)


def find_upstream(value: ir.Value, factors: NDArray[np.float32], *, axis: int = -1) -> Upstream | None:
    """How to divide a tensor by a factor per channel without an operator of its own; nothing is changed yet.

    Args:
        value: The tensor; everything that reads it must expect the quotient.
        factors: One for each place of the axis, whose size may be unknown to the graph.
        axis: Where the channels are.

    Returns:
        ``None`` where a step mixes channels or its sizes are not known, another node reads a value between, or there is no
        product with constants at the end.
    """
    if value.shape is None or factors.size < 2:
        return None
    along = np.moveaxis(factors.reshape((1,) * (len(value.shape) - 1) + factors.shape), -1, axis)
    divisions: list[_Division] = []
    values: list[ir.Value] = []
    while not value.is_graph_output() and (not values or (_fits(value, along) and len(value.uses()) == 1)):
        values.append(value)
        node = value.producer()
        if node is None:
            return None
        last = _weight_division(node, along) or _scale_division(node, along)
        if last:
            return Upstream((*divisions, *last), tuple(values))
        step = _addition(node, along, divisions) or _move(node, along)
        if step is None:
            return None
        value, along = step
    return None


def _fits(value: ir.Value, factors: Factors) -> bool:
    """Whether the tensor has the factors' rank, and their size along each axis that they depend on."""
    shape = value.shape
    if shape is None or len(shape) != factors.ndim:
        return False
    return all(count == 1 or size == count for size, count in zip(shape, factors.shape, strict=True))


def _weight_division(node: ir.Node, factors: Factors) -> list[_Division]:
    """The product with a matrix of its own whose columns are the channels."""
    if not is_op(node, "MatMul") or not g.is_constant(node.inputs[1]) or factors.size != factors.shape[-1]:
        return []
    weight = node.inputs[1]
    is_own = weight is not None and g.single_consumer(weight) is not None and len(g.static_shape(weight) or ()) == 2
    return [_Division(node, 1, factors.reshape(-1))] if is_own else []


def _scale_division(node: ir.Node, factors: Factors) -> list[_Division]:
    """Scale and offset of a normalization over the last axis; the constant of a Mul, as at the end of a spelled-out one."""
    if is_op(node, "LayerNormalization") and g.int_attribute(node, "axis", -1) == -1:
        positions = [i for i, value in enumerate(node.inputs) if i > 0 and value is not None]
        fit = factors.size == factors.shape[-1] and all(
            g.static_shape(node.inputs[i]) == (factors.size,) and g.is_constant(node.inputs[i]) for i in positions
        )
        return [_Division(node, i, factors.reshape(-1)) for i in positions] if fit else []
    operands = constant_operand(node) if is_op(node, "Mul") else None
    if operands is None:
        return []
    kept = _as_divisor(factors, operands[1])
    return [] if kept is None else [_Division(node, 0 if operands[2] else 1, kept)]


def _addition(node: ir.Node, factors: Factors, divisions: list[_Division]) -> tuple[ir.Value, Factors] | None:
    """Past the Add of a constant, which is divided as well."""
    operands = constant_operand(node) if is_op(node, "Add") else None
    if operands is None:
        return None
    other, constant, constant_is_first = operands
    kept = _as_divisor(factors, constant)
    if kept is None:
        return None
    divisions.append(_Division(node, 0 if constant_is_first else 1, kept))
    return other, factors


def _as_divisor(factors: Factors, constant: ir.Value) -> Factors | None:
    """The factors in a form that divides a constant: one number becomes one for each channel, others keep their shape."""
    shape = g.static_shape(constant) or ()
    if math.prod(shape) == 1:
        first = next(axis for axis, count in enumerate(factors.shape) if count > 1)
        return factors.reshape(factors.shape[min(first, factors.ndim - len(shape)) :])
    kept = factors.reshape(factors.shape[factors.ndim - len(shape) :]) if _ones_before(factors, len(shape)) else None
    return kept if kept is not None and np.broadcast_shapes(shape, kept.shape) == shape else None


def _ones_before(factors: Factors, rank: int) -> bool:
    """Whether the factors do not depend on any axis before the last ``rank`` ones."""
    return rank <= factors.ndim and all(size == 1 for size in factors.shape[: factors.ndim - rank])


def _move(node: ir.Node, factors: Factors) -> tuple[ir.Value, Factors] | None:
    """Past a node that moves channels or sums over other axes; the next tensor and its factors."""
    source = node.inputs[1] if is_op(node, "MatMul") else node.inputs[0] if node.inputs else None
    if source is None or source.shape is None:
        return None
    if is_op(node, "Transpose"):
        perm = node.attributes.get("perm")
        order = tuple(perm.as_ints()) if perm is not None else tuple(reversed(range(factors.ndim)))
        return source, factors.transpose(tuple(np.argsort(order)))
    rank = len(source.shape)
    if is_op(node, "MatMul"):
        if factors.ndim < 2 or rank < 2 or factors.shape[-2] != 1 or not _ones_before(factors, rank):
            return None
        return source, factors.reshape(factors.shape[factors.ndim - rank :])
    return _through_reshape(source, node.outputs[0], factors) if is_op(node, "Reshape") else None


def _through_reshape(source: ir.Value, result: ir.Value, factors: Factors) -> tuple[ir.Value, Factors] | None:
    """Channels that fill the last axes of both shapes: these hold the same numbers in the same order."""
    if source.shape is None or result.shape is None:
        return None
    first = next(axis for axis, count in enumerate(factors.shape) if count > 1)
    pairs = list(zip(result.shape, factors.shape, strict=True))[first:]
    sizes = _static([size if count == 1 else count for size, count in pairs])
    if sizes is None:
        return None
    spread = np.broadcast_to(factors, factors.shape[:first] + sizes).reshape(-1)
    for axis in reversed(range(len(source.shape))):
        tail = _static(source.shape[axis:])
        if tail is not None and math.prod(tail) == spread.size:
            return source, spread.reshape((1,) * axis + tail)
    return None


def _static(sizes: Sequence[object]) -> tuple[int, ...] | None:
    """Sizes, where all are known."""
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if len(known) == len(sizes) else None
