"""Numbers without a dimension, for formats that have rows of one element in their place."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.graph import Names, add_initializer


def take_scalars(model: ir.Model, like: ir.Model) -> None:
    """Make inputs and outputs of ``model`` single numbers (shape ``[]``) where they are in ``like``; a file has rows of one.

    Args:
        model: A file that was read back, changed in place.
        like: The model that it was made from, with outputs in the same order.
    """
    scalars = {value.name for value in like.graph.inputs if value.shape is not None and not len(value.shape)}
    for value in model.graph.inputs:
        if value.name in scalars and value.shape is not None and len(value.shape):
            uses, size = list(value.uses()), tuple(value.shape)
            row = _reshaped(model, value, size, before=next(iter(model.graph), None))
            for node, position in uses:
                node.replace_input_with(position, row)
            value.shape = ir.Shape(())
    for position, (value, wanted) in enumerate(zip(model.graph.outputs, like.graph.outputs, strict=False)):
        if wanted.shape is not None and not len(wanted.shape) and value.producer() is not None:
            number = _reshaped(model, value, (), before=None)
            model.graph.outputs[position] = number
            value.name, number.name = number.name, value.name


def _reshaped(
    model: ir.Model, value: ir.Value, shape: tuple[int | ir.SymbolicDim, ...], *, before: ir.Node | None
) -> ir.Value:
    names = Names(model.graph)
    size = add_initializer(model.graph, f"{value.name}_shape", np.array(shape, np.int64), names=names)
    node = ir.node("Reshape", [value, size], name=names.unique(f"{value.name}_reshaped"))
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = node.name, value.type, ir.Shape(shape)
    if before is None:
        model.graph.append(node)
    else:
        model.graph.insert_before(before, node)
    return node.outputs[0]
