"""Putting by index."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.spelled_out.boxes import box_of, put_box
from converter_lite.passes.spelled_out.counting import COUNTED, counted
from converter_lite.passes.spelled_out.indexing import coordinates, whole_index
from converter_lite.passes.spelled_out.inserting import insert, reshaped

PUTS, ADDS = "none", "add"
"""Values of ``reduction``: what was there is replaced, or added to."""

ADDED_SINCE = 16
"""The first operator set in which a ScatterND can add."""


def spell_out_scatter(model: ir.Model) -> int:
    """Replace a ScatterND or ScatterElements to constant places by Concat and Gather, any other ScatterElements by a ScatterND.

    ::

        data (d0, .., rest), updates    rows of both, one below the other ─ Gather(rows in the order of the result) ─ y

    Where the places are all of a box (a slice that is assigned to), what lies around it is joined to the updates instead.
    A ScatterElements to computed places, or that adds, becomes a ScatterND of rows where all elements of a row go to the same
    one (as exporters of graph networks write it), otherwise of elements in a row of all. Places below zero count from the
    end, which runtimes do not know: they write in front of the tensor.

    Refused: unknown sizes, places that come twice and are not added, truth values, and other reductions.
    """
    nodes = [node for node in model.graph if is_op(node, "ScatterND", "ScatterElements")]
    rules = (_chosen, _in_rows, _counted)
    return sum(any(rule(model.graph, node) for rule in rules) for node in nodes)


def spell_out_put_elements(model: ir.Model) -> int:
    """Replace a ScatterND that replaces by two that add to zeros: what to put, and where. Elements of a row become rows of one.

    ::

        y = Where(ScatterND<add>(0, places, 1), ScatterND<add>(0, places, updates), data)

    Refused: unknown sizes, truth values, and operator sets in which it cannot add.
    """
    changed = sum(_in_column(model.graph, node) for node in list(model.graph) if is_op(node, "ScatterND"))
    if g.opset(model) < ADDED_SINCE:
        return changed
    return changed + sum(_as_sums(model.graph, node) for node in list(model.graph) if is_op(node, "ScatterND"))


def _reduction(node: ir.Node) -> str:
    return g.text_attribute(node, "reduction", PUTS)


def _chosen(graph: ir.Graph, node: ir.Node) -> bool:
    data, updates = node.inputs[0], node.inputs[2]
    shape, places = g.static_shape(data), g.constant(node.inputs[1])
    if data is None or updates is None or shape is None or places is None or _reduction(node) != PUTS:
        return False
    if node.op_type == "ScatterElements":
        places = coordinates(places, g.int_attribute(node, "axis", 0))
    depth = places.shape[-1]
    rows, rest = math.prod(shape[:depth]), shape[depth:]
    picked = np.ravel_multi_index(
        tuple(np.moveaxis(places.astype(np.int64), -1, 0)), shape[:depth], mode="wrap"
    ).ravel()
    if len(np.unique(picked)) != len(picked):
        return False
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(shape, np.int64))
    box = box_of(picked, shape[:depth])
    if box is not None and data.dtype is not ir.DataType.BOOL:
        put = reshaped(graph, node, updates, (*box.sizes, *rest))
        replace([node], ir.node("Reshape", [put_box(graph, node, data, put, box), target]))
        return True
    order = np.arange(rows)
    order[picked] = rows + np.arange(len(picked))
    stacked = [reshaped(graph, node, value, (count, *rest)) for value, count in ((data, rows), (updates, len(picked)))]
    joined = insert(graph, node, "Concat", stacked, (rows + len(picked), *rest), axis=0)
    index = g.add_initializer(graph, f"{node.name}_rows", order)
    chosen = insert(graph, node, "Gather", [joined, index], (rows, *rest), axis=0)
    replace([node], ir.node("Reshape", [chosen, target]))
    return True


def _in_rows(graph: ir.Graph, node: ir.Node) -> bool:
    data, places, updates = node.inputs[:3]
    shape, wanted = g.static_shape(data), g.static_shape(places)
    if node.op_type != "ScatterElements" or data is None or places is None or updates is None:
        return False
    if not shape or 0 in shape or wanted is None or data.dtype is ir.DataType.BOOL:
        return False
    reduction, axis = _reduction(node), g.int_attribute(node, "axis", 0) % len(shape)
    if reduction != ADDS and (reduction != PUTS or g.is_constant(places)):
        return False
    column = _column(places, wanted) if axis == 0 and wanted[1:] == shape[1:] else None
    if column is not None:
        return _put_rows(graph, node, counted(graph, node, column, [shape[0]]), shape[1:])
    return _put_rows(graph, node, whole_index(graph, node, places, shape, axis), (1,))


def _counted(graph: ir.Graph, node: ir.Node) -> bool:
    """Count the places of a ScatterND from the front."""
    places, shape, wanted = node.inputs[1], g.static_shape(node.inputs[0]), g.static_shape(node.inputs[1])
    if node.op_type != "ScatterND" or places is None or COUNTED in places.meta or shape is None or not wanted:
        return False
    whole = counted(graph, node, places, shape[: wanted[-1]])
    whole.meta[COUNTED] = True
    node.replace_input_with(1, whole)
    return whole is not places


def _put_rows(graph: ir.Graph, node: ir.Node, places: ir.Value, rest: tuple[int, ...]) -> bool:
    """Replace a node by a ScatterND of rows of a shape; ``places`` has one number for each row that is put."""
    shape, many = g.static_shape(node.inputs[0]) or (), math.prod(g.static_shape(places) or ())
    index = reshaped(graph, node, places, (many, 1))
    index.type = places.type
    index.meta[COUNTED] = True
    sizes = {0: (math.prod(shape) // math.prod(rest), *rest), 2: (many, *rest)}
    rows, put = (reshaped(graph, node, node.inputs[place], size) for place, size in sizes.items())  # type: ignore[arg-type]
    attributes = {} if _reduction(node) == PUTS else {"reduction": _reduction(node)}
    scattered = insert(graph, node, "ScatterND", [rows, index, put], sizes[0], **attributes)
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(shape, np.int64))
    replace([node], ir.node("Reshape", [scattered, target]))
    return True


def _column(places: ir.Value, shape: tuple[int, ...]) -> ir.Value | None:
    """What was repeated along all axes but the first, if it was."""
    producer = places.producer()
    if producer is None or not is_op(producer, "Expand"):
        return None
    before = g.static_shape(producer.inputs[0])
    is_column = before is not None and len(before) == len(shape) and before == (shape[0], *(1 for _ in shape[1:]))
    return producer.inputs[0] if is_column else None


def _in_column(graph: ir.Graph, node: ir.Node) -> bool:
    places, shape = node.inputs[1], g.static_shape(node.inputs[0])
    is_row = shape is not None and len(shape) == 1 and g.static_shape(places) is not None
    return is_row and places is not None and _put_rows(graph, node, places, (1,))


def _as_sums(graph: ir.Graph, node: ir.Node) -> bool:
    data, places, updates = node.inputs[:3]
    shape, given = g.static_shape(data), g.static_shape(updates)
    if (
        shape is None
        or given is None
        or _reduction(node) != PUTS
        or data is None
        or data.dtype in (None, ir.DataType.BOOL)
    ):
        return False
    nothing, ones = (_filled(graph, node, *filling) for filling in ((shape, 0), (given, 1)))
    counts, put = (
        insert(graph, node, "ScatterND", [nothing, places, added], shape, reduction=ADDS) for added in (ones, updates)
    )
    is_put = insert(graph, node, "Cast", [counts], shape, to=ir.DataType.BOOL.value)
    is_put.type = ir.TensorType(ir.DataType.BOOL)
    replace([node], ir.node("Where", [is_put, put, data]))
    return True


def _filled(graph: ir.Graph, node: ir.Node, shape: tuple[int, ...], number: int) -> ir.Value:
    """One number everywhere, made by a node: it takes no room in a file."""
    kind = (node.outputs[0].dtype or ir.DataType.FLOAT).numpy()
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(shape, np.int64))
    return insert(graph, node, "ConstantOfShape", [target], shape, value=ir.tensor(np.array([number], kind)))
