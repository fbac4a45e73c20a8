"""InnerProduct and Embed."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step


def _inner_product(step: Step) -> None:
    """All axes from the layer's on are one vector."""
    shape, axis, outputs = step.shape(), step.axis("axis", 1), step.parameters.size("num_output")
    rows, length = math.prod(shape[:axis]), math.prod(shape[axis:])
    transposed = step.parameters.flag("transpose", False)
    pair = (length, outputs) if transposed else (outputs, length)
    operands = [_matrix(step, axis, (rows, length)), step.weight(0, pair, "weight")]
    if step.parameters.flag("bias_term", True):
        operands.append(step.weight(1, (outputs,), "bias"))
    if axis == 1:
        step.finish("Gemm", *operands, transB=int(not transposed))
        return
    product = step.emit("Gemm", *operands, transB=int(not transposed))
    step.finish("Reshape", product, step.constant("shape", (*shape[:axis], outputs), np.int64))


def _matrix(step: Step, axis: int, shape: tuple[int, int]) -> ir.Value:
    value = step.input()
    if step.shape() == shape:
        return value
    if axis == 1:
        return step.emit("Flatten", value, axis=1)
    return step.emit("Reshape", value, step.constant("rows", shape, np.int64))


def _embed(step: Step) -> None:
    """Rows of a table; the blob holds their numbers as floats."""
    outputs, rows = step.parameters.size("num_output"), step.parameters.size("input_dim")
    if not outputs or not rows:
        raise ModelError(f"{rows} rows of {outputs}")
    places = step.emit("Cast", step.input(), to=int(ir.DataType.INT64))
    table = step.weight(0, (rows, outputs), "weight")
    if not step.parameters.flag("bias_term", True):
        step.finish("Gather", table, places, axis=0)
        return
    step.finish("Add", step.emit("Gather", table, places, axis=0), step.weight(1, (outputs,), "bias"))


KINDS: dict[str, Kind] = {
    "InnerProduct": Kind(
        _inner_product,
        "Flatten, Gemm, Reshape",
        "inner_product_param",
        "num_output bias_term weight_filler bias_filler axis transpose",
        weighted=True,
    ),
    "Embed": Kind(
        _embed,
        "Cast, Gather, Add",
        "embed_param",
        "num_output input_dim bias_term weight_filler bias_filler",
        weighted=True,
    ),
}
