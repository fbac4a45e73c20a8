"""Truth values that are moved, reduced and compared, bytes that are moved, and bits that are truth values."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, is_op, remove, replace, take_over
from converter_lite.passes.spelled_out.inserting import insert

MOVED = frozenset(
    {
        "Concat",
        "Expand",
        "Gather",
        "GatherElements",
        "GatherND",
        "Pad",
        "ReduceMax",
        "ReduceMin",
        "ScatterElements",
        "ScatterND",
        "Slice",
        "Split",
        "Tile",
        "Transpose",
        "Trilu",
    }
)
"""Operators that some runtime has only for numbers, and that give of zeros and ones what they give of truth values."""

MOVED_BYTES = frozenset({"Concat", "Expand", "Gather", "Slice", "Split", "Tile", "Transpose"})
"""Operators of pictures that some runtime has not for bytes."""

LOGICAL = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}
"""Operator on bits -> operator on truth values."""


def spell_out_moved_truths(model: ir.Model) -> int:
    """Move and compare truth values, such as masks of attention, as floats."""
    graph = model.graph
    moved = sum(_moved(graph, node, ir.DataType.BOOL) for node in list(graph) if is_op(node, *MOVED))
    return moved + sum(_compared_truths(graph, node) for node in list(graph) if is_op(node, "Equal"))


@for_each(*MOVED_BYTES)
def spell_out_moved_bytes(graph: ir.Graph, node: ir.Node) -> bool:
    """Move bytes, such as those of a picture, as floats."""
    return _moved(graph, node, ir.DataType.UINT8)


def _moved(graph: ir.Graph, node: ir.Node, kind: ir.DataType) -> bool:
    if not _is_of(node.inputs[0], kind):
        return False
    made = _with_numbers(graph, node, kind)
    for number, given in zip(made.outputs, node.outputs, strict=True):
        number.shape, number.type = given.shape, ir.TensorType(ir.DataType.FLOAT)
        cast = ir.node("Cast", [number], attributes={"to": kind.value})
        graph.insert_before(node, cast)
        take_over(cast.outputs[0], given)
        _read_numbers(cast, number)
    remove(node)
    return True


def _read_numbers(cast: ir.Node, number: ir.Value) -> None:
    """Let what makes floats of bytes again read the floats that these were made of."""
    for use in list(cast.outputs[0].uses()):
        again = use.node.outputs[0]
        if is_op(use.node, "Cast") and again.dtype is ir.DataType.FLOAT and not again.is_graph_output():
            again.replace_all_uses_with(number)
            remove(use.node)
    if not cast.outputs[0].uses() and not cast.outputs[0].is_graph_output():
        remove(cast)


def _compared_truths(graph: ir.Graph, node: ir.Node) -> bool:
    if not _is_truth(node.inputs[0]):
        return False
    made = _with_numbers(graph, node, ir.DataType.BOOL)
    take_over(made.outputs[0], node.outputs[0])
    remove(node)
    return True


def _with_numbers(graph: ir.Graph, node: ir.Node, kind: ir.DataType) -> ir.Node:
    """The node once more, in front of itself, whose operands of a kind are floats."""
    operands = [_number(graph, node, value) if _is_of(value, kind) else value for value in node.inputs]
    settings = {name: attribute.value for name, attribute in node.attributes.items()}
    made = ir.node(node.op_type, operands, attributes=settings, num_outputs=len(node.outputs), name=node.name)
    graph.insert_before(node, made)
    return made


def _number(graph: ir.Graph, node: ir.Node, value: ir.Value) -> ir.Value:
    stored = g.constant(value)
    if stored is not None:
        return g.add_initializer(graph, f"{value.name}_number", stored.astype(np.float32))
    number = insert(graph, node, "Cast", [value], g.static_shape(value), to=ir.DataType.FLOAT.value)
    number.type = ir.TensorType(ir.DataType.FLOAT)
    return number


def _is_of(value: ir.Value | None, kind: ir.DataType) -> TypeGuard[ir.Value]:
    return value is not None and value.dtype is kind


def _is_truth(value: ir.Value | None) -> TypeGuard[ir.Value]:
    return _is_of(value, ir.DataType.BOOL)


def spell_out_bits(model: ir.Model) -> int:
    """Replace operators on bits where the numbers are truth values, and BitwiseNot of 32 and 64 bits, which is -1 - x."""
    graph = model.graph
    joined = sum(_joined_bits(graph, node) for node in list(graph) if is_op(node, *LOGICAL))
    return joined + sum(_turned_bits(graph, node) for node in list(graph) if is_op(node, "BitwiseNot"))


def _joined_bits(graph: ir.Graph, node: ir.Node) -> bool:
    kind = node.outputs[0].dtype
    truths = [_truth_behind(graph, value) for value in node.inputs]
    if kind is None or any(truth is None for truth in truths):
        return False
    joined = insert(graph, node, LOGICAL[node.op_type], truths, g.static_shape(node.outputs[0]))
    joined.type = ir.TensorType(ir.DataType.BOOL)
    replace([node], ir.node("Cast", [joined], attributes={"to": kind.value}))
    return True


def _truth_behind(graph: ir.Graph, value: ir.Value | None) -> ir.Value | None:
    """The truth values that numbers stand for."""
    if value is None:
        return None
    producer, stored = value.producer(), g.constant(value)
    if producer is not None and producer.op_type == "Cast" and _is_truth(producer.inputs[0]):
        return producer.inputs[0]
    if stored is not None and np.isin(stored, (0, 1)).all():
        return g.add_initializer(graph, f"{value.name}_truth", stored.astype(bool))
    return None


def _turned_bits(graph: ir.Graph, node: ir.Node) -> bool:
    x = node.inputs[0]
    if x is None or x.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return False
    replace([node], ir.node("Sub", [g.add_initializer(graph, f"{node.name}_ones", np.array(-1, x.dtype.numpy())), x]))
    return True
