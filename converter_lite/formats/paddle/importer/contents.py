"""Numbers of small integer tensors, as far as they are known: sizes that are read from tensors, counted with and put together.

Programs that take batches of any size compute every shape from that of their input. Most of those numbers are known all the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Size:
    """A size that is known at run time only: one element of what a Shape node computes."""

    shape: ir.Value
    place: int


Number = int | Size | None
Numbers = tuple[Number, ...]
"""Elements of a tensor; ``None`` for one of which nothing is known."""

Contents = MutableMapping[ir.Value, Numbers]
"""Numbers of what nodes have computed."""

MOST = 64
"""Elements of a tensor that is looked at."""

LARGEST = {ir.DataType.INT64: 1 << 62, ir.DataType.INT32: (1 << 31) - 1}
"""Magnitude of numbers beyond which nothing is counted, by element type."""

INTEGERS = tuple(LARGEST)


def numbers_of(value: ir.Value | None, contents: Contents) -> Numbers | None:
    """What is known of a tensor of at most one dimension; ``None``: nothing."""
    if value is None or value.dtype not in INTEGERS:
        return None
    tensor = value.const_value
    if tensor is None:
        return contents.get(value)
    if tensor.size > MOST or len(tensor.shape) > 1:
        return None
    return tuple(int(number) for number in tensor.numpy().reshape(-1))


def follow(node: ir.Node, contents: Contents) -> None:
    """Remember what is known of the output of a node."""
    rule = _RULES.get(node.op_type)
    result = node.outputs[0]
    if rule is None or result.dtype not in INTEGERS or result.shape is None or len(result.shape) > 1:
        return
    found = rule(node, contents)
    if found is not None and len(found) <= MOST and any(number is not None for number in found):
        limit = LARGEST[result.dtype]
        contents[result] = tuple(None if isinstance(n, int) and abs(n) > limit else n for n in found)


def is_counting(node: ir.Node) -> bool:
    """Whether a node computes nothing but integers of the kind that is followed."""
    return node.op_type in _RULES and node.outputs[0].dtype in INTEGERS


def _inputs(node: ir.Node, contents: Contents) -> list[Numbers] | None:
    found = [numbers_of(value, contents) for value in node.inputs]
    return None if None in found else [numbers for numbers in found if numbers is not None]


def _shape(node: ir.Node, contents: Contents) -> Numbers | None:
    value, attributes = node.inputs[0], node.attributes
    if value is None or value.shape is None:
        return None
    bounds = [attributes[key].as_int() if key in attributes else None for key in ("start", "end")]
    sizes = value.shape.dims[slice(*bounds)]
    return tuple(size if isinstance(size, int) else Size(node.outputs[0], place) for place, size in enumerate(sizes))


def _same(node: ir.Node, contents: Contents) -> Numbers | None:
    return numbers_of(node.inputs[0], contents)


def _concat(node: ir.Node, contents: Contents) -> Numbers | None:
    parts = []
    for value in node.inputs:
        assert value is not None
        found = numbers_of(value, contents)
        if found is None:  # nothing is known but how many there are
            sizes = value.shape.dims if value.shape is not None else (None,)
            if len(sizes) != 1 or not isinstance(sizes[0], int) or sizes[0] > MOST:
                return None
            found = (None,) * sizes[0]
        parts.append(found)
    return tuple(number for part in parts for number in part)


def _picked(node: ir.Node, contents: Contents) -> Numbers | None:
    given = _inputs(node, contents)
    if given is None:
        return None
    places = [place for place in given[1] if isinstance(place, int) and -len(given[0]) <= place < len(given[0])]
    return tuple(given[0][place] for place in places) if len(places) == len(given[1]) else None


def _slice(node: ir.Node, contents: Contents) -> Numbers | None:
    given = _inputs(node, contents)
    if given is None:
        return None
    limits = [number for part in given[1:] if len(part) == 1 for number in part if isinstance(number, int)]
    step = limits[3] if len(limits) > 3 else 1
    if len(limits) != len(given) - 1 or step < 1:
        return None
    return given[0][limits[0] : limits[1] : step]


def _counted(function: Callable[[int, int], int]) -> Callable[[ir.Node, Contents], Numbers | None]:
    def rule(node: ir.Node, contents: Contents) -> Numbers | None:
        given = _inputs(node, contents)
        if given is None or len(given) != 2:
            return None
        length = max(len(part) for part in given)
        if any(len(part) not in (1, length) for part in given):
            return None
        left, right = (part * (length // len(part)) for part in given)
        return tuple(_of_two(function, *pair) for pair in zip(left, right, strict=True))

    return rule


def _of_two(function: Callable[[int, int], int], left: Number, right: Number) -> int | None:
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    try:
        return function(left, right)
    except ZeroDivisionError:
        return None


def _quotient(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def open_as_rest(numbers: Sequence[Number]) -> list[int] | None:
    """A shape with -1, the size that follows from the others, for one that is not known; ``None`` if there are several."""
    shape = [number if isinstance(number, int) else -1 for number in numbers]
    return shape if shape.count(-1) <= 1 else None


_RULES: dict[str, Callable[[ir.Node, Contents], Numbers | None]] = {
    "Shape": _shape,
    **dict.fromkeys(("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze"), _same),
    "Concat": _concat,
    "Gather": _picked,
    "Slice": _slice,
    "Add": _counted(operator.add),
    "Sub": _counted(operator.sub),
    "Mul": _counted(operator.mul),
    "Div": _counted(_quotient),
    "Max": _counted(max),
    "Min": _counted(min),
}
