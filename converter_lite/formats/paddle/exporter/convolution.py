"""Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.fusion import Activation, recognise, take_activation
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    rank,
    shape,
)
from converter_lite.formats.paddle.exporter.weights import StoredWeight, Transform, keep
from converter_lite.formats.paddle.kernels import Target
from converter_lite.formats.paddle.program import Attribute, Operator, attr, floats, ints
from converter_lite.quantization.plan import NodeMode

FUSABLE = ("relu", "relu6", "brelu", "leaky_relu")
"""Functions that convolution kernels of every release apply (measured); see also :func:`_fusable`."""

LARGEST = 127
"""The largest integer of an activation."""


NARROW = 8
"""Width up to which depthwise kernels for ARM take another way; an open width, -1, may be one."""

DENSE_LIMIT = 1 << 24
"""Elements up to which depthwise filters are written as dense ones, zero but for one channel."""


def _dense(filters: NDArray[Any]) -> NDArray[Any]:
    """Depthwise filters ``(C, 1, kH, kW)`` as ``(C, C, kH, kW)``."""
    made = np.zeros((len(filters), len(filters), *filters.shape[2:]), filters.dtype)
    made[np.arange(len(filters)), np.arange(len(filters))] = filters[:, 0]
    return made


def _conv(lowering: Lowering, node: ir.Node) -> None:
    spatial = rank(node.inputs[1]) - 2
    if spatial == 1:
        _conv_1d(lowering, node)
        return
    if spatial != 2:
        raise Unsupported(f"convolution over {spatial} dimensions has no kernel", "only 1 and 2 dimensions exist")
    filters = shape(node.inputs[1])
    groups = g.int_attribute(node, "group", 1)
    depthwise = filters[1] == 1 and filters[0] == groups > 1
    attributes = {**_geometry(node, filters[2:]), "groups": attr(groups)}
    operator = "depthwise_conv2d" if depthwise else "conv2d"
    value = node.outputs[0]
    allowed, trusting = (
        _fusable(lowering, groups, filters[0]),
        _trusts_a_register(lowering, node, attributes, depthwise),
    )
    if trusting and not _saturates(lowering, value):
        allowed = tuple(kind for kind in allowed if kind not in ("relu6", "brelu"))
    activation, result = take_activation(lowering, value, allowed)
    if trusting and activation.kind in ("relu", "relu6"):
        activation = Activation("leaky_relu", {"leaky_relu_alpha": attr(0.0)})
    weight = lowering.weight(node, node.inputs[1], keep(0))
    attributes |= activation.on_convolution()
    inputs = {"Filter": [weight.name], **_bias(lowering, node, filters[0], needed=_needs_bias(lowering, node, groups))}
    if lowering.mode(node) is NodeMode.INTEGER:
        _emit_integer(lowering, node, weight, Operator(operator, inputs, {}, attributes), result)
        return
    name = lowering.tensor(node.inputs[0])
    if depthwise and _reads_a_wrong_border(node, attributes, is_arm=lowering.is_arm):
        name = padded(lowering, node, name, attributes["paddings"].value)
        attributes["paddings"] = ints((0,) * 4)
    inputs["Input"] = [name]
    lowering.emit(operator, inputs, {"Output": [lowering.result(result)]}, attributes | weight.attributes)


def _fusable(lowering: Lowering, groups: int, channels: int) -> tuple[str, ...]:
    if groups != channels:  # hard_swish: x86 2.10 leaves it out silently; ARM aborts in depthwise kernels
        return (*FUSABLE, "hard_swish") if lowering.is_arm else FUSABLE
    # x86 2.10 clips at 6 in depthwise kernels, whatever the threshold is, and ends the process at leaky_relu in some.
    return FUSABLE if lowering.is_arm else ("relu", "relu6")


def _trusts_a_register(lowering: Lowering, node: ir.Node, attributes: dict[str, Attribute], depthwise: bool) -> bool:
    """Whether the kernel's relu compares with a register that it wrongly assumes to be zero."""
    integer = depthwise and lowering.is_arm and lowering.mode(node) is NodeMode.INTEGER
    window = [attributes[name].value for name in ("strides", "dilations", "paddings")]
    return integer and shape(node.inputs[1])[2:] == (3, 3) and window == [(1, 1), (1, 1), (0,) * 4]


def _reads_a_wrong_border(node: ir.Node, attributes: dict[str, Attribute], *, is_arm: bool) -> bool:
    """Whether the float kernel may take what is behind a row, or the last row, for other numbers than zeros.

    Measured with 3x3 filters, sizes up to 33 and paddings up to 2, where a padding of 1 is at one end of an axis only and the
    paddings in front are equal. 2.12 for ARM: wrong for a width of 5 with stride 1 and for widths up to 8 with stride 2. 2.10
    for x86: wrong numbers, or memory behind the picture, where the padding at the right is missing.
    """
    top, bottom, left, right = attributes["paddings"].value
    if shape(node.inputs[1])[2:] != (3, 3) or top != left or (bottom, right) == (top, left):
        return False
    return dims(node.inputs[0])[3] <= NARROW if is_arm else right < left


def _saturates(lowering: Lowering, value: ir.Value) -> bool:
    """Whether the function behind ``value`` clips no more than int8 does anyway."""
    consumer = g.single_consumer(value)
    found = None if consumer is None else recognise(consumer)
    if consumer is None or found is None or "fuse_brelu_threshold" not in found.attributes:
        return False
    result = consumer.outputs[0]
    threshold = float(found.attributes["fuse_brelu_threshold"].value)
    return lowering.int8_output(result) and threshold / lowering.activation_scale(result) >= LARGEST - 0.5


def _needs_bias(lowering: Lowering, node: ir.Node, groups: int) -> bool:
    # x86 int8 kernels with groups read the bias without asking whether there is one.
    return not lowering.is_arm and groups > 1 and lowering.mode(node) is NodeMode.INTEGER


def _bias(
    lowering: Lowering, node: ir.Node, channels: int, *, needed: bool = False, position: int = 2
) -> dict[str, list[str]]:
    bias = g.input_at(node, position)
    if bias is not None:
        if g.constant(bias) is None:
            raise Unsupported("its bias is computed at run time")
        return {"Bias": [lowering.tensor(bias)]}
    if needed:
        return {"Bias": [lowering.parameter(f"{node.name}.bias", np.zeros(channels, np.float32))]}
    return {}


def _emit_integer(
    lowering: Lowering, node: ir.Node, weight: StoredWeight, floating: Operator, result: ir.Value
) -> None:
    """The int8 kernel of what ``floating`` is in float, without its data."""
    data = node.inputs[0]
    assert data is not None
    name, scale = lowering.int8_input(data)
    attributes = floating.attributes | {
        "enable_int8": attr(True),
        "bit_length": attr(8),
        "Input0_scale": floats([scale]),
        "Filter0_scale": floats(weight.scales),
    }
    alias = "fp32_out"
    if lowering.int8_output(result):
        alias = "int8_out"
        attributes["Output0_scale"] = floats([lowering.activation_scale(result)])
        output = lowering.write_int8(result)
    else:
        output = lowering.result(result)
    inputs = {**floating.inputs, "Input": [name]}
    lowering.emit(floating.type, inputs, {"Output": [output]}, attributes, alias=alias)


def _geometry(node: ir.Node, kernel: tuple[int, ...]) -> dict[str, Attribute]:
    """Strides, dilations and paddings of a 2-D window."""
    strides = g.ints_attribute(node, "strides", (1, 1))
    dilations = g.ints_attribute(node, "dilations", (1, 1))
    return {
        "strides": ints(strides),
        "dilations": ints(dilations),
        "padding_algorithm": attr("EXPLICIT"),
        "data_format": attr("NCHW"),
        "paddings": ints(window_paddings(node, kernel, strides, dilations)),
    }


def window_paddings(
    node: ir.Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """``(top, bottom, left, right)`` of a 2-D window.

    Raises:
        Unsupported: They depend on an input of unknown size.
    """
    is_explicit = g.text_attribute(node, "auto_pad", "NOTSET") in ("NOTSET", "VALID")
    sizes = () if is_explicit else shape(node.inputs[0])[2:]
    top, left, bottom, right = g.window_pads(node, sizes, kernel, strides, dilations)
    return top, bottom, left, right


def padded(lowering: Lowering, node: ir.Node, name: str, paddings: tuple[int, ...]) -> str:
    """The picture with zeros around it."""
    if not any(paddings):
        return name
    top, bottom, left, right = paddings
    known = dims(node.inputs[0])
    sizes = tuple(n + p if n > 0 else -1 for n, p in zip(known[2:], (top + bottom, left + right), strict=True))
    padded = lowering.temporary(f"{node.outputs[0].name}.padded", (*known[:2], *sizes))
    attributes = {
        "mode": attr("constant"),
        "pad_value": attr(0.0),
        "paddings": ints(paddings),
        "data_format": attr("NCHW"),
    }
    lowering.emit("pad2d", {"X": [name]}, {"Out": [padded]}, attributes)
    return padded


def _conv_1d(lowering: Lowering, node: ir.Node) -> None:
    """A convolution over one dimension, as one over two with height 1."""
    if lowering.mode(node) is NodeMode.INTEGER:
        raise Unsupported("a convolution over one dimension stays float here")
    if g.text_attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unsupported("auto_pad of a convolution over one dimension", "write explicit pads")
    data, result = node.inputs[0], node.outputs[0]
    assert data is not None
    filters = shape(node.inputs[1])
    begin, end = g.ints_attribute(node, "pads", (0, 0))
    attributes = {
        "strides": ints((1, *g.ints_attribute(node, "strides", (1,)))),
        "dilations": ints((1, *g.ints_attribute(node, "dilations", (1,)))),
        "paddings": ints((0, 0, begin, end)),
        "groups": attr(g.int_attribute(node, "group", 1)),
    }
    lifted = unsqueeze(lowering, lowering.tensor(data), 2, (*dims(data)[:2], 1, *dims(data)[2:]))
    activation, result = take_activation(lowering, result, FUSABLE)
    weight = lowering.weight(node, node.inputs[1], Transform("2d", lambda array: array[:, :, None, :], 0))
    flat = lowering.temporary(f"{result.name}.2d", (*dims(result)[:2], 1, *dims(result)[2:]))
    inputs = {"Input": [lifted], "Filter": [weight.name], **_bias(lowering, node, filters[0], needed=False)}
    attributes |= activation.on_convolution() | weight.attributes
    lowering.emit("conv2d", inputs, {"Output": [flat]}, attributes)
    outputs = {"Out": [lowering.result(result)], "XShape": [lowering.temporary(f"{result.name}.xshape")]}
    lowering.emit("squeeze2", {"X": [flat]}, outputs, {"axes": ints((2,))})


def unsqueeze(lowering: Lowering, name: str, axis: int, to: tuple[int, ...], *, dtype: int = 5) -> str:
    """Variable ``name`` with one more dimension; ``dtype`` is its tensor type, float32 by default."""
    lifted = lowering.temporary(f"{name}.unsqueezed", to, dtype=dtype)
    outputs = {"Out": [lifted], "XShape": [lowering.temporary(f"{name}.xshape")]}
    lowering.emit("unsqueeze2", {"X": [name]}, outputs, {"axes": ints((axis,))})
    return lifted


def _conv_transpose(lowering: Lowering, node: ir.Node) -> None:
    if rank(node.inputs[1]) != 4:
        raise Unsupported("transposed convolution exists over two dimensions only")
    filters = shape(node.inputs[1])
    groups = g.int_attribute(node, "group", 1)
    if lowering.mode(node) is NodeMode.WEIGHT:
        raise Unsupported("the runtime does not dequantize weights of a transposed convolution", "leave it float")
    if g.text_attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID") or "output_shape" in node.attributes:
        raise Unsupported("auto_pad or output_shape of a transposed convolution", "write explicit pads")
    transform, crashes = keep(1), filters[:2] == (groups, 1) and groups > 1 and lowering.target is Target.X86
    if crashes:  # the x86 kernel for depthwise filters reads memory that is free already
        if groups * groups * filters[2] * filters[3] > DENSE_LIMIT:
            raise Unsupported(f"a depthwise transposed convolution of {groups} channels", "use --nbTarget=arm")
        transform = Transform("dense", _dense, 1)
    attributes = {
        **_geometry(node, filters[2:]),
        "groups": attr(1 if crashes else groups),
        "output_padding": ints(g.ints_attribute(node, "output_padding")),
        "output_size": ints(()),
    }
    activation, result = take_activation(lowering, node.outputs[0], FUSABLE)
    attributes |= activation.on_convolution()
    weight = lowering.weight(node, node.inputs[1], transform)
    inputs = {"Filter": [weight.name], **_bias(lowering, node, filters[1] * groups, needed=False)}
    if lowering.mode(node) is NodeMode.INTEGER:
        _emit_integer(lowering, node, weight, Operator("conv2d_transpose", inputs, {}, attributes), result)
        return
    inputs["Input"] = [lowering.tensor(node.inputs[0])]
    lowering.emit("conv2d_transpose", inputs, {"Output": [lowering.result(result)]}, attributes)


def _deformable(lowering: Lowering, node: ir.Node) -> None:
    """In Paddle's words only: Paddle-Lite's kernel, which ARM has, ends the process or gives other numbers with groups."""
    if lowering.absorbs:
        raise Unsupported("deformable convolutions are not known to be right in Paddle-Lite", "use --saveType=PADDLE")
    filters = shape(node.inputs[1])
    geometry = _geometry(node, filters[2:])
    top, bottom, left, right = geometry["paddings"].value
    if (top, left) != (bottom, right):
        raise Unsupported("a deformable convolution with other pads at the end than in front", "pad the picture before")
    data, offset, mask = node.inputs[0], node.inputs[2], g.input_at(node, 4)
    weight = lowering.weight(node, node.inputs[1], keep(0))
    groups = g.int_attribute(node, "offset_group", 1)
    if mask is None:
        batch, places, *sizes = shape(offset)
        name = lowering.filled(f"{node.outputs[0].name}.mask", (batch, places // 2, *sizes), 1.0)
    else:
        name = lowering.tensor(mask)
    inputs = {
        "Input": [lowering.tensor(data)],
        "Offset": [lowering.tensor(offset)],
        "Filter": [weight.name],
        "Mask": [name],
    }
    attributes = {
        **{kind: geometry[kind] for kind in ("strides", "dilations")},
        "paddings": ints((top, left)),
        "groups": attr(g.int_attribute(node, "group", 1)),
        "deformable_groups": attr(groups),
        "im2col_step": attr(1),
    }
    result, bias = lowering.result(node.outputs[0]), _bias(lowering, node, filters[0], position=3)
    product = lowering.temporary(f"{result}.product", dims(node.outputs[0])) if bias else result
    lowering.emit("deformable_conv", inputs, {"Output": [product]}, attributes)
    if bias:
        lowering.emit("elementwise_add", {"X": [product], "Y": bias["Bias"]}, {"Out": [result]}, {"axis": attr(1)})


HANDLERS: dict[str, Handler] = {"Conv": _conv, "ConvTranspose": _conv_transpose, "DeformConv": _deformable}
