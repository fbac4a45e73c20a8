"""Values that an operator requires of an input that is not data: axes, shapes, sizes, indices, lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.graph import attribute, input_at, int_attribute, ints_attribute, label, scalar, static_shape

Shape = tuple[int, ...]

LARGEST_BLOCK = 64
"""Elements of a window that is searched for."""


@dataclass(frozen=True)
class Role:
    """What an operator reads from an input.

    Attributes:
        what: For the log.
        values: The values of every sample.
    """

    what: str
    values: tuple[float, ...]

    def array(self, shape: Shape, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A sample of this shape; one value serves all elements."""
        return np.broadcast_to(np.array(self.values).reshape(shape if len(self.values) > 1 else ()), shape).astype(
            dtype
        )


def role_of(node: ir.Node, position: int, shape: Shape) -> Role | None:
    """The role of an input of a node, if the values that it may have follow from the shapes around it.

    Args:
        node: The node that reads the input.
        position: Its place among the node's inputs.
        shape: Its shape.
    """
    rule = _RULES.get((node.op_type, position)) if not node.domain else None
    if rule is None:
        return None
    what, choose = rule
    count = prod(shape)
    values = choose(node, count)
    if values is None or len(values) not in (1, count) or not count:
        return None
    return Role(f"{what} of {label(node)}", tuple(float(value) for value in values))


def _data(node: ir.Node) -> Shape | None:
    return static_shape(input_at(node, 0))


def _result(node: ir.Node) -> Shape | None:
    return static_shape(node.outputs[0])


def _sizes_of(value: ir.Value | None) -> list[int | str | None] | None:
    """Sizes of a tensor, names of open ones, ``None`` without a name."""
    if value is None or value.shape is None:
        return None
    return [size if isinstance(size, int) else size.value for size in value.shape]


def _may_be_equal(first: Sequence[int | str | None], second: Sequence[int | str | None]) -> bool:
    return len(first) == len(second) and all(None in (a, b) or a == b for a, b in zip(first, second, strict=True))


def _constant(*values: float) -> Callable[[ir.Node, int], Sequence[float]]:
    return lambda _node, _count: values


def _compared(position: int) -> Callable[[ir.Node, int], Sequence[float] | None]:
    """The constant that a single number is compared with: modes such as a sampling rate."""

    def choose(node: ir.Node, count: int) -> Sequence[float] | None:
        number = scalar(input_at(node, position)) if count == 1 else None
        return None if number is None else [number]

    return choose


def _reduced_axes(node: ir.Node, count: int) -> Sequence[int] | None:
    """Axes whose reduction gives the result's shape; the last ones where several or none do."""
    data, result = _sizes_of(input_at(node, 0)), _sizes_of(node.outputs[0])
    if data is None or count > len(data):
        return None
    keeps = bool(int_attribute(node, "keepdims", 1))
    for axes in combinations(range(len(data)), count):
        left = [1 if axis in axes else size for axis, size in enumerate(data) if keeps or axis not in axes]
        if result is not None and _may_be_equal(left, result):
            return axes
    return range(len(data) - count, len(data))


def _squeezed_axes(node: ir.Node, count: int) -> Sequence[int] | None:
    data = _data(node)
    single = [axis for axis, size in enumerate(data or ()) if size == 1]
    return single[:count] if len(single) >= count else None


def _inserted_axes(node: ir.Node, count: int) -> Sequence[int] | None:
    data, result = _data(node), _result(node)
    if data is None:
        return None
    rank = len(data) + count
    for axes in combinations(range(rank), count):
        sizes = iter(data)
        if result == tuple(1 if axis in axes else next(sizes) for axis in range(rank)):
            return axes
    return range(count)


def _wanted_shape(node: ir.Node, count: int) -> Sequence[int] | None:
    """The shape of the result; where it is open, that of the data."""
    result, data = _result(node), _data(node)
    if result is not None and len(result) == count:
        return result
    return data if data is not None and len(data) == count else None


def _reshaped(node: ir.Node, count: int) -> Sequence[int] | None:
    return _wanted_shape(node, count) or [-1, *[1] * (count - 1)]


def _expanded(node: ir.Node, count: int) -> Sequence[int] | None:
    return _wanted_shape(node, count) or [1]


def _repeats(node: ir.Node, count: int) -> Sequence[int] | None:
    data, result = _data(node), _result(node)
    if data is None or result is None or len(data) != count or 0 in data:
        return [1]
    return [size // before for size, before in zip(result, data, strict=True)]


def _ends(node: ir.Node, count: int) -> Sequence[int] | None:
    del count
    return [np.iinfo(np.int32).max] if _data(node) is not None else None


def _numbered(_node: ir.Node, count: int) -> Sequence[int]:
    return range(count)


def _parts(node: ir.Node, count: int) -> Sequence[int] | None:
    """Sizes of the parts: those of the results, else as equal as possible."""
    data = _data(node)
    if data is None:
        return None
    axis = int_attribute(node, "axis", 0)
    sizes = [shape[axis] for value in node.outputs if (shape := static_shape(value)) is not None and shape]
    if len(sizes) == count and sum(sizes) == data[axis]:
        return sizes
    return [data[axis] // count + (index < data[axis] % count) for index in range(count)]


def _resized(node: ir.Node) -> tuple[Shape, Shape] | None:
    """Sizes before and after of the axes that a Resize changes."""
    data, result = _data(node), _result(node)
    if data is None:
        return None
    after = data if result is None else result
    given = attribute(node, "axes")
    axes = [int(axis) for axis in given] if isinstance(given, Sequence) else range(len(data))
    return tuple(data[axis] for axis in axes), tuple(after[axis] for axis in axes)


def _scales(node: ir.Node, count: int) -> Sequence[float] | None:
    sizes = _resized(node)
    if sizes is None or len(sizes[0]) != count or 0 in sizes[0]:
        return [1.0]
    return [(after + 1e-3) / before if after != before else 1.0 for before, after in zip(*sizes, strict=True)]


def _sizes(node: ir.Node, count: int) -> Sequence[int] | None:
    sizes = _resized(node)
    return sizes[1] if sizes is not None and len(sizes[1]) == count else None


def _region(_node: ir.Node, count: int) -> Sequence[float]:
    return [0.0] * (count // 2) + [1.0] * (count - count // 2)


def _padding(node: ir.Node, count: int) -> Sequence[int] | None:
    data, result = _data(node), _result(node)
    if data is None or result is None or 2 * len(data) != count:
        return [0]
    total = [after - before for before, after in zip(data, result, strict=True)]
    return [*(size // 2 for size in total), *(size - size // 2 for size in total)]


def _picture(node: ir.Node, count: int) -> Sequence[int] | None:
    result = _result(node)
    return result[-count:] if result is not None and len(result) > count else None


def _block(node: ir.Node, count: int) -> Sequence[int] | None:
    """The window whose places in the picture are as many as there are columns."""
    data, result = _data(node), _result(node)
    if data is None or result is None or len(data) != 3 or len(result) != count + 2:
        return None
    if not 0 < data[1] <= LARGEST_BLOCK * result[1]:
        return None
    elements = data[1] // result[1]
    ones = (1,) * count
    strides, dilations = ints_attribute(node, "strides", ones), ints_attribute(node, "dilations", ones)
    pads = ints_attribute(node, "pads", (0,) * (2 * count))
    for block in product(range(1, elements + 1), repeat=count):
        places = [
            (size + pads[i] + pads[i + count] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
            for i, size in enumerate(result[2:])
        ]
        if prod(block) == elements and prod(places) == data[2]:
            return block
    return None


def _grid_size(node: ir.Node, count: int) -> Sequence[int] | None:
    data, result = _data(node), _result(node)
    if data is None or result is None or len(result) != count:
        return None
    return [data[0], 1, *result[1:-1]]


def _steps_in_time(node: ir.Node, _count: int) -> Sequence[int] | None:
    data = _data(node)
    return None if data is None else [data[1 if int_attribute(node, "layout", 0) else 0]]


def _reversed_steps(node: ir.Node, _count: int) -> Sequence[int] | None:
    data = _data(node)
    return None if data is None else [data[int_attribute(node, "time_axis", 0)]]


def _transform_axis(node: ir.Node, _count: int) -> Sequence[int] | None:
    data = _data(node)
    return None if data is None else [len(data) - 2]


def _transform_length(node: ir.Node, _count: int) -> Sequence[int] | None:
    data = _data(node)
    return None if data is None else [data[-2]]


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")

_RULES: Mapping[tuple[str, int], tuple[str, Callable[[ir.Node, int], Sequence[float] | None]]] = MappingProxyType(
    {
        **{(f"Reduce{name}", 1): ("axes", _reduced_axes) for name in _REDUCTIONS},
        ("Equal", 0): ("the other operand", _compared(1)),
        ("Equal", 1): ("the other operand", _compared(0)),
        ("Squeeze", 1): ("axes", _squeezed_axes),
        ("Unsqueeze", 1): ("axes", _inserted_axes),
        ("CumSum", 1): ("the axis", _constant(0)),
        ("CumProd", 1): ("the axis", _constant(0)),
        ("Reshape", 1): ("the shape", _reshaped),
        ("Expand", 1): ("the shape", _expanded),
        ("ConstantOfShape", 0): ("the shape", _wanted_shape),
        ("Tile", 1): ("repeats", _repeats),
        ("Slice", 1): ("starts", _constant(0)),
        ("Slice", 2): ("ends", _ends),
        ("Slice", 3): ("axes", _numbered),
        ("Slice", 4): ("steps", _constant(1)),
        ("Split", 1): ("sizes", _parts),
        ("SplitToSequence", 1): ("sizes", _parts),
        ("Resize", 1): ("the region", _region),
        ("Resize", 2): ("scales", _scales),
        ("Resize", 3): ("sizes", _sizes),
        ("Upsample", 1): ("scales", _scales),
        ("Pad", 1): ("padding", _padding),
        ("CenterCropPad", 1): ("the shape", _sizes),
        ("Col2Im", 1): ("the picture's size", _picture),
        ("Col2Im", 2): ("the window", _block),
        ("AffineGrid", 1): ("the size", _grid_size),
        ("MaxUnpool", 2): ("the shape", _wanted_shape),
        ("NonMaxSuppression", 3): ("the threshold", _constant(0.5)),
        ("NonMaxSuppression", 4): ("the threshold", _constant(0)),
        ("TopK", 1): ("the number", _constant(1)),
        ("TensorScatter", 2): ("places", _constant(0)),
        ("DFT", 1): ("the length", _transform_length),
        ("DFT", 2): ("the axis", _transform_axis),
        ("ReverseSequence", 1): ("lengths", _reversed_steps),
        **{(name, 4): ("lengths", _steps_in_time) for name in ("LSTM", "GRU", "RNN")},
    }
)
"""(operator, input) -> what it is, and the values that fit."""


def index_bound(node: ir.Node, position: int) -> int | None:
    """How many rows indices at this input of a node may name, if it holds indices into data of known shape, or classes."""
    if (node.op_type, node.domain, position) == ("OneHot", "", 0):
        classes = scalar(node.inputs[1])
        return None if classes is None else int(classes)
    data = _data(node)
    if position != 1 or not data or node.domain:
        return None
    if node.op_type in ("Gather", "GatherElements", "ScatterElements", "Scatter"):
        axis = int_attribute(node, "axis", 0)
        return data[axis] if -len(data) <= axis < len(data) else None
    if node.op_type in ("GatherND", "ScatterND"):
        return min(data)
    return None
