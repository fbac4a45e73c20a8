"""Constants of a ``.ms`` file for ONNX: reals that are computed when they are read, integers, parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsQuant
from converter_lite.formats.mindspore_lite.importer.stored import Stored
from converter_lite.formats.permutation import Perm
from converter_lite.graph import lazy_tensor
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.plan import Integers

_BLOCK = 1 << 16
"""Elements that are converted to reals at a time."""


def constant_tensor(stored: Stored, axis: int | None, order: Perm) -> ir.TensorProtocol:
    """A constant with its axes in another order, behind axes of length 1 where the order has more.

    What the file does not hold in this form is computed when it is read.

    Args:
        stored: The constant.
        axis: Of its channels, ``None`` where it has one scale.
        order: Of its axes.
    """
    shape = (1,) * (len(order) - len(stored.dims)) + stored.dims

    def arranged() -> NDArray[Any]:
        return np.asarray(reals(stored, axis).reshape(shape).transpose(order), order="C")

    is_real = stored.quant is None and stored.table is None and stored.dtype != np.float16
    if is_real and order == pm.identity(len(order)):
        return ir.Tensor(arranged())
    dtype = ir.DataType.from_numpy(stored.dtype) if is_real else ir.DataType.FLOAT
    return lazy_tensor(arranged, dtype, pm.permute(shape, order), keep_small=True)


def integers(stored: Stored, order: Perm) -> Integers:
    """Integers of a weight with its axes in another order, decoded when they are read if they are not kept."""
    if stored.is_kept:
        return stored.array.transpose(order)
    dtype = ir.DataType.from_numpy(stored.dtype)
    return lazy_tensor(lambda: stored.array.transpose(order), dtype, pm.permute(stored.dims, order))


def reals(stored: Stored, axis: int | None) -> NDArray[Any]:
    """Real values of a constant, also of integers and codes; half floats are widened."""
    array, quant, table = stored.array, stored.quant, stored.table
    if table is not None:
        return _looked_up(table, array)
    if quant is None:
        return array.astype(np.float32) if array.dtype == np.float16 else array
    if axis is None:
        return _float32_blocks(array, [quant.zero_point[:1], quant.scale[:1]])
    shape = [1] * array.ndim
    shape[axis] = -1
    columns = (quant.zero_point, quant.scale, quant.var_corr, quant.mean_corr)
    return _float32_blocks(array, [column.reshape(shape) for column in columns])


def _looked_up(table: NDArray[np.float32], codes: NDArray[np.unsignedinteger]) -> NDArray[np.float32]:
    real, flat = np.empty(codes.size, np.float32), codes.reshape(-1)
    for start in range(0, codes.size, _BLOCK):
        real[start : start + _BLOCK] = table[flat[start : start + _BLOCK]]
    return real.reshape(codes.shape)


def _float32_blocks(q: NDArray[Any], columns: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """``(q - zero) * scale`` (``* variance + mean``; the runtimes do so for several channels only), in float64, by rows."""
    real = np.empty(q.shape, np.float32)
    rows = max(1, _BLOCK // max(1, q[:1].size)) if q.ndim else 1
    for start in range(0, len(q) if q.ndim else 1, rows):
        part = (slice(start, start + rows),) if q.ndim else ()
        zero, scale, *corrections = (c[part] if c.ndim == q.ndim and len(c) == len(q) > 1 else c for c in columns)
        block = (q[part].astype(np.float64) - zero) * scale
        if corrections:
            block = block * corrections[0] + corrections[1]
        real[part] = to_float32(block).reshape(real[part].shape)
    return real


def to_float32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Damaged scales may have any size; infinite weights are left to the caller's checks."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def weight_params(stored: Stored, axis: int | None) -> QuantParams | None:
    """Parameters in the terms of ONNX, which has no mean correction; the variance correction becomes part of the scale."""
    quant = stored.quant
    if quant is None or not 1 <= quant.bits <= 16 or (axis is not None and np.any(quant.mean_corr != 0)):
        return None
    scale, zero = to_float32(quant.scale * (quant.var_corr if axis is not None else 1.0)), quant.zero_point
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        return None
    symmetric = bool(np.all(zero == 0))
    spec = QuantSpec(quant.bits, symmetric=symmetric, axis=axis)
    if np.any(zero < spec.qmin) or np.any(zero > spec.qmax):
        return None
    if axis is None:
        return QuantParams(np.array(scale[0], np.float32), np.array(zero[0], np.int32), spec)
    return QuantParams(scale, zero.astype(np.int32), spec)


def activation_params(quant: MsQuant, name: str) -> QuantParams:
    """Parameters of an int8 activation.

    Raises:
        FormatError: They are not usable.
    """
    scale = to_float32(quant.scale[:1])[0]
    if not np.isfinite(scale) or scale <= 0:
        raise FormatError(f"the scale of {name} is {quant.scale[0]}")
    zero = int(quant.zero_point[0])
    return QuantParams(np.array(scale, np.float32), np.array(zero, np.int32), QuantSpec(8, symmetric=zero == 0))
