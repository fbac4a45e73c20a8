"""Operators of Paddle-Lite in the words of Paddle: what Paddle-Lite's operators absorb becomes operators of its own.

Source: docs/formats/paddle_inference.md, operators.
"""

from __future__ import annotations

from collections.abc import Callable

from converter_lite.formats.paddle.program import Attribute, Operator, attr, ints

Fresh = Callable[[str], str]
"""Declares a variable of the type and shape of another one, and returns its name."""

Spelling = Callable[[Operator, Fresh], list[Operator]]
"""The operators of Paddle that compute what one of Paddle-Lite computes."""

INTEGER_ATTRIBUTES = ("enable_int8", "bit_length", "Input0_scale", "Filter0_scale", "W0_scale")
"""What Paddle-Lite's operators say about integers, and Paddle's operators of quantization say in their place."""


def _plain(attributes: dict[str, Attribute]) -> dict[str, Attribute]:
    return {name: value for name, value in attributes.items() if name not in INTEGER_ATTRIBUTES}


def _added(op: Operator, slot: str, bias: str, axis: int, fresh: Fresh) -> list[Operator]:
    """``op`` and the addition of a vector behind it, which writes its result."""
    result = op.outputs[slot][0]
    before = fresh(result)
    op.outputs = op.outputs | {slot: [before]}
    addition = Operator("elementwise_add", {"X": [before], "Y": [bias]}, {"Out": [result]}, {"axis": attr(axis)})
    return [op, addition]


def _convolution(op: Operator, fresh: Fresh) -> list[Operator]:
    """Paddle's convolutions have no bias."""
    inputs = {slot: names for slot, names in op.inputs.items() if slot != "Bias"}
    made = Operator(op.type, inputs, dict(op.outputs), _plain(op.attributes))
    bias = op.input("Bias")
    return [made] if bias is None else _added(made, "Output", bias, 1, fresh)


def _fully_connected(op: Operator, fresh: Fresh) -> list[Operator]:
    inputs = {"X": op.inputs["Input"], "Y": op.inputs["W"]}
    attributes = {"trans_x": attr(False), "trans_y": attr(bool(op.get("trans_y", False)))}
    made = Operator("matmul_v2", inputs, dict(op.outputs), attributes)
    bias = op.input("Bias")
    return [made] if bias is None else _added(made, "Out", bias, -1, fresh)


def _product(op: Operator, fresh: Fresh) -> list[Operator]:
    """``matmul`` has a factor, ``matmul_v2`` has none."""
    attributes = {"trans_x": op.attributes["transpose_X"], "trans_y": op.attributes["transpose_Y"]}
    made = Operator("matmul_v2", dict(op.inputs), dict(op.outputs), attributes)
    factor = float(op.get("alpha", 1.0))
    if factor == 1.0:
        return [made]
    result = op.outputs["Out"][0]
    before = fresh(result)
    made.outputs = {"Out": [before]}
    scaling = {"scale": attr(factor), "bias": attr(0.0), "bias_after_scale": attr(True)}
    return [made, Operator("scale", {"X": [before]}, {"Out": [result]}, scaling)]


def _batch_normalization(op: Operator, fresh: Fresh) -> list[Operator]:
    """Paddle wants mean and variance to be overwritten, which a normalization at rest does not do."""
    del fresh
    outputs = op.outputs | {"MeanOut": op.inputs["Mean"], "VarianceOut": op.inputs["Variance"]}
    return [Operator(op.type, dict(op.inputs), outputs, dict(op.attributes))]


PAD_MODES = {"edge": "replicate"}
"""Names of ``pad2d`` -> those of ``pad3d``; others are the same."""


def _padding(op: Operator, fresh: Fresh) -> list[Operator]:
    """``pad2d`` is gone: a picture is padded as a volume of depth 1."""
    source, result = op.inputs["X"][0], op.outputs["Out"][0]
    volume, padded, lifted, lowered = fresh(source), fresh(result), fresh(source), fresh(result)
    top, bottom, left, right = op.get("paddings")
    attributes = {
        "paddings": ints((left, right, top, bottom, 0, 0)),
        "mode": attr(PAD_MODES.get(str(op.get("mode")), str(op.get("mode")))),
        "value": attr(float(op.get("pad_value", 0.0))),
        "data_format": attr("NCDHW"),
    }
    depth = {"axes": ints((2,))}
    return [
        Operator("unsqueeze2", {"X": [source]}, {"Out": [volume], "XShape": [lifted]}, depth),
        Operator("pad3d", {"X": [volume]}, {"Out": [padded]}, attributes),
        Operator("squeeze2", {"X": [padded]}, {"Out": [result], "XShape": [lowered]}, dict(depth)),
    ]


_IMAGE = {"data_format": attr("NCHW")}
_SIZES = {"out_d": attr(-1), "out_h": attr(-1), "out_w": attr(-1)}

REQUIRED: dict[str, dict[str, Attribute]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose", "pool2d", "pool3d", "prelu"), _IMAGE),
    "pixel_shuffle": _IMAGE,
    **dict.fromkeys(("nearest_interp_v2", "bilinear_interp_v2", "bicubic_interp_v2", "trilinear_interp_v2"), _SIZES),
    "linear_interp_v2": _SIZES,
    "thresholded_relu": {"value": attr(0.0)},
}
"""Attributes without which Paddle 3 cannot make a PIR program of a file, with the value that they have without saying."""


def complete(op: Operator) -> None:
    """Add the attributes of an operator of Paddle that a PIR program must say."""
    op.attributes = {**REQUIRED.get(op.type, {}), **op.attributes}


SPELLINGS: dict[str, Spelling] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "conv2d_transpose"), _convolution),
    "fc": _fully_connected,
    "matmul": _product,
    "batch_norm": _batch_normalization,
    "pad2d": _padding,
}
"""Operator of Paddle-Lite -> how Paddle says it; all others are the same."""
