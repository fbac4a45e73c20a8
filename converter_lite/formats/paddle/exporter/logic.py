"""Comparison, logic, Where, and casts to BOOL.

The runtime's logical operators do not broadcast and its expansion of BOOL came with 2.13. Where shapes differ, truth
values become floats 0 and 1, are multiplied or expanded, and come back by a comparison with 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    STORED_BLOCK,
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    element_type,
    rank,
)
from converter_lite.formats.paddle.exporter.movement import transpose
from converter_lite.formats.paddle.exporter.reshaping import cast
from converter_lite.formats.paddle.program import VarType, attr, ints

COMPARISON = {
    "Equal": "equal",
    "Less": "less_than",
    "LessOrEqual": "less_equal",
    "Greater": "greater_than",
    "GreaterOrEqual": "greater_equal",
}
LOGIC = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
FLOAT_LOGIC = {"And": "elementwise_mul", "Or": "elementwise_max", "Xor": "elementwise_sub"}
"""The same on floats 0 and 1, before the comparison with 0."""


def _compare(lowering: Lowering, node: ir.Node) -> None:
    """A comparison; Equal with nothing but a Not behind it is one operator."""
    operator, result = COMPARISON[node.op_type], node.outputs[0]
    negation = g.single_consumer(result) if node.op_type == "Equal" else None
    if negation is not None and negation.op_type == "Not":
        lowering.done.add(negation)
        operator, result = "not_equal", negation.outputs[0]
    first, wanted = node.inputs[0], dims(result)
    if first is None or dims(first) == wanted:
        left = lowering.tensor(first)
    elif wanted and -1 not in wanted:  # kernels repeat the second operand only, and read past the end of the first
        left = _expanded(lowering, first, wanted)
    else:
        raise Unsupported("a comparison whose first operand has fewer elements needs known shapes", "give --inputShape")
    sides = {"X": [left], "Y": [lowering.tensor(node.inputs[1])]}
    attributes = {"axis": attr(-1), "force_cpu": attr(False)}
    dtype = dtype_name(node.inputs[0])
    lowering.emit(operator, sides, {"Out": [lowering.result(result)]}, attributes, dtype=dtype)


def nonzero(lowering: Lowering, name: str, result: str, dtype: str) -> None:
    """BOOL tensor of ``name != 0``."""
    zero = lowering.parameter(f"{name}.zero", np.zeros(1, dtype))
    attributes = {"axis": attr(-1), "force_cpu": attr(False)}
    lowering.emit("not_equal", {"X": [name], "Y": [zero]}, {"Out": [result]}, attributes, dtype=dtype)


def _logic(lowering: Lowering, node: ir.Node) -> None:
    result, wanted = lowering.result(node.outputs[0]), dims(node.outputs[0])
    if all(value is not None and dims(value) == wanted for value in node.inputs):
        sides = {"X": [lowering.tensor(node.inputs[0])], "Y": [lowering.tensor(node.inputs[1])]}
        lowering.emit(LOGIC[node.op_type], sides, {"Out": [result]})
        return
    left, right = (_truth_as_float(lowering, value) for value in node.inputs)
    combined = lowering.temporary(f"{result}.float", wanted)
    operator = FLOAT_LOGIC[node.op_type]
    lowering.emit(operator, {"X": [left], "Y": [right]}, {"Out": [combined]}, {"axis": attr(-1)})
    nonzero(lowering, combined, result, "float32")


def _truth_as_float(lowering: Lowering, value: ir.Value | None) -> str:
    array = g.constant(value)
    if array is not None and value is not None:
        return lowering.parameter(f"{value.name}.float", array.astype(np.float32))
    return cast(lowering, lowering.tensor(value), VarType.BOOL, VarType.FP32)


def _not(lowering: Lowering, node: ir.Node) -> None:
    inputs = {"X": [lowering.tensor(node.inputs[0])]}
    lowering.emit("logical_not", inputs, {"Out": [lowering.result(node.outputs[0])]})


def _where(lowering: Lowering, node: ir.Node) -> None:
    wanted = dims(node.outputs[0])
    if not wanted or -1 in wanted:
        raise Unsupported("Where needs known shapes here", "give --inputShape")
    condition, first, second = (_expanded(lowering, value, wanted) for value in node.inputs)
    inputs = {"Condition": [condition], "X": [first], "Y": [second]}
    lowering.emit("where", inputs, {"Out": [lowering.result(node.outputs[0])]})


def _places(lowering: Lowering, node: ir.Node) -> None:
    """NonZero; the runtime's operator has a row for each place."""
    source, result = node.inputs[0], lowering.result(node.outputs[0])
    assert source is not None
    name = lowering.tensor(source)
    if element_type(source) is not VarType.BOOL:
        truth = lowering.temporary(f"{result}.truth", dims(source), dtype=VarType.BOOL)
        nonzero(lowering, name, truth, dtype_name(source))
        name = truth
    rows = lowering.temporary(f"{result}.rows", (-1, rank(source)), dtype=VarType.INT64)
    lowering.emit("where_index", {"Condition": [name]}, {"Out": [rows]})
    transpose(lowering, rows, result, [1, 0], dtype="int64")


def _expanded(lowering: Lowering, value: ir.Value | None, wanted: tuple[int, ...]) -> str:
    assert value is not None
    array = g.constant(value)
    kind, is_float = element_type(value), element_type(value) is VarType.FP32
    if array is not None and array.size and is_float and (array == array.flat[0]).all():
        return lowering.filled(f"{value.name}.expanded", wanted, float(array.flat[0]))
    can_expand = kind in (VarType.FP32, VarType.BOOL)
    if array is not None and not (can_expand and math.prod(wanted) - array.size > STORED_BLOCK):
        return lowering.parameter(f"{value.name}.expanded", np.broadcast_to(array, wanted).copy())
    if dims(value) == wanted:
        return lowering.tensor(value)
    if kind is not VarType.BOOL:
        return expand(lowering, lowering.tensor(value), dims(value), wanted, kind=kind, dtype=dtype_name(value))
    floats = expand(lowering, _truth_as_float(lowering, value), dims(value), wanted)
    result = lowering.temporary(f"{value.name}.expanded", wanted, dtype=VarType.BOOL)
    nonzero(lowering, floats, result, "float32")
    return result


def expand(
    lowering: Lowering,
    name: str,
    source: Sequence[int],
    wanted: Sequence[int],
    *,
    kind: VarType = VarType.FP32,
    dtype: str = "float32",
) -> str:
    """``name`` of shape ``source`` expanded to ``wanted``, as a new variable."""
    result = lowering.temporary(f"{name}.expanded", wanted, dtype=kind)
    missing = len(wanted) - len(source)
    if missing > 0:
        lifted = lowering.temporary(f"{name}.lifted", (*[1] * missing, *source), dtype=kind)
        outputs = {"Out": [lifted], "XShape": [lowering.temporary(f"{name}.xshape")]}
        lowering.emit("unsqueeze2", {"X": [name]}, outputs, {"axes": ints(range(missing))})
        name = lifted
    lowering.emit("expand_v2", {"X": [name]}, {"Out": [result]}, {"shape": ints(wanted)}, dtype=dtype)
    return result


def _cast(lowering: Lowering, node: ir.Node) -> None:
    source, value = node.inputs[0], node.outputs[0]
    assert source is not None
    name, result, kind = lowering.tensor(source), lowering.result(value), element_type(value)
    given, dtype = element_type(source), dtype_name(source)
    if lowering.absorbs and VarType.UINT8 in (given, kind) and VarType.FP32 not in (given, kind) and given is not kind:
        # The only way from and to UINT8 leads through floats.
        name, given, dtype = cast(lowering, name, given, VarType.FP32), VarType.FP32, "float32"
    if kind is VarType.BOOL and given is not VarType.BOOL:
        nonzero(lowering, name, result, dtype)
    elif kind is given:
        lowering.emit("assign", {"X": [name]}, {"Out": [result]})
    else:
        cast(lowering, name, given, kind, result)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(COMPARISON, _compare),
    **dict.fromkeys(LOGIC, _logic),
    "Not": _not,
    "Where": _where,
    "NonZero": _places,
    "Cast": _cast,
}
