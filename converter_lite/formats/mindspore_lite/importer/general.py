"""Matrix products, reductions, and operators that move, split and join."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import FormatError
from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsNode
from converter_lite.formats.mindspore_lite.enums import PaddingMode, QuantType, ReduceMode
from converter_lite.formats.mindspore_lite.importer.activation import activated
from converter_lite.formats.mindspore_lite.importer.context import ONNX_TYPES, Importer
from converter_lite.formats.mindspore_lite.importer.elementwise import ImportNode
from converter_lite.formats.mindspore_lite.importer.image import numbers

_INT32 = ir.DataType.INT32.value


def _matmul(ctx: Importer, node: MsNode) -> None:
    turned = node.op == "FullConnection" or bool(node.attributes.get("transpose_b"))
    if len(node.inputs) > 2 and ctx.rank(node.inputs[0]) == 2 and ctx.rank(node.inputs[1]) == 2:
        flags = {"transA": int(bool(node.attributes.get("transpose_a"))), "transB": int(turned)}
        operands = [ctx.value(node.inputs[0]), _right_operand(ctx, node, None), ctx.bias(node.inputs[2])]
        ctx.bind(node.outputs[0], activated(ctx, node, ctx.add("Gemm", operands, name="", **flags)))
        return
    left = ctx.value(node.inputs[0], _last_two(ctx, node.inputs[0]) if node.attributes.get("transpose_a") else None)
    order = _last_two(ctx, node.inputs[1]) if turned else None
    right = _right_operand(ctx, node, order)
    value = ctx.add("MatMul", [left, right])
    if len(node.inputs) > 2:
        value = ctx.add("Add", [value, ctx.bias(node.inputs[2])], name=f"{node.name}_bias_add")
    ctx.bind(node.outputs[0], activated(ctx, node, value))


def _right_operand(ctx: Importer, node: MsNode, order: pm.Perm | None) -> ir.Value:
    index = node.inputs[1]
    if node.quant_type is QuantType.NONE or not ctx.is_constant(index):
        return ctx.value(index, order)
    return ctx.weight(index, order or pm.identity(len(ctx.ms.tensors[index].dims)))


def _last_two(ctx: Importer, index: int) -> pm.Perm:
    rank = ctx.rank(index)
    if rank is None or rank < 2:
        raise FormatError("a matrix product needs operands with 2 axes or more", where=ctx.where)
    return (*range(rank - 2), rank - 1, rank - 2)


def _reduce(ctx: Importer, node: MsNode) -> None:
    mode = node.attributes["mode"]
    if mode not in _REDUCTIONS:
        raise FormatError(f"reduction {mode} is unknown", where=ctx.where)
    axes = ctx.ints(node.inputs[1]) if len(node.inputs) > 1 else []
    if node.attributes["reduce_to_end"] and axes:
        rank = ctx.rank(node.inputs[0]) or 4
        axes = list(range(axes[0] % rank, rank))
    operands = [ctx.value(node.inputs[0])] + ([ctx.int64(axes, "axes")] if axes else [])
    value = ctx.add(_REDUCTIONS[mode], operands, keepdims=int(node.attributes["keep_dims"]))
    factor = float(node.attributes["coeff"])
    if node.attributes["reduce_to_end"] and factor not in (0.0, 1.0):
        value = ctx.add("Mul", [value, ctx.initializer(np.array(factor, np.float32), "coeff")])
    ctx.bind(node.outputs[0], value)


_REDUCTIONS = {
    ReduceMode.MEAN: "ReduceMean",
    ReduceMode.MAX: "ReduceMax",
    ReduceMode.MIN: "ReduceMin",
    ReduceMode.PROD: "ReduceProd",
    ReduceMode.SUM: "ReduceSum",
    ReduceMode.SUM_SQUARE: "ReduceSumSquare",
    ReduceMode.ABS_SUM: "ReduceL1",
    ReduceMode.L2: "ReduceL2",
}


def _softmax(ctx: Importer, node: MsNode) -> None:
    axis = numbers(node, "axis", [-1])[0] if node.op == "Softmax" else int(node.attributes["axis"])
    ctx.bind(node.outputs[0], ctx.add(node.op, [ctx.value(node.inputs[0])], axis=axis))


def _arg(ctx: Importer, node: MsNode) -> None:
    attributes = node.attributes
    if attributes["top_k"] > 1 or attributes["out_max_value"]:
        raise FormatError("several or valued maxima are not supported", where=ctx.where)
    op = "ArgMax" if node.op == "ArgMaxFusion" else "ArgMin"
    axis, keep = int(attributes["axis"]), int(attributes["keep_dims"])
    index = ctx.add(op, [ctx.value(node.inputs[0])], axis=axis, keepdims=keep)
    ctx.bind(node.outputs[0], ctx.add("Cast", [index], name=f"{node.name}_int32", to=_INT32))


def _topk(ctx: Importer, node: MsNode) -> None:
    """The runtime always takes the largest."""
    axis, ordered = int(node.attributes["axis"]), int(node.attributes["sorted"])
    operands = [ctx.value(node.inputs[0]), ctx.int64(ctx.ints(node.inputs[1])[:1], "k")]
    values, indices = ctx.add_many("TopK", operands, 2, axis=axis, sorted=ordered)
    ctx.bind(node.outputs[0], values)
    ctx.bind(node.outputs[1], ctx.add("Cast", [indices], name=f"{node.name}_int32", to=_INT32))


def _cumsum(ctx: Importer, node: MsNode) -> None:
    axis = ctx.initializer(np.array(ctx.ints(node.inputs[1])[0], np.int64), "axis")
    flags: dict[str, Any] = {name: int(node.attributes[name]) for name in ("exclusive", "reverse")}
    ctx.bind(node.outputs[0], ctx.add("CumSum", [ctx.value(node.inputs[0]), axis], **flags))


def _layer_norm(ctx: Importer, node: MsNode) -> None:
    axis, epsilon = int(node.attributes["begin_norm_axis"]), float(node.attributes["epsilon"])
    operands = [ctx.value(i) for i in node.inputs[:3]]
    ctx.bind(node.outputs[0], ctx.add("LayerNormalization", operands, axis=axis, epsilon=epsilon))


def _instance_norm(ctx: Importer, node: MsNode) -> None:
    operands = [ctx.value(i) for i in node.inputs[:3]]
    epsilon = float(node.attributes["epsilon"])
    ctx.bind(node.outputs[0], ctx.add("InstanceNormalization", operands, epsilon=epsilon))


def _concat(ctx: Importer, node: MsNode) -> None:
    """In the order in which the first variable exists."""
    variables = [i for i in node.inputs if not ctx.is_constant(i)]
    order = ctx.orders(variables[0])[0] if variables and ctx.orders(variables[0]) else None
    axis = int(node.attributes["axis"])
    if order:
        axis = order.index(axis % len(order))
    ctx.bind(node.outputs[0], ctx.add("Concat", [ctx.value(i, order) for i in node.inputs], axis=axis), order)


def _split(ctx: Importer, node: MsNode) -> None:
    axis, count = int(node.attributes["axis"]), len(node.outputs)
    sizes = numbers(node, "size_splits", []) or (ctx.ints(node.inputs[1]) if len(node.inputs) > 1 else [])
    operands = [ctx.value(node.inputs[0])]
    extra: dict[str, Any] = {"num_outputs": count}
    dims = ctx.ms.tensors[node.inputs[0]].dims
    if sum(size < 0 for size in sizes) == 1 and dims and dims[axis] > 0:  # the rest
        sizes = [size if size >= 0 else dims[axis] - sum(max(size, 0) for size in sizes) for size in sizes]
    if sizes and min(sizes) >= 0:
        operands.append(ctx.int64(sizes, "sizes"))
        extra = {}
    for index, value in zip(node.outputs, ctx.add_many("Split", operands, count, axis=axis, **extra), strict=True):
        ctx.bind(index, value)


def _stack(ctx: Importer, node: MsNode) -> None:
    axis = int(node.attributes["axis"])
    place = ctx.int64([axis], "axes")
    lifted = [ctx.add("Unsqueeze", [ctx.value(i), place]) for i in node.inputs]
    ctx.bind(node.outputs[0], ctx.add("Concat", lifted, axis=axis))


def _unstack(ctx: Importer, node: MsNode) -> None:
    axis, count = int(node.attributes["axis"]), len(node.outputs)
    parts = ctx.add_many("Split", [ctx.value(node.inputs[0])], count, axis=axis, num_outputs=count)
    for index, part in zip(node.outputs, parts, strict=True):
        ctx.bind(index, ctx.add("Squeeze", [part, ctx.int64([axis], "axes")]))


def _reshape(ctx: Importer, node: MsNode) -> None:
    if len(node.inputs) < 2:
        raise FormatError("a Reshape without a shape is not supported", where=ctx.where)
    operands = [ctx.value(node.inputs[0]), ctx.as_int64(node.inputs[1], "shape")]
    ctx.bind(node.outputs[0], ctx.add("Reshape", operands))


def _transpose(ctx: Importer, node: MsNode) -> None:
    """The same value in another order; a node only if there is more than one name for it."""
    rank = ctx.rank(node.inputs[0])
    perm = ctx.ints(node.inputs[1]) if len(node.inputs) > 1 else list(reversed(range(rank or 0)))
    if sorted(perm) != list(range(len(perm))) or (rank is not None and rank != len(perm)):
        raise FormatError(f"{perm} is not an order of {rank} axes", where=ctx.where)
    ctx.reorder(node.outputs[0], node.inputs[0], tuple(perm))


def _flatten(ctx: Importer, node: MsNode) -> None:
    ctx.bind(node.outputs[0], ctx.add("Flatten", [ctx.value(node.inputs[0])], axis=int(node.attributes["axis"])))


def _squeeze(ctx: Importer, node: MsNode) -> None:
    axes = numbers(node, "axis", []) or (ctx.ints(node.inputs[1]) if len(node.inputs) > 1 else [])
    operands = [ctx.value(node.inputs[0])] + ([ctx.int64(axes, "axes")] if axes else [])
    ctx.bind(node.outputs[0], ctx.add("Squeeze", operands))


def _unsqueeze(ctx: Importer, node: MsNode) -> None:
    axes = numbers(node, "axis", []) or ctx.ints(node.inputs[1])
    ctx.bind(node.outputs[0], ctx.add("Unsqueeze", [ctx.value(node.inputs[0]), ctx.int64(axes, "axes")]))


def _broadcast_to(ctx: Importer, node: MsNode) -> None:
    shape = (
        ctx.as_int64(node.inputs[1], "shape")
        if len(node.inputs) > 1
        else ctx.int64(numbers(node, "shape", []), "shape")
    )
    ctx.bind(node.outputs[0], ctx.add("Expand", [ctx.value(node.inputs[0]), shape]))


def _tile(ctx: Importer, node: MsNode) -> None:
    ctx.bind(node.outputs[0], ctx.add("Tile", [ctx.value(node.inputs[0]), ctx.as_int64(node.inputs[1], "repeats")]))


def _pad(ctx: Importer, node: MsNode) -> None:
    mode = node.attributes["padding_mode"]
    names = {PaddingMode.CONSTANT: "constant", PaddingMode.REFLECT: "reflect"}
    if mode not in names:
        raise FormatError(f"padding mode {mode} is not supported", where=ctx.where)
    pairs = ctx.ints(node.inputs[1])
    inputs = [ctx.value(node.inputs[0]), ctx.int64(pairs[::2] + pairs[1::2], "pads")]
    if mode == PaddingMode.CONSTANT:
        value = float(node.attributes["constant_value"])
        if len(node.inputs) > 2:
            value = float(ctx.array(node.inputs[2]).reshape(-1)[0])
        inputs.append(ctx.initializer(np.array(value, np.float32), "fill", key=("number", value)))
    ctx.bind(node.outputs[0], ctx.add("Pad", inputs, mode=names[mode]))


def _strided_slice(ctx: Importer, node: MsNode) -> None:
    if len(node.inputs) != 5 or any(node.attributes[m] for m in node.attributes if m.endswith("mask")):
        raise FormatError("only slices with begin, end, axes and strides are supported", where=ctx.where)
    begin, end, axes, strides = (ctx.as_int64(i, n) for i, n in zip(node.inputs[1:], _SLICE, strict=True))
    ctx.bind(node.outputs[0], ctx.add("Slice", [ctx.value(node.inputs[0]), begin, end, axes, strides]))


_SLICE = ("begin", "end", "axes", "strides")


def _slice_fusion(ctx: Importer, node: MsNode) -> None:
    """Begin and size along axes; size -1 reaches to the end."""
    begin, size = ctx.ints(node.inputs[1]), ctx.ints(node.inputs[2])
    axes = numbers(node, "axes", list(range(len(begin))))
    end = [2**31 - 1 if s < 0 else b + s for b, s in zip(begin, size, strict=True)]
    lists = [ctx.int64(values, name) for values, name in ((begin, "begin"), (end, "end"), (axes, "axes"))]
    ctx.bind(node.outputs[0], ctx.add("Slice", [ctx.value(node.inputs[0]), *lists]))


def _gather(ctx: Importer, node: MsNode) -> None:
    data, indices = node.inputs[:2]
    axis = ctx.ints(node.inputs[2])[0] if len(node.inputs) > 2 else 0
    if node.quant_type is QuantType.NONE or not ctx.is_constant(data):
        source = ctx.value(data)
    else:
        source = ctx.weight(data, pm.identity(len(ctx.ms.tensors[data].dims)))
    ctx.bind(node.outputs[0], ctx.add("Gather", [source, ctx.value(indices)], axis=axis))


def _lstm(ctx: Importer, node: MsNode) -> None:
    """One layer; weights ``(directions, gates * hidden, columns)`` and gates are those of ONNX."""
    if len(node.inputs) != 6 or any(len(ctx.ms.tensors[index].dims) != 3 for index in node.inputs[1:3]):
        raise FormatError("only an LSTM with two weights, biases and two states is supported", where=ctx.where)
    order = pm.identity(3)
    is_stored = node.quant_type is not QuantType.NONE
    weights = [ctx.weight(index, order) if is_stored else ctx.value(index) for index in node.inputs[1:3]]
    x, bias, *states = (ctx.value(index) for index in (node.inputs[0], *node.inputs[3:]))
    results = ctx.add_many(
        "LSTM",
        [x, *weights, bias, None, *states],
        len(node.outputs),
        hidden_size=ctx.ms.tensors[node.inputs[2]].dims[-1],
        direction="bidirectional" if node.attributes["bidirectional"] else "forward",
    )
    for index, value in zip(node.outputs, results, strict=True):
        ctx.bind(index, value)


def _gather_nd(ctx: Importer, node: MsNode) -> None:
    indices = ctx.as_int64(node.inputs[1], "indices", shape=ctx.ms.tensors[node.inputs[1]].dims)
    ctx.bind(node.outputs[0], ctx.add("GatherND", [ctx.value(node.inputs[0]), indices]))


def _scatter_nd(ctx: Importer, node: MsNode) -> None:
    """Results are put at indices, or added to what is there."""
    data, index, updates = node.inputs
    places = ctx.as_int64(index, "indices", shape=ctx.ms.tensors[index].dims)
    attributes = {"reduction": "add"} if node.op == "TensorScatterAdd" else {}
    ctx.bind(node.outputs[0], ctx.add("ScatterND", [ctx.value(data), places, ctx.value(updates)], **attributes))


def _shape(ctx: Importer, node: MsNode) -> None:
    value = ctx.add("Shape", [ctx.value(node.inputs[0])])
    ctx.bind(node.outputs[0], ctx.add("Cast", [value], name=f"{node.name}_int32", to=_INT32))


def _fill(ctx: Importer, node: MsNode) -> None:
    operands = [ctx.value(node.inputs[0]), ctx.as_int64(node.inputs[1], "shape")]
    ctx.bind(node.outputs[0], ctx.add("Expand", operands))


def _constant_of_shape(ctx: Importer, node: MsNode) -> None:
    kind = ONNX_TYPES.get(node.attributes["data_type"], ir.DataType.FLOAT)
    values = node.attributes.get("value", np.zeros(1, np.float32))
    value = ir.Tensor(np.array(values[:1]).astype(kind.numpy()), name="value")
    ctx.bind(node.outputs[0], ctx.add("ConstantOfShape", [ctx.as_int64(node.inputs[0], "shape")], value=value))


TABLE: dict[str, ImportNode] = {
    "MatMulFusion": _matmul,
    "FullConnection": _matmul,
    "ReduceFusion": _reduce,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "ArgMaxFusion": _arg,
    "ArgMinFusion": _arg,
    "TopKFusion": _topk,
    "CumSum": _cumsum,
    "LayerNormFusion": _layer_norm,
    "InstanceNorm": _instance_norm,
    "Concat": _concat,
    "Split": _split,
    "Stack": _stack,
    "Unstack": _unstack,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "ExpandDims": _unsqueeze,
    "BroadcastTo": _broadcast_to,
    "TileFusion": _tile,
    "PadFusion": _pad,
    "StridedSlice": _strided_slice,
    "SliceFusion": _slice_fusion,
    "Gather": _gather,
    "LSTM": _lstm,
    "GatherNd": _gather_nd,
    "ScatterNdUpdate": _scatter_nd,
    "TensorScatterAdd": _scatter_nd,
    "Shape": _shape,
    "Fill": _fill,
    "ConstantOfShape": _constant_of_shape,
}
