"""Windows that move over the sizes of a picture: strides, dilations, and how they meet the border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import Padding


def numbers(op: Operator, what: str, axes: str = "hw") -> list[int]:
    """An option of each spatial axis, such as ``stride_h`` and ``stride_w``.

    Raises:
        ModelError: One of them is not positive.
    """
    found = [int(op.get(f"{what}_{axis}", 1)) for axis in axes]
    if min(found) < 1:
        raise ModelError(f"its {what} is {found}")
    return found


def padding(
    op: Operator, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> dict[str, Any]:
    """The attributes of ONNX that say the same.

    Args:
        op: An operator with a padding.
        sizes: Of the input, -1 where they are open.
        kernel: Sizes of the window.
        strides: Its steps.
        dilations: Distances of its elements.

    Raises:
        ModelError: The padding is unknown.
    """
    kind = op.get("padding", Padding.VALID)
    if kind not in list(Padding):
        raise ModelError(f"padding {kind} is unknown")
    if kind == Padding.VALID:
        return {}
    if any(size < 0 for size in sizes):
        return {"auto_pad": "SAME_UPPER"}
    totals = [same_padding(n, k, s, d) for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)]
    return {"pads": [total // 2 for total in totals] + [total - total // 2 for total in totals]}


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Elements before and behind an axis with which a window gives ``size / stride`` results, rounded up."""
    return max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
