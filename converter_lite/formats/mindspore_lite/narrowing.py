"""Element types: 64-bit numbers become 32-bit ones, since the runtimes' kernels compute with those."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.enums import DataType

NARROWED = {
    ir.DataType.INT64: DataType.INT32,
    ir.DataType.DOUBLE: DataType.FLOAT32,
    ir.DataType.FLOAT16: DataType.FLOAT32,
    ir.DataType.BFLOAT16: DataType.FLOAT32,
    ir.DataType.UINT32: DataType.INT32,
    ir.DataType.UINT64: DataType.INT32,
    ir.DataType.FLOAT: DataType.FLOAT32,
    ir.DataType.INT32: DataType.INT32,
    ir.DataType.BOOL: DataType.BOOL,
    ir.DataType.INT8: DataType.INT8,
    ir.DataType.UINT8: DataType.UINT8,
    ir.DataType.INT16: DataType.INT16,
}
"""Types that the runtime's kernels compute with; 64-bit integers become 32-bit ones, as the original does."""


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """The array in a type of the runtime: 64-bit integers clipped to 32 bits, other floats as float32."""
    if array.dtype in (np.int64, np.uint64, np.uint32):
        limits = np.iinfo(np.int32)
        return np.clip(array, max(limits.min, np.iinfo(array.dtype).min), limits.max).astype(np.int32)
    if array.dtype == np.float64 or (array.dtype.itemsize == 2 and array.dtype not in (np.int16, np.uint16)):
        return array.astype(np.float32)
    return array
