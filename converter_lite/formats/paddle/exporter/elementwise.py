"""Arithmetic of two tensors, powers, sums and means of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.activation import affine
from converter_lite.formats.paddle.exporter.fusion import take_activation
from converter_lite.formats.paddle.exporter.logic import expand
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    element_type,
)
from converter_lite.formats.paddle.exporter.reshaping import copy
from converter_lite.formats.paddle.program import VarType, attr

ARITHMETIC = {
    "Add": "elementwise_add",
    "Sub": "elementwise_sub",
    "Mul": "elementwise_mul",
    "Div": "elementwise_div",
    "Max": "elementwise_max",
    "Min": "elementwise_min",
    "Sum": "elementwise_add",
}


def _arithmetic(lowering: Lowering, node: ir.Node) -> None:
    if _beside_floor(lowering, node):
        return
    operator, dtype = ARITHMETIC[node.op_type], dtype_name(node.inputs[0])
    if len(node.inputs) == 1:
        copy(lowering, node)
        return
    left, right = _joined(lowering, operator, node, node.inputs[:-1]), lowering.tensor(node.inputs[-1])
    activation, value = take_activation(lowering, node.outputs[0], ("relu",) if dtype == "float32" else ())
    if activation.kind:
        fused = {"axis": attr(-1), "act_type": attr(activation.kind)}
        sides = {"X": [left], "Y": [right]}
        lowering.emit(f"fusion_{operator}_activation", sides, {"Out": [lowering.result(value)]}, fused)
    else:
        _pair(lowering, operator, left, right, lowering.result(value), dtype)


def _joined(lowering: Lowering, operator: str, node: ir.Node, values: Sequence[ir.Value | None]) -> str:
    """What an operator of two sides makes of the first inputs of a node, one after the other."""
    left, size, made = lowering.tensor(values[0]), dims(values[0]), node.outputs[0]
    for index, value in enumerate(values[1:]):
        size = _broadcast(size, dims(value))
        middle = lowering.temporary(f"{made.name}.{index}", size, dtype=element_type(made))
        _pair(lowering, operator, left, lowering.tensor(value), middle, dtype_name(value))
        left = middle
    return left


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a result; -1 is a dynamic size, and nothing an unknown rank."""
    if not left or not right:
        return ()
    sizes = zip_longest(reversed(left), reversed(right), fillvalue=1)
    return tuple(a if b in (1, a) or a not in (1, -1) else b for a, b in sizes)[::-1]


def _beside_floor(lowering: Lowering, node: ir.Node) -> bool:
    """``floor(x * a + b) * c``: the numbers become attributes, as they are part of rounding. Whether it was done."""
    before, factor = node.inputs[0], _number(node)
    if node.op_type != "Mul" or before is None or factor is None or dtype_name(before) != "float32":
        return False
    if (producer := before.producer()) is not None and producer.op_type == "Floor":
        affine(lowering, lowering.tensor(before), lowering.result(node.outputs[0]), scale=factor)
        return True
    add = g.single_consumer(node.outputs[0])
    floor = g.single_consumer(add.outputs[0]) if add is not None and add.op_type == "Add" else None
    summand = _number(add) if add is not None and add.inputs[0] is node.outputs[0] else None
    if add is None or floor is None or floor.op_type != "Floor" or summand is None:
        return False
    lowering.done.add(add)
    affine(lowering, lowering.tensor(before), lowering.result(add.outputs[0]), scale=factor, bias=summand)
    return True


def _number(node: ir.Node) -> float | None:
    """The second input of a node if it is a number."""
    return g.scalar(node.inputs[1]) if len(node.inputs) == 2 and g.static_shape(node.inputs[1]) == () else None


def _pair(lowering: Lowering, operator: str, left: str, right: str, result: str, dtype: str) -> None:
    sides: Mapping[str, list[str]] = {"X": [left], "Y": [right]}
    lowering.emit(operator, sides, {"Out": [result]}, {"axis": attr(-1)}, dtype=dtype)


def _mod(lowering: Lowering, node: ir.Node) -> None:
    dtype = dtype_name(node.inputs[0])
    if dtype == "float32":
        raise Unsupported("Mod of floats")
    if g.int_attribute(node, "fmod", 0):
        raise Unsupported("Mod with the sign of the dividend (fmod)")
    left, right = (lowering.tensor(value) for value in node.inputs)
    value, kind = node.outputs[0], element_type(node.outputs[0])
    rest, moved = (
        lowering.temporary(f"{value.name}.{word}", dims(value), dtype=kind) for word in ("remainder", "moved")
    )
    # Some kernels' remainder has the sign of the dividend; that of (remainder + divisor) is right with all of them.
    _pair(lowering, "elementwise_mod", left, right, rest, dtype)
    _pair(lowering, "elementwise_add", rest, right, moved, dtype)
    _pair(lowering, "elementwise_mod", moved, right, lowering.result(value), dtype)


def _pow(lowering: Lowering, node: ir.Node) -> None:
    exponent = g.constant(node.inputs[1])
    computed = [value for value in node.inputs if value is not None and not g.is_constant(value)]
    if any(element_type(value) is not VarType.FP32 for value in computed):
        raise Unsupported("powers of integers, and integers as exponents")
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
    base, whole = dims(node.inputs[0]), dims(value)
    if base != whole and -1 not in whole:  # the kernel for ARM repeats exponents only
        name = expand(lowering, name, base, whole)
    if exponent is not None:
        right = lowering.parameter(f"{value.name}.exponent", np.asarray(exponent, np.float32))
    else:
        right = lowering.tensor(node.inputs[1])
    _pair(lowering, "elementwise_pow", name, right, outputs["Out"][0], dtype_name(node.inputs[0]))


def _mean(lowering: Lowering, node: ir.Node) -> None:
    """Mean of several tensors: their sum over their count."""
    total = _joined(lowering, "elementwise_add", node, node.inputs)
    affine(lowering, total, lowering.result(node.outputs[0]), scale=1.0 / len(node.inputs))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(ARITHMETIC, _arithmetic),
    "Mod": _mod,
    "Pow": _pow,
    "Mean": _mean,
}
