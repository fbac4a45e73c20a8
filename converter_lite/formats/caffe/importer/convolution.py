"""Convolution, Deconvolution, and the depthwise layers of forks."""

from __future__ import annotations

from typing import Any

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step
from converter_lite.formats.graph_builder import shape_of

FIELDS = (
    "num_output bias_term pad kernel_size stride dilation pad_h pad_w kernel_h kernel_w stride_h stride_w group axis "
    "weight_filler bias_filler engine force_nd_im2col"
)


def window(step: Step, dims: int) -> dict[str, Any]:
    """Kernel, strides, pads and dilations for so many spatial axes, as ONNX names them.

    Raises:
        ModelError: A kernel is missing, or numbers for another count of axes are given.
    """
    kernel = _spatial(step, "kernel_size", "kernel", dims, None)
    strides, dilations = _spatial(step, "stride", "stride", dims, 1), _spatial(step, "dilation", "", dims, 1)
    pads = _spatial(step, "pad", "pad", dims, 0)
    if min((*kernel, *strides, *dilations)) < 1:
        raise ModelError(f"kernel {kernel}, stride {strides}, dilation {dilations}")
    return {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "dilations": dilations}


def _spatial(step: Step, name: str, stem: str, dims: int, default: int | None) -> list[int]:
    """One number for each spatial axis: from ``stem_h`` and ``stem_w``, or from a list of one or of all."""
    parameters = step.parameters
    if stem and (parameters.has(f"{stem}_h") or parameters.has(f"{stem}_w")):
        if parameters.has(name) or dims != 2:
            raise ModelError(f"{stem}_h and {stem}_w are for two dimensions, and stand alone")
        if default is None and not (parameters.has(f"{stem}_h") and parameters.has(f"{stem}_w")):
            raise ModelError(f"{stem}_h and {stem}_w belong together")
        return [parameters.size(f"{stem}_{axis}", default or 0) for axis in "hw"]
    given = parameters.sizes(name)
    if not given and default is not None:
        return [default] * dims
    if len(given) not in (1, dims):
        raise ModelError(f"{name} has {len(given)} numbers for {dims} dimensions")
    return given * dims if len(given) == 1 else given


def _convolution(step: Step) -> None:
    """All bottoms go through the same weights, each to its own top."""
    if len(step.layer.bottoms) != len(step.layer.tops):
        raise ModelError(f"it has {len(step.layer.bottoms)} bottoms and {len(step.layer.tops)} tops")
    transposed = step.layer.type == "Deconvolution"
    shape, axis = step.shape(), step.axis("axis", 1)
    if axis != 1 or len(shape) < 3:
        raise ModelError(f"channels along axis {axis} of {len(shape)} dimensions")
    if any(shape_of(step.input(index))[1] != shape[1] for index in range(len(step.layer.bottoms))):
        raise ModelError("its bottoms have different numbers of channels")
    outputs, attributes = step.parameters.size("num_output"), window(step, len(shape) - 2)
    group = _group(step, shape[1])
    if outputs < 1 or group < 1 or shape[1] % group or outputs % group:
        raise ModelError(f"{shape[1]} channels become {outputs} in {group} groups")
    pair = (shape[1], outputs // group) if transposed else (outputs, shape[1] // group)
    weights = [step.weight(0, (*pair, *attributes["kernel_shape"]), "weight")]
    if step.parameters.flag("bias_term", True):
        weights.append(step.weight(1, (outputs,), "bias"))
    for index in range(len(step.layer.bottoms)):
        operator = "ConvTranspose" if transposed else "Conv"
        step.finish(operator, step.input(index), *weights, top=index, group=group, **attributes)


def _group(step: Step, channels: int) -> int:
    """Depthwise layers have a group for each channel, which some descriptions leave out."""
    given = step.parameters.size("group", 1)
    if step.layer.type not in DEPTHWISE or given != 1 or not step.layer.blobs:
        return given
    shape = step.layer.blobs[0].shape
    return channels if len(shape) > 1 and shape[1] == 1 else given


DEPTHWISE = ("DepthwiseConvolution", "ConvolutionDepthwise")

_MANY = (1, 1 << 20)

KINDS: dict[str, Kind] = {
    **{
        name: Kind(_convolution, "Conv", "convolution_param", FIELDS, _MANY, _MANY, weighted=True)
        for name in ("Convolution", *DEPTHWISE)
    },
    "Deconvolution": Kind(_convolution, "ConvTranspose", "convolution_param", FIELDS, _MANY, _MANY, weighted=True),
}
