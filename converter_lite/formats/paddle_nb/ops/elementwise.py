"""Arithmetic and comparison of two tensors, Where, Pow, sums of several."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from converter_lite.formats.paddle_nb.fusion import take_activation
from converter_lite.formats.paddle_nb.lowering import (
    Handler,
    Lowering,
    Unsupported,
    constant,
    dims,
    dtype_name,
    element_type,
)
from converter_lite.formats.paddle_nb.ops.reshaping import copy
from converter_lite.formats.paddle_nb.program import VarType, attr, ints

ARITHMETIC = {
    "Add": "elementwise_add",
    "Sub": "elementwise_sub",
    "Mul": "elementwise_mul",
    "Div": "elementwise_div",
    "Max": "elementwise_max",
    "Min": "elementwise_min",
    "Sum": "elementwise_add",
}
COMPARISON = {
    "Equal": "equal",
    "Less": "less_than",
    "LessOrEqual": "less_equal",
    "Greater": "greater_than",
    "GreaterOrEqual": "greater_equal",
}
LOGIC = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}


def _arithmetic(lowering: Lowering, node: ir.Node) -> None:
    operator, dtype = ARITHMETIC[node.op_type], dtype_name(node.inputs[0])
    sources = [lowering.tensor(value) for value in node.inputs]
    if len(sources) == 1:
        copy(lowering, node)
        return
    left = sources[0]
    for index, right in enumerate(sources[1:-1]):
        middle = lowering.temporary(f"{node.outputs[0].name}.{index}", dtype=element_type(node.outputs[0]))
        _pair(lowering, operator, left, right, middle, dtype)
        left = middle
    activation, value = take_activation(lowering, node.outputs[0], ("relu",) if dtype == "float32" else ())
    if activation.kind:
        fused = {"axis": attr(-1), "act_type": attr(activation.kind)}
        sides = {"X": [left], "Y": [sources[-1]]}
        lowering.emit(f"fusion_{operator}_activation", sides, {"Out": [lowering.result(value)]}, fused)
    else:
        _pair(lowering, operator, left, sources[-1], lowering.result(value), dtype)


def _pair(lowering: Lowering, operator: str, left: str, right: str, result: str, dtype: str) -> None:
    sides: Mapping[str, list[str]] = {"X": [left], "Y": [right]}
    lowering.emit(operator, sides, {"Out": [result]}, {"axis": attr(-1)}, dtype=dtype)


def _mod(lowering: Lowering, node: ir.Node) -> None:
    dtype = dtype_name(node.inputs[0])
    if dtype == "float32":
        raise Unsupported("Mod of floats")
    left, right = (lowering.tensor(value) for value in node.inputs)
    _pair(lowering, "elementwise_mod", left, right, lowering.result(node.outputs[0]), dtype)


def _compare(lowering: Lowering, node: ir.Node) -> None:
    sides = {"X": [lowering.tensor(node.inputs[0])], "Y": [lowering.tensor(node.inputs[1])]}
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    attributes = {"axis": attr(-1), "force_cpu": attr(False)}
    lowering.emit(COMPARISON[node.op_type], sides, outputs, attributes, dtype=dtype_name(node.inputs[0]))


def _logic(lowering: Lowering, node: ir.Node) -> None:
    sides = {"X": [lowering.tensor(node.inputs[0])], "Y": [lowering.tensor(node.inputs[1])]}
    lowering.emit(LOGIC[node.op_type], sides, {"Out": [lowering.result(node.outputs[0])]})


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


def _expanded(lowering: Lowering, value: ir.Value | None, wanted: tuple[int, ...]) -> str:
    assert value is not None
    array = constant(value)
    if array is not None:
        return lowering.parameter(f"{value.name}.expanded", np.broadcast_to(array, wanted).copy())
    if dims(value) == wanted:
        return lowering.tensor(value)
    kind = element_type(value)
    result = lowering.temporary(f"{value.name}.expanded", wanted, dtype=kind)
    dtype = "float32" if kind == VarType.FP32 else dtype_name(value)
    expand = {"shape": ints(wanted)}
    lowering.emit("expand_v2", {"X": [lowering.tensor(value)]}, {"Out": [result]}, expand, dtype=dtype)
    return result


def _pow(lowering: Lowering, node: ir.Node) -> None:
    exponent = constant(node.inputs[1])
    value, name = node.outputs[0], lowering.tensor(node.inputs[0])
    outputs = {"Out": [lowering.result(value)]}
    if exponent is not None and exponent.size == 1:
        power = float(exponent.reshape(-1)[0])
        if power == 2.0:
            lowering.emit("square", {"X": [name]}, outputs)
            return
        if power == 0.5:
            lowering.emit("sqrt", {"X": [name]}, outputs)
            return
    if exponent is not None:
        right = lowering.parameter(f"{value.name}.exponent", np.asarray(exponent, np.float32))
    else:
        right = lowering.tensor(node.inputs[1])
    _pair(lowering, "elementwise_pow", name, right, outputs["Out"][0], dtype_name(node.inputs[0]))


def _mean(lowering: Lowering, node: ir.Node) -> None:
    """Mean of several tensors: their sum over their count."""
    sources = [lowering.tensor(value) for value in node.inputs]
    left = sources[0]
    for index, right in enumerate(sources[1:]):
        middle = lowering.temporary(f"{node.outputs[0].name}.{index}")
        _pair(lowering, "elementwise_add", left, right, middle, "float32")
        left = middle
    attributes = {"scale": attr(1.0 / len(sources)), "bias": attr(0.0), "bias_after_scale": attr(True)}
    lowering.emit("scale", {"X": [left]}, {"Out": [lowering.result(node.outputs[0])]}, attributes)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    **dict.fromkeys(COMPARISON, _compare),
    **dict.fromkeys(LOGIC, _logic),
    "Mod": _mod,
    "Not": _not,
    "Where": _where,
    "Pow": _pow,
    "Mean": _mean,
}
