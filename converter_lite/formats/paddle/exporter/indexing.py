"""Picking by index, and adding there: Gather, GatherND, ScatterND, OneHot, TopK, ArgMax, CumSum."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.activation import affine
from converter_lite.formats.paddle.exporter.convolution import unsqueeze
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    element_type,
    integers,
    rank,
)
from converter_lite.formats.paddle.exporter.movement import transpose
from converter_lite.formats.paddle.exporter.reshaping import cast, reshape
from converter_lite.formats.paddle.exporter.weights import keep
from converter_lite.formats.paddle.program import VarType, attr, ints, long
from converter_lite.quantization.plan import NodeMode


def _gather(lowering: Lowering, node: ir.Node) -> None:
    table, index = node.inputs[0], node.inputs[1]
    axis = g.int_attribute(node, "axis", 0) % rank(table)
    values = g.constant(table)
    if values is not None and values.ndim == 2 and axis == 0 and dtype_name(table) == "float32":
        _lookup(lowering, node)
        return
    if lowering.mode(node) is not NodeMode.FLOAT:
        raise Unsupported("only a table of rows (Gather from a constant matrix, axis 0) can be quantized")
    positions = g.constant(index)
    if positions is not None and positions.size == 1 and positions.ndim < 2 and int(positions.reshape(-1)[0]) >= 0:
        _pick_one(lowering, node, axis, int(positions.reshape(-1)[0]), keep_axis=positions.ndim == 1)
        return
    if positions is not None and _takes_everything(positions, dims(table)[axis]):
        reshape(lowering, lowering.tensor(table), lowering.result(node.outputs[0]), dims(node.outputs[0]))
        return
    _gather_rows(lowering, node, axis)


def _takes_everything(positions: NDArray[Any], size: int) -> bool:
    return positions.size == size and bool(np.array_equal(positions.reshape(-1), np.arange(size)))


def _lookup(lowering: Lowering, node: ir.Node) -> None:
    """Rows of a constant table: ``lookup_table`` where the weights are integers, else ``lookup_table_v2``."""
    index, value = node.inputs[1], node.outputs[0]
    ids = _int64(lowering, index)
    weight = lowering.weight(node, node.inputs[0], keep(1))
    shape_of_ids = dims(index)
    outputs = {"Out": [lowering.result(value)]}
    if lowering.mode(node) is NodeMode.WEIGHT and lowering.absorbs:
        # Only the older operator's table is dequantized; it wants indices with a last dimension of 1.
        ids = unsqueeze(lowering, ids, len(shape_of_ids), (*shape_of_ids, 1), dtype=VarType.INT64)
        inputs = {"W": [weight.name], "Ids": [ids]}
        lowering.emit("lookup_table", inputs, outputs, {"padding_idx": long(-1), **weight.attributes}, alias="def")
        return
    inputs = {"W": [weight.name], "Ids": [ids]}
    lowering.emit("lookup_table_v2", inputs, outputs, {"padding_idx": long(-1)}, alias="def")


def _int64(lowering: Lowering, index: ir.Value | None) -> str:
    positions = g.constant(index)
    if positions is not None and index is not None:
        return lowering.parameter(f"{index.name}.int64", positions.astype(np.int64))
    name = lowering.tensor(index)
    return name if dtype_name(index) == "int64" else cast(lowering, name, VarType.INT32, VarType.INT64)


def _pick_one(lowering: Lowering, node: ir.Node, axis: int, position: int, *, keep_axis: bool) -> None:
    """One constant index: a slice, whose axis goes when the index is a scalar."""
    value = node.outputs[0]
    drops = not keep_axis and rank(node.inputs[0]) > 1
    attributes = {
        "axes": ints((axis,)),
        "starts": ints((position,)),
        "ends": ints((position + 1,)),
        "infer_flags": ints((1,)),
        "decrease_axis": ints((axis,) if drops else ()),
    }
    inputs, outputs = {"Input": [lowering.tensor(node.inputs[0])]}, {"Out": [lowering.result(value)]}
    lowering.emit("slice", inputs, outputs, attributes, dtype=dtype_name(node.inputs[0]))


def _gather_rows(lowering: Lowering, node: ir.Node, axis: int) -> None:
    """``gather`` along axis 0 (2.10 ignores any other), with transposes around it and flat indices."""
    source, index, value = node.inputs[0], node.inputs[1], node.outputs[0]
    dimensions, dtype, kind = rank(source), dtype_name(source), element_type(value)
    name = lowering.tensor(source)
    order = [axis, *(a for a in range(dimensions) if a != axis)]
    if axis:
        turned = lowering.like(name, "turned", order=order)
        transpose(lowering, name, turned, order, dtype=dtype)
        name = turned
    flat = _flat_index(lowering, index)
    simple = rank(index) == 1 and not axis
    size = [dims(source)[a] for a in order]
    size[0] = -1 if -1 in dims(index) else int(np.prod(dims(index)))
    rows = lowering.result(value) if simple else lowering.temporary(f"{value.name}.rows", size, dtype=kind)
    lowering.emit("gather", {"X": [name], "Index": [flat]}, {"Out": [rows]}, {"axis": attr(0)}, alias="int64int64")
    if simple:
        return
    if axis:
        places = [order.index(a) for a in range(dimensions)]
        back = lowering.like(rows, "back", order=places)
        transpose(lowering, rows, back, places, dtype=dtype)
        rows = back
    known = dims(value)
    if sum(d == -1 for d in known) > 1 or not known:
        raise Unsupported("the shape of its output is unknown", "give --inputShape")
    reshape(lowering, rows, lowering.result(value), known)


def _flat_index(lowering: Lowering, index: ir.Value | None) -> str:
    positions = g.constant(index)
    if positions is not None and index is not None:
        if np.any(positions < 0):
            raise Unsupported("negative indices", "add the axis' size to them")
        return lowering.parameter(f"{index.name}.flat", positions.reshape(-1).astype(np.int64))
    name = _int64(lowering, index)
    if rank(index) == 1:
        return name
    flat = lowering.temporary(f"{name}.flat", (-1,), dtype=VarType.INT64)
    reshape(lowering, name, flat, (-1,))
    return flat


def _gather_nd(lowering: Lowering, node: ir.Node) -> None:
    if g.int_attribute(node, "batch_dims", 0):
        raise Unsupported("GatherND with batch_dims")
    inputs = {"X": [lowering.tensor(node.inputs[0])], "Index": [_int64(lowering, node.inputs[1])]}
    lowering.emit("gather_nd", inputs, {"Out": [lowering.result(node.outputs[0])]}, {})


def _scatter_nd(lowering: Lowering, node: ir.Node) -> None:
    reduction = node.attributes.get("reduction")
    if reduction is None or reduction.as_string() != "add":
        raise Unsupported("ScatterND that adds nothing" if reduction is None else f"reduction={reduction.as_string()}")
    (data, places, updates), result = node.inputs[:3], lowering.result(node.outputs[0])
    inputs = {"X": [lowering.tensor(data)], "Index": [_int64(lowering, places)], "Updates": [lowering.tensor(updates)]}
    lowering.emit("scatter_nd_add", inputs, {"Out": [result]}, {}, alias=f"{dtype_name(data)}_int64")


def _one_hot(lowering: Lowering, node: ir.Node) -> None:
    depth = integers(node.inputs[1])
    levels = g.constant(node.inputs[2])
    if depth is None or levels is None or levels.tolist() != [0, 1]:
        raise Unsupported("OneHot with values other than 0 and 1")
    if g.int_attribute(node, "axis", -1) not in (-1, rank(node.inputs[0])):
        raise Unsupported("OneHot along another axis than the last")
    kind = element_type(node.outputs[0])
    attributes = {"depth": attr(depth[0]), "dtype": attr(int(kind)), "allow_out_of_range": attr(True)}
    inputs, outputs = {"X": [_int64(lowering, node.inputs[0])]}, {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("one_hot_v2", inputs, outputs, attributes, alias="def")


def _top_k(lowering: Lowering, node: ir.Node) -> None:
    """The kernel takes the largest, whatever ``largest`` says, and in 2.10 along the last axis only."""
    source, (best, places) = node.inputs[0], node.outputs
    count = integers(g.input_at(node, 1)) or [g.int_attribute(node, "k", 1)]
    dimensions, dtype = rank(source), dtype_name(source)
    axis, smallest = g.int_attribute(node, "axis", -1) % dimensions, not g.int_attribute(node, "largest", 1)
    order = [a for a in range(dimensions) if a != axis] + [axis]
    turns, back = axis != dimensions - 1, [order.index(a) for a in range(dimensions)]
    name, values, indices = lowering.tensor(source), lowering.result(best), lowering.result(places)
    if turns:
        turned, name = name, lowering.like(name, "turned", order=order)
        transpose(lowering, turned, name, order, dtype=dtype)
        values, indices = (lowering.like(made, "turned", order=order) for made in (values, indices))
    largest = values
    if smallest:
        name, largest = _negative(lowering, name, dtype), lowering.like(values, "negative")
    attributes = {
        "k": attr(count[0]),
        "axis": attr(dimensions - 1),
        "largest": attr(True),
        "sorted": attr(bool(g.int_attribute(node, "sorted", 1))),
    }
    lowering.emit("top_k_v2", {"X": [name]}, {"Out": [largest], "Indices": [indices]}, attributes)
    if smallest:
        affine(lowering, largest, values, scale=-1.0, dtype=dtype)
    if turns:
        transpose(lowering, values, lowering.result(best), back, dtype=dtype)
        if g.is_read(places):
            transpose(lowering, indices, lowering.result(places), back, dtype="int64")


def _negative(lowering: Lowering, name: str, dtype: str) -> str:
    result = lowering.like(name, "negative")
    affine(lowering, name, result, scale=-1.0, dtype=dtype)
    return result


def _arg_max(lowering: Lowering, node: ir.Node) -> None:
    if g.int_attribute(node, "select_last_index", 0):
        raise Unsupported("select_last_index: which of equal elements is taken depends on the release")
    name, value = lowering.tensor(node.inputs[0]), node.outputs[0]
    dtype = dtype_name(node.inputs[0])
    if node.op_type == "ArgMin":
        name = _negative(lowering, name, dtype)
    attributes = {
        "axis": long(g.int_attribute(node, "axis", 0) % rank(node.inputs[0])),
        "keepdims": attr(bool(g.int_attribute(node, "keepdims", 1))),
        "dtype": attr(int(VarType.INT64)),
        "flatten": attr(False),
    }
    alias = {"float32": "fp32"}.get(dtype, dtype)
    lowering.emit("arg_max", {"X": [name]}, {"Out": [lowering.result(value)]}, attributes, alias=alias)


def _cum_sum(lowering: Lowering, node: ir.Node) -> None:
    axis = integers(node.inputs[1]) or [0]
    position, dtype = axis[0] % rank(node.inputs[0]), dtype_name(node.inputs[0])
    attributes = {
        "axis": attr(position),
        "flatten": attr(False),
        "exclusive": attr(bool(g.int_attribute(node, "exclusive", 0))),
        "reverse": attr(False),
    }
    name, value = lowering.tensor(node.inputs[0]), node.outputs[0]
    if not g.int_attribute(node, "reverse", 0):
        lowering.emit("cumsum", {"X": [name]}, {"Out": [lowering.result(value)]}, attributes, alias=dtype)
        return
    # 2.10 refuses the attribute: turn the axis around before and after.
    kind, turn = element_type(value), {"axis": ints((position,))}
    before, summed = (lowering.temporary(f"{value.name}.{part}", dims(value), dtype=kind) for part in ("turned", "sum"))
    lowering.emit("flip", {"X": [name]}, {"Out": [before]}, turn, dtype=dtype)
    lowering.emit("cumsum", {"X": [before]}, {"Out": [summed]}, attributes, alias=dtype)
    lowering.emit("flip", {"X": [summed]}, {"Out": [lowering.result(value)]}, turn, dtype=dtype)


HANDLERS: dict[str, Handler] = {
    "Gather": _gather,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "ArgMax": _arg_max,
    "ArgMin": _arg_max,
    "CumSum": _cum_sum,
}
