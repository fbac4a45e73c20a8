"""Elements picked by their places, and put there."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.paddle.importer.context import Handler, Importer, output, step_names
from converter_lite.formats.paddle.importer.sizes import constant_number, integers, known, like, scalar, sizes
from converter_lite.formats.paddle.program import Operator, numpy_type

LONG = int(ir.DataType.INT64)


def _gather(importer: Importer, op: Operator) -> None:
    axis = constant_number(importer, op, "axis", "Axis", 0)
    index = importer.value(op.input("Index"))
    if importer.rank(index) == 2:
        index = importer.compute("Squeeze", index, importer.add_constant("axes", [1]))
    importer.finish(output(op), "Gather", importer.value(op.input("X")), index, axis=axis)


def _lookup(importer: Importer, op: Operator) -> None:
    table, index = importer.weight(op, "W", 1), importer.value(op.input("Ids"))
    if op.type == "lookup_table":
        index = importer.compute("Squeeze", index, importer.add_constant("axes", [-1]))
    padding = int(op.get("padding_idx", -1))
    rows = None if padding < 0 else importer.array(op.input("W"))
    is_masked = padding >= 0 and (rows is None or padding >= len(rows) or bool(np.any(rows[padding])))
    names = step_names(output(op), is_masked)
    value = importer.node("Gather", [table, index], {"axis": 0}, names=[next(names)])[0]
    if is_masked:
        is_padding = importer.compute("Equal", index, like(importer, index, padding, "padding"))
        shown = importer.compute("Unsqueeze", is_padding, importer.add_constant("axes", [-1]))
        value = importer.node("Where", [shown, like(importer, value, 0.0, "zero"), value], names=[next(names)])[0]
    importer.bind(output(op), value)
    importer.mark(op, "Ids", table, index, value, out="Out")


def _gather_nd(importer: Importer, op: Operator) -> None:
    index = importer.compute("Cast", importer.value(op.input("Index")), to=int(ir.DataType.INT64))
    importer.finish(output(op), "GatherND", importer.value(op.input("X")), index)


def _one_hot(importer: Importer, op: Operator) -> None:
    dtype = numpy_type(int(op.get("dtype", 5))).type
    levels = importer.add_constant("levels", [0, 1], dtype)
    depth = importer.add_constant("depth", constant_number(importer, op, "depth", "depth_tensor", 1))
    importer.finish(output(op), "OneHot", importer.value(op.input("X")), depth, levels, axis=-1)


def _gather_elements(importer: Importer, op: Operator) -> None:
    """One element for each index, along an axis."""
    if op.type == "index_sample":
        value, index, axis = importer.value(op.input("X")), importer.value(op.input("Index")), 1
    else:
        value, index = importer.value(op.input("Input")), importer.value(op.input("Index"))
        axis = int(op.get("Axis", 0))
    name = output(op) if op.type == "index_sample" else output(op, "Result")
    importer.finish(name, "GatherElements", value, index, axis=axis)


def _select(importer: Importer, op: Operator) -> None:
    inputs = (importer.value(op.input(slot)) for slot in ("X", "Index"))
    importer.finish(output(op), "Gather", *inputs, axis=int(op.get("dim", 0)))


def _put_along(importer: Importer, op: Operator) -> None:
    value, index, updates = (importer.value(op.input(slot)) for slot in ("Input", "Index", "Value"))
    kind = str(op.get("Reduce", "assign"))
    reduction = {"assign": "none", "add": "add", "mul": "mul", "multiply": "mul", "amax": "max", "amin": "min"}.get(
        kind
    )
    if reduction is None or not op.get("Include_self", op.get("include_self", True)):
        raise ModelError(f"values that are put by {kind}, or without what was there")
    given, wanted = importer.shape(updates), importer.shape(index)
    if given != wanted or given is None or -1 in given:
        updates = importer.compute("Expand", updates, sizes(importer, index))
    attributes = {"axis": int(op.get("Axis", 0)), "reduction": reduction}
    importer.finish(output(op, "Result"), "ScatterElements", value, index, updates, **attributes)


def _scatter(importer: Importer, op: Operator) -> None:
    """Rows are replaced; without ``overwrite`` they become the sums of what is put there."""
    value, rows, updates = (importer.value(op.input(slot)) for slot in ("X", "Ids", "Updates"))
    rows = importer.compute("Reshape", importer.compute("Cast", rows, to=LONG), importer.add_constant("shape", [-1, 1]))
    if op.get("overwrite", True):
        importer.finish(output(op), "ScatterND", value, rows, updates)
        return
    dtype = value.dtype.numpy().type if value.dtype is not None else np.float32
    nothing = importer.compute("Expand", importer.add_constant("zero", 0, dtype), sizes(importer, updates))
    cleared = importer.compute("ScatterND", value, rows, nothing)
    importer.finish(output(op), "ScatterND", cleared, rows, updates, reduction="add")


def _scatter_add(importer: Importer, op: Operator) -> None:
    value, index, updates = (importer.value(op.input(slot)) for slot in ("X", "Index", "Updates"))
    index = importer.compute("Cast", index, to=LONG)
    importer.finish(output(op), "ScatterND", value, index, updates, reduction="add")


def _index_add(importer: Importer, op: Operator) -> None:
    value, rows, added = (importer.value(op.input(slot)) for slot in ("X", "Index", "AddValue"))
    if axis_of(int(op.get("axis", 0)), importer.rank(value)) != 0:
        raise ModelError("sums along another axis than the first")
    rows = importer.compute("Unsqueeze", importer.compute("Cast", rows, to=LONG), importer.add_constant("axes", [1]))
    importer.finish(output(op), "ScatterND", value, rows, added, reduction="add")


def _sequence_mask(importer: Importer, op: Operator) -> None:
    """1 for the places that are below a length."""
    lengths = importer.compute("Cast", importer.value(op.input("X")), to=LONG)
    longest = constant_number(importer, op, "maxlen", "MaxLenTensor", -1)
    if longest < 0:
        end = importer.compute("ReduceMax", lengths, keepdims=0)
    else:
        end = importer.add_constant("end", longest)
    places = importer.compute("Range", importer.add_constant("start", 0), end, importer.add_constant("step", 1))
    last = importer.compute("Unsqueeze", lengths, importer.add_constant("axes", [-1]))
    dtype = ir.DataType.from_numpy(numpy_type(int(op.get("out_dtype", 3))))
    importer.finish(output(op, "Y"), "Cast", importer.compute("Less", places, last), to=int(dtype))


def _where_index(importer: Importer, op: Operator) -> None:
    found = importer.compute("NonZero", importer.value(op.input("Condition")))
    importer.finish(output(op), "Transpose", found, perm=[1, 0])


def _masked(importer: Importer, op: Operator) -> None:
    value, mask = importer.value(op.input("X")), importer.value(op.input("Mask"))
    if importer.shape(mask) != importer.shape(value):
        raise ModelError("its mask has another shape than what it selects from")
    flat = importer.compute("Reshape", mask, importer.add_constant("shape", [-1]))
    importer.finish(output(op, "Y"), "Compress", value, flat)


def _index_put(importer: Importer, op: Operator) -> None:
    """One tensor of places for each of the first dimensions, or one mask."""
    value, updates = importer.value(op.input("x")), importer.value(op.input("value"))
    places = [importer.value(name) for name in op.inputs.get("indices", ())]
    if len(places) == 1 and places[0].dtype == ir.DataType.BOOL:
        _put_masked(importer, op, value, places[0], updates)
        return
    ranks = [importer.rank(place) for place in places]
    if not places or len(set(ranks)) != 1 or len({tuple(known(importer, place)) for place in places}) != 1:
        raise ModelError("its tensors of places have different shapes")
    axes = importer.add_constant("axes", [-1])
    columns = [importer.compute("Unsqueeze", importer.compute("Cast", place, to=LONG), axes) for place in places]
    index = columns[0] if len(columns) == 1 else importer.compute("Concat", *columns, axis=-1)
    shape = importer.compute("Concat", sizes(importer, places[0]), sizes(importer, value, len(places)), axis=0)
    updates = importer.compute("Expand", updates, shape)
    attributes = {"reduction": "add"} if op.get("accumulate", False) else {}
    importer.finish(output(op, "out"), "ScatterND", value, index, updates, **attributes)


def _put_masked(importer: Importer, op: Operator, value: ir.Value, mask: ir.Value, updates: ir.Value) -> None:
    missing = importer.rank(value) - importer.rank(mask)
    if op.get("accumulate", False) or set(known(importer, updates)) - {1}:
        raise ModelError("a mask says where several values, or sums, are put")
    if missing:
        axes = integers(importer, range(importer.rank(mask), importer.rank(value)), "axes")
        mask = importer.compute("Unsqueeze", mask, axes)
    importer.finish(output(op, "out"), "Where", mask, scalar(importer, updates), value)


HANDLERS: dict[str, Handler] = {
    "gather": _gather,
    **dict.fromkeys(("lookup_table", "lookup_table_v2"), _lookup),
    "gather_nd": _gather_nd,
    "one_hot_v2": _one_hot,
    **dict.fromkeys(("index_sample", "take_along_axis"), _gather_elements),
    "index_select": _select,
    "put_along_axis": _put_along,
    "scatter": _scatter,
    "scatter_nd_add": _scatter_add,
    "index_add": _index_add,
    "sequence_mask": _sequence_mask,
    "where_index": _where_index,
    "masked_select": _masked,
    "index_put": _index_put,
}
