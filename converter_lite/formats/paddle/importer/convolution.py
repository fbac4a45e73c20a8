"""conv2d, depthwise_conv2d, conv2d_transpose with what ``opt`` fuses into them, and pool2d."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, step_names
from converter_lite.formats.paddle.program import Operator

ELEMENTWISE = {"elementwise_add": "Add", "elementwise_sub": "Sub", "elementwise_mul": "Mul", "elementwise_div": "Div"}


def pads(op: Operator) -> list[int]:
    """Paddings of a 2-D window in ONNX order.

    Raises:
        ModelError: There are not 2 or 4 of them.
    """
    given = list(op.get("paddings", (0, 0)))
    if len(given) == 2:
        given = [given[0], given[0], given[1], given[1]]
    if len(given) != 4:
        raise ModelError(f"it has {len(given)} paddings")
    top, bottom, left, right = given
    return [top, left, bottom, right]


def _window(op: Operator) -> dict[str, Any]:
    if op.get("data_format", "NCHW") not in ("NCHW", "AnyLayout"):
        raise ModelError(f"data format {op.get('data_format')}")
    attributes: dict[str, Any] = {"strides": list(op.get("strides", (1, 1)))}
    algorithm = op.get("padding_algorithm", "EXPLICIT")
    if algorithm == "SAME":
        return attributes | {"auto_pad": "SAME_UPPER"}
    return attributes | {"pads": [0, 0, 0, 0] if algorithm == "VALID" else pads(op)}


def _convolution(importer: Importer, op: Operator) -> None:
    name = op.output("Output")
    if name is None:
        raise ModelError("it has no output")
    data = importer.value(op.input("Input"))
    transposed = op.type.endswith("transpose")
    weight = importer.weight(op, "Filter", 1 if transposed else 0)
    attributes = _window(op) | {"group": int(op.get("groups", 1))}
    attributes["dilations"] = list(op.get("dilations", (1, 1)))
    if op.get("padding_algorithm") == "SAME":
        attributes["dilations"] = [1, 1]
    if transposed:
        _output_size(op, attributes)
    bias = _bias(importer, op)
    inputs = [data, weight] if bias is None else [data, weight, bias]
    other = op.input("SecondInput") or op.input("ResidualData")
    functions = [kind for kind in (_activation(op), str(op.get("scale_activation_type", ""))) if kind]
    names = step_names(name, other, *functions)
    value = importer.node("ConvTranspose" if transposed else "Conv", inputs, attributes, names=[next(names)])[0]
    if other is not None:
        value = _second_input(importer, op, value, other, next(names))
    for kind in functions:
        value = fused(importer, op, value, kind, next(names))
    importer.bind(name, value)
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


def _output_size(op: Operator, attributes: dict[str, Any]) -> None:
    if op.get("output_padding"):
        attributes["output_padding"] = list(op.get("output_padding"))
    if op.get("output_size"):
        attributes["output_shape"] = list(op.get("output_size"))


def _second_input(importer: Importer, op: Operator, value: ir.Value, other: str, name: str) -> ir.Value:
    """A fused residual sum."""
    kind = ELEMENTWISE.get(str(op.get("fuse_elementwise_op_type", "elementwise_add")))
    if kind is None:
        raise ModelError(f"the fused operator {op.get('fuse_elementwise_op_type')} is unknown")
    return importer.node(kind, [value, importer.value(other)], names=[name])[0]


def _pool(importer: Importer, op: Operator) -> None:
    name = op.output("Out")
    if name is None:
        raise ModelError("it has no output")
    value = importer.value(op.input("X"))
    average = op.get("pooling_type", "max") == "avg"
    kernel = list(op.get("ksize", (1, 1)))
    if op.get("global_pooling") or (op.get("adaptive") and kernel == [1, 1]):
        importer.finish(name, "GlobalAveragePool" if average else "GlobalMaxPool", value)
        return
    attributes = _window(op) | {"kernel_shape": kernel}
    if op.get("adaptive"):
        attributes |= _adaptive(importer, value, kernel)
    attributes["ceil_mode"] = int(bool(op.get("ceil_mode", False)))
    if average:
        attributes["count_include_pad"] = int(not op.get("exclusive", True))
    importer.finish(name, "AveragePool" if average else "MaxPool", value, **attributes)


def _adaptive(importer: Importer, value: ir.Value, size: list[int]) -> dict[str, Any]:
    """Window of a pool whose output size is given; only where the input divides by it."""
    source = (importer.shape(value) or [])[2:]
    if len(source) != 2 or any(s < 1 or s % o for s, o in zip(source, size, strict=True)):
        raise ModelError(f"adaptive pooling from {source} to {size} has no fixed window")
    window = [s // o for s, o in zip(source, size, strict=True)]
    return {"kernel_shape": window, "strides": window, "pads": [0, 0, 0, 0]}


def _sparse_convolution(importer: Importer, op: Operator) -> None:
    """A convolution whose filter is stored without its zeros, as the dense one that it was made from."""
    from converter_lite.formats.paddle.importer.sparse import dense_filter  # few files have one

    filters = dense_filter(importer, op, importer.value(op.input("Input")))
    _convolution(importer, replace(op, type="conv2d", inputs={**op.inputs, "Filter": [filters]}))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose", "depthwise_conv2d_transpose"), _convolution),
    "sparse_conv2d": _sparse_convolution,
    "pool2d": _pool,
}
