"""Numbers of the format that have names. Source: the public schema of the format."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class TensorType(IntEnum):
    """Element type of a tensor."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    UINT8 = 3
    INT64 = 4
    STRING = 5
    BOOL = 6
    INT16 = 7
    COMPLEX64 = 8
    INT8 = 9
    FLOAT64 = 10
    COMPLEX128 = 11
    UINT64 = 12
    RESOURCE = 13
    VARIANT = 14
    UINT32 = 15
    UINT16 = 16
    INT4 = 17
    BFLOAT16 = 18
    INT2 = 19
    UINT4 = 20
    FLOAT8_E4M3FN = 21
    FLOAT8_E5M2 = 22


NUMPY_TYPES: dict[TensorType, np.dtype[np.generic]] = {
    TensorType.FLOAT32: np.dtype("<f4"),
    TensorType.FLOAT16: np.dtype("<f2"),
    TensorType.INT32: np.dtype("<i4"),
    TensorType.UINT8: np.dtype("u1"),
    TensorType.INT64: np.dtype("<i8"),
    TensorType.BOOL: np.dtype("?"),
    TensorType.INT16: np.dtype("<i2"),
    TensorType.INT8: np.dtype("i1"),
    TensorType.FLOAT64: np.dtype("<f8"),
    TensorType.UINT64: np.dtype("<u8"),
    TensorType.UINT32: np.dtype("<u4"),
    TensorType.UINT16: np.dtype("<u2"),
    TensorType.INT4: np.dtype("i1"),
}
"""Types of the elements that are read; four-bit integers are widened."""

GRIDS: dict[TensorType, tuple[int, bool]] = {
    TensorType.INT4: (4, True),
    TensorType.INT8: (8, True),
    TensorType.UINT8: (8, False),
    TensorType.INT16: (16, True),
    TensorType.INT32: (32, True),
}
"""Types that stand for real numbers where there is a scale -> bits, sign."""


class Padding(IntEnum):
    """How a window meets the border."""

    SAME = 0
    VALID = 1


class Activation(IntEnum):
    """An activation that an operator computes on its own result."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class MirrorMode(IntEnum):
    """What MIRROR_PAD repeats: all but the border, or the border too."""

    REFLECT = 0
    SYMMETRIC = 1


class WeightsFormat(IntEnum):
    """Order of the weights of FULLY_CONNECTED."""

    DEFAULT = 0
    SHUFFLED4X16INT8 = 1


class DimensionType(IntEnum):
    """How a sparse tensor stores a dimension."""

    DENSE = 0
    SPARSE_CSR = 1
