"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import Format, PadMode, QuantType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    as_image,
    bind_image,
    required,
    strided_slice,
    top_bottom_left_right,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.pad import pad_image
from converter_lite.formats.mindspore_lite.exporter.weights import bias_array, int8_weight, int32_bias, scaled, weight
from converter_lite.formats.mindspore_lite.policy import needs_one_scale
from converter_lite.graph import (
    input_at,
    int_attribute,
    ints_attribute,
    is_constant,
    label,
    text_attribute,
    window_pads,
)


def _widened(values: Sequence[int], fill: int) -> list[int]:
    """Numbers per spatial axis as numbers for height and width; a 1-D convolution has height 1."""
    return [fill] * (2 - len(values)) + list(values)


@dataclass(frozen=True, slots=True)
class _Window:
    """Geometry of a convolution over height and width."""

    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    pads: list[int]
    group: int


def _window(ctx: Lowering, node: ir.Node) -> _Window:
    shape, kernel = ctx.shape(required(node, 0)), ctx.shape(required(node, 1))[2:]
    rank = len(shape)
    if rank not in (3, 4):
        raise Unsupported(f"a convolution over {rank - 2} axes")
    ones = (1,) * (rank - 2)
    stride, dilation = ints_attribute(node, "strides", ones), ints_attribute(node, "dilations", ones)
    pads = window_pads(node, shape[2:], kernel, stride, dilation)
    half = rank - 2
    return _Window(
        _widened(kernel, 1),
        _widened(stride, 1),
        _widened(dilation, 1),
        top_bottom_left_right(_widened(pads[:half], 0) + _widened(pads[half:], 0)),
        int_attribute(node, "group", 1),
    )


def _weight_order(rank: int) -> pm.Perm:
    return pm.NHWC if rank == 4 else pm.NWC


def _conv(ctx: Lowering, node: ir.Node) -> None:
    x, w, bias = required(node, 0), required(node, 1), input_at(node, 2)
    ctx.array(w, "the weight")
    window = _window(ctx, node)
    integer = ctx.computes_integers(node, [x], node.outputs[0]) and _integer_filters(ctx, node, w)
    fixed, late = _split_bias(bias)
    kind, out = _activation_inside(ctx, node, late, integer=integer)
    image = as_image(ctx, x, integer=integer)
    uneven = len(set(window.stride)) > 1 and len(set(window.pads)) > 1
    if uneven or _leaves_the_picture(ctx, image, window) or _overlaps_both_borders(ctx, image, window, ctx.shape(w)):
        image, window = _padded(ctx, image, window)
    channels = ctx.shape(w)
    attributes: dict[str, Any] = {
        "format": int(Format.NHWC),
        "kernel_size": window.kernel,
        "stride": window.stride,
        "dilation": window.dilation,
        "pad_mode": int(PadMode.PAD),
        "pad_list": window.pads,
        "group": window.group,
        "in_channel": channels[1] * window.group,
        "out_channel": channels[0],
        "activation_type": kind,
    }
    order = _weight_order(len(channels))
    dims = _image_dims(ctx.shape(out))
    if integer:
        filters, w_quant = int8_weight(ctx, node, w, order, axis=0)
        x_quant = ctx.activation_quant(x)
        inputs = [image, _lifted(ctx, filters)]
        values = bias_array(ctx, bias)
        if values is not None:
            inputs.append(int32_bias(ctx, values, x_quant, w_quant, bias.name if bias and bias.name else "bias"))
        index = ctx.emit(
            "Conv2DFusion", inputs, dims, quant=ctx.activation_quant(out), quant_type=QuantType.ALL, **attributes
        )
    else:
        packs = window.group == 1
        stored = weight(ctx, node, w, order, axis=0, shared=packs)
        inputs = [image, _lifted(ctx, stored.index)]
        if stored.channel_scale is not None:
            index = ctx.emit("Conv2DFusion", inputs, dims, **{**attributes, "activation_type": 0})
            index = scaled(ctx, index, stored, bias_array(ctx, fixed), kind)
        else:
            inputs += [ctx.use(fixed)] if fixed is not None else []
            index = ctx.emit("Conv2DFusion", inputs, dims, quant_type=stored.mark, **attributes)
        index = _plus_bias(ctx, index, late)
    bind_image(ctx, out, index, integer=integer)


def _split_bias(bias: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None]:
    """A constant bias, which the node takes, and a computed one, which has to be added behind it."""
    return (bias, None) if bias is None or is_constant(bias) else (None, bias)


def _activation_inside(ctx: Lowering, node: ir.Node, late: ir.Value | None, *, integer: bool) -> tuple[int, ir.Value]:
    """The activation that the node computes itself; none where a bias comes between."""
    return (0, node.outputs[0]) if late is not None else ctx.fused_activation(node.outputs[0], integer=integer)


def _plus_bias(ctx: Lowering, index: int, late: ir.Value | None) -> int:
    """A bias per channel, the last axis of an image, added to it."""
    return index if late is None else ctx.emit("AddFusion", [index, ctx.use(late)], ctx.ms.tensors[index].dims)


def _integer_filters(ctx: Lowering, node: ir.Node, w: ir.Value) -> bool:
    """Whether the runtime has an integer kernel for the filters."""
    params = ctx.plan.weights.get(w.name or "")
    if params is None or needs_one_scale(node, params):
        ctx.notes.append(f"{label(node)}: computed with floats, grouped filters need one scale")
        return False
    return True


def _padded(ctx: Lowering, image: int, window: _Window) -> tuple[int, _Window]:
    """Pad before, so that no window reaches beyond the picture: kernels for such windows are wrong in some shapes."""
    padded = pad_image(ctx, image, window.pads)
    return padded, _Window(window.kernel, window.stride, window.dilation, [0, 0, 0, 0], window.group)


def _leaves_the_picture(ctx: Lowering, image: int, window: _Window) -> bool:
    """Whether a window holds nothing but padding, for which the runtime takes other memory (measured on x86)."""
    sizes = ctx.ms.tensors[image].dims[1:3]
    axes = zip(sizes, window.kernel, window.stride, window.dilation, window.pads[::2], window.pads[1::2], strict=True)
    return any(not _meets(*axis) for axis in axes)


def _overlaps_both_borders(ctx: Lowering, image: int, window: _Window, filters: tuple[int, ...]) -> bool:
    """Whether depthwise windows, even one before the first, end behind the picture: the kernel for ARM then writes elsewhere."""
    if window.group == 1 or filters[1] > 1:
        return False
    sizes = ctx.ms.tensors[image].dims[1:3]
    axes = zip(sizes, window.kernel, window.stride, window.dilation, window.pads[::2], strict=True)
    return any(size + before - (kernel - 1) * step - 1 < -stride for size, kernel, stride, step, before in axes)


def _meets(size: int, kernel: int, stride: int, dilation: int, before: int, behind: int) -> bool:
    """Whether each window over an axis has an element of the picture."""
    starts = range(-before, size + behind - (kernel - 1) * dilation, stride)
    return all(any(0 <= start + tap * dilation < size for tap in range(kernel)) for start in starts)


def _lifted(ctx: Lowering, index: int) -> int:
    """Filters of a 1-D convolution (O, W, I) are filters of height 1."""
    tensor = ctx.ms.tensors[index]
    if len(tensor.dims) == 3:
        tensor.dims = (tensor.dims[0], 1, *tensor.dims[1:])
    return index


def _image_dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    return pm.permute(shape, pm.NHWC) if len(shape) == 4 else (shape[0], 1, shape[2], shape[1])


def _conv_transpose(ctx: Lowering, node: ir.Node) -> None:
    x, w, bias = required(node, 0), required(node, 1), input_at(node, 2)
    ctx.array(w, "the weight")
    rank, shape, out_shape = len(ctx.shape(x)), ctx.shape(x), ctx.shape(node.outputs[0])
    if rank not in (3, 4):
        raise Unsupported(f"a transposed convolution over {rank - 2} axes")
    spatial = rank - 2
    group, filters = int_attribute(node, "group", 1), ctx.shape(w)
    depthwise = group == filters[0] and filters[1] == 1
    if group > 1 and not depthwise:
        raise Unsupported("a grouped transposed convolution (only group 1 and depthwise ones exist)")
    ones = (1,) * spatial
    stride, dilation = ints_attribute(node, "strides", ones), ints_attribute(node, "dilations", ones)
    if depthwise and set(dilation) != {1}:
        raise Unsupported("a dilated depthwise transposed convolution")
    extra = ints_attribute(node, "output_padding", (0,) * spatial)
    reach = [(k - 1) * d + 1 for k, d in zip(filters[2:], dilation, strict=True)]
    pads = _transposed_pads(node, shape[2:], out_shape[2:], reach, stride, extra)
    fixed, late = _split_bias(bias)
    kind, out = _activation_inside(ctx, node, late, integer=False)
    order = _weight_order(rank)
    stored = weight(ctx, node, w, order, axis=0 if depthwise else len(filters) - 1, shared=True)
    inputs = [as_image(ctx, x), _lifted(ctx, stored.index)]
    inputs += [ctx.use(fixed)] if fixed is not None and stored.channel_scale is None else []
    sides = top_bottom_left_right(_widened(pads[:spatial], 0) + _widened(pads[spatial:], 0))
    beyond = _beyond_the_kernel(sides, _widened(filters[2:], 1)) if depthwise else [0, 0, 0, 0]
    batch, height, width, channels = _image_dims(out_shape)
    result = ctx.emit(
        "Conv2dTransposeFusion",
        inputs,
        (batch, height + sum(beyond[:2]), width + sum(beyond[2:]), channels),
        quant_type=stored.mark,
        format=int(Format.NHWC),
        kernel_size=_widened(filters[2:], 1),
        stride=_widened(stride, 1),
        dilation=_widened(dilation, 1),
        pad_mode=int(PadMode.PAD),
        pad_list=[side - cut for side, cut in zip(sides, beyond, strict=True)],
        group=group,
        in_channel=filters[0],
        out_channel=filters[1] * group,
        activation_type=kind if stored.channel_scale is None else 0,
        output_paddings=_widened(extra, 0),
    )
    if stored.channel_scale is not None:
        result = scaled(ctx, result, stored, bias_array(ctx, fixed), kind)
    if any(beyond):
        rows, columns = (beyond[0], beyond[0] + height, 1, 1), (beyond[2], beyond[2] + width, 2, 1)
        result = strided_slice(ctx, result, [rows, columns])
    bind_image(ctx, out, _plus_bias(ctx, result, late))


def _beyond_the_kernel(sides: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """What each pad of a depthwise transposed convolution takes away beyond the kernel's size: the process ends there (ARM64)."""
    height, width = kernel
    return [max(0, side - size) for side, size in zip(sides, (height, height, width, width), strict=True)]


def _transposed_pads(
    node: ir.Node,
    size: Sequence[int],
    out: Sequence[int],
    reach: Sequence[int],
    stride: Sequence[int],
    extra: Sequence[int],
) -> list[int]:
    """Pads that give the known output size, whether the node has ``pads``, ``auto_pad`` or ``output_shape``.

    Args:
        node: The convolution.
        size: Of the input, per spatial axis.
        out: Of the output.
        reach: Inputs from the first to the last that a dilated kernel meets.
        stride: Steps.
        extra: ``output_padding``.
    """
    name = text_attribute(node, "auto_pad", "NOTSET")
    if name == "NOTSET" and "output_shape" not in node.attributes:
        return list(ints_attribute(node, "pads", (0,) * (2 * len(reach))))
    totals = [s * (n - 1) + e + r - o for s, n, e, r, o in zip(stride, size, extra, reach, out, strict=True)]
    if any(t < 0 for t in totals):
        raise Unsupported("output_shape is larger than the convolution gives")
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return small + large if name == "SAME_UPPER" else large + small


TABLE: dict[str, Lower] = {"Conv": _conv, "ConvTranspose": _conv_transpose}
