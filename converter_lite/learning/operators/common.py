"""What functions of operators have in common.

Each takes the node and its inputs (``None`` where one is left out) and gives one tensor, or a list of them. Operator set 13 and
newer. A ``ValueError`` says what of a node is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
from torch import Tensor

from converter_lite import graph as g

Inputs = Sequence[Any]
"""Tensors, or ``None``."""

Operator = Callable[[ir.Node, Inputs], Any]


def given(inputs: Inputs, position: int) -> Tensor | None:
    """An input that may be left out."""
    found: Tensor | None = inputs[position] if len(inputs) > position else None
    return found


def integers(inputs: Inputs, position: int) -> list[int] | None:
    """The numbers of an input that may be left out."""
    found = given(inputs, position)
    return None if found is None else [int(i) for i in found.reshape(-1)]


def axes_of(node: ir.Node, inputs: Inputs, position: int = 1) -> list[int]:
    """Axes from an attribute or, in newer operator sets, from an input; empty if they are not given."""
    found = integers(inputs, position)
    return list(g.ints_attribute(node, "axes")) if found is None else found


def axis_of(node: ir.Node, x: Tensor, default: int) -> int:
    """An axis, counted from the front."""
    axis = g.int_attribute(node, "axis", default)
    if not -max(x.dim(), 1) <= axis < max(x.dim(), 1):
        raise ValueError(f"axis {axis} of {x.dim()}")
    return axis % max(x.dim(), 1)
