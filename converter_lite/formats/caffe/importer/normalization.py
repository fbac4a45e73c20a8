"""BatchNorm, Scale, Bias, LRN, MVN, and SSD's Normalize."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step


def _batch_norm(step: Step) -> None:
    """Normalization with the stored statistics, which the third blob divides; NVIDIA's fork keeps scale and bias behind them."""
    shape, parameters = step.shape(), step.parameters
    if not parameters.flag("use_global_stats", True):
        raise ModelError(
            "it takes the statistics of its batch (use_global_stats: false)",
            hint="use_global_stats: true, or none, takes those of the training",
        )
    if len(shape) < 2:
        raise ModelError(f"'{step.layer.bottoms[0]}' has {len(shape)} dimensions, and not at least 2")
    channels, factor = shape[1], float(step.blob(2, (1,))[0])
    inverse = np.float32(1.0 / factor if factor else 0.0)
    mean, variance = (step.blob(index, (channels,)) * inverse for index in range(2))
    has_scale = len(step.layer.blobs) == 5
    scale, bias = (
        step.blob(3 + index, (channels,)) if has_scale else np.full(channels, 1 - index, np.float32)
        for index in range(2)
    )
    constants = [
        step.constant(name, array)
        for name, array in (("scale", scale), ("bias", bias), ("mean", mean), ("variance", variance))
    ]
    step.finish("BatchNormalization", step.input(), *constants, epsilon=parameters.number("eps", 1e-5))


def _scale(step: Step) -> None:
    """Products with weights, or with the second bottom, along some axes; and a bias behind them."""
    if len(step.layer.bottoms) == 2:
        factor, shape = step.input(1), step.shape(1)
        factor = _spread(step, factor, shape)
    else:
        shape = _covered(step)
        if _merged_into_batch_norm(step, shape):
            return
        factor = step.constant("scale", step.blob(0, shape).reshape(_aligned(step, shape)))
    if not step.parameters.flag("bias_term", False):
        step.finish("Mul", step.input(), factor)
        return
    index = 2 - len(step.layer.bottoms)
    bias = step.constant("bias", step.blob(index, shape).reshape(_aligned(step, shape)))
    step.finish("Add", step.emit("Mul", step.input(), factor), bias)


def _bias(step: Step) -> None:
    if len(step.layer.bottoms) == 2:
        step.finish("Add", step.input(), _spread(step, step.input(1), step.shape(1)))
        return
    shape = _covered(step)
    step.finish("Add", step.input(), step.constant("bias", step.blob(0, shape).reshape(_aligned(step, shape))))


def _covered(step: Step) -> tuple[int, ...]:
    """Sizes of the axes that weights run along."""
    axis, count, shape = step.axis("axis", 1), step.parameters.integer("num_axes", 1), step.shape()
    if count < -1 or axis + count > len(shape):
        raise ModelError(f"{count} axes from axis {axis} on of {len(shape)}")
    return shape[axis:] if count == -1 else shape[axis : axis + count]


def _aligned(step: Step, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts along the layer's axis."""
    rank = len(step.shape())
    axis = step.axis("axis", 1) if shape else rank
    if step.shape()[axis : axis + len(shape)] != shape:
        raise ModelError(f"{list(shape)} does not fit {list(step.shape())} from axis {axis} on")
    return (*shape, *(1,) * (rank - axis - len(shape)))


def _spread(step: Step, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    target = _aligned(step, shape)
    if target == shape:
        return value
    return step.emit("Reshape", value, step.constant("shape", target, np.int64))


def _merged_into_batch_norm(step: Step, shape: tuple[int, ...]) -> bool:
    """Let the BatchNorm before a Scale do its work, if nothing else reads what it gives."""
    producer, blob = step.input().producer(), step.layer.bottoms[0]
    if producer is None or producer.op_type != "BatchNormalization" or not step.importer.is_read_once(blob):
        return False
    if step.axis("axis", 1) != 1 or len(shape) != 1:
        return False
    old_scale, old_bias = (value.const_value.numpy() for value in producer.inputs[1:3])  # type: ignore[union-attr]
    scale = step.blob(0, shape)
    bias = step.blob(1, shape) if step.parameters.flag("bias_term", False) else np.zeros(shape, np.float32)
    step.importer.merge(
        step.layer,
        producer,
        {1: step.constant("scale", old_scale * scale), 2: step.constant("bias", old_bias * scale + bias)},
    )
    return True


def _lrn(step: Step) -> None:
    size, parameters = step.parameters.size("local_size", 5), step.parameters
    alpha, beta = parameters.number("alpha", 1.0), parameters.number("beta", 0.75)
    region = parameters.word("norm_region", "ACROSS_CHANNELS", ("ACROSS_CHANNELS", "WITHIN_CHANNEL"))
    if size % 2 == 0 or len(step.shape()) != 4:
        raise ModelError(f"local_size {size} in {len(step.shape())} dimensions: it is odd, and there are four")
    if region == "ACROSS_CHANNELS":
        step.finish("LRN", step.input(), size=size, alpha=alpha, beta=beta, bias=parameters.number("k", 1.0))
        return
    value, pad = step.input(), (size - 1) // 2
    squares = step.emit("Mul", value, value)
    mean = step.emit(
        "AveragePool", squares, kernel_shape=[size] * 2, strides=[1, 1], pads=[pad] * 4, count_include_pad=1
    )
    base = step.emit("Add", step.emit("Mul", mean, step.constant("alpha", alpha)), step.constant("one", 1.0))
    step.finish("Mul", value, step.emit("Pow", base, step.constant("power", -beta)))


def _mvn(step: Step) -> None:
    """``(x - mean) / (deviation + eps)`` over each image, or each of its channels."""
    across, rank = step.parameters.flag("across_channels", False), len(step.shape())
    first = 1 if across else 2
    if rank <= first:
        raise ModelError(f"'{step.layer.bottoms[0]}' has {rank} dimensions")
    axes = step.constant("axes", range(first, rank), np.int64)
    value = step.input()
    mean = step.emit("ReduceMean", value, axes, keepdims=1)
    if not step.parameters.flag("normalize_variance", True):
        step.finish("Sub", value, mean)
        return
    centred = step.emit("Sub", value, mean)
    variance = step.emit("ReduceMean", step.emit("Mul", centred, centred), axes, keepdims=1)
    deviation = step.emit("Sqrt", variance)
    step.finish("Div", centred, step.emit("Add", deviation, step.constant("eps", step.parameters.number("eps", 1e-9))))


def _normalize(step: Step) -> None:
    """``scale * x / sqrt(sum(x * x) + eps)`` over each image, or each of its places."""
    parameters, shape, value = step.parameters, step.shape(), step.input()
    if len(shape) < 2:
        raise ModelError(f"'{step.layer.bottoms[0]}' has {len(shape)} dimensions, and not at least 2")
    axes = range(1, len(shape)) if parameters.flag("across_spatial", True) else [1]
    total = step.emit("ReduceSumSquare", value, step.constant("axes", axes, np.int64), keepdims=1)
    norm = step.emit("Sqrt", step.emit("Add", total, step.constant("eps", parameters.number("eps", 1e-10))))
    channels = 1 if parameters.flag("channel_shared", True) else shape[1]
    scale = step.blob(0, (channels,)).reshape(channels, *(1,) * (len(shape) - 2))
    step.finish("Mul", step.emit("Div", value, norm), step.constant("scale", scale))


KINDS: dict[str, Kind] = {
    "BatchNorm": Kind(
        _batch_norm,
        "BatchNormalization",
        "batch_norm_param",
        "use_global_stats moving_average_fraction eps scale_bias scale_filler bias_filler engine",
        weighted=True,
    ),
    "Scale": Kind(
        _scale,
        "Mul, Add, Reshape; part of the BatchNormalization before it",
        "scale_param",
        "axis num_axes filler bias_term bias_filler",
        bottoms=(1, 2),
        weighted=True,
    ),
    "Bias": Kind(_bias, "Add, Reshape", "bias_param", "axis num_axes filler", bottoms=(1, 2), weighted=True),
    "LRN": Kind(_lrn, "LRN, Mul, AveragePool, Add, Pow", "lrn_param", "local_size alpha beta norm_region k engine"),
    "MVN": Kind(_mvn, "ReduceMean, Sub, Mul, Sqrt, Add, Div", "mvn_param", "normalize_variance across_channels eps"),
    "Normalize": Kind(
        _normalize,
        "ReduceSumSquare, Add, Sqrt, Div, Mul",
        "norm_param",
        "across_spatial scale_filler channel_shared eps",
        weighted=True,
    ),
}
