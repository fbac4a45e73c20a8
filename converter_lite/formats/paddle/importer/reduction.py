"""Sums, extremes and orders along axes."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.sizes import as_vector, known, sizes
from converter_lite.formats.paddle.program import Operator, VarType, numpy_type

REDUCTIONS = {
    "reduce_mean": "ReduceMean",
    "reduce_sum": "ReduceSum",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
    "reduce_amax": "ReduceMax",
    "reduce_amin": "ReduceMin",
    "logsumexp": "ReduceLogSumExp",
    "mean": "ReduceMean",
}
SHORT = (ir.DataType.BOOL, ir.DataType.INT32)
LOGICAL = {"reduce_any": "ReduceMax", "reduce_all": "ReduceMin"}


def _reduce(importer: Importer, op: Operator) -> None:
    """``mean`` is the mean of everything. Sums of truth values and of int32 are int64 in Paddle itself."""
    value, wanted = importer.value(op.input("X")), int(op.get("out_dtype", -1))
    if op.type == "reduce_sum" and wanted < 0 and importer.has_scalars and value.dtype in SHORT:
        wanted = VarType.INT64
    value = _of_type(importer, value, wanted)
    importer.bind(output(op), _reduced(importer, op, REDUCTIONS[op.type], value, output(op)))


def _reduced(importer: Importer, op: Operator, kind: str, value: ir.Value, name: str) -> ir.Value:
    keep = int(op.get("keep_dim", op.get("keepdim", False)))
    axes = [] if op.get("reduce_all", False) else [int(axis) for axis in op.get("dim", op.get("axis", ()))]
    if not axes and not keep and not importer.has_scalars:
        everything = importer.compute(kind, value, keepdims=1)
        return importer.node("Reshape", [everything, importer.add_constant("shape", [1])], names=[name])[0]
    inputs = [value, importer.add_constant("axes", axes)] if axes else [value]
    return importer.node(kind, inputs, {"keepdims": keep}, names=[name])[0]


def _of_type(importer: Importer, value: ir.Value, kind: int) -> ir.Value:
    if kind < 0:
        return value
    dtype = ir.DataType.from_numpy(numpy_type(kind))
    return value if value.dtype == dtype else importer.compute("Cast", value, to=int(dtype))


def _logical(importer: Importer, op: Operator) -> None:
    """Truth values as numbers: one of them is true if the largest is, all are if the smallest is."""
    numbers = importer.compute("Cast", importer.value(op.input("X")), to=int(ir.DataType.INT32))
    found = _reduced(importer, op, LOGICAL[op.type], numbers, f"{output(op)}.number")
    importer.finish(output(op), "Cast", found, to=int(ir.DataType.BOOL))


def _top_k(importer: Importer, op: Operator) -> None:
    given = op.input("K")
    if given is None:
        count = importer.add_constant("k", [int(op.get("k", 1))])
    else:
        count = as_vector(importer, importer.value(given))
    attributes = {"axis": int(op.get("axis", -1)), "largest": int(op.get("largest", True))}
    names = [output(op), output(op, "Indices")]
    values = importer.node("TopK", [importer.value(op.input("X")), count], attributes, names=names)
    for name, value in zip(names, values, strict=True):
        importer.bind(name, value)


def _sort(importer: Importer, op: Operator) -> None:
    """All elements of the axis in order."""
    value = importer.value(op.input("X"))
    axis = axis_of(int(op.get("axis", -1)), importer.rank(value))
    count = sizes(importer, value, axis, axis + 1)
    names = [output(op), output(op, "Indices")]
    attributes = {"axis": axis, "largest": int(op.get("descending", False))}
    for name, made in zip(names, importer.node("TopK", [value, count], attributes, names=names), strict=True):
        importer.bind(name, made)


def _kth(importer: Importer, op: Operator) -> None:
    """The last of the smallest ``k``."""
    value, place = importer.value(op.input("X")), int(op.get("k", 1))
    axis = axis_of(int(op.get("axis", -1)), importer.rank(value))
    names = [output(op), output(op, "Indices")]
    count = importer.add_constant("k", [place])
    found = importer.node("TopK", [value, count], {"axis": axis, "largest": 0}, names=[f"{name}.all" for name in names])
    index = importer.add_constant("last", [place - 1] if op.get("keepdim", False) else place - 1)
    for name, part in zip(names, found, strict=True):
        importer.finish(name, "Gather", part, index, axis=axis)


def _arg(importer: Importer, op: Operator) -> None:
    """The first of equal elements counts."""
    value, kind = importer.value(op.input("X")), "ArgMax" if op.type == "arg_max" else "ArgMin"
    attributes: dict[str, Any] = {"axis": int(op.get("axis", -1)), "keepdims": int(op.get("keepdims", False))}
    if op.get("flatten", False):
        if attributes["keepdims"] or not importer.has_scalars:
            raise ModelError(f"{op.type} of the flattened tensor that keeps dimensions")
        value = importer.compute("Reshape", value, importer.add_constant("shape", [-1]))
        attributes["axis"] = 0
    dtype = int(op.get("dtype", 3))
    if dtype in (-1, 3):
        importer.finish(output(op), kind, value, **attributes)
        return
    found = importer.compute(kind, value, **attributes)
    importer.finish(output(op), "Cast", found, to=int(ir.DataType.from_numpy(numpy_type(dtype))))


def _cumsum(importer: Importer, op: Operator) -> None:
    value, place = importer.value(op.input("X")), int(op.get("axis", -1))
    if op.get("flatten", False):
        value, place = importer.compute("Reshape", value, importer.add_constant("shape", [-1])), 0
    axis = importer.add_constant("axis", axis_of(place, len(known(importer, value))))
    attributes = {key: int(op.get(key, False)) for key in ("exclusive", "reverse")}
    importer.finish(output(op), "CumSum", value, axis, **attributes)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(LOGICAL, _logical),
    "top_k_v2": _top_k,
    "argsort": _sort,
    "kthvalue": _kth,
    **dict.fromkeys(("arg_max", "arg_min"), _arg),
    "cumsum": _cumsum,
}
