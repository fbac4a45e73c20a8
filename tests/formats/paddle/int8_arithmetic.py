"""Exact NumPy model of the int8 arithmetic of ARM files: what the device computes, operator by operator.

Source: docs/formats/paddle_nb.md, int8 on ARM. Integer sums are exact; everything else is float32 as in the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.program import NbFile, Operator
from converter_lite.formats.paddle.sparse import SparseWeight
from converter_lite.kernels.quantize import round_half_away

Array = NDArray[Any]


def run(file: NbFile, feed: dict[str, Array]) -> list[Array]:
    """Outputs of a file whose operators are convolutions, fc, calib, pooling, flatten, softmax, sums and functions."""
    values: dict[str, Array] = {**file.parameters, **feed}
    fetched: dict[int, Array] = {}
    for op in file.program.main.operators:
        if op.type == "fetch":
            fetched[op.get("col", 0)] = values[op.inputs["X"][0]]
        elif op.type != "feed":
            name, result = compute(op, values)
            values[name] = result
    return [fetched[column] for column in sorted(fetched)]


def compute(op: Operator, values: dict[str, Array]) -> tuple[str, Array]:
    """The variable that an operator writes, and its value."""
    if op.type == "calib":
        return op.outputs["Out"][0], _calib(op, values[op.inputs["Input"][0]])
    if op.type in ("conv2d", "depthwise_conv2d"):
        scaled = _scaled if op.get("enable_int8") else _in_floats
        return op.outputs["Output"][0], scaled(op, values, convolve(op, values), "Filter", (1, -1, 1, 1), "Output")
    if op.type == "sparse_conv2d":
        scaled = _scaled if op.get("enable_int8") else _in_floats
        return op.outputs["Output"][0], scaled(op, values, sparse_sums(op, values), "Filter", (1, -1, 1, 1), "Output")
    if op.type == "fc":
        data = values[op.inputs["Input"][0]]
        rows = data.reshape(*data.shape[: op.get("in_num_col_dims")], -1).astype(np.float64)
        return op.outputs["Out"][0], _scaled(op, values, rows @ values[op.inputs["W"][0]], "W", (-1,), "Out")
    x = values[(op.inputs.get("X") or op.inputs["Input"])[0]]
    return op.outputs["Out"][0], FUNCTIONS[op.type](op, x, values)


def _calib(op: Operator, x: Array) -> Array:
    scale = np.float32(op.get("scale"))
    if "fp32_to_int8" in op.get(KERNEL_ATTRIBUTE):
        return _int8(x * (np.float32(1) / scale))
    return x.astype(np.float32) * scale


def _int8(x: Array) -> Array:
    return np.clip(round_half_away(x.astype(np.float32)), -127, 127).astype(np.int8)


EXACT_TERMS = 2**24 // 127**2
"""Products of two int8 numbers whose sum float32 holds exactly, whatever they are."""


def convolve(op: Operator, values: dict[str, Array]) -> Array:
    """Sums of a 2-D convolution; those of integers are exact: in float32 where that is enough, else in float64."""
    x, w = values[op.inputs["Input"][0]], values[op.inputs["Filter"][0]]
    exact = np.float32 if w[0].size <= EXACT_TERMS else np.float64
    x, w = x.astype(exact), w.astype(exact)
    given = op.get("paddings")
    top, bottom, left, right = given if len(given) == 4 else (given[0], given[0], given[1], given[1])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    (sh, sw), (dh, dw), groups = op.get("strides"), op.get("dilations"), op.get("groups")
    (outputs, inputs, kh, kw), (batch, _, height, width) = w.shape, x.shape
    oh, ow = (height - (kh - 1) * dh - 1) // sh + 1, (width - (kw - 1) * dw - 1) // sw + 1
    total = np.zeros((batch, outputs, oh, ow), exact)
    split = x.reshape(batch, groups, inputs, height, width)
    for i in range(kh):
        for j in range(kw):
            part = split[..., i * dh : i * dh + sh * oh : sh, j * dw : j * dw + sw * ow : sw][..., :oh, :ow]
            flat = part.reshape(batch, groups, inputs, oh * ow)
            kernel = w[:, :, i, j].reshape(groups, outputs // groups, inputs)
            if inputs == 1 and outputs == groups:
                total += (flat * kernel).reshape(total.shape)
            else:
                total += np.matmul(kernel, flat).reshape(total.shape)
    return total


def sparse_sums(op: Operator, values: dict[str, Array]) -> Array:
    """Sums of a sparse convolution of one picture."""
    weights, ends, steps = (values[op.inputs[slot][0]] for slot in ("NonZeroWeights", "OcNonZeros", "Diffs"))
    x = values[op.inputs["Input"][0]]
    assert len(x) == 1, "the kernel computes one picture"
    stored = SparseWeight(weights, ends, steps, op.get("first_ic"), bool(op.get("flag_semi")))
    return walk(stored, x.reshape(x.shape[1], -1)).reshape(1, len(ends), *x.shape[2:])


def walk(stored: SparseWeight, planes: Array) -> Array:
    """A sparse weight times input planes, (I, pixels) -> (O, pixels), with the steps through memory that the kernel takes.

    The kernel starts every row, or pair of rows, from the plane of the very first weight.
    """
    plane = planes.shape[1] * stored.values.dtype.itemsize
    pairs = len(stored.ends) // 2 if stored.paired else 0
    aligned = 1 if stored.paired or stored.values.dtype == np.int8 else 4
    sums = np.zeros((len(stored.ends), planes.shape[1]))
    for block in range(len(stored.ends) - pairs):
        before = int(stored.ends[block - 1]) if block else 0
        begin = -(-before // aligned) * aligned
        address = stored.first * plane + (int(stored.steps[before - 1]) if before else 0)
        rows = (2 * block, 2 * block + 1) if block < pairs else (block + pairs,)
        weight = 2 * begin if stored.paired else begin
        for step in range(begin, int(stored.ends[block])):
            assert address % plane == 0
            for row in rows:
                sums[row] += float(stored.values[weight]) * planes[address // plane]
                weight += 1
            address += int(stored.steps[step])
    return sums


def _scaled(
    op: Operator, values: dict[str, Array], total: Array, weight: str, shape: tuple[int, ...], out: str
) -> Array:
    """Scale, bias, function, and where the kernel gives int8, rounding; all in units of the output."""
    s_in = np.float32(op.get("Input0_scale")[0])
    s_w = np.asarray(op.get(f"{weight}0_scale"), np.float32)
    to_int8 = op.get(KERNEL_ATTRIBUTE).split("/")[1] in ("int8_out", "int8out", "int8_int8_out")
    s_out = np.float32(op.get(f"{out}0_scale")[0]) if to_int8 else np.float32(1)
    result = total.astype(np.float32) * (s_in * s_w / s_out).reshape(shape)
    if op.inputs.get("Bias"):
        result = result + (values[op.inputs["Bias"][0]] / s_out).reshape(shape)
    result = _activated(op, result, s_out)
    return _int8(result) if to_int8 else result


def _in_floats(op: Operator, values: dict[str, Array], total: Array, _: str, shape: tuple[int, ...], out: str) -> Array:
    """A convolution that stays float: bias and function."""
    bias = values[op.inputs["Bias"][0]].reshape(shape) if op.inputs.get("Bias") else np.float32(0)
    return _activated(op, total.astype(np.float32) + bias, np.float32(1))


def _activated(op: Operator, result: Array, unit: np.float32) -> Array:
    """The fused function, its threshold in units of the output."""
    kind = op.get("act_type", "") if op.get("with_act") else op.get("activation_type", "")
    if kind in ("relu", "relu6"):
        result = np.maximum(result, 0)
    if kind == "relu6":
        result = np.minimum(result, np.float32(op.get("fuse_brelu_threshold", 6.0)) / unit)
    if kind == "leaky_relu":
        result = np.where(result < 0, result * np.float32(op.get("leaky_relu_alpha")), result)
    return result


def _pool(op: Operator, x: Array, _: dict[str, Array]) -> Array:
    """Average over the whole picture, or over a window that is as large."""
    assert op.get("pooling_type") == "avg"
    assert op.get("global_pooling") or op.get("ksize") == x.shape[2:]
    return x.mean(axis=(2, 3), keepdims=True, dtype=np.float32)


def _slice(op: Operator, x: Array, _: dict[str, Array]) -> Array:
    index = [slice(None)] * x.ndim
    for axis, start, end in zip(op.get("axes"), op.get("starts"), op.get("ends"), strict=True):
        index[axis] = slice(start, end)
    return x[tuple(index)]


def _pair(function: Any) -> Any:
    return lambda op, x, values: function(x, values[op.inputs["Y"][0]])


def _softmax(op: Operator, x: Array, _: dict[str, Array]) -> Array:
    shifted = np.exp(x - x.max(axis=op.get("axis"), keepdims=True))
    return shifted / shifted.sum(axis=op.get("axis"), keepdims=True)


FUNCTIONS: dict[str, Any] = {
    "pool2d": _pool,
    "softmax": _softmax,
    "flatten_contiguous_range": lambda op, x, values: x.reshape(len(x), -1),
    "reshape2": lambda op, x, values: x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(op.get("shape"))]),
    "relu": lambda op, x, values: np.maximum(x, 0),
    "elementwise_add": _pair(np.add),
    "elementwise_sub": _pair(np.subtract),
    "elementwise_mul": _pair(np.multiply),
    "elementwise_div": _pair(np.divide),
    "scale": lambda op, x, values: x * np.float32(op.get("scale")) + np.float32(op.get("bias")),
    "exp": lambda op, x, values: np.exp(x),
    "slice": _slice,
    "transpose2": lambda op, x, values: x.transpose(op.get("axis")),
    "concat": lambda op, x, values: np.concatenate([values[name] for name in op.inputs["X"]], axis=op.get("axis")),
    "fusion_elementwise_add_activation": lambda op, x, values: np.maximum(x + values[op.inputs["Y"][0]], 0),
}
