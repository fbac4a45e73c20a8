"""Products of matrices, and biases."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import rank_of, shape_of
from converter_lite.formats.mindir.importer.context import numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step
from converter_lite.formats.mindir.importer.window import check_layout


def _matmul(step: Step) -> None:
    first, second = (
        _turned(step, step.tensor(name), step.flag(f"transpose_{side}", False))
        for name, side in (("x", "a"), ("y", "b"))
    )
    step.finish("MatMul", first, second)


def _turned(step: Step, value: ir.Value, is_turned: bool) -> ir.Value:
    """The last two axes exchanged; of a constant in the constant."""
    if not is_turned:
        return value
    rank = rank_of(value)
    if rank < 2:
        raise ModelError(f"it transposes {rank} dimensions")
    return step.emit("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _dense(step: Step) -> None:
    """``x @ weight.T + bias`` over the last axis."""
    value, weight = step.tensor("x"), _turned(step, step.tensor("weight"), step.rank("weight") == 2)
    if not step.has("bias"):
        step.finish("MatMul", value, weight)
        return
    step.finish("Add", step.emit("MatMul", value, weight), step.tensor("bias"))


def _bias_add(step: Step) -> None:
    """A number for each channel, along axis 1."""
    value, bias, rank = step.tensor("x"), step.tensor("bias"), step.rank("x")
    if rank > 2:
        check_layout(step, "data_format" if step.has("data_format") else "format")
    step.finish("Add", value, along_channels(step, bias, rank))


def along_channels(step: Step, value: ir.Value, rank: int) -> ir.Value:
    """A vector in a shape that broadcasts along axis 1 of so many."""
    if rank <= 2:
        return value
    (count,) = shape_of(value)
    shape = (count, *(1,) * (rank - 2))
    if value.const_value is None:
        return step.emit("Reshape", value, step.ints("shape", shape))
    return step.importer.constant(str(value.name), value.const_value.numpy().reshape(shape))


def _add_product(step: Step) -> None:
    """``beta * input + alpha * (x @ y)``."""
    value, product = step.tensor("input"), step.emit("MatMul", step.tensor("x"), step.tensor("y"))
    factors = {name: step.number(name, 1) for name in ("beta", "alpha")}
    if factors["alpha"] != 1:
        product = step.emit("Mul", product, step.constant("alpha", factors["alpha"], numpy_type(product)))
    if factors["beta"] != 1:
        value = step.emit("Mul", value, step.constant("beta", factors["beta"], numpy_type(value)))
    step.finish("Add", product, value)


def _einsum(step: Step) -> None:
    step.finish("Einsum", *step.tensors("x"), equation=str(step.get("equation")).replace(" ", ""))


def _outer(step: Step) -> None:
    """Every product of two vectors' numbers."""
    first, second = (step.tensor(name) for name in ("x", "y"))
    column = step.emit("Unsqueeze", first, step.ints("axis", [1]))
    step.finish("Mul", column, second)


_PRODUCT = "Transpose, MatMul"

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("MatMul", "BatchMatMul"), Kind(_matmul, "x y transpose_a transpose_b", _PRODUCT)),
    **dict.fromkeys(("MatMulExt", "BatchMatMulExt", "Mm", "Mv", "Dot"), Kind(_matmul, "x y", "MatMul")),
    "Einsum": Kind(_einsum, "x", "Einsum", "equation"),
    "Outer": Kind(_outer, "x y", "Unsqueeze, Mul"),
    "Dense": Kind(_dense, "x weight bias", "Transpose, MatMul, Add"),
    "BiasAdd": Kind(_bias_add, "x bias data_format", "Add, Reshape"),
    **dict.fromkeys(("Addmm", "Baddbmm"), Kind(_add_product, "input x y beta alpha", "MatMul, Mul, Add")),
}
