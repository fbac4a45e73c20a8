"""Computing shapes while a graph is built: what a node gives if its inputs are whole numbers that are known, or partly known.

Of each number an array of objects holds the number itself, the name of the open size that it is, or ``None`` where only a run
will tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import MISFITS

Known = NDArray[np.object_]

Size = int | str | None
"""A number, an open size, or something unknown."""

LARGEST = 1024
"""Most numbers of a tensor that is followed: shapes and the like are short."""

KEY = "known"
"""Key of a value's ``meta`` for what is known of it."""

INTEGERS = (ir.DataType.INT32, ir.DataType.INT64)

FOLLOWED = (*INTEGERS, ir.DataType.BOOL)
"""Types of elements that are followed."""


def known(value: ir.Value | None) -> Known | None:
    """What is known of a value of whole numbers; ``None`` for others."""
    if value is None:
        return None
    if KEY not in value.meta:
        tensor = value.const_value
        if tensor is None or tensor.dtype not in FOLLOWED or tensor.size > LARGEST:
            return None
        value.meta[KEY] = _objects(tensor.numpy())
    found: Known = value.meta[KEY]
    return found


def computed(op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any]) -> Known | None:
    """What is known of the first result of a node; ``None`` where nothing is."""
    if op_type == "Shape":
        return _shape(inputs[0])
    rule = _RULES.get(op_type)
    if rule is None or not inputs:
        return None
    arguments = [known(value) for value in inputs]
    if any(found is None and value is not None for found, value in zip(arguments, inputs, strict=True)):
        return None
    try:
        result = rule(attributes, *arguments)
    except MISFITS:
        return None
    return _objects(result) if np.size(result) <= LARGEST else None


def whole(numbers: Known) -> NDArray[np.int64] | None:
    """The numbers if all of them are known, and none is too large."""
    flat = numbers.reshape(-1).tolist()
    if not all(isinstance(number, int) and -(2**63) <= number < 2**63 for number in flat):
        return None
    return np.array(flat, np.int64).reshape(numbers.shape)


def _objects(array: Any) -> Known:
    """An array of Python objects, also of one number."""
    found = np.empty(np.shape(array), np.object_)
    flat = np.asarray(array, np.object_).reshape(-1)
    found.reshape(-1)[:] = [number.item() if isinstance(number, np.generic) else number for number in flat]
    return found


def _shape(value: ir.Value | None) -> Known | None:
    if value is None or value.shape is None:
        return None
    sizes = [size if isinstance(size, int) else size.value for size in value.shape]
    found = np.empty(len(sizes), np.object_)
    found[:] = sizes
    return found


def _ints(numbers: Known) -> list[int]:
    """Numbers that all have to be known."""
    flat = np.asarray(numbers).reshape(-1).tolist()
    if not all(isinstance(number, int) for number in flat):
        raise ValueError("a size is open")
    return [int(number) for number in flat]


def _slice(_: Any, x: Known, start: Known, end: Known, axes: Known | None = None, steps: Known | None = None) -> Known:
    starts, ends = _ints(start), _ints(end)
    where = list(range(len(starts))) if axes is None else _ints(axes)
    strides = [1] * len(starts) if steps is None else _ints(steps)
    parts = [slice(None)] * x.ndim
    for axis, first, last, stride in zip(where, starts, ends, strides, strict=True):
        parts[axis] = slice(first, None if stride < 0 and last < -x.shape[axis] else last, stride)
    return x[tuple(parts)]


def _gather(attributes: Mapping[str, Any], x: Known, indices: Known) -> Known:
    return np.take(x, np.array(_ints(indices), np.int64).reshape(indices.shape), axis=attributes.get("axis", 0))


def _squeeze(_: Any, x: Known, axes: Known | None = None) -> Known:
    return np.squeeze(x, None if axes is None else tuple(_ints(axes)))


def _arithmetic(function: Callable[[int, int], int | bool | None]) -> Callable[..., Any]:
    """A function of two numbers; nothing is known where one of them is not."""

    def of_two(a: Size, b: Size) -> int | bool | None:
        return function(a, b) if isinstance(a, int) and isinstance(b, int) else None

    pairwise = np.frompyfunc(of_two, 2, 1)

    def rule(_: Any, *numbers: Known) -> Any:
        return reduce(pairwise, numbers)

    return rule


def _reduce(function: Callable[[list[int]], int]) -> Callable[..., Any]:
    def rule(attributes: Mapping[str, Any], x: Known, axes: Known | None = None) -> Any:
        if x.ndim != 1 or (axes is not None and _ints(axes) not in ([0], [-1])):
            raise ValueError("only lists are followed")
        total = function(_ints(x))
        return np.array([total]) if attributes.get("keepdims", 1) else np.array(total)

    return rule


def _cast(attributes: Mapping[str, Any], x: Known) -> Known:
    if ir.DataType(attributes["to"]) not in INTEGERS:
        raise ValueError("only whole numbers are followed")
    return x


def _expand(_: Any, x: Known, shape: Known) -> Known:
    sizes = _ints(shape)
    if any(size > LARGEST for size in sizes):
        raise ValueError("too many numbers")
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes)))


def _range(_: Any, start: Known, stop: Known, stride: Known) -> Any:
    numbers = _ints(start)[0], _ints(stop)[0], _ints(stride)[0]
    if len(range(*numbers)) > LARGEST:
        raise ValueError("too many numbers")
    return np.arange(*numbers)


def _truncated(a: int, b: int) -> int | None:
    """Division towards zero."""
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _product(numbers: list[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


_RULES: dict[str, Callable[..., Any]] = {
    "Identity": lambda _, x: x,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": lambda attributes, *parts: np.concatenate(parts, axis=attributes["axis"]),
    "Unsqueeze": lambda _, x, axes: np.expand_dims(x, tuple(_ints(axes))),
    "Squeeze": _squeeze,
    "Reshape": lambda _, x, shape: x.reshape(_ints(shape)),
    "Transpose": lambda attributes, x: np.transpose(x, attributes["perm"]),
    "Expand": _expand,
    "Range": _range,
    "Add": _arithmetic(lambda a, b: a + b),
    "Sub": _arithmetic(lambda a, b: a - b),
    "Mul": _arithmetic(lambda a, b: a * b),
    "Div": _arithmetic(_truncated),
    "Mod": _arithmetic(lambda a, b: None if b == 0 else a % b),
    "Max": _arithmetic(max),
    "Min": _arithmetic(min),
    "Less": _arithmetic(lambda a, b: a < b),
    "LessOrEqual": _arithmetic(lambda a, b: a <= b),
    "Greater": _arithmetic(lambda a, b: a > b),
    "GreaterOrEqual": _arithmetic(lambda a, b: a >= b),
    "Equal": _arithmetic(lambda a, b: a == b),
    "And": _arithmetic(lambda a, b: bool(a and b)),
    "Or": _arithmetic(lambda a, b: bool(a or b)),
    "Not": lambda _, x: np.frompyfunc(lambda a: not a if isinstance(a, int) else None, 1, 1)(x),
    "ReduceProd": _reduce(_product),
    "ReduceSum": _reduce(sum),
    "ReduceMax": _reduce(max),
    "ReduceMin": _reduce(min),
}
"""Operator -> function of its attributes and of what is known of its inputs."""

TRUTHS = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Not"})
"""Operators that give truth values."""
