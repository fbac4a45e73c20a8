"""Einsum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

ELLIPSIS = "ABCDEFGHIJ"
"""Letters for what ``...`` stands for, from the right; an equation that has capitals of its own is refused then."""

FIRST_OPSET = 13
"""The first operator set in which the axes of ReduceSum are an input."""


@for_each("Einsum")
def spell_out_einsum(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace an Einsum by Transpose, Reshape, and MatMul; of more than two operands, by a product for each from the second on.

    ::

        bhqd,bkhd->bhqk     a (b h, q, d) ─ MatMul ─ (b h, q, k) ─ y
                            b (b h, d, k) ─┘

    Letters that only one operand has, and the result has not, are summed first. Integers are multiplied with Mul.

    Refused: unknown sizes, sums of other types than float32, diagonals, and sizes of 1 that are repeated.
    """
    found = _terms(node)
    if found is None:
        return False
    operands, result = found
    sizes: dict[str, int] = {}
    for operand in operands:
        for letter, size in operand.sizes().items():
            if sizes.setdefault(letter, size) != size:
                return False
    is_float = node.outputs[0].dtype is ir.DataType.FLOAT
    if not is_float and set(sizes) != set(result):
        return False
    needed = [set(result).union(*(o.letters for o in operands if o is not operand)) for operand in operands]
    if any(set(o.letters) - wanted for o, wanted in zip(operands, needed, strict=True)):
        if g.opset(graph) < FIRST_OPSET:
            return False
        operands = [_summed(graph, node, o, wanted) for o, wanted in zip(operands, needed, strict=True)]
    made, *others = operands
    for place, other in enumerate(others):
        kept = set(result).union(*(later.letters for later in others[place + 1 :]))
        if is_float:
            made = _product(graph, node, [made, other], "".join(sorted(kept)), sizes)
        else:
            made = _multiplied(graph, node, made, other)
    order = [made.letters.index(letter) for letter in result]
    if order == sorted(order):
        replace([node], ir.node("Identity", [made.value]))
    else:
        replace([node], ir.node("Transpose", [made.value], attributes={"perm": order}))
    return True


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor and a letter for each of its axes."""

    value: ir.Value
    letters: str

    def sizes(self) -> dict[str, int]:
        return dict(zip(self.letters, g.static_shape(self.value) or (), strict=True))


def _terms(node: ir.Node) -> tuple[list[_Operand], str] | None:
    """Operands and the letters of the result, if the equation is one of those that are spelled out."""
    equation = g.text_attribute(node, "equation", "").replace(" ", "")
    left, arrow, result = equation.partition("->")
    terms = left.split(",")
    values = [value for value in node.inputs if value is not None]
    shapes = [g.static_shape(value) for value in values]
    if len(values) != len(terms):
        return None
    if not arrow:
        once = sorted(letter for letter in set(left) - set(",.") if left.count(letter) == 1)
        result = ("..." if "..." in left else "") + "".join(once)
    if "..." in equation and any(letter.isupper() for letter in equation):
        return None
    operands, longest = [], 0
    for term, value, shape in zip(terms, values, shapes, strict=True):
        if shape is None:
            return None
        hidden = len(shape) - len(term.replace("...", "")) if "..." in term else 0
        longest = max(longest, hidden)
        letters = term.replace("...", ELLIPSIS[:hidden][::-1])
        if len(letters) != len(shape) or len(set(letters)) != len(letters):
            return None
        operands.append(_Operand(value, letters))
    return operands, result.replace("...", ELLIPSIS[:longest][::-1])


def _summed(graph: ir.Graph, node: ir.Node, operand: _Operand, wanted: set[str]) -> _Operand:
    """An operand without the letters that nobody else has."""
    sizes = operand.sizes()
    axes = [place for place, letter in enumerate(operand.letters) if letter not in wanted]
    if not axes:
        return operand
    kept = "".join(letter for letter in operand.letters if letter in wanted)
    stored = g.add_initializer(graph, f"{node.name}_summed", np.array(axes, np.int64))
    shape = [sizes[letter] for letter in kept]
    return _Operand(insert(graph, node, "ReduceSum", [operand.value, stored], shape, keepdims=0), kept)


def _product(graph: ir.Graph, node: ir.Node, operands: list[_Operand], result: str, sizes: dict[str, int]) -> _Operand:
    """The product of two, with the letters of both in front, then those of the first, then those of the second."""
    first, second = (operand.letters for operand in operands)
    both = "".join(letter for letter in first if letter in second and letter in result)
    inner = "".join(letter for letter in first if letter in second and letter not in result)
    rows = "".join(letter for letter in first if letter not in second)
    columns = "".join(letter for letter in second if letter not in first)
    matrices = [
        _matrices(graph, node, operands[0], (both, rows, inner), sizes),
        _matrices(graph, node, operands[1], (both, inner, columns), sizes),
    ]
    count, height, width = (math.prod(sizes[letter] for letter in letters) for letters in (both, rows, columns))
    shape = (*((count,) if both else ()), height, width)
    made = insert(graph, node, "MatMul", matrices, shape)
    letters = both + rows + columns
    return _Operand(reshaped(graph, node, made, tuple(sizes[letter] for letter in letters)), letters)


def _multiplied(graph: ir.Graph, node: ir.Node, first: _Operand, second: _Operand) -> _Operand:
    """The product of two element by element, with the letters of the first, and behind them what else the second has."""
    letters = first.letters + "".join(letter for letter in second.letters if letter not in first.letters)
    sizes = first.sizes() | second.sizes()
    spread = []
    for operand in (first, second):
        order = sorted(range(len(operand.letters)), key=lambda place: letters.index(operand.letters[place]))
        turned = tuple(sizes[operand.letters[place]] for place in order)
        value = operand.value
        if order != sorted(order):
            value = insert(graph, node, "Transpose", [value], turned, perm=order)
        wide = tuple(sizes[letter] if letter in operand.letters else 1 for letter in letters)
        spread.append(value if wide == turned else reshaped(graph, node, value, wide))
    return _Operand(insert(graph, node, "Mul", spread, [sizes[letter] for letter in letters]), letters)


def _matrices(
    graph: ir.Graph, node: ir.Node, operand: _Operand, parts: tuple[str, str, str], sizes: dict[str, int]
) -> ir.Value:
    """An operand as a matrix for each value of the first letters."""
    order = [operand.letters.index(letter) for letter in "".join(parts)]
    turned = tuple(sizes[letter] for letter in "".join(parts))
    count, height, width = (math.prod(sizes[letter] for letter in part) for part in parts)
    shape = (*((count,) if parts[0] else ()), height, width)
    array = g.constant(operand.value)
    if array is not None:
        folded = np.ascontiguousarray(array.transpose(order).reshape(shape))
        return g.add_initializer(graph, f"{operand.value.name}_matrix", folded)
    value = operand.value
    if order != sorted(order):
        value = insert(graph, node, "Transpose", [value], turned, perm=order)
    return value if shape == turned else reshaped(graph, node, value, shape)
