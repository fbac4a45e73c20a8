"""Products of a matrix and one column, which float16 kernels for ARM compute in a way of their own: what is wrong with it.

Convolutions to one pixel or by one filter, ``fc`` and ``matmul`` of one row or column come to this. Measured with 2.12 and memory
that is filled with NaN before it is handed out; the sizes of buffers are those of its sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from converter_lite.formats.paddle.program import Operator

Sizes = Callable[[str], tuple[int, ...]]
"""Dimensions of a variable; -1 where they are unknown."""

OVERREAD = "products with one column, whose float16 kernel reads past the end of the matrix: NaN now and then"
FREED = "convolutions to one pixel or by one filter, whose float16 kernel reads memory that it has freed"

BLOCK = 16
"""Elements of a row that the kernel takes at once; what lies behind the row is multiplied by zeros, of which NaN stays NaN."""

ROWS = 8
"""Rows that it takes at once; if some are missing, the last row is a copy with zeros behind it."""


def trouble_with_columns(op: Operator, sizes: Sizes) -> str:
    """Why an operator must not use its float16 kernel; empty when it may."""
    if op.type in ("conv2d", "depthwise_conv2d"):
        return _convolution(op, sizes)
    if op.type == "fc":
        return OVERREAD if _fully_connected(op, sizes) else ""
    if op.type == "matmul":
        return OVERREAD if _product(op, sizes) else ""
    return ""


def fails_at_one_pixel(op: Operator, sizes: Sizes) -> bool:
    """Whether a convolution of a picture of unknown size, which has no trouble with others, has it where it gives one pixel."""
    if op.type not in ("conv2d", "depthwise_conv2d") or min(sizes(str(op.outputs["Output"][0]))[2:], default=0) > 0:
        return False
    return bool(_convolution(op, lambda name: tuple(max(size, 1) for size in sizes(name))))


def _overreads(rows: int, inner: int) -> bool:
    """Whether a block goes beyond the end of a matrix ``(rows, inner)``; a size that is not positive is unknown."""
    missing = -inner % BLOCK
    if rows < 1:
        return missing > 0
    return missing > 0 if rows % ROWS == 0 else rows > 1 and missing > inner


def _convolution(op: Operator, sizes: Sizes) -> str:
    outputs, inputs, *kernel = sizes(str(op.input("Filter")))
    groups, picture = int(op.get("groups")), sizes(str(op.outputs["Output"][0]))[2:]
    if outputs == groups and inputs == 1:  # depthwise ones have kernels of their own
        return ""
    pixels = math.prod(picture) if min(picture, default=0) > 0 else 0
    rows, inner = outputs // groups, inputs * math.prod(kernel)
    if pixels == 0 or (pixels > 1 and rows > 1):
        return ""
    strides, dilations, paddings = (tuple(map(int, op.get(name))) for name in ("strides", "dilations", "paddings"))
    if kernel == [1, 1] and strides == (1, 1) and not any(paddings):
        return OVERREAD if pixels == 1 and _overreads(rows, inner) else ""
    if groups == 1 and kernel == [3, 3] and dilations == (1, 1):
        area = math.prod(sizes(str(op.input("Input")))[2:])
        is_winograd = strides == (1, 1) and len(set(paddings)) == 1
        if is_winograd or (strides == (2, 2) and inputs * outputs < 4 * area):
            return ""
    # The windows lie as one matrix in a buffer for floats, and are lost when the product asks for a larger one.
    column, matrix = 2 * (2 * _up(pixels, ROWS) + _up(inner, ROWS)), 2 * (3 * _up(inner, BLOCK) + _up(rows, ROWS))
    return FREED if (matrix if pixels == 1 else column) > 4 * inner * pixels else ""


def _fully_connected(op: Operator, sizes: Sizes) -> bool:
    leading = sizes(str(op.input("Input")))[: int(op.get("in_num_col_dims"))]
    rows = math.prod(leading) if min(leading, default=0) > 0 else 0
    inner, columns = sizes(str(op.input("W")))
    return (rows <= 1 and _overreads(columns, inner)) or (rows != 1 and columns == 1 and _overreads(rows, inner))


def _product(op: Operator, sizes: Sizes) -> bool:
    columns = sizes(str(op.input("Y")))[-2 if op.get("transpose_Y") else -1]
    if columns != 1 or op.get("transpose_X") or op.get("alpha") != 1.0:
        return False
    rows, inner = sizes(str(op.input("X")))[-2:]
    return _overreads(rows, inner) if inner > 0 else True


def _up(size: int, block: int) -> int:
    return -(-size // block) * block
