"""Pooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.context import MISSING
from converter_lite.formats.mindir.importer.step import Kind, Step
from converter_lite.formats.mindir.importer.window import PAD_MODES, check_layout, paired_pads, same_pads, sizes
from converter_lite.formats.pooling import end_pads, last_begins, last_inside, uncounted


def _pool(step: Step) -> None:
    """Windows of which the last one may be cut off; padding does not count in means."""
    check_layout(step, "data_format" if step.operator == "AvgPool" else "format")
    value, count = step.tensor("x"), 2
    kernel = sizes(step, "kernel_size", count)
    window: dict[str, Any] = {"kernel_shape": kernel, "strides": sizes(step, "strides", count, 1)}
    mode = step.word("pad_mode", "valid", PAD_MODES)
    if step.rank("x") != count + 2:
        raise ModelError(f"'{value.name}' has {step.rank('x')} dimensions, and not {count + 2}")
    if mode == "same":
        window["pads"] = same_pads(step.shape("x")[2:], kernel, window["strides"], [1] * count)
    elif mode != "valid":
        raise ModelError(f"pad_mode '{mode}'")
    step.finish("MaxPool" if step.operator == "MaxPool" else "AveragePool", value, **window)


def _pool_3d(step: Step) -> None:
    """Pooling with pads, which two-dimensional layers use, too."""
    check_layout(step, "data_format" if step.operator == "AvgPool3D" else "format")
    value, count, mode = step.tensor("x"), 3, step.word("pad_mode", "valid", PAD_MODES)
    kernel = sizes(step, "kernel_size", count)
    window: dict[str, Any] = {"kernel_shape": kernel, "strides": sizes(step, "strides", count, 1)}
    if mode == "same":
        window["pads"] = same_pads(step.shape("x")[2:], kernel, window["strides"], [1] * count)
    elif mode in ("pad", "calculated"):
        window["pads"] = paired_pads(step, "pad_list", count)
        window["ceil_mode"] = int(step.flag("ceil_mode", False)) if step.has("ceil_mode") else 0
    elif mode != "valid":
        raise ModelError(f"pad_mode '{mode}'")
    if step.operator == "MaxPool3D":
        step.finish("MaxPool", value, **_without_outside(step, window))
        return
    _average(step, window, counts_padding=step.flag("count_include_pad", True))


def _average(step: Step, window: dict[str, Any], *, counts_padding: bool) -> None:
    """Means: sums by ``divisor_override``, or by what a window holds with or without its padding, but not behind that."""
    value, kernel = step.tensor("x"), window["kernel_shape"]
    divisor = step.integer("divisor_override", 0) if step.has("divisor_override") else 0
    over_padding = counts_padding and bool(window.get("ceil_mode")) and any(window.get("pads", ()))
    if not divisor and not over_padding:
        step.finish("AveragePool", value, count_include_pad=int(counts_padding), **_without_outside(step, window))
        return
    shape = step.shape("x")[2:]
    begins = last_inside(shape, window)
    half = len(kernel)
    pads = list(window.get("pads", [0] * 2 * half))
    whole = window | {"pads": [*pads[:half], *end_pads(shape, window, begins)], "ceil_mode": 0}
    if divisor:
        factor = np.asarray(math.prod(kernel) / divisor, np.float32)
    else:
        step.importer.take(
            math.prod(last // stride + 1 for last, stride in zip(begins, window["strides"], strict=True))
        )
        factor = uncounted(shape, window, begins, pads[half:])
    mean = step.emit("AveragePool", value, count_include_pad=1, **whole)
    step.finish("Mul", mean, step.constant("factor", factor, np.float32))


def _without_outside(step: Step, window: dict[str, Any]) -> dict[str, Any]:
    """A window of which none begins behind the image, though their number is rounded up."""
    shape = [size for size in (step.tensor("x").shape or ())[2:] if isinstance(size, int)]
    if not window.get("ceil_mode") or len(shape) < len(window["kernel_shape"]):
        return window  # of an open size ONNX leaves them out
    begins = last_inside(shape, window)
    if begins == last_begins(shape, window):
        return window
    pads = [*window["pads"][: len(shape)], *end_pads(shape, window, begins)]
    return window | {"pads": pads, "ceil_mode": 0}


def _pool_function(step: Step) -> None:
    """Pooling of ``mindspore.mint``; maxima come with their places, which nobody may read."""
    value, count = step.tensor("x"), 1 if step.operator == "AvgPool1D" else 2
    kernel = sizes(step, "kernel_size", count)
    strides = sizes(step, "stride", count, tuple(kernel)) if step.has("stride") else kernel
    pads = list(step.integers("padding", 0))
    pads = pads * count if len(pads) == 1 else pads
    if len(pads) != count or min(pads) < 0:
        raise ModelError(f"padding {pads}")
    window: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": [*pads, *pads]}
    window["ceil_mode"] = int(step.flag("ceil_mode", False))
    if step.operator.startswith("Max"):
        window["dilations"] = sizes(step, "dilation", count, 1)
        step.give_first("MaxPool", value, **_without_outside(step, window))
        return
    _average(step, window, counts_padding=step.flag("count_include_pad", True))


def _largest_with_places(step: Step) -> None:
    """Maxima with their places, which nobody may read."""
    count = 3 if step.operator == "MaxPool3DWithArgmax" else 2
    kernel = sizes(step, "ksize" if step.attribute("kernel_size") is MISSING else "kernel_size", count)
    pads = list(step.integers("pads", 0))
    pads = pads * count if len(pads) == 1 else pads[-count:]
    window: dict[str, Any] = {"ceil_mode": int(step.flag("ceil_mode", False)), "kernel_shape": kernel}
    window["strides"] = sizes(step, "strides", count, tuple(kernel))
    window.update(pads=[*pads, *pads], dilations=sizes(step, "dilation", count, 1))
    step.give_first("MaxPool", step.tensor("x"), **_without_outside(step, window))


def _adaptive_largest(step: Step) -> None:
    """Maxima over parts of an image of one size."""
    value, image = step.tensor("x"), step.shape("x")[-2:]
    numbers = step.get("output_size")
    numbers = list(numbers) if isinstance(numbers, tuple) else [numbers] * 2
    goal = [size if number in (None, -1) else int(number) for number, size in zip(numbers, image, strict=True)]
    if min(goal) < 1 or step.rank("x") != 4 or any(size % part for size, part in zip(image, goal, strict=True)):
        raise ModelError(f"{list(image)} in {goal} parts of one size")
    kernel = [size // part for size, part in zip(image, goal, strict=True)]
    step.give_first("MaxPool", value, kernel_shape=kernel, strides=kernel)


def _adaptive(step: Step) -> None:
    """Means over parts of an image, as many as there should be; parts of different sizes overlap."""
    value, rank = step.tensor("x"), step.rank("x")
    count = {"AdaptiveAvgPool1D": 1, "AdaptiveAvgPool3D": 3}.get(step.operator, 2)
    numbers = step.get("output_size")
    numbers = list(numbers) if isinstance(numbers, tuple) else [numbers] * count
    if rank <= count or len(numbers) != count:
        raise ModelError(f"{rank} dimensions, and the size {numbers}")
    if numbers == [1] * count:
        step.finish("ReduceMean", value, step.ints("axes", range(rank - count, rank)), keepdims=1)
        return
    image = step.shape("x")[-count:]
    goal = [size if number in (None, -1) else int(number) for number, size in zip(numbers, image, strict=True)]
    if min(goal) < 1:
        raise ModelError(f"the size {numbers}")
    if rank == count + 2 and all(size % part == 0 for size, part in zip(image, goal, strict=True)):
        kernel = [size // part for size, part in zip(image, goal, strict=True)]
        step.finish("AveragePool", value, kernel_shape=kernel, strides=kernel)
        return
    step.importer.take(sum(size * part for size, part in zip(image, goal, strict=True)))
    shares = [_shares(size, part) for size, part in zip(image, goal, strict=True)]
    if count == 3:
        if rank != 5:
            raise ModelError(f"a volume of {rank} dimensions")
        value = step.emit("Reshape", value, step.ints("flat", [0, 0, image[0], -1]))
        value = step.emit("MatMul", step.constant("levels", shares[0], np.float32), value)
        value = step.emit("Reshape", value, step.ints("volume", [0, 0, goal[0], *image[1:]]))
    if count > 1:
        value = step.emit("MatMul", step.constant("rows", shares[-2], np.float32), value)
    step.finish("MatMul", value, step.constant("columns", shares[-1].T, np.float32))


def _shares(size: int, parts: int) -> NDArray[np.float32]:
    """What each element adds to the mean of each part, ``(parts, size)``."""
    matrix = np.zeros((parts, size), np.float32)
    for part in range(parts):
        begin, end = part * size // parts, -(-(part + 1) * size // parts)
        matrix[part, begin:end] = 1 / (end - begin)
    return matrix


_WINDOW = "kernel_size strides pad_mode format data_format"

KINDS: dict[str, Kind] = {
    "MaxPool": Kind(_pool, "x", "MaxPool", _WINDOW),
    "AvgPool": Kind(_pool, "x kernel_size strides pad_mode data_format", "AveragePool"),
    "MaxPool3D": Kind(_pool_3d, "x", "MaxPool", f"{_WINDOW} pad_list ceil_mode"),
    "AvgPool3D": Kind(
        _pool_3d, "x", "AveragePool, Mul", f"{_WINDOW} pad_list ceil_mode count_include_pad divisor_override"
    ),
    **dict.fromkeys(
        ("MaxPoolWithIndices", "MaxPoolWithMask"),
        Kind(_pool_function, "x kernel_size stride padding dilation ceil_mode argmax_type", "MaxPool"),
    ),
    **dict.fromkeys(
        ("MaxPoolWithArgmaxV2", "MaxPool3DWithArgmax"),
        Kind(_largest_with_places, "x", "MaxPool", "ksize kernel_size strides pads dilation ceil_mode"),
    ),
    "AdaptiveMaxPool2D": Kind(_adaptive_largest, "x output_size", "MaxPool"),
    **dict.fromkeys(
        ("AvgPool1D", "AvgPool2D"),
        Kind(
            _pool_function,
            "x kernel_size stride padding ceil_mode count_include_pad divisor_override",
            "AveragePool, Mul",
        ),
    ),
    **dict.fromkeys(
        ("AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool2DExt", "AdaptiveAvgPool3D"),
        Kind(_adaptive, "x output_size", "ReduceMean, AveragePool, MatMul, Reshape"),
    ),
}
