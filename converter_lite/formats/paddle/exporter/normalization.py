"""BatchNormalization and its relatives. A normalization behind a convolution is folded before it comes here."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    rank,
    shape,
)
from converter_lite.formats.paddle.exporter.reshaping import reshape
from converter_lite.formats.paddle.program import Attribute, attr


def _batch_normalization(lowering: Lowering, node: ir.Node) -> None:
    if g.int_attribute(node, "training_mode", 0):
        raise Unsupported("batch normalization for training")
    slots = ("X", "Scale", "Bias", "Mean", "Variance")
    inputs = {slot: [lowering.tensor(value)] for slot, value in zip(slots, node.inputs, strict=True)}
    attributes = {
        "is_test": attr(True),
        "use_global_stats": attr(True),
        "epsilon": attr(g.float_attribute(node, "epsilon", 1e-5)),
        "momentum": attr(g.float_attribute(node, "momentum", 0.9)),
        "data_layout": attr("NCHW"),
    }
    unused = {
        slot: [lowering.temporary(f"{node.name}.{slot}")]
        for slot in ("MeanOut", "VarianceOut", "SavedMean", "SavedVariance")
    }
    lowering.emit("batch_norm", inputs, {"Y": [lowering.result(node.outputs[0])], **unused}, attributes)


def _instance_normalization(lowering: Lowering, node: ir.Node) -> None:
    slots = ("X", "Scale", "Bias")
    inputs = {slot: [lowering.tensor(value)] for slot, value in zip(slots, node.inputs, strict=True)}
    unused = {slot: [lowering.temporary(f"{node.name}.{slot}")] for slot in ("SavedMean", "SavedVariance")}
    attributes = {"epsilon": attr(g.float_attribute(node, "epsilon", 1e-5))}
    _over_pictures(lowering, node, "instance_norm", inputs, unused, attributes)


def _layer_normalization(lowering: Lowering, node: ir.Node) -> None:
    if any(g.is_read(output) for output in node.outputs[1:]):
        raise Unsupported("mean and deviation of a LayerNormalization as outputs")
    axis = g.int_attribute(node, "axis", -1) % rank(node.inputs[0])
    inputs = {"X": [lowering.tensor(node.inputs[0])]}
    scale, bias = node.inputs[1], g.input_at(node, 2)
    assert scale is not None
    known = dims(node.inputs[0])[axis:]
    sizes = shape(scale) if -1 in known else known
    inputs["Scale"] = [_flat(lowering, scale, sizes)]
    if bias is not None:
        inputs["Bias"] = [_flat(lowering, bias, sizes)]
    else:  # the kernel reads it without asking whether there is one
        zeros = np.zeros(int(np.prod(sizes)), np.float32)
        inputs["Bias"] = [lowering.parameter(f"{node.name}.bias", zeros)]
    unused = {slot: [lowering.temporary(f"{node.name}.{slot}")] for slot in ("Mean", "Variance")}
    attributes = {"epsilon": attr(g.float_attribute(node, "epsilon", 1e-5)), "begin_norm_axis": attr(axis)}
    lowering.emit("layer_norm", inputs, {"Y": [lowering.result(node.outputs[0])], **unused}, attributes)


def _flat(lowering: Lowering, value: ir.Value, sizes: tuple[int, ...]) -> str:
    """A constant of these sizes in one dimension: the kernel reads an element for each of those that it normalizes."""
    array = g.constant(value)
    if array is None:
        raise Unsupported("a normalization's scale or bias is computed at run time")
    if array.shape == sizes and array.ndim == 1:
        return lowering.tensor(value)
    return lowering.parameter(f"{value.name}.flat", np.broadcast_to(array, sizes).reshape(-1))


def _group_normalization(lowering: Lowering, node: ir.Node) -> None:
    groups = g.int_attribute(node, "num_groups", 1)
    channels = dims(node.inputs[0])[1]
    inputs = {"X": [lowering.tensor(node.inputs[0])]}
    for slot, value in (("Scale", node.inputs[1]), ("Bias", node.inputs[2])):
        array = g.constant(value)
        if array is None:
            raise Unsupported("a normalization's scale or bias is computed at run time")
        if array.size == groups != channels:  # opset 18 gives one value per group
            array = np.repeat(array, channels // groups)
        inputs[slot] = [lowering.parameter(f"{node.name}.{slot.lower()}", array.astype(np.float32))]
    unused = {slot: [lowering.temporary(f"{node.name}.{slot}")] for slot in ("Mean", "Variance")}
    attributes = {
        "epsilon": attr(g.float_attribute(node, "epsilon", 1e-5)),
        "groups": attr(groups),
        "data_layout": attr("NCHW"),
    }
    _over_pictures(lowering, node, "group_norm", inputs, unused, attributes)


def _over_pictures(
    lowering: Lowering,
    node: ir.Node,
    operator: str,
    inputs: dict[str, list[str]],
    unused: dict[str, list[str]],
    attributes: dict[str, Attribute],
) -> None:
    """A normalization whose kernels read four dimensions, whatever there are."""
    value = node.outputs[0]
    sizes, result = dims(node.inputs[0]), lowering.result(value)
    if len(sizes) == 4:
        lowering.emit(operator, inputs, {"Y": [result], **unused}, attributes)
        return
    if sizes[2:].count(-1) > 1:
        raise Unsupported(f"{node.op_type} of unknown dimensions", "give --inputShape")
    size = (*sizes[:2], 1, -1 if -1 in sizes[2:] else int(np.prod(sizes[2:])))
    flat, normalized = (lowering.temporary(f"{value.name}.{part}", size) for part in ("flat", "normalized"))
    reshape(lowering, inputs["X"][0], flat, (0, 0, 1, -1))  # 0 keeps a size
    lowering.emit(operator, inputs | {"X": [flat]}, {"Y": [normalized], **unused}, attributes)
    reshape(lowering, normalized, result, (0, 0, *sizes[2:]))


def _lp_normalization(lowering: Lowering, node: ir.Node) -> None:
    if g.int_attribute(node, "p", 2) != 2:
        raise Unsupported("LpNormalization with p other than 2")
    axis = g.int_attribute(node, "axis", -1) % rank(node.inputs[0])
    outputs = {"Out": [lowering.result(node.outputs[0])], "Norm": [lowering.temporary(f"{node.name}.norm")]}
    attributes = {"axis": attr(axis), "epsilon": attr(1e-10)}
    lowering.emit("norm", {"X": [lowering.tensor(node.inputs[0])]}, outputs, attributes)


def _local_response(lowering: Lowering, node: ir.Node) -> None:
    size = g.int_attribute(node, "size", 5)
    attributes = {
        "n": attr(size),
        "alpha": attr(g.float_attribute(node, "alpha", 1e-4) / size),
        "beta": attr(g.float_attribute(node, "beta", 0.75)),
        "k": attr(g.float_attribute(node, "bias", 1.0)),
        "norm_region": attr("AcrossChannels"),
    }
    outputs = {"Out": [lowering.result(node.outputs[0])], "MidOut": [lowering.temporary(f"{node.name}.middle")]}
    lowering.emit("lrn", {"X": [lowering.tensor(node.inputs[0])]}, outputs, attributes)


HANDLERS: dict[str, Handler] = {
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "LayerNormalization": _layer_normalization,
    "GroupNormalization": _group_normalization,
    "LpNormalization": _lp_normalization,
    "LRN": _local_response,
}
