"""Operators that a runtime lacks, spelled out with others: the opposite of a fusion."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace


def spell_out_scatter(model: ir.Model) -> int:
    """Replace a ScatterND to constant places by Concat and Gather.

    ::

        data (d0, .., rest), updates    rows of both, one below the other ─ Gather(rows in the order of the result) ─ y

    Refused: unknown sizes, places that are not constant or come twice, and a reduction.
    """
    return sum(_scatter(model.graph, node) for node in list(model.graph) if is_op(node, "ScatterND"))


def _scatter(graph: ir.Graph, node: ir.Node) -> bool:
    data, updates = node.inputs[0], node.inputs[2]
    shape, places = g.static_shape(data), g.constant(node.inputs[1])
    reduction = g.attribute(node, "reduction", "none")
    if data is None or updates is None or shape is None or places is None or reduction not in ("none", b"none"):
        return False
    depth = places.shape[-1]
    rows, rest = math.prod(shape[:depth]), shape[depth:]
    picked = np.ravel_multi_index(
        tuple(np.moveaxis(places.astype(np.int64), -1, 0)), shape[:depth], mode="wrap"
    ).ravel()
    if len(np.unique(picked)) != len(picked):
        return False
    order = np.arange(rows)
    order[picked] = rows + np.arange(len(picked))
    stacked = [_reshaped(graph, node, value, (count, *rest)) for value, count in ((data, rows), (updates, len(picked)))]
    joined = _insert(graph, node, "Concat", stacked, (rows + len(picked), *rest), axis=0)
    index = g.add_initializer(graph, f"{node.name}_rows", order)
    chosen = _insert(graph, node, "Gather", [joined, index], (rows, *rest), axis=0)
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(shape, np.int64))
    replace([node], ir.node("Reshape", [chosen, target]))
    return True


def spell_out_batched_gather(model: ir.Model) -> int:
    """Replace a GatherND with ``batch_dims`` and constant indices by one without: batch positions become indices."""
    return sum(_batched_gather(model.graph, node) for node in list(model.graph) if is_op(node, "GatherND"))


def _batched_gather(graph: ir.Graph, node: ir.Node) -> bool:
    batch, data, indices = g.int_attribute(node, "batch_dims", 0), node.inputs[0], g.constant(node.inputs[1])
    if not batch or data is None or indices is None:
        return False
    positions = np.stack(np.meshgrid(*map(np.arange, indices.shape[:-1]), indexing="ij"), axis=-1)[..., :batch]
    whole = np.concatenate([positions.astype(np.int64), indices.astype(np.int64)], axis=-1)
    replace([node], ir.node("GatherND", [data, g.add_initializer(graph, f"{node.name}_indices", whole)]))
    return True


def spell_out_grouped_deconvolution(model: ir.Model) -> int:
    """Replace a ConvTranspose with several groups, unless it is depthwise, by one for each group.

    ::

        x ─ Split ─ ConvTranspose (one for each group, with its filters and biases) ─ Concat ─ y

    Refused: unknown channels, a weight or bias that is not constant.
    """
    return sum(_deconvolution(model.graph, node) for node in list(model.graph) if is_op(node, "ConvTranspose"))


def _deconvolution(graph: ir.Graph, node: ir.Node) -> bool:
    groups, x, y = g.int_attribute(node, "group", 1), node.inputs[0], node.outputs[0]
    weight, bias = g.constant(node.inputs[1]), g.constant(g.input_at(node, 2))
    shape, result = g.static_shape(x), g.static_shape(y)
    if groups == 1 or x is None or weight is None or shape is None or result is None:
        return False
    if weight.shape[:2] == (groups, 1):
        return False
    if g.input_at(node, 2) is not None and bias is None:
        return False
    parts = _split(graph, node, x, [shape[1] // groups] * groups)
    graph.insert_before(node, parts)
    kept = {name: attr for name, attr in node.attributes.items() if name != "group"}
    width, made = result[1] // groups, []
    for number, part in enumerate(parts.outputs):
        part.name, part.type = f"{node.name}_group_{number}", x.type
        part.shape = ir.Shape([shape[0], shape[1] // groups, *shape[2:]])
        filters = weight[number * shape[1] // groups : (number + 1) * shape[1] // groups]
        operands = [part, g.add_initializer(graph, f"{node.name}_filters_{number}", np.ascontiguousarray(filters))]
        if bias is not None:
            share = bias[number * width : (number + 1) * width]
            operands.append(g.add_initializer(graph, f"{node.name}_bias_{number}", np.ascontiguousarray(share)))
        made.append(_insert(graph, node, "ConvTranspose", operands, (result[0], width, *result[2:]), **kept))
    replace([node], ir.node("Concat", made, attributes={"axis": 1}))
    return True


def _split(graph: ir.Graph, node: ir.Node, x: ir.Value, sizes: list[int]) -> ir.Node:
    """A Split along axis 1; sizes are an input since operator set 13."""
    name, count = f"{node.name}_split", len(sizes)
    if graph.opset_imports.get("", 1) < 13:
        return ir.node("Split", [x], attributes={"axis": 1, "split": sizes}, num_outputs=count, name=name)
    stored = g.add_initializer(graph, f"{node.name}_sizes", np.array(sizes, np.int64))
    return ir.node("Split", [x, stored], attributes={"axis": 1}, num_outputs=count, name=name)


def _reshaped(graph: ir.Graph, node: ir.Node, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    target = g.add_initializer(graph, f"{value.name}_shape", np.array(shape, np.int64))
    return _insert(graph, node, "Reshape", [value, target], shape)


def _insert(
    graph: ir.Graph, node: ir.Node, op_type: str, inputs: list[ir.Value], shape: tuple[int, ...], **attributes: object
) -> ir.Value:
    made = ir.node(op_type, inputs, attributes=attributes)  # type: ignore[arg-type]
    made.outputs[0].shape, made.outputs[0].type = ir.Shape(shape), node.outputs[0].type
    graph.insert_before(node, made)
    return made.outputs[0]
