"""Image operators: NHWC in the file, NCHW in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import FormatError
from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsNode
from converter_lite.formats.mindspore_lite.enums import CoordinateMode, NearestMode, PadMode, ResizeMethod
from converter_lite.formats.mindspore_lite.importer.activation import activated
from converter_lite.formats.mindspore_lite.importer.context import Importer

_AUTO_PAD = {PadMode.SAME: "SAME_UPPER", PadMode.VALID: "VALID"}


def numbers(node: MsNode, name: str, default: list[int]) -> list[int]:
    """A vector attribute, or its default when it is absent or empty."""
    values = node.attributes.get(name)
    return default if values is None or len(values) == 0 else [int(v) for v in values]


def image_input(ctx: Importer, index: int) -> ir.Value:
    """An NHWC tensor in the order of ONNX."""
    if ctx.rank(index) not in (None, 4):
        raise FormatError("an image operator needs a tensor with 4 axes", where=ctx.where)
    return ctx.value(index, pm.NCHW_FROM_NHWC)


def image_output(ctx: Importer, index: int, value: ir.Value) -> None:
    """Bind an NCHW value to an NHWC tensor."""
    ctx.bind(index, value, pm.NCHW_FROM_NHWC)


def _pads(node: MsNode, name: str) -> dict[str, Any]:
    mode = node.attributes.get("pad_mode", 0)
    if mode in _AUTO_PAD:
        return {"auto_pad": _AUTO_PAD[mode]}
    top, bottom, left, right = numbers(node, name, [0, 0, 0, 0])
    return {"pads": [top, left, bottom, right]}


def _bias(ctx: Importer, node: MsNode) -> list[ir.Value]:
    return [ctx.bias(node.inputs[2])] if len(node.inputs) > 2 else []


def _conv(ctx: Importer, node: MsNode) -> None:
    weight = ctx.weight(node.inputs[1], pm.NCHW_FROM_NHWC)
    transposed = node.op == "Conv2dTransposeFusion"
    value = ctx.add(
        "ConvTranspose" if transposed else "Conv",
        [image_input(ctx, node.inputs[0]), weight, *_bias(ctx, node)],
        kernel_shape=list(weight.shape.numpy()[2:]) if weight.shape is not None else None,
        strides=numbers(node, "stride", [1, 1]),
        dilations=numbers(node, "dilation", [1, 1]),
        group=max(1, int(node.attributes["group"])),
        output_padding=numbers(node, "output_paddings", [0, 0]) if transposed else None,
        **_pads(node, "pad_list"),
    )
    image_output(ctx, node.outputs[0], activated(ctx, node, value))


def _pool(ctx: Importer, node: MsNode) -> None:
    op = "MaxPool" if node.op == "MaxPoolFusion" else "AveragePool"
    source = image_input(ctx, node.inputs[0])
    if node.attributes["global"]:
        value = ctx.add(f"Global{op}", [source])
    else:
        value = ctx.add(
            op,
            [source],
            kernel_shape=numbers(node, "kernel_size", [1, 1]),
            strides=numbers(node, "strides", [1, 1]),
            ceil_mode=int(node.attributes["round_mode"]),
            **_pads(node, "pad"),
        )
    image_output(ctx, node.outputs[0], activated(ctx, node, value))


def _scale(ctx: Importer, node: MsNode) -> None:
    """X * scale + offset; the constants lie along the axes from ``axis`` on."""
    rank = ctx.rank(node.inputs[0]) or 4
    axis = int(node.attributes["axis"]) % rank
    order = (() if ctx.is_constant(node.inputs[0]) else ctx.orders(node.inputs[0])[0]) or pm.identity(rank)
    value = ctx.value(node.inputs[0], order)
    for op, index in zip(("Mul", "Add"), node.inputs[1:], strict=False):
        array = np.asarray(ctx.array(index), np.float32)
        shape = (1,) * axis + array.shape + (1,) * (rank - axis - array.ndim)
        constant = ctx.initializer(array.reshape(shape).transpose(order), f"{node.name}_{op.lower()}")
        value = ctx.add(op, [value, constant])
    ctx.bind(node.outputs[0], activated(ctx, node, value), order)


def _batch_norm(ctx: Importer, node: MsNode) -> None:
    inputs = [image_input(ctx, node.inputs[0])]
    parameters = [ctx.array(i).astype(np.float32) for i in node.inputs[1:]]
    if node.op == "BatchNorm":
        ones, zeros = np.ones_like(parameters[0]), np.zeros_like(parameters[0])
        parameters = [ones, zeros, *parameters]
    inputs += [ctx.initializer(p, f"{node.name}_{i}") for i, p in enumerate(parameters)]
    value = ctx.add("BatchNormalization", inputs, epsilon=float(node.attributes["epsilon"]))
    image_output(ctx, node.outputs[0], value)


def _prelu(ctx: Importer, node: MsNode) -> None:
    slope = ctx.array(node.inputs[1]).astype(np.float32).reshape(-1)
    constant = ctx.initializer(slope.reshape(-1, 1, 1) if slope.size > 1 else slope, f"{node.name}_slope")
    image_output(ctx, node.outputs[0], ctx.add("PRelu", [image_input(ctx, node.inputs[0]), constant]))


def _lrn(ctx: Importer, node: MsNode) -> None:
    size = 2 * int(node.attributes["depth_radius"]) + 1
    terms: dict[str, Any] = {name: float(node.attributes[name]) for name in ("alpha", "beta", "bias")}
    terms["alpha"] *= size
    image_output(ctx, node.outputs[0], ctx.add("LRN", [image_input(ctx, node.inputs[0])], size=size, **terms))


def _resize(ctx: Importer, node: MsNode) -> None:
    method, mode = node.attributes["method"], node.attributes["coordinate_transform_mode"]
    names = {ResizeMethod.LINEAR: "linear", ResizeMethod.NEAREST: "nearest", ResizeMethod.CUBIC: "cubic"}
    if method not in names or mode not in _COORDINATES:
        raise FormatError(f"resize method {method} with coordinate mode {mode} is unknown", where=ctx.where)
    source = image_input(ctx, node.inputs[0])
    operands: list[ir.Value | None] = [source, None, None, None]
    given = ctx.stored(node.inputs[1]).array if len(node.inputs) > 1 else None
    if given is not None and given.dtype.kind == "f":
        scales = np.concatenate([[1, 1], given.reshape(-1)[-2:]]).astype(np.float32)
        operands[2] = ctx.initializer(scales, f"{node.name}_scales")
    else:
        size = [int(i) for i in given.reshape(-1)[-2:]] if given is not None else _new_size(node)
        lead = ctx.int64([0, 1], "first_axes")
        first = ctx.add("Gather", [ctx.add("Shape", [source]), lead])
        operands[3] = ctx.add("Concat", [first, ctx.int64(size, "size")], axis=0)
    value = ctx.add(
        "Resize",
        operands,
        mode=names[method],
        coordinate_transformation_mode=_COORDINATES[mode],
        nearest_mode=_NEAREST.get(node.attributes["nearest_mode"], "floor"),
        cubic_coeff_a=float(node.attributes["cubic_coeff"]) or -0.75,
    )
    image_output(ctx, node.outputs[0], value)


_COORDINATES = {
    CoordinateMode.ASYMMETRIC: "asymmetric",
    CoordinateMode.ALIGN_CORNERS: "align_corners",
    CoordinateMode.HALF_PIXEL: "half_pixel",
}
_NEAREST = {
    NearestMode.FLOOR: "floor",
    NearestMode.CEIL: "ceil",
    NearestMode.ROUND_HALF_DOWN: "round_prefer_floor",
    NearestMode.ROUND_HALF_UP: "round_prefer_ceil",
}


def _new_size(node: MsNode) -> list[int]:
    return [int(node.attributes["new_height"]), int(node.attributes["new_width"])]


def _depth_to_space(ctx: Importer, node: MsNode) -> None:
    block = int(node.attributes["block_size"])
    extra = {"mode": node.attributes.get("mode") or "DCR"} if node.op == "DepthToSpace" else {}
    image_output(ctx, node.outputs[0], ctx.add(node.op, [image_input(ctx, node.inputs[0])], blocksize=block, **extra))


TABLE = {
    "Conv2DFusion": _conv,
    "Conv2dTransposeFusion": _conv,
    "AvgPoolFusion": _pool,
    "MaxPoolFusion": _pool,
    "ScaleFusion": _scale,
    "BatchNorm": _batch_norm,
    "FusedBatchNorm": _batch_norm,
    "PReLUFusion": _prelu,
    "LRN": _lrn,
    "Resize": _resize,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _depth_to_space,
}
