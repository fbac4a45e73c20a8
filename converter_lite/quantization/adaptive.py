"""Rounding of a layer's weights fitted to the inputs that the quantized network gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.gptq import DAMPING, round_gptq
from converter_lite.kernels.patches import choose, conv_patches
from converter_lite.quantization.params import QuantParams

ROWS = 16_384
"""Input rows (output positions of all samples) that a layer is fitted to; more change the result below noise."""

ROW_BYTES = 64 << 20
"""Memory for them."""

DAMPING_BY_SHORTAGE = 0.3
"""Damping per column and input: a classifier of 768 inputs seen 64 times would otherwise fit the samples, not the data."""

TRUST = 0.3
"""Damping of the correction for earlier layers' errors, share of the mean curvature."""

TINY = 1e-6
"""Added to it, so that channels that are always zero can be inverted."""

OPERATORS = ("Conv", "Gemm", "MatMul")
"""Operators whose rounding can be fitted."""

Matrix = NDArray[np.float64]


def rows_per_sample(weight: NDArray[Any], samples: int) -> int:
    """Rows to take from each sample within ``ROWS`` and ``ROW_BYTES``."""
    width = max(weight.size // max(min(weight.shape), 1), 1)
    return max(min(ROWS, ROW_BYTES // (4 * width)) // max(samples, 1), 1)


def input_rows(
    node: ir.Node, x: NDArray[np.float32], weight_shape: tuple[int, ...], rows: int, seed: int
) -> NDArray[np.float32]:
    """What the layer multiplies its weights with. Shape ``(chosen rows, groups, columns)``."""
    if node.op_type != "Conv":
        flat = x.reshape(-1, x.shape[-1])
        return flat[choose(len(flat), rows, seed)][:, None, :]
    spatial = len(weight_shape) - 2
    group = g.int_attribute(node, "group", 1)
    kernel = weight_shape[2:]
    strides = g.ints_attribute(node, "strides", (1,) * spatial)
    dilations = g.ints_attribute(node, "dilations", (1,) * spatial)
    pads = explicit_pads(node, x.shape[2:], kernel, strides, dilations)
    patches = conv_patches(x, kernel=kernel, strides=strides, dilations=dilations, pads=pads, positions=rows, seed=seed)
    return patches.reshape(len(patches), group, -1)


def explicit_pads(
    node: ir.Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Padding of a Conv with ``auto_pad`` resolved (ONNX operator specification)."""
    spatial = len(kernel)
    attr = node.attributes.get("auto_pad")
    mode = attr.as_string() if attr is not None else "NOTSET"
    if mode == "VALID":
        return (0,) * (2 * spatial)
    if mode == "NOTSET":
        return g.ints_attribute(node, "pads", (0,) * (2 * spatial))
    begins, ends = [], []
    for i in range(spatial):
        steps = -(-size[i] // strides[i])
        total = max((steps - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 - size[i], 0)
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    return (*begins, *ends)


def fit_rounding(
    node: ir.Node,
    weight: NDArray[np.float32],
    params: QuantParams,
    float_rows: Sequence[NDArray[np.float32]],
    quantized_rows: Sequence[NDArray[np.float32]],
    *,
    has_bias: bool,
) -> NDArray[np.int32]:
    """Integers with which the layer, fed by the quantized network, gives what the float layer gives in the float network.

    First the float weights of least squared error for the quantized inputs are found (they make up for errors of earlier
    layers), then they are rounded with error compensation.

    Args:
        node: The layer.
        weight: Float weight.
        params: Its grid.
        float_rows: Per sample what :func:`input_rows` gave in the float network.
        quantized_rows: The same rows in the quantized network.
        has_bias: Whether a bias takes the mean of the error; then only its variance counts.

    Returns:
        Integers in the layout of ``weight``.
    """
    x, q = (_by_group(rows, centered=has_bias) for rows in (float_rows, quantized_rows))
    count, columns = q.shape[1:]
    moments = (np.swapaxes(q, 1, 2) @ q).astype(np.float64) / count
    cross = (np.swapaxes(x, 1, 2) @ q).astype(np.float64) / count
    matrix = _to_rows(node, weight)
    grouped = matrix.reshape(len(moments), matrix.shape[0] // len(moments), -1).astype(np.float64)
    shortage = DAMPING_BY_SHORTAGE * columns / count
    grouped = grouped + grouped @ _correction(moments, cross, max(TRUST, 5 * shortage))
    scale, zero = params.scale.astype(np.float64), params.zero_point.astype(np.float64)
    if params.spec.axis is not None:
        scale, zero = scale.reshape(len(moments), -1, 1), zero.reshape(len(moments), -1, 1)
    damping = max(DAMPING, shortage)
    fitted = round_gptq(grouped, moments, scale, zero, qmin=params.spec.qmin, qmax=params.spec.qmax, damping=damping)
    rows = fitted.reshape(matrix.shape)
    return np.ascontiguousarray((rows.T if _is_transposed(node) else rows).reshape(weight.shape))


def _by_group(rows: Sequence[NDArray[np.float32]], *, centered: bool) -> NDArray[np.float32]:
    x = np.concatenate(rows).astype(np.float32)
    if centered:
        x -= x.mean(axis=0, keepdims=True)
    return np.moveaxis(x, 1, 0)


def _correction(moments: Matrix, cross: Matrix, trust: float) -> Matrix:
    """What the weights are multiplied with and grow by: the least-squares answer to inputs that differ from the float ones."""
    mean = np.diagonal(moments, axis1=1, axis2=2).mean(axis=1)[:, None, None]
    damped = moments + (trust * mean + TINY) * np.eye(moments.shape[1])
    return np.swapaxes(np.linalg.solve(damped, np.swapaxes(cross - moments, 1, 2)), 1, 2)


def _to_rows(node: ir.Node, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """The weight with one row per output channel: ``(output channels, ...)``."""
    return weight.T if _is_transposed(node) else weight


def _is_transposed(node: ir.Node) -> bool:
    return node.op_type == "MatMul" or (node.op_type == "Gemm" and not g.int_attribute(node, "transB", 0))
