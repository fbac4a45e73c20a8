"""Tensors whose channels may be reordered, and the constants that hold their order.

A layer with constant weights may produce its channels in any order if everything that reads them follows: elementwise and
per-channel operators keep the order, a following layer reorders its columns, and two tensors that are added share one order.
Where anything else reads the channels, or the user does (an output of the model), the order stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.targets.operands import weight_of

KEEPING = frozenset(
    {"Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Elu", "Selu", "Softplus", "Gelu"}
    | {"Mish", "Erf", "Exp", "Sqrt", "Neg", "Abs", "Dropout", "Identity"}
)
"""Operators on each element of one tensor."""

POOLING = frozenset({"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
"""Operators on each channel of a picture."""

COMBINING = frozenset({"Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"})
"""Operators that combine two tensors element by element."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the order of some channels is stored: elements ``start`` to ``start + channels`` along an axis of a constant."""

    constant: ir.Value
    axis: int
    start: int = 0


@dataclass(slots=True, eq=False)
class Channels:
    """Channels that share one order.

    Attributes:
        count: How many.
        places: Constants that follow the order.
        readers: Layers that sum over the channels, and the channels' position in their weights.
        normalized: Tensors with statistics of a folded normalization, and the channels' position in these.
        is_fixed: Whether they are read by something that cannot follow.
        joined: Channels that they have been merged into.
    """

    count: int
    places: list[Place] = field(default_factory=list)
    readers: list[tuple[ir.Node, Place]] = field(default_factory=list)
    normalized: list[tuple[ir.Value, int]] = field(default_factory=list)
    is_fixed: bool = False
    joined: Channels | None = None

    def root(self) -> Channels:
        """The group of channels that they have been merged into."""
        return self if self.joined is None else self.joined.root()

    def join(self, other: Channels) -> None:
        """Share one order from now on."""
        own, others = self.root(), other.root()
        if own is not others:
            own.places += others.places
            own.readers += others.readers
            own.normalized += others.normalized
            own.is_fixed |= others.is_fixed
            others.joined = own

    def reorder(self, order: NDArray[np.intp]) -> None:
        """Reorder the constants, and statistics."""
        for place in (*self.places, *(place for _, place in self.readers)):
            array = g.constant(place.constant)
            assert array is not None
            changed = self._reordered(array, order, place.start, place.axis)
            place.constant.const_value = ir.Tensor(changed, dtype=place.constant.dtype, name=place.constant.name)
        for value, start in self.normalized:
            value.meta[BATCHNORM] = tuple(self._reordered(array, order, start, 0) for array in value.meta[BATCHNORM])

    def _reordered(self, array: NDArray[Any], order: NDArray[np.intp], start: int, axis: int) -> NDArray[Any]:
        index = np.arange(array.shape[axis])
        index[start : start + self.count] = start + order
        return np.ascontiguousarray(np.take(array, index, axis=axis))


@dataclass(frozen=True, slots=True)
class _Layout:
    """Channels of a tensor: their axis, and the parts that follow one another along it."""

    axis: int
    parts: tuple[Channels, ...]

    def places(self, constant: ir.Value, axis: int) -> list[tuple[Channels, Place]]:
        return [(part, Place(constant, axis, start)) for part, start in self.starts()]

    def starts(self) -> list[tuple[Channels, int]]:
        """The parts, and the position of the first channel of each."""
        starts = np.cumsum([0, *(part.count for part in self.parts)])
        return [(part, int(start)) for part, start in zip(self.parts, starts, strict=False)]


def free_channels(graph: ir.Graph) -> list[Channels]:
    """All channels whose order is free, in graph order of the layers that make them."""
    finder = _Finder(graph)
    for node in graph:
        finder.follow(node)
    for value in graph.outputs:
        finder.fix(value)
    return [found for found in finder.made if found.joined is None and not found.is_fixed and found.readers]


class _Finder:
    def __init__(self, graph: ir.Graph) -> None:
        self.made: list[Channels] = []
        self._layouts: dict[ir.Value, _Layout] = {}
        self._graph = graph

    def follow(self, node: ir.Node) -> None:
        """Determine what a node does with the channels of its inputs, and which channels it produces."""
        layout = self._result(node)
        if layout is None:
            for value in g.values_read(node):
                self.fix(value)
        elif node.outputs:
            self._layouts[node.outputs[0]] = layout
            if BATCHNORM in node.outputs[0].meta:
                for part, start in layout.starts():
                    part.root().normalized.append((node.outputs[0], start))

    def fix(self, value: ir.Value) -> None:
        """The order of a tensor's channels stays as it is."""
        layout = self._layouts.get(value)
        for part in layout.parts if layout is not None else ():
            part.root().is_fixed = True

    def _result(self, node: ir.Node) -> _Layout | None:
        """Layout of the output; ``None`` if the inputs must keep their order."""
        if node.domain or not node.inputs:
            return None
        x = node.inputs[0]
        layout = self._layouts.get(x) if x is not None else None
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            return self._weighted(node, layout)
        if node.op_type in COMBINING:
            return self._combined(node)
        if node.op_type == "Concat":
            return self._joined(node)
        if layout is None:
            return None
        is_picture = layout.axis == 1
        if node.op_type in KEEPING and all(
            g.scalar(value) is not None for value in node.inputs[1:] if value is not None
        ):
            return layout
        if node.op_type in POOLING and is_picture and len(node.outputs) == 1:
            return layout
        if node.op_type == "Resize" and is_picture and _channels(node.outputs[0], 1) == _channels(x, 1):
            return layout
        return layout if is_picture and flattens_pixels(node) else None

    def _weighted(self, node: ir.Node, layout: _Layout | None) -> _Layout | None:
        weight, x = weight_of(node), node.inputs[0]
        shape = g.static_shape(weight)
        rank = len(x.shape) if x is not None and x.shape is not None else 0
        if weight is None or shape is None or g.single_consumer(weight) is None or rank == 0:
            return None
        bias = g.input_at(node, 2)
        if bias is not None and not (_is_own(bias) and g.static_shape(bias) is not None):
            return None
        group = g.int_attribute(node, "group", 1)
        if node.op_type == "Conv" and group > 1:
            if shape[0] != group or shape[1] != 1 or layout is None or layout.axis != 1:
                return None
            self._note(layout, weight, 0)
            if bias is not None:
                self._note(layout, bias, 0)
            return layout
        if node.op_type == "Gemm" and g.int_attribute(node, "transA", 0):
            return None
        if node.op_type == "MatMul" and len(shape) != 2:
            return None
        is_turned = node.op_type == "Conv" or (node.op_type == "Gemm" and bool(g.int_attribute(node, "transB", 0)))
        rows, columns = (0, 1) if is_turned else (1, 0)
        axis = 1 if node.op_type == "Conv" else rank - 1
        if layout is not None and layout.axis != axis:
            return None
        if layout is not None:
            for part, place in layout.places(weight, columns):
                part.root().readers.append((node, place))
        made = Channels(shape[rows], [Place(weight, rows)])
        bias_shape = g.static_shape(bias) or ()
        if bias is not None and np.prod(bias_shape, dtype=int) != 1:
            if bias_shape[-1] != shape[rows] or np.prod(bias_shape, dtype=int) != shape[rows]:
                made.is_fixed = True
            made.places.append(Place(bias, len(bias_shape) - 1))
        self.made.append(made)
        return _Layout(axis, (made,))

    def _note(self, layout: _Layout, constant: ir.Value, axis: int) -> None:
        for part, place in layout.places(constant, axis):
            part.root().places.append(place)

    def _combined(self, node: ir.Node) -> _Layout | None:
        a, b = (node.inputs[0], node.inputs[1]) if len(node.inputs) == 2 else (None, None)
        if a is None or b is None:
            return None
        if g.is_constant(a):
            a, b = b, a
        first, second = self._layouts.get(a), self._layouts.get(b)
        if first is None or (second is None and not g.is_constant(b)):
            return None
        rank = len(a.shape) if a.shape is not None else 0
        if second is None:
            return self._with_constant(first, b, rank)
        same = first.axis == second.axis and rank == len(b.shape or ())
        if not same or [p.count for p in first.parts] != [p.count for p in second.parts]:
            return None
        for part, other in zip(first.parts, second.parts, strict=True):
            part.join(other)
        return first

    def _with_constant(self, layout: _Layout, constant: ir.Value, rank: int) -> _Layout | None:
        shape = g.static_shape(constant)
        if shape is None or len(shape) > rank or rank == 0:
            return None
        axis = layout.axis - (rank - len(shape))
        if axis < 0 or shape[axis] == 1:
            return layout
        if not _is_own(constant):
            return None
        self._note(layout, constant, axis)
        return layout

    def _joined(self, node: ir.Node) -> _Layout | None:
        layouts = [self._layouts.get(value) if value is not None else None for value in node.inputs]
        known = [layout for layout in layouts if layout is not None]
        value = node.inputs[0]
        rank = len(value.shape) if value is not None and value.shape is not None else 0
        axis = g.int_attribute(node, "axis", 0)
        axis = axis + rank if axis < 0 else axis
        if not known or any(layout.axis != axis for layout in known):
            return None
        parts: list[Channels] = []
        for value, layout in zip(node.inputs, layouts, strict=True):
            count = _channels(value, axis)
            if layout is None and count is None:
                return None
            parts.extend(layout.parts if layout is not None else (Channels(count or 0, is_fixed=True),))
        return _Layout(axis, tuple(parts))


def _is_own(constant: ir.Value) -> bool:
    """Whether a value is a constant that one node reads, and no output."""
    return g.is_constant(constant) and g.single_consumer(constant) is not None


def _channels(value: ir.Value | None, axis: int) -> int | None:
    shape = value.shape if value is not None else None
    size = shape[axis] if shape is not None and len(shape) > axis else None
    return size if isinstance(size, int) else None


def flattens_pixels(node: ir.Node) -> bool:
    """A Flatten or Reshape of ``[N, C, 1, 1]`` keeps one value per channel."""
    if node.op_type not in ("Flatten", "Reshape", "Squeeze") or node.inputs[0] is None:
        return False
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if before is None or after is None or len(before) < 2 or len(after) != 2:
        return False
    return all(d == 1 for d in before[2:]) and before[1] == after[1]


def weight_columns(node: ir.Node, place: Place, count: int) -> NDArray[np.float64]:
    """The part of a layer's weight that sums over some channels. Shape ``(sums, positions of the kernel, channels)``."""
    array = g.constant(place.constant)
    assert array is not None
    part = np.take(array, np.arange(place.start, place.start + count), axis=place.axis).astype(np.float64)
    if node.op_type == "Conv":
        return part.reshape(part.shape[0], count, -1).transpose(0, 2, 1)
    return (part if place.axis == 1 else part.T)[:, None, :]


def largest_weights(node: ir.Node, place: Place) -> NDArray[np.float64]:
    """Largest magnitude of each sum of the layer. Shape ``(sums,)``."""
    array = g.constant(place.constant)
    assert array is not None
    axes: Sequence[int] = [axis for axis in range(array.ndim) if axis != (0 if place.axis == 1 else 1)]
    return np.abs(array.astype(np.float64)).max(axis=tuple(axes))
