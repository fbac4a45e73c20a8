"""Constants of a TensorFlow Lite file: checked when they are loaded, decoded and dequantized when they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite.container import Quant, Tensor
from converter_lite.formats.tflite.enums import GRIDS, NUMPY_TYPES, TensorType
from converter_lite.formats.tflite.sparse import densify
from converter_lite.graph import lazy_tensor
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.kernels.quantize import along_axis
from converter_lite.quantization.plan import Integers

_BLOCK = 1 << 16
"""Elements that are converted to reals at a time."""

_LOW = 0x0F
"""The earlier one of two integers of four bits in a byte."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A constant.

    Attributes:
        name: Its name in the file.
        dims: Its shape.
        dtype: Type of :attr:`array`.
        source: The array, flat, or what decodes it.
        quant: Parameters of integers that stand for real numbers.
        bits: Of these integers.
        is_widened: Whether an operator makes float32 of it before others read it.
    """

    name: str
    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    source: NDArray[Any] | Callable[[], NDArray[Any]]
    quant: Quant | None = None
    bits: int = 8
    is_widened: bool = False

    @property
    def array(self) -> NDArray[Any]:
        """Numbers as the file has them."""
        return (self.source if isinstance(self.source, np.ndarray) else self.source()).reshape(self.dims)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def axis(self) -> int | None:
        """Axis of the channels that have scales of their own."""
        return None if self.quant is None or self.quant.scale.size == 1 else self.quant.axis


def load(tensor: Tensor, data: NDArray[np.uint8]) -> Stored:
    """A constant, checked.

    Raises:
        FormatError: The data do not fit the shape or the type.
        ModelError: Its type or its form is not read.
    """
    if tensor.type not in NUMPY_TYPES:
        raise ModelError(f"constants of type {tensor.type.name} are not read", where=tensor.name)
    if min(tensor.shape, default=0) < 0:
        raise FormatError(f"the file is damaged: a constant of shape {list(tensor.shape)}", where=tensor.name)
    dtype, count = NUMPY_TYPES[tensor.type], prod(tensor.shape)
    quant = _checked(tensor)
    bits = GRIDS.get(tensor.type, (8, True))[0]
    if tensor.sparsity is not None:
        return Stored(tensor.name, tensor.shape, dtype, densify(tensor, data, dtype), quant, bits)
    size = (count + 1) // 2 if tensor.type is TensorType.INT4 else count * dtype.itemsize
    if data.size < size:
        raise FormatError(f"the file is damaged: {data.size} bytes for shape {list(tensor.shape)}", where=tensor.name)
    if tensor.type is TensorType.INT4:
        return Stored(tensor.name, tensor.shape, dtype, lambda: _nibbles(data, count), quant, bits)
    return Stored(tensor.name, tensor.shape, dtype, data[:size].view(dtype), quant, bits)


def _checked(tensor: Tensor) -> Quant | None:
    """The parameters of a constant.

    Raises:
        FormatError: They do not fit its shape.
        ModelError: They are of a kind that is not read.
    """
    quant = tensor.quant
    if quant is None or tensor.type not in (*GRIDS, TensorType.INT64):
        return None
    if quant.details:
        raise ModelError(f"{quant.details} is not read, only scales and zero points", where=tensor.name)
    if not np.all(np.isfinite(quant.scale)) or np.any(quant.scale < 0):
        raise FormatError("the file is damaged: a scale is not a positive number", where=tensor.name)
    if not quant.scale.any():
        return None
    fits = 0 <= quant.axis < len(tensor.shape) and tensor.shape[quant.axis] == quant.scale.size
    if quant.scale.size > 1 and not fits:
        sizes = f"{quant.scale.size} scales for axis {quant.axis} of shape {list(tensor.shape)}"
        raise FormatError(f"the file is damaged: {sizes}", where=tensor.name)
    return quant


def _nibbles(data: NDArray[np.uint8], count: int) -> NDArray[np.int8]:
    """Integers of four bits, the first one in the lower half of a byte."""
    both = np.empty((data.size, 2), np.int8)
    both[:, 0] = (data & _LOW).view(np.int8)
    both[:, 1] = (data >> 4).view(np.int8)
    flat = both.reshape(-1)[:count]
    flat[flat > 7] -= 16
    return flat


def reals(stored: Stored) -> NDArray[Any]:
    """What a constant stands for: integers with parameters as float32, others as they are."""
    array, quant = stored.array, stored.quant
    if quant is None:
        return array.astype(np.float32) if stored.is_widened else array
    real, axis = np.empty(array.shape, np.float32), stored.axis
    scale, zero = (along_axis(part, array.ndim, axis) for part in _columns(quant))
    rows = max(1, _BLOCK // max(1, array[:1].size)) if array.ndim else 1
    for start in range(0, len(array) if array.ndim else 1, rows):
        part = (slice(start, start + rows),) if array.ndim else ()
        scales, zeros = (
            c[part] if c.ndim == array.ndim and c.shape[:1] == array.shape[:1] else c for c in (scale, zero)
        )
        real[part] = (array[part].astype(np.float64) - zeros) * scales
    return real


def _columns(quant: Quant) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scale and zero point: scalars where there is one."""
    shape = () if quant.scale.size == 1 else (-1,)
    return quant.scale.astype(np.float64).reshape(shape), quant.zero_point.astype(np.float64).reshape(shape)


def real_type(stored: Stored) -> ir.DataType:
    """Element type of :func:`reals`."""
    is_real = stored.quant is not None or stored.is_widened
    return ir.DataType.FLOAT if is_real else ir.DataType.from_numpy(stored.dtype.newbyteorder("="))


def in_order(stored: Stored, order: Perm, *, shape: tuple[int, ...] | None = None) -> ir.TensorProtocol:
    """A constant for ONNX, computed when it is read unless the file holds it so.

    Args:
        stored: The constant.
        order: Of its axes, behind axes of length 1 where it has more of them.
        shape: What it is reshaped to in the end.
    """
    wide = (1,) * (len(order) - len(stored.dims)) + stored.dims
    dims = shape if shape is not None else tuple(wide[axis] for axis in order)

    def arranged() -> NDArray[Any]:
        return np.asarray(reals(stored).reshape(wide).transpose(order), order="C").reshape(dims)

    is_plain = stored.quant is None and not stored.is_widened and isinstance(stored.source, np.ndarray)
    if is_plain and (order == pm.identity(len(order)) or stored.size <= 1):
        return ir.Tensor(arranged())
    return lazy_tensor(arranged, real_type(stored), dims, keep_small=not is_plain)


def integers_in_order(stored: Stored, order: Perm, *, shape: tuple[int, ...] | None = None) -> Integers:
    """The integers behind :func:`in_order`."""
    wide = (1,) * (len(order) - len(stored.dims)) + stored.dims
    dims = shape if shape is not None else tuple(wide[axis] for axis in order)

    def arranged() -> NDArray[Any]:
        return np.asarray(stored.array.reshape(wide).transpose(order)).reshape(dims)

    if isinstance(stored.source, np.ndarray) and (shape is None or order == pm.identity(len(order))):
        return arranged()
    return lazy_tensor(arranged, ir.DataType.from_numpy(stored.dtype), dims)


def weight_params(stored: Stored, axis: int | None) -> QuantParams | None:
    """Parameters of a constant whose channels lie along ``axis`` in ONNX; ``None`` where a plan cannot hold them."""
    quant = stored.quant
    if quant is None or stored.dtype not in (np.int8, np.uint8, np.int16, np.int32) or np.any(quant.scale <= 0):
        return None
    signed = stored.dtype != np.uint8
    symmetric = not np.any(quant.zero_point)
    lowest = -(1 << (stored.bits - 1))
    narrow = signed and symmetric and stored.bits <= 8 and stored.size > 0 and int(stored.array.min()) > lowest
    return _params(quant, QuantSpec(stored.bits, signed=signed, symmetric=symmetric, narrow_range=narrow, axis=axis))


def activation_params(tensor: Tensor) -> QuantParams | None:
    """Parameters of what is computed; ``None`` for a tensor that does not stand for real numbers.

    Raises:
        ModelError: They are of a kind that activations do not have.
        FormatError: They are not usable.
    """
    quant = tensor.quant
    if quant is None or tensor.type not in (TensorType.INT8, TensorType.UINT8, TensorType.INT16):
        return None
    if quant.details or quant.scale.size != 1:
        raise ModelError("only one scale and zero point for the whole of an activation is read", where=tensor.name)
    if quant.scale[0] == 0:
        return None
    bits, signed = GRIDS[tensor.type]
    params = _params(quant, QuantSpec(bits, signed=signed, symmetric=signed and int(quant.zero_point[0]) == 0))
    if params is None:
        raise FormatError(
            f"the file is damaged: scale {quant.scale[0]}, zero point {quant.zero_point[0]}", where=tensor.name
        )
    return params


def _params(quant: Quant, spec: QuantSpec) -> QuantParams | None:
    shape = () if spec.axis is None else quant.scale.shape
    usable = np.all(np.isfinite(quant.scale)) and np.all(quant.scale > 0)
    lowest = spec.qmin - int(spec.narrow_range)
    if not usable or np.any(quant.zero_point < lowest) or np.any(quant.zero_point > spec.qmax):
        return None
    scale, zero = quant.scale.astype(np.float32).reshape(shape), quant.zero_point.astype(np.int32).reshape(shape)
    return QuantParams(scale, zero, spec)
