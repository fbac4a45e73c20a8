"""Convolutions and transposed convolutions, with what ``opt`` fuses into them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, output, step_names
from converter_lite.formats.paddle.importer.images import back, inner, planar
from converter_lite.formats.paddle.importer.sizes import constant_list, known
from converter_lite.formats.paddle.program import Operator

ELEMENTWISE = {"elementwise_add": "Add", "elementwise_sub": "Sub", "elementwise_mul": "Mul", "elementwise_div": "Div"}


def pads(op: Operator, dimensions: int = 2) -> list[int]:
    """Paddings of a window in ONNX order.

    Raises:
        ModelError: There is neither one nor are there two for each dimension.
    """
    given = [int(size) for size in op.get("paddings", (0,) * dimensions)]
    if len(given) == dimensions:
        return given * 2
    if len(given) != 2 * dimensions:
        raise ModelError(f"it has {len(given)} paddings")
    return given[0::2] + given[1::2]


def window(op: Operator, dimensions: int) -> dict[str, Any]:
    """Strides and paddings of a window, as ONNX has them."""
    attributes: dict[str, Any] = {"strides": [int(size) for size in op.get("strides", (1,) * dimensions)]}
    algorithm = op.get("padding_algorithm", "EXPLICIT")
    if algorithm == "SAME":
        return attributes | {"auto_pad": "SAME_UPPER"}
    return attributes | {"pads": [0] * 2 * dimensions if algorithm == "VALID" else pads(op, dimensions)}


def _convolution(importer: Importer, op: Operator) -> None:
    name = output(op, "Output")
    data = planar(importer, op, importer.value(op.input("Input")), "data_format")
    transposed = "transpose" in op.type
    weight = importer.weight(op, "Filter", 1 if transposed else 0)
    dimensions = importer.rank(weight) - 2
    attributes = window(op, dimensions) | {"group": int(op.get("groups", 1))}
    attributes["dilations"] = [int(size) for size in op.get("dilations", (1,) * dimensions)]
    if op.get("padding_algorithm") == "SAME":
        attributes["dilations"] = [1] * dimensions
    if transposed:
        _spread(importer, op, attributes, data, weight)
    bias = _bias(importer, op)
    inputs = [data, weight] if bias is None else [data, weight, bias]
    other = op.input("SecondInput") or op.input("ResidualData")
    functions = [kind for kind in (_activation(op), str(op.get("scale_activation_type", ""))) if kind]
    names = step_names(inner(op, "data_format", name), other, *functions)
    value = importer.node("ConvTranspose" if transposed else "Conv", inputs, attributes, names=[next(names)])[0]
    if other is not None:
        value = _second_input(importer, op, value, other, next(names))
    for kind in functions:
        value = fused(importer, op, value, kind, next(names))
    back(importer, op, value, "data_format", name)
    importer.mark(op, "Input", weight, data, value, out="Output")


def _activation(op: Operator) -> str:
    if op.get("with_act"):
        kind = str(op.get("act_type", ""))
        return "" if kind in NO_FUNCTION else kind
    return "relu" if op.get("fuse_relu") else ""


def _bias(importer: Importer, op: Operator) -> ir.Value | None:
    name = op.input("Bias")
    if name is None:
        return None
    array = importer.array(name)
    scales = op.get(f"{name}_quant_scale")
    if array is not None and scales is not None:  # opt stores biases of weight-only files as integers too
        return importer.quantized_weight(name, array, np.asarray(scales, np.float32), 0)
    return importer.value(name)


def _spread(importer: Importer, op: Operator, attributes: dict[str, Any], data: ir.Value, weight: ir.Value) -> None:
    """Attributes that only transposed convolutions have: what is added at the end to reach an output size."""
    added = [int(size) for size in op.get("output_padding", ())]
    wanted = constant_list(importer, op, "output_size", "OutputSize")
    source = (importer.shape(data) or [])[2:]
    kernel = known(importer, weight)[2:]
    is_same = "auto_pad" in attributes
    if (is_same or wanted) and (len(source) != len(kernel) or min(source) < 1):
        if not wanted or is_same:
            raise ModelError("padding SAME of a transposed convolution whose input size is not known")
        attributes["output_shape"] = wanted
        return
    if is_same:
        del attributes["auto_pad"]
        attributes["pads"] = same_pads(source, kernel, attributes["strides"])
    if wanted:
        begin, end = np.split(np.asarray(attributes["pads"]), 2)
        reach = (np.asarray(kernel) - 1) * attributes["dilations"] + 1
        natural = (np.asarray(source) - 1) * attributes["strides"] - begin - end + reach
        added = [int(size) for size in np.asarray(wanted) - natural]
        if min(added) < 0:
            raise ModelError(f"output size {wanted} is below {natural.tolist()}")
    if any(added):
        attributes["output_padding"] = added


def same_pads(source: list[int], kernel: list[int], strides: list[int]) -> list[int]:
    """Padding SAME of a window; a transposed convolution has that of the convolution with the same input size."""
    whole = [max((-(-s // t) - 1) * t + k - s, 0) for s, k, t in zip(source, kernel, strides, strict=True)]
    return [size // 2 for size in whole] + [size - size // 2 for size in whole]


def _second_input(importer: Importer, op: Operator, value: ir.Value, other: str, name: str) -> ir.Value:
    """A fused residual sum."""
    kind = ELEMENTWISE.get(str(op.get("fuse_elementwise_op_type", "elementwise_add")))
    if kind is None:
        raise ModelError(f"the fused operator {op.get('fuse_elementwise_op_type')} is unknown")
    return importer.node(kind, [value, importer.value(other)], names=[name])[0]


def _sparse_convolution(importer: Importer, op: Operator) -> None:
    """A convolution whose filter is stored without its zeros, as the dense one that it was made from."""
    from converter_lite.formats.paddle.importer.sparse import dense_filter  # few files have one

    filters = dense_filter(importer, op, importer.value(op.input("Input")))
    _convolution(importer, replace(op, type="conv2d", inputs={**op.inputs, "Filter": [filters]}))


def _deformable(importer: Importer, op: Operator) -> None:
    """Both take the offsets as pairs of row and column for each place of the filter."""
    data, filters, offset = (importer.value(op.input(slot)) for slot in ("Input", "Filter", "Offset"))
    attributes = window(op, 2) | {"group": int(op.get("groups", 1))}
    attributes["dilations"] = [int(size) for size in op.get("dilations", (1, 1))]
    attributes["offset_group"] = int(op.get("deformable_groups", 1))
    mask = op.input("Mask")
    inputs = [data, filters, offset] if mask is None else [data, filters, offset, None, importer.value(mask)]
    importer.finish(output(op, "Output"), "DeformConv", *inputs, **attributes)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose", "depthwise_conv2d_transpose"), _convolution),
    **dict.fromkeys(("conv3d", "conv3d_transpose"), _convolution),
    "sparse_conv2d": _sparse_convolution,
    **dict.fromkeys(("deformable_conv", "deformable_conv_v1"), _deformable),
}
