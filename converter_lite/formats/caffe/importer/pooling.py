"""Pooling, whose output sizes are rounded up.

Source: ``pooling_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step
from converter_lite.formats.graph_builder import shape_of

FIELDS = "pool pad pad_h pad_w kernel_size kernel_h kernel_w stride stride_h stride_w engine global_pooling round_mode ceil_mode"


def _pooling(step: Step) -> None:
    method = step.parameters.word("pool", "MAX", ("MAX", "AVE", "STOCHASTIC"))
    if method == "STOCHASTIC":
        raise ModelError("stochastic pooling has no equal in ONNX")
    if len(step.layer.tops) > 1:
        raise ModelError("its second top, the places of the maxima, has no equal in ONNX")
    value, rank = step.input(), len(step.shape())
    if rank != 4:
        raise ModelError(f"'{step.layer.bottoms[0]}' has {rank} dimensions, and not 4")
    if step.parameters.flag("global_pooling", False):
        has_kernel = any(step.parameters.has(name) for name in ("kernel_size", "kernel_h", "kernel_w"))
        if has_kernel or any(_pair(step, "pad", 0)) or _pair(step, "stride", 1) != [1, 1]:
            raise ModelError("global pooling with a kernel, a pad or a stride")
        step.finish("GlobalAveragePool" if method == "AVE" else "GlobalMaxPool", value)
        return
    kernel, strides, pads = (_pair(step, *names) for names in (("kernel", None), ("stride", 1), ("pad", 0)))
    if min((*kernel, *strides)) < 1 or any(p >= k for p, k in zip(pads, kernel, strict=True)):
        raise ModelError(f"kernel {kernel}, stride {strides}, pad {pads}")
    ends = [_end(step, axis, kernel[axis], strides[axis], pads) for axis in range(2)]
    window: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": [*pads, *ends]}
    if method == "MAX":
        step.finish("MaxPool", value, **window)
    elif not any(pads) or all(end <= pad for end, pad in zip(ends, pads, strict=True)):
        step.finish("AveragePool", value, **window, count_include_pad=int(any(pads)))
    else:
        mean = step.emit("AveragePool", value, **window)
        step.importer.take(math.prod(shape_of(mean)[2:]))
        shares = _shares(step.shape()[2:], kernel, strides, pads, ends)
        step.finish("Mul", mean, step.constant("shares", shares))


def _pair(step: Step, stem: str, default: int | None) -> list[int]:
    """Numbers for height and width."""
    parameters = step.parameters
    both, name = [f"{stem}_h", f"{stem}_w"], "kernel_size" if stem == "kernel" else stem
    if any(map(parameters.has, both)):
        if not all(map(parameters.has, both)) or parameters.has(name):
            raise ModelError(f"{' and '.join(both)} belong together, and {name} does not stand beside them")
        return [parameters.size(field) for field in both]
    if default is None and not parameters.has(name):
        raise ModelError("it has no kernel")
    return [parameters.size(name, default or 0)] * 2


def _end(step: Step, axis: int, kernel: int, stride: int, pads: list[int]) -> int:
    """How far the last window reaches over the end, at least 0: with this pad sizes rounded down are Caffe's.

    A window that begins behind the image is left out where there is padding.
    """
    size, pad = step.shape()[2 + axis], pads[axis]
    rounds_up = step.parameters.word("round_mode", "CEIL", ("CEIL", "FLOOR")) == "CEIL"
    span = size + 2 * pad - kernel
    if span < 0:
        raise ModelError(f"a window of {kernel} is larger than {size} with pads of {pad}")
    last = -(-span // stride) if rounds_up and step.parameters.flag("ceil_mode", True) else span // stride
    if any(pads) and last * stride >= size + pad:
        last -= 1
    if last * stride >= size + pad:
        raise ModelError(f"its last window of {kernel} begins behind the end of {size}: Caffe's result has no meaning")
    return max(last * stride + kernel - size - pad, 0)


def _shares(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], ends: Sequence[int]
) -> NDArray[np.float32]:
    """Image elements of each window by the elements that it is divided by, ``(rows, columns)``.

    Caffe counts padding, but not what the last window reads beyond it, and no operator does so.
    """
    shares = []
    for size, length, stride, pad, end in zip(sizes, kernel, strides, pads, ends, strict=True):
        starts = np.arange((size + pad + end - length) // stride + 1) * stride - pad
        inside = np.minimum(starts + length, size) - np.maximum(starts, 0)
        shares.append(inside / (np.minimum(starts + length, size + pad) - starts))
    return np.outer(*shares).astype(np.float32)


KINDS: dict[str, Kind] = {
    "Pooling": Kind(
        _pooling, "MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, Mul", "pooling_param", FIELDS, tops=(1, 2)
    ),
}
