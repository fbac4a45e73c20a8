"""A ``.ms`` graph under construction: its tensors and nodes, and the names and labels that they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsModel, MsNode, MsQuant, MsTensor
from converter_lite.formats.mindspore_lite.enums import FROM_NUMPY, DataType, Format, QuantType
from converter_lite.formats.mindspore_lite.exporter.types import ARITHMETIC, refused_axes
from converter_lite.formats.mindspore_lite.narrowing import narrow
from converter_lite.formats.permutation import Perm

_TURNED: Perm = (0, 2, 1)
"""The only order of three axes that changes the label: the runtime takes NHWC for NCHW then, and the other way round."""

_BROADCASTING = ARITHMETIC | {"FloorMod"}


class Unsupported(Exception):
    """A node cannot be expressed; the text is the reason."""


class Builder:
    """Adds tensors and nodes to an :class:`MsModel`; tensors are known by their number.

    Args:
        name: That of the graph.
    """

    def __init__(self, name: str) -> None:
        self.ms = MsModel(name=name)
        self.notes: list[str] = []
        self._constants: dict[tuple[Any, ...], int] = {}
        self._node_names: set[str] = set()
        self._node_counts: Counter[tuple[str, str]] = Counter()
        self._current: ir.Node | None = None

    def tensor(self, tensor: MsTensor) -> int:
        """Add a tensor and return its number."""
        self.ms.tensors.append(tensor)
        return len(self.ms.tensors) - 1

    def add_constant(self, array: NDArray[Any], name: str) -> int:
        """Add a constant; 64-bit numbers become 32-bit ones, and integers outside of that range are clipped to it."""
        given, array = np.asarray(array), narrow(np.asarray(array))
        if array.dtype not in FROM_NUMPY:
            raise Unsupported(f"the constant {name} has the type {array.dtype.name}")
        if given.dtype.kind in "iu" and not np.array_equal(given, array):
            self.notes.append(f"{name}: integers beyond 32 bits are clipped, the runtimes have no wider ones")
        return self.tensor(MsTensor(name, FROM_NUMPY[array.dtype], array.shape, np.ascontiguousarray(array)))

    def int_constant(self, values: Sequence[int], name: str) -> int:
        """A shared int32 vector."""
        key = ("ints", name, tuple(int(v) for v in values))
        return self.cached(key, lambda: self.add_constant(np.array(key[2], np.int32), name))

    def float_constant(self, value: float) -> int:
        """A shared float32 number."""
        return self.cached(("float", value), lambda: self.add_constant(np.array([value], np.float32), "scalar"))

    def cached(self, key: tuple[Any, ...], make: Callable[[], int]) -> int:
        """A constant tensor that several nodes share."""
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def cast(self, index: int, dtype: DataType) -> int:
        """A Cast of a tensor, unless it has the type."""
        source = self.ms.tensors[index]
        if source.dtype is dtype:
            return index
        return self.emit("Cast", [index, self.int_constant([int(dtype)], "dtype")], source.dims, dtype=dtype)

    def emit(
        self,
        op: str,
        inputs: Sequence[int],
        dims: Sequence[int],
        /,
        *,
        dtype: DataType | None = None,
        quant: MsQuant | None = None,
        quant_type: QuantType = QuantType.NONE,
        **attributes: Any,
    ) -> int:
        """Add a node with one output; returns the output's tensor number."""
        kind = dtype or self.ms.tensors[inputs[0]].dtype
        return self.emit_many(op, inputs, [(dims, kind)], quant_type=quant_type, quants=[quant], **attributes)[0]

    def emit_many(
        self,
        op: str,
        inputs: Sequence[int],
        outputs: Sequence[tuple[Sequence[int], DataType]],
        /,
        *,
        name: str = "",
        quant_type: QuantType = QuantType.NONE,
        quants: Sequence[MsQuant | None] = (),
        **attributes: Any,
    ) -> list[int]:
        """Add a node with several outputs, given as dimensions and types."""
        node_name = self._unique(name or (self._current.name if self._current else None) or op, op)
        params = list(quants) or [None] * len(outputs)
        if op in _BROADCASTING and not any(len(dims) for dims, _ in outputs):
            inputs = [self._without_axes(index) for index in inputs]
        ranks = [*(len(self.ms.tensors[index].dims) for index in inputs), *(len(dims) for dims, _ in outputs)]
        if reason := refused_axes(op, ranks):
            raise Unsupported(reason)
        layout = self._format(op, inputs)
        indices = [
            self.tensor(MsTensor(f"{node_name}:{i}", kind, tuple(int(d) for d in dims), quant=quant, format=layout))
            for i, ((dims, kind), quant) in enumerate(zip(outputs, params, strict=True))
        ]
        self.ms.nodes.append(MsNode(node_name, op, list(inputs), indices, attributes, quant_type))
        return indices

    def _without_axes(self, index: int) -> int:
        """A constant number of one axis as one of none: the runtime would give the axis to the result."""
        tensor = self.ms.tensors[index]
        if tensor.dims != (1,) or not isinstance(tensor.data, np.ndarray):
            return index
        data, name = tensor.data.reshape(()), tensor.name
        return self.cached(("number", index), lambda: self.add_constant(data, name))

    def _format(self, op: str, inputs: Sequence[int]) -> Format | int:
        """The label that the runtime gives to an output.

        That of the second operand: for arithmetic and comparisons if the first is a constant or has fewer axes, for a product
        if the second is computed, for Where always. Otherwise that of the first one.

        Source: image operators behind each, run in the released 2.0.0 runtimes (x86-64 and ARM64).
        """
        if not inputs:
            return Format.NHWC
        first, *others = (self.ms.tensors[index] for index in inputs)
        is_second = (
            op == "Where"
            or (op == "MatMulFusion" and not others[0].is_constant)
            or (op in ARITHMETIC and (first.is_constant or len(first.dims) < len(others[0].dims)))
        )
        return (others[0] if is_second else first).format

    def transpose(self, source: int, perm: Perm, *, name: str = "") -> int:
        """A tensor with its axes in another order.

        The x86 runtime takes a Transpose whose result has the shape of its input for one that moves nothing. Where elements
        would move all the same, as in a cube, an axis of size 1 takes another place and a Reshape brings it back.
        """
        dims = self.ms.tensors[source].dims
        if pm.permute(dims, perm) != dims or pm.keeps_order(dims, perm):
            return self._move(source, perm, name)
        if self.ms.tensors[source].dtype is DataType.UINT8:  # of which there is no Reshape
            return self.cast(self.transpose(self.cast(source, DataType.FLOAT32), perm, name=name), DataType.UINT8)
        shape, order = dims, perm
        if 1 not in dims:
            shape, order = (1, *dims), (0, *(axis + 1 for axis in perm))
            source = self.reshape(source, shape)
        index = self.reshape(self._move(source, pm.visible(shape, order), name), dims)
        return self._labelled(index) if perm == pm.NHWC else index

    def _move(self, source: int, perm: Perm, name: str = "") -> int:
        """A Transpose; the runtime derives the layout label of the result from the order."""
        before = self.ms.tensors[source]
        order = self.int_constant(perm, f"perm_{digits(perm)}")
        quant_type = self.shape_quant_type(source)
        made = [(pm.permute(before.dims, perm), before.dtype)]
        (index,) = self.emit_many(
            "Transpose", [source, order], made, name=name, quant_type=quant_type, quants=[before.quant]
        )
        if perm == pm.NHWC:
            self.ms.tensors[index].format = Format.NHWC
        elif perm == pm.NCHW_FROM_NHWC:
            self.ms.tensors[index].format = Format.NCHW
        elif perm == _TURNED:
            self.ms.tensors[index].format = Format.NCHW if before.format == Format.NHWC else Format.NHWC
        return index

    def reshape(self, source: int, dims: Sequence[int]) -> int:
        """A tensor with other dimensions; the runtime refuses a Reshape to none.

        A first dimension that stays is written as 0, which keeps that of the input: the file can be resized to other batches.
        """
        given: dict[str, Any] = {"quant": self.ms.tensors[source].quant, "quant_type": self.shape_quant_type(source)}
        if not dims:
            return self.emit("Squeeze", [source], dims, **given)
        keeps_batch = 0 not in dims and list(self.ms.tensors[source].dims[:1]) == list(dims[:1])
        target = (0, *dims[1:]) if keeps_batch else dims
        return self.emit("Reshape", [source, self.int_constant(target, "shape")], dims, **given)

    def image(self, index: int) -> int:
        """The tensor with the label NHWC, without which image operators refuse it."""
        return index if self.ms.tensors[index].format == Format.NHWC else self._labelled(index)

    def _labelled(self, index: int) -> int:
        return self._move(self._move(index, pm.NCHW_FROM_NHWC), pm.NHWC)

    def shape_quant_type(self, index: int) -> QuantType:
        """Quantization type of a node that only moves the bytes of this tensor."""
        tensor = self.ms.tensors[index]
        return QuantType.ALL if tensor.dtype is DataType.INT8 and tensor.quant else QuantType.NONE

    def number_nodes(self, first: int) -> None:
        """Give nodes from the number ``first`` on, and their results, names that are numbers: those of thousands take space."""
        for number, node in enumerate(self.ms.nodes[first:], first):
            self._node_names.discard(node.name)
            node.name = self._unique(str(number), node.op)
            for place, index in enumerate(node.outputs):
                self.ms.tensors[index].name = node.name if len(node.outputs) == 1 else f"{node.name}:{place}"

    def _unique(self, name: str, op: str) -> str:
        candidate = name
        while candidate in self._node_names:
            self._node_counts[name, op] += 1
            candidate = f"{name}/{op}_{self._node_counts[name, op]}"
        self._node_names.add(candidate)
        return candidate


def digits(perm: Perm) -> str:
    """An order of axes as a part of a name."""
    return "".join(str(i) for i in perm)
