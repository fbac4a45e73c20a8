"""What stands behind an integer product of matrices, so that onnxruntime takes it for one (rules 7, 8 of :mod:`.materialize`)."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import replace

STACK_RANK = 3
"""Axes of a result from which matrices are stacked in it."""


def keep_bias_apart(graph: ir.Graph, matmul: ir.Node, names: g.Names) -> None:
    """Give a bias that is added to the result of a MatMul the rank of that result (rule 7)."""
    result = matmul.outputs[0]
    add = g.single_consumer(result)
    if add is None or add.op_type != "Add" or result.shape is None or len(result.shape) < STACK_RANK:
        return
    position = 1 if add.inputs[0] is result else 0
    bias = add.inputs[position]
    array = g.constant(bias)
    if bias is not None and array is not None and array.ndim < len(result.shape):
        wide = array.reshape((1,) * (len(result.shape) - array.ndim) + array.shape)
        name = f"{bias.name}_of_rank_{wide.ndim}"
        add.replace_input_with(position, g.add_initializer(graph, name, wide, names=names))


def spell_out_clamp(graph: ir.Graph, product: ir.Node, names: g.Names) -> None:
    """Write a Relu or Clip behind a product as Max and Min (rule 8)."""
    value, clamp = product.outputs[0], g.single_consumer(product.outputs[0])
    bounds = None if clamp is None else g.clamp_bounds(clamp)
    if clamp is None or bounds is None or clamp.inputs[0] is not value:
        return
    kinds = [(kind, bound) for kind, bound in zip(("Max", "Min"), bounds, strict=True) if math.isfinite(bound)]
    for place, (kind, bound) in enumerate(kinds):
        limit = g.add_initializer(graph, f"{clamp.name}_{kind.lower()}_bound", np.array(bound, np.float32), names=names)
        node = ir.node(kind, [value, limit])
        result, clamped = node.outputs[0], clamp.outputs[0]
        result.shape, result.type = clamped.shape, clamped.type
        if place < len(kinds) - 1:
            node.name, result.name = (names.unique(f"{one}_{kind.lower()}") for one in (clamp.name, clamped.name))
            graph.insert_before(clamp, node)
            value = result
        else:
            replace([clamp], node)
