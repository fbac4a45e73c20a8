"""Weights and biases of products, and how the plan says that they are computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.container import Operator, Quant
from converter_lite.formats.tflite.importer.context import INSIDE_OTHER, Importer
from converter_lite.quantization.plan import NodeMode, NodePlan

ROWS_AROUND = 128
"""Zero point of activations that get a scale for each row when the model runs, as in the runtime: the middle."""

DYNAMIC_BITS = 8

SAME_SCALE = 1e-3
"""Relative difference up to which a bias is in units of its products: parameters are rounded to floats."""


def product_mode(ctx: Importer, weight: ir.Value) -> NodeMode:
    """The decision for a node with this weight: integers of an otherwise float operator are stored only."""
    if ctx.is_integer:
        return NodeMode.INTEGER
    if not ctx.is_planned(weight):
        return NodeMode.FLOAT
    ctx.builder.reason = INSIDE_OTHER
    return NodeMode.WEIGHT


def dynamic_mode(ctx: Importer, index: int, weight: ir.Value) -> NodeMode:
    """The same for products of matrices, whose activations become integers when the model runs.

    Not with weights that an operator in front makes real numbers of.
    """
    mode = product_mode(ctx, weight)
    if mode is not NodeMode.WEIGHT or ctx.stored(index).is_widened:
        return mode
    params = ctx.builder.plan.weights[str(weight.name)]
    fits = params.spec.bits == DYNAMIC_BITS and params.spec.signed and params.spec.symmetric
    return NodeMode.DYNAMIC if fits else mode


def scale_rows(ctx: Importer, value: ir.Value, result: ir.Value) -> None:
    """Give each row of the data of a dynamic node a scale of its own, unless there is one row."""
    node = result.producer()
    if node is None or ctx.builder.plan.mode(node) is not NodeMode.DYNAMIC or value.shape is None:
        return
    if any(size != 1 for size in value.shape.dims[:-1]):
        decision = NodePlan(node.op_type, NodeMode.DYNAMIC, row_zero_point=ROWS_AROUND)
        ctx.builder.plan.nodes[str(node.name)] = decision


def bias(ctx: Importer, op: Operator, position: int, *, channels: int, data: int = 0) -> list[ir.Value]:
    """The bias of a product, if it has one.

    Integers are in units of the scale of the data times that of the weight. Kernels add them whatever parameters they have,
    and TensorFlow's converter lets products of different data share a bias of 64 bits.

    Raises:
        ModelError: They are, and these scales are not known.
    """
    if not op.has(position):
        return []
    index = op.inputs[position]
    if not ctx.is_constant(index):
        return [ctx.value(index)]
    stored = ctx.stored(index)
    if stored.size != channels:
        raise ModelError(f"{stored.size} biases for {channels} channels")
    x, weight = ctx.params(op.inputs[data]), ctx.tensor(op.inputs[1]).quant
    if stored.dtype.kind == "f" or (stored.quant is not None and (x is None or weight is None)):
        return [ctx.constant(index, pm.identity(1))]
    if x is None or weight is None:
        raise ModelError("its bias has integers without a scale")
    scale = (np.float32(x.scale) * weight.scale).astype(np.float32)
    if stored.quant is not None and np.allclose(stored.quant.scale, scale, rtol=SAME_SCALE, atol=0.0):
        return [ctx.constant(index, pm.identity(1))]
    own = replace(stored, quant=Quant(scale, np.zeros(scale.size, np.int64), 0))
    return [ctx.builder.initializer(constants.in_order(own, pm.identity(1)), ctx.tensor(index).name)]
