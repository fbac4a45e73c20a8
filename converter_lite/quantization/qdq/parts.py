"""Widths of stored integers. Weights of five and six bits are in two parts, since ONNX has no type between four and eight bits.

The upper part takes four bits, the lower two: ``q - z = 4 * (upper - z // 4) + (lower - z % 4)``. Each has a DequantizeLinear,
and their sum is the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.kernels.params import QuantParams, QuantSpec

TWO_PARTS = (5, 6)
"""Widths that take less space this way."""

FOUR_BITS = (ir.DataType.INT4, ir.DataType.UINT4)
"""Integers that NumPy has no types for, and most kernels do not take."""

NARROWEST = 4
"""Least width of stored integers unless a file may be newer: 2-bit types came with operator set 25."""

SMALL_TABLE = 1 << 15
"""Most elements of a table that is dequantized as other weights are: 128 KiB. Dequantizing the rows that are gathered takes up to
five nodes more in each run, of 1.5 microseconds each (onnxruntime 1.32)."""

FEW_ROWS = 64
"""Most rows of a larger table that is dequantized as other weights are. Experts of a mixture are gathered so, each token's anew:
rows of four experts took half of a small Mixtral's time."""

GATHERED_BITS = 8
"""Least width of a larger table: rows of narrower integers cannot be gathered."""

LOWER_BITS = 2

UPPER, LOWER = "_upper", "_lower"
"""Ends of the parts' names."""


def is_dequantized_whole(shape: Sequence[int]) -> bool:
    """Whether a table becomes float when a runtime loads the file; of others, rows do when they are gathered."""
    return prod(shape) <= SMALL_TABLE or shape[0] <= FEW_ROWS


def has_two_parts(spec: QuantSpec, narrowest: int) -> bool:
    """Whether a grid's integers are stored in two parts, in a file with integers of ``narrowest`` bits."""
    return narrowest <= LOWER_BITS and spec.bits in TWO_PARTS


def upper(integers: NDArray[np.int32]) -> NDArray[np.int32]:
    """All but the two lowest bits."""
    return integers >> LOWER_BITS


def lower(integers: NDArray[np.int32]) -> NDArray[np.int32]:
    """The two lowest bits, 0 to 3."""
    return integers & (2**LOWER_BITS - 1)


def parts_of(params: QuantParams) -> tuple[QuantParams, QuantParams]:
    """Grids of the upper and of the lower part; their real values add up to those of ``params``."""
    zero = params.zero_point
    high = replace(params.spec, bits=params.spec.bits - LOWER_BITS, narrow_range=False, symmetric=False)
    low = QuantSpec(bits=LOWER_BITS, signed=False, axis=params.spec.axis)
    scale = (params.scale * 2**LOWER_BITS).astype(np.float32)
    return QuantParams(scale, upper(zero), high), QuantParams(params.scale, lower(zero), low)


def joined(high: NDArray[np.int32], low: NDArray[np.int32]) -> NDArray[np.int32]:
    """Integers whose parts these are."""
    return (high << LOWER_BITS) + low


def joined_params(high: QuantParams, low: QuantParams) -> QuantParams | None:
    """The grid whose parts have these grids, ``None`` if they are not parts of one."""
    is_lower = low.spec.bits == LOWER_BITS and not low.spec.signed and low.spec.axis == high.spec.axis
    if not is_lower or not np.array_equal(high.scale, low.scale * 2**LOWER_BITS):
        return None
    zero = joined(high.zero_point, low.zero_point)
    spec = replace(high.spec, bits=high.spec.bits + LOWER_BITS, symmetric=not np.any(zero))
    return QuantParams(low.scale, zero, spec)
