"""Numbers of the ``.ms`` format. Source: the files and sources of the 2.0.0 release; checked against its runtime."""

from __future__ import annotations

import enum

import numpy as np


class DataType(enum.IntEnum):
    """``Tensor.dataType``."""

    STRING = 12
    BOOL = 30
    INT8 = 32
    INT16 = 33
    INT32 = 34
    INT64 = 35
    UINT8 = 37
    UINT16 = 38
    UINT32 = 39
    UINT64 = 40
    FLOAT16 = 42
    FLOAT32 = 43
    FLOAT64 = 44

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The little-endian array type of the raw bytes."""
        return np.dtype(_NUMPY[self])


_NUMPY = {
    DataType.BOOL: "?",
    DataType.INT8: "<i1",
    DataType.INT16: "<i2",
    DataType.INT32: "<i4",
    DataType.INT64: "<i8",
    DataType.UINT8: "<u1",
    DataType.UINT16: "<u2",
    DataType.UINT32: "<u4",
    DataType.UINT64: "<u8",
    DataType.FLOAT16: "<f2",
    DataType.FLOAT32: "<f4",
    DataType.FLOAT64: "<f8",
}

FROM_NUMPY = {np.dtype(name): dtype for dtype, name in _NUMPY.items()}
"""Array type -> ``dataType``."""


class NodeType(enum.IntEnum):
    """``Tensor.nodeType``: a constant carries data, everything else is a variable."""

    CONSTANT = 0
    VARIABLE = 2


class Format(enum.IntEnum):
    """``Tensor.format``; image operators of the runtime insist on NHWC."""

    NCHW = 0
    NHWC = 1


class ActivationType(enum.IntEnum):
    """``activation_type`` attributes."""

    NONE = 0
    RELU = 1
    SIGMOID = 2
    RELU6 = 3
    ELU = 4
    LEAKY_RELU = 5
    ABS = 6
    RELU1 = 7
    SOFTSIGN = 8
    SOFTPLUS = 9
    TANH = 10
    SELU = 11
    HSWISH = 12
    HSIGMOID = 13
    THRESHOLD_RELU = 14
    LINEAR = 15
    HARD_TANH = 16
    SIGN = 17
    SWISH = 18
    GELU = 19
    FAST_GELU = 20


class PadMode(enum.IntEnum):
    """``pad_mode`` of convolutions and pools."""

    PAD = 0
    SAME = 1
    VALID = 2


class PaddingMode(enum.IntEnum):
    """``padding_mode`` of PadFusion."""

    CONSTANT = 0
    REFLECT = 1
    SYMMETRIC = 2


class ReduceMode(enum.IntEnum):
    """``mode`` of ReduceFusion."""

    MEAN = 0
    MAX = 1
    MIN = 2
    PROD = 3
    SUM = 4
    SUM_SQUARE = 5
    ABS_SUM = 6
    ALL = 7
    L2 = 8


class ResizeMethod(enum.IntEnum):
    """``method`` of Resize."""

    LINEAR = 0
    NEAREST = 1
    CUBIC = 2


class CoordinateMode(enum.IntEnum):
    """``coordinate_transform_mode`` of Resize."""

    ASYMMETRIC = 0
    ALIGN_CORNERS = 1
    HALF_PIXEL = 2


class NearestMode(enum.IntEnum):
    """``nearest_mode`` of Resize."""

    NORMAL = 0
    ROUND_HALF_DOWN = 1
    ROUND_HALF_UP = 2
    FLOOR = 3
    CEIL = 4


class QuantType(enum.IntEnum):
    """``CNode.quantType``."""

    NONE = 0
    WEIGHT = 4
    ALL = 5
    DYNAMIC = 6


class Compression(enum.IntEnum):
    """``Tensor.weightQuantCompressType``."""

    NONE = 0
    INDEXING = 1
    SPARSE = 2
    FSE = 3
    BITPACKING = 4
    FSE_INT = 5
    FSE_INFER = 6
