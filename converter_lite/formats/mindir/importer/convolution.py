"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.step import Kind, Step
from converter_lite.formats.mindir.importer.window import PAD_MODES, check_layout, paired_pads, same_pads, sizes
from converter_lite.formats.mindir.program import Tensor


def _conv(step: Step) -> None:
    """Pads are those of ``pad``; ``same`` asks for as many windows as strides fit."""
    count = 3 if step.operator == "Conv3D" else 2
    window = _window(step, count)
    mode, kernel = step.word("pad_mode", "valid", PAD_MODES), window["kernel_shape"]
    value, weight = step.tensor("x"), step.tensor("weight")
    if step.integer("mode", 1) != 1 and step.operator != "DepthwiseConv2dNative":
        raise ModelError(f"mode {step.integer('mode')}, no ordinary convolution")
    group = step.integer("group", step.get("groups", 1))
    if step.operator == "DepthwiseConv2dNative":
        raise ModelError("the depthwise convolution of old files", hint="export the model with MindSpore 2.0 or newer")
    if step.shape("weight")[2:] != tuple(kernel):
        raise ModelError(f"its weight has the shape {list(step.shape('weight'))} for a kernel of {kernel}")
    if mode == "same":
        window.update(_same(step, value, count, window))
    elif mode in ("pad", "valid"):
        window["pads"] = paired_pads(step, "pad", count) if mode == "pad" else [0] * 2 * count
    else:
        raise ModelError(f"pad_mode '{mode}'")
    inputs = [value, weight, step.tensor("bias")] if step.has("bias") else [value, weight]
    step.finish("Conv", *inputs, group=group, **window)


def _window(step: Step, count: int) -> dict[str, Any]:
    kind = step.tensor("weight")
    assert kind.shape is not None
    check_layout(step, "data_format" if step.operator.startswith("Conv3D") else "format")
    return {
        "kernel_shape": sizes(step, "kernel_size", count, step.shape("weight")[2:]),
        "strides": sizes(step, "stride", count, 1),
        "dilations": sizes(step, "dilation", count, 1),
    }


def _same(step: Step, value: ir.Value, count: int, window: dict[str, Any]) -> dict[str, Any]:
    assert value.shape is not None
    image = value.shape[2:]
    if len(image) != count:
        raise ModelError(f"'{value.name}' has {len(value.shape)} dimensions, and not {count + 2}")
    if all(isinstance(size, int) for size in image):
        numbers = [int(size) for size in image if isinstance(size, int)]
        return {"pads": same_pads(numbers, window["kernel_shape"], window["strides"], window["dilations"])}
    if set(window["dilations"]) != {1}:
        raise ModelError("pad_mode 'same' with a dilation, and sizes that are known at run time only")
    return {"auto_pad": "SAME_UPPER"}


def _conv_function(step: Step) -> None:
    """The convolutions of ``mindspore.mint``, whose arguments are all inputs."""
    count = step.rank("x") - 2
    if step.flag("transposed", False) or any(step.integers("output_padding", 0)):
        raise ModelError("a transposed convolution in this form", hint="use mindspore.nn.Conv2dTranspose")
    window = {
        "kernel_shape": list(step.shape("weight")[2:]),
        "strides": sizes(step, "stride", count, 1),
        "dilations": sizes(step, "dilation", count, 1),
    }
    if step.operator.endswith(("Padding", "Str")):
        padding = step.word("padding", "valid", PAD_MODES)
        if padding == "same" and set(window["strides"]) == {1}:
            window.update(_same(step, step.tensor("x"), count, window))
        elif padding != "valid":
            raise ModelError(f"padding '{padding}' with strides {window['strides']}")
    else:
        window["pads"] = paired_pads(step, "padding", count)
    inputs = [step.tensor("x"), step.tensor("weight"), *([step.tensor("bias")] if step.has("bias") else ())]
    step.finish("Conv", *inputs, group=step.integer("groups", 1), **window)


def _transposed(step: Step) -> None:
    """The gradient of a convolution: what the padding of that would cut off is cut off here."""
    count = 3 if step.operator == "Conv3DTranspose" else 2
    value, weight = step.tensor("x"), step.tensor("weight")
    window, group = _window(step, count), step.integer("group", step.get("groups", 1))
    size, image = step.integers("size", _declared_size(step))[-count:], step.shape("x")[2:]
    kernel, strides, dilations = (window[name] for name in ("kernel_shape", "strides", "dilations"))
    mode = step.word("pad_mode", "valid", PAD_MODES)
    if mode not in ("pad", "same", "valid") or len(image) != count or len(size) != count:
        raise ModelError(f"pad_mode '{mode}' for {list(step.shape('x'))}")
    given = paired_pads(step, "pad", count) if mode == "pad" else [0] * 2 * count
    begins, ends, added = [], [], []
    for axis in range(count):
        surplus = (image[axis] - 1) * strides[axis] + dilations[axis] * (kernel[axis] - 1) + 1 - size[axis]
        begin = given[axis] if mode == "pad" else max(surplus, 0) // 2 if mode == "same" else 0
        begins.append(begin)
        ends.append(max(surplus - begin, 0))
        added.append(max(begin - surplus, 0))
    if any(extra >= max(stride, dilation) for extra, stride, dilation in zip(added, strides, dilations, strict=True)):
        raise ModelError(f"{list(image)} cannot become {list(size)}")
    inputs = [value, weight, *([step.tensor("bias")] if count == 3 and step.has("bias") else ())]
    step.finish("ConvTranspose", *inputs, group=group, pads=[*begins, *ends], output_padding=added, **window)


def _declared_size(step: Step) -> tuple[int, ...]:
    """Sizes that the file has for the result; none where it does not say them."""
    return (
        step.declared.dims if isinstance(step.declared, Tensor) and min(step.declared.dims[2:], default=0) > 0 else ()
    )


_CONV = "x weight"
_NUMBERS = "kernel_size pad_mode pad stride dilation group groups format"

KINDS: dict[str, Kind] = {
    "Conv2D": Kind(_conv, _CONV, "Conv", f"{_NUMBERS} mode"),
    "Conv3D": Kind(_conv, _CONV, "Conv", f"{_NUMBERS} mode data_format"),
    **dict.fromkeys(
        ("Conv1DExt", "Conv2DExt", "Conv3DExt", "Conv1DPadding", "Conv2DPadding", "Conv3DPadding"),
        Kind(_conv_function, "x weight bias stride padding dilation groups", "Conv"),
    ),
    **dict.fromkeys(
        ("Convolution", "ConvolutionStr"),
        Kind(_conv_function, "x weight bias stride padding dilation transposed output_padding groups", "Conv"),
    ),
    **dict.fromkeys(
        ("Conv2DTranspose", "Conv2DBackpropInput"), Kind(_transposed, "x weight size", "ConvTranspose", _NUMBERS)
    ),
    "Conv3DTranspose": Kind(_transposed, _CONV, "ConvTranspose", f"{_NUMBERS} data_format"),
}
