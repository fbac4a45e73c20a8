"""The inputs of a file with the types of the model that it was made from, whatever types they were given."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import cast_of

FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


def take_types(model: ir.Model, like: ir.Model) -> None:
    """Let inputs take the float types of another model's inputs of the same names, in place.

    Integers that stand for real numbers (``--inputDataType=UINT8``) get a QuantizeLinear in front, other float types a Cast.
    Inputs whose integers have no known step are left as they are.
    """
    wanted = {value.name: value.dtype for value in like.graph.inputs}
    for value in model.graph.inputs:
        kind = wanted.get(value.name)
        if kind in FLOATS and value.dtype not in (kind, None):
            _take(model.graph, value, kind or ir.DataType.FLOAT)


def _take(graph: ir.Graph, value: ir.Value, kind: ir.DataType) -> None:
    readers = list(value.uses())
    if not readers:
        value.type = ir.TensorType(kind)
        return
    grid = _grid(value)
    given = value.dtype if not grid else ir.DataType.FLOAT
    if given not in FLOATS or given is None:
        return
    taken, nodes = value, []
    if kind != given:
        nodes.append(cast_of(graph, value, given, name=f"{value.name}_cast", result=f"{value.name}_cast"))
        taken = nodes[0].outputs[0]
    if grid:
        nodes.append(ir.node("QuantizeLinear", [taken, *grid], name=f"{value.name}_quantize"))
        taken = nodes[-1].outputs[0]
        taken.name, taken.type, taken.shape = g.unique_name(graph, f"{value.name}_quantized"), value.type, value.shape
    for node, place in readers:
        node.replace_input_with(place, taken)
    graph.insert_before(next(iter(graph)), nodes)
    value.type = ir.TensorType(kind)


def _grid(value: ir.Value) -> list[ir.Value | None]:
    """Constant step and zero point of an input that DequantizeLinear nodes alone read; empty if it is none."""
    readers = [node for node, _ in value.uses()]
    grid = list(readers[0].inputs[1:])
    is_grid = all(node.op_type == "DequantizeLinear" for node in readers)
    return grid if is_grid and all(given is not None and g.is_constant(given) for given in grid) else []
