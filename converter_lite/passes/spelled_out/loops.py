"""Loops whose number of turns is known before they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.branches import forget
from converter_lite.passes.rewrite import is_op, take_over
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine

MOST_TURNS = 512
"""Turns up to which a loop is written out."""

MOST_NODES = 12_000
"""Nodes that all turns of a loop may have."""

AXES_AS_INPUT = 13
"""The first operator set in which the axes of Unsqueeze are an input."""


def spell_out_loops(model: ir.Model, *, engine: Engine = DEFAULT_ENGINE) -> int:
    """Replace a Loop by the nodes of its turns, one after the other, as recurrent layers of Keras become one.

    The number of turns is constant, or follows from counters that begin with constants: the condition is computed for each turn.

    Refused: a condition that depends on what the graph reads, more than :data:`MOST_TURNS` turns or :data:`MOST_NODES` nodes,
    operator sets below 13.
    """
    if g.opset(model) < AXES_AS_INPUT:
        return 0
    return sum(_spell_out(model, node, engine) for node in list(model.graph) if is_op(node, "Loop"))


def _spell_out(model: ir.Model, node: ir.Node, engine: Engine) -> bool:
    body = node.attributes["body"].as_graph()
    turns = _turns(model, node, body, engine)
    if not turns or turns * sum(1 for _ in g.all_nodes(body)) > MOST_NODES:
        return False
    graph, names = model.graph, g.Names(model.graph)
    _hoist_constants(graph, body, names)
    true = g.add_initializer(graph, f"{node.name}_true", np.array(True), names=names)
    carried, rows = list(node.inputs[2:]), []
    for turn in range(turns):
        number = g.add_initializer(graph, f"{node.name}_turn", np.array(turn, np.int64), names=names)
        found = _insert_turn(graph, node, body, turn, [number, true, *carried], names)
        carried = found[1 : 1 + len(carried)]
        rows.append(found[1 + len(carried) :])
    zero = g.add_initializer(graph, f"{node.name}_axis", np.array([0], np.int64), names=names)
    results = [*carried, *(list(column) for column in zip(*rows, strict=True))]
    for output, result in zip(node.outputs, results, strict=False):  # the last ones may be left out
        if isinstance(result, list):
            result = [_inserted(graph, node, "Unsqueeze", [row, zero], names) for row in result]
            made = ir.node("Concat", result, attributes={"axis": 0}, name=f"{node.name}_{output.name}")
        else:
            made = ir.node("Identity", [result], name=f"{node.name}_{output.name}")
        graph.insert_before(node, made)
        g.absorb_names(made, [node])
        take_over(made.outputs[0], output)
    graph.remove(node, safe=True)
    forget(node)
    g.separate_names(graph)
    return True


def _inserted(graph: ir.Graph, node: ir.Node, op_type: str, inputs: list[ir.Value | None], names: g.Names) -> ir.Value:
    made = ir.node(op_type, inputs)
    made.outputs[0].name = names.unique(f"{node.name}_row")
    graph.insert_before(node, made)
    return made.outputs[0]


def _hoist_constants(graph: ir.Graph, body: ir.Graph, names: g.Names) -> None:
    """Give the constants of a body to the graph around it, so that all turns share them."""
    for name, value in list(body.initializers.items()):
        del body.initializers[name]
        value.name = names.unique(name)
        graph.register_initializer(value)


def _insert_turn(
    graph: ir.Graph, node: ir.Node, body: ir.Graph, turn: int, given: list[ir.Value | None], names: g.Names
) -> list[ir.Value | None]:
    """Put one turn in front of the loop; returns what its outputs are."""
    copy = body.clone(allow_outer_scope_values=True)
    replaced = dict(zip(copy.inputs, given, strict=True))
    results = [replaced.get(value, value) for value in copy.outputs]
    copy.outputs.clear()
    for value, source in replaced.items():
        assert source is not None
        value.replace_all_uses_with(source)
    nodes = list(copy)
    copy.remove(nodes)
    for inner in nodes:
        for value in inner.outputs:
            value.name = names.unique(value.name or f"{node.name}_value") if value.name != "" else ""
            if g.static_shape(value) is None:
                value.shape = None
    graph.insert_before(node, nodes)
    for inner in nodes:
        inner.name = f"{inner.name}_{turn}" if inner.name else None
        g.absorb_names(inner, [node])
    return results


def _turns(model: ir.Model, node: ir.Node, body: ir.Graph, engine: Engine) -> int | None:
    """How often the loop runs, ``None`` if that is not known or too often."""
    given, starts = node.inputs[:2]
    most = MOST_TURNS + 1
    if given is not None:
        stated = g.scalar(given)
        if stated is None:
            return None
        most = min(most, int(stated))
    if starts is not None and g.scalar(starts) is None:
        return None
    if starts is not None and not g.scalar(starts):
        return 0
    counted = _count(model, node, body, most, engine)
    return None if counted is None or counted > MOST_TURNS else counted


def _count(model: ir.Model, node: ir.Node, body: ir.Graph, most: int, engine: Engine) -> int | None:
    """Turns until the condition is false, at most ``most``; ``None`` if it depends on what the graph reads."""
    condition = body.outputs[0]
    if condition is body.inputs[1] or (g.is_constant(condition) and g.scalar(condition)):
        return most
    found = _counting(body)
    if found is None:
        return None
    nodes, places = found
    starts = {place: g.constant(node.inputs[place]) for place in places}
    state: dict[str, NDArray[Any]] = {str(body.inputs[1].name): np.array(True)}
    for place, start in starts.items():
        if start is None:
            return None
        state[str(body.inputs[place].name)] = start
    number = str(body.inputs[0].name)
    program = _program(
        model, nodes, {number: np.array(0, np.int64), **state}, [body.outputs[p - 1] for p in (1, *places)]
    )
    session = engine.session(program, optimize=False)
    fed = {value.name for value in onnx.load_model_from_string(program).graph.input}
    for turn in range(most):
        feed = {name: array for name, array in {number: np.array(turn, np.int64), **state}.items() if name in fed}
        values = session.run(feed)
        if not values[str(condition.name)].item():
            return turn + 1
        for place in places:
            state[str(body.inputs[place].name)] = values[str(body.outputs[place - 1].name)]
    return most


def _counting(body: ir.Graph) -> tuple[list[ir.Node], list[int]] | None:
    """Nodes that compute the condition, and the places of the inputs that it depends on from turn to turn."""
    inputs = {value: place for place, value in enumerate(body.inputs)}
    nodes: set[ir.Node] = set()
    places: list[int] = []
    pending: list[ir.Value | None] = [body.outputs[0]]
    while pending:
        value = pending.pop()
        place = inputs.get(value, 0) if value is not None else 0
        if place > 1 and place not in places:
            places.append(place)
            pending.append(body.outputs[place - 1])
        if value is None or value in inputs or g.is_constant(value):
            continue
        producer = value.producer()
        if producer is None or producer.graph is not body or g.subgraphs(producer):
            return None
        if producer not in nodes:
            nodes.add(producer)
            pending += producer.inputs
    return [node for node in body if node in nodes], places


def _program(
    model: ir.Model, nodes: list[ir.Node], inputs: Mapping[str, NDArray[Any]], outputs: list[ir.Value]
) -> bytes:
    """What counts the turns as a model of its own."""
    proto = onnx.ModelProto(ir_version=model.ir_version)
    proto.opset_import.add(domain="", version=g.opset(model))
    proto.graph.name = "turns"
    proto.graph.node.extend(ir.serde.serialize_node(node) for node in nodes)
    for name, array in inputs.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
    read = dict.fromkeys(value for node in nodes for value in node.inputs if value is not None and g.is_constant(value))
    for value in read:
        if value.const_value is not None:
            message = ir.serde.serialize_tensor(value.const_value)
            message.name = str(value.name)
            proto.graph.initializer.append(message)
    names = dict.fromkeys(str(value.name) for value in outputs)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return onnx.shape_inference.infer_shapes(proto).SerializeToString()
