"""Normalizations."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.mindir.importer.context import numpy_type
from converter_lite.formats.mindir.importer.linear import along_channels
from converter_lite.formats.mindir.importer.step import Kind, Step
from converter_lite.formats.mindir.importer.window import check_layout


def _batch_norm(step: Step) -> None:
    """With the statistics that were stored; those of the batch, further parts of the result, are not there."""
    if step.flag("is_training", False):
        raise ModelError(
            "it takes the statistics of its batch", hint="call set_train(False) on the network before exporting it"
        )
    check_layout(step, "data_format" if step.has("data_format") else "format")
    names = ("scale", "bias", "mean", "variance")
    step.give_first(
        "BatchNormalization",
        *(step.tensor(name) for name in ("x", *names)),
        epsilon=step.number("epsilon", 1e-5),
    )


def _batch_norm_function(step: Step) -> None:
    """Scale and bias may be missing."""
    if step.flag("training", False) or not step.has("mean") or not step.has("variance"):
        raise ModelError(
            "it takes the statistics of its batch", hint="call set_train(False) on the network before exporting it"
        )
    mean = step.tensor("mean")
    count, kind = step.shape("mean")[0], numpy_type(mean)
    scale, bias = (
        step.tensor(name) if step.has(name) else step.constant(name, np.full(count, number), kind)
        for name, number in (("scale", 1), ("bias", 0))
    )
    inputs = step.tensor("x"), scale, bias, mean, step.tensor("variance")
    step.give_first("BatchNormalization", *inputs, epsilon=step.number("epsilon", 1e-5))


def _layer_norm(step: Step) -> None:
    rank = step.rank("x")
    axis = step.axis("begin_norm_axis", rank, 1)
    if step.axis("begin_params_axis", rank, 1) != axis:
        raise ModelError("begin_norm_axis and begin_params_axis differ")
    _normalized(step, axis, step.tensor("gamma"), step.tensor("beta"))


def _layer_norm_function(step: Step) -> None:
    rank, count = step.rank("x"), len(step.integers("normalized_shape"))
    axis = axis_of(-count, rank)
    shape = step.integers("normalized_shape")
    kind = numpy_type(step.tensor("x"))
    scale = step.tensor("gamma") if step.has("gamma") else step.constant("scale", np.ones(shape), kind)
    _normalized(step, axis, scale, step.tensor("beta") if step.has("beta") else None)


def _normalized(step: Step, axis: int, scale: ir.Value, bias: ir.Value | None) -> None:
    epsilon = step.number("epsilon", 1e-7)
    step.give_first("LayerNormalization", step.tensor("x"), scale, bias, axis=axis, epsilon=epsilon)


def _rms_norm(step: Step) -> None:
    """``x / sqrt(mean(x * x) + eps) * gamma`` over the last axes."""
    value, gamma = step.tensor("x"), step.tensor("gamma")
    axes = step.ints("axes", range(-step.rank("gamma"), 0))
    mean = step.emit("ReduceMean", step.emit("Mul", value, value), axes, keepdims=1)
    epsilon = step.constant("epsilon", step.number("epsilon", 1e-6), numpy_type(value))
    root = step.emit("Sqrt", step.emit("Add", mean, epsilon))
    step.give_first("Mul", step.emit("Div", value, root), gamma)


def _group_norm(step: Step) -> None:
    """Each group of channels of an image over all of its numbers, then a factor and a number for each channel."""
    value, groups, rank = step.tensor("x"), step.integer("num_groups"), step.rank("x")
    shape, kind = step.shape("x"), numpy_type(value)
    if groups < 1 or rank < 2 or shape[1] % groups:
        raise ModelError(f"{groups} groups of {list(shape)}")
    flat = step.emit("Reshape", value, step.ints("groups", [shape[0], groups, -1]))
    one, zero = step.constant("ones", np.ones(groups), kind), step.constant("zeros", np.zeros(groups), kind)
    normal = step.emit("InstanceNormalization", flat, one, zero, epsilon=step.number("epsilon", 1e-5))
    whole = step.emit("Reshape", normal, step.ints("shape", shape))
    scale = along_channels(step, step.tensor("gamma"), rank) if step.has("gamma") else None
    bias = along_channels(step, step.tensor("beta"), rank) if step.has("beta") else None
    if scale is not None and bias is not None:
        step.give_first("Add", step.emit("Mul", whole, scale), bias)
    elif scale is not None or bias is not None:
        step.give_first("Mul" if scale is not None else "Add", whole, scale or bias)
    else:
        step.give_first("Identity", whole)


def _l2_normalize(step: Step) -> None:
    """``x / sqrt(max(sum(x * x), eps))``."""
    value = step.tensor("x")
    axes = step.ints("axes", step.axes("axis", step.rank("x"), 0))
    total = step.emit("ReduceSumSquare", value, axes, keepdims=1)
    least = step.constant("epsilon", step.number("epsilon", 1e-4), numpy_type(value))
    step.finish("Div", value, step.emit("Sqrt", step.emit("Max", total, least)))


def _lrn(step: Step) -> None:
    size = 2 * step.integer("depth_radius", 5) + 1
    if step.get("norm_region", "ACROSS_CHANNELS") != "ACROSS_CHANNELS":
        raise ModelError(f"norm_region {step.get('norm_region')}")
    alpha, beta, bias = step.number("alpha", 1.0), step.number("beta", 0.5), step.number("bias", 1.0)
    step.finish("LRN", step.tensor("x"), size=size, alpha=alpha * size, beta=beta, bias=bias)


KINDS: dict[str, Kind] = {
    "BatchNorm": Kind(
        _batch_norm,
        "x scale bias mean variance is_training epsilon momentum data_format",
        "BatchNormalization",
        "format",
    ),
    "BatchNormExt": Kind(
        _batch_norm_function, "x scale bias mean variance training momentum epsilon", "BatchNormalization"
    ),
    **dict.fromkeys(
        ("LayerNorm", "LayerNormV3"),
        Kind(_layer_norm, "x gamma beta begin_norm_axis begin_params_axis epsilon", "LayerNormalization"),
    ),
    "LayerNormExt": Kind(_layer_norm_function, "x normalized_shape gamma beta epsilon", "LayerNormalization"),
    "RmsNorm": Kind(_rms_norm, "x gamma epsilon", "Mul, ReduceMean, Add, Sqrt, Div"),
    "GroupNorm": Kind(
        _group_norm, "x num_groups gamma beta epsilon", "Reshape, InstanceNormalization, Mul, Add, Identity"
    ),
    "L2Normalize": Kind(_l2_normalize, "x axis epsilon", "ReduceSumSquare, Max, Sqrt, Div"),
    "LRN": Kind(_lrn, "x depth_radius bias alpha beta norm_region", "LRN"),
}
