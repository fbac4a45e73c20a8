"""Constants of branches and bodies (If, Loop, Scan), in the main graph."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, take_over

MOVED = ("Cast", "Concat", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
"""Operators that are moved with the constants that they put into order: they cannot fail in a branch that is never taken."""

SMALL = 16
"""Elements of constants that are compared: sizes, places and axes."""


def hoist_constants(model: ir.Model) -> int:
    """Move constants of inner graphs, and nodes that only arrange constants, in front of the node that runs them.

    ::

        If(c) { y = MatMul(x, Transpose(W)) }    becomes    W' = Transpose(W)   If(c) { y = MatMul(x, W') }

    There they are computed once, as all constants are, and can be stored as integers. Their names get a number where the main
    graph has them already. Refused: results of an inner graph.
    """
    outer = [node for node in model.graph if g.subgraphs(node)]
    if not outer:
        return 0
    hoisting = _Hoisting(model.graph)
    count = sum(hoisting.run(inner, node) for node in outer for inner in g.subgraphs(node))
    if count:
        g.separate_names(model.graph)
    return count


def capture_constants(model: ir.Model) -> int:
    """Let bodies of loops read the constants that every turn passes on unchanged, as Keras does with the weights of a layer.

    ::

        Loop(n, c, s, W) { s' = MatMul(s, W)  W' = W }    becomes    Loop(n, c, s) { s' = MatMul(s, W) }
    """
    loops = [node for node in g.all_nodes(model.graph) if is_op(node, "Loop")]
    return sum(_capture(node) for node in loops)


def _capture(node: ir.Node) -> bool:
    body = node.attributes["body"].as_graph()
    carried = range(2, len(node.inputs))
    if len(node.outputs) < len(carried):  # the last ones may be left out
        return False
    passed = [place for place in carried if g.is_constant(node.inputs[place]) and _is_passed_on(body, place)]
    if node.graph is None or not passed or any(node.outputs[place - 2].is_graph_output() for place in passed):
        return False
    kept = [place for place in carried if place not in passed]
    rows = range(len(node.inputs), len(node.inputs) + len(node.outputs) - len(carried))
    replaced = [(body.inputs[place], node.inputs[place]) for place in passed]
    replaced += [(node.outputs[place - 2], node.inputs[place]) for place in passed]
    body.inputs[:] = [body.inputs[place] for place in (0, 1, *kept)]
    body.outputs[:] = [body.outputs[place - 1] for place in (1, *kept, *rows)]
    for value, constant in replaced:
        value.replace_all_uses_with(constant)  # type: ignore[arg-type]
    inputs = [node.inputs[place] for place in (0, 1, *kept)]
    made = ir.Node("", "Loop", inputs, [node.attributes.pop("body")], num_outputs=len(kept) + len(rows), name=node.name)
    node.graph.insert_before(node, made)
    g.absorb_names(made, [node])
    for place, value in zip((*kept, *rows), made.outputs, strict=True):
        take_over(value, node.outputs[place - 2])
    node.graph.remove(node, safe=True)
    return True


def _is_passed_on(body: ir.Graph, place: int) -> bool:
    result, given = body.outputs[place - 1], body.inputs[place]
    if any(output is given for number, output in enumerate(body.outputs) if number != place - 1):
        return False
    maker = result.producer()
    return result is given or (is_op(maker, "Identity") and maker is not None and maker.inputs[0] is given)


class _Hoisting:
    """Moves constants into a main graph; equal nodes of equal constants become one."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._names = g.Names(graph)
        self._made: dict[tuple[object, ...], ir.Node] = {}

    def run(self, inner: ir.Graph, before: ir.Node) -> int:
        """Constants of an inner graph, and of those inside of it; ``before`` is the node of the main graph that runs it."""
        count = 0
        for name, value in list(inner.initializers.items()):
            if value.const_value is None or value.is_graph_output() or value in inner.inputs:
                continue
            del inner.initializers[name]
            value.name = self._names.unique(name)
            self._graph.register_initializer(value)
            count += 1
        for node in list(inner):
            for body in g.subgraphs(node):
                count += self.run(body, before)
            is_free = not any(value.is_graph_output() for value in node.outputs)
            if is_op(node, *MOVED) and is_free and _is_known(node, self._graph):
                self._move(inner, node, before)
                count += 1
        return count

    def _move(self, inner: ir.Graph, node: ir.Node, before: ir.Node) -> None:
        attributes = sorted((name, str(attribute.value)) for name, attribute in node.attributes.items())
        key = (node.op_type, tuple(map(_identity, node.inputs)), *attributes)
        twin = self._made.get(key)
        if twin is not None and len(twin.outputs) == len(node.outputs):
            for value, other in zip(node.outputs, twin.outputs, strict=True):
                value.replace_all_uses_with(other)
            g.absorb_names(twin, [node])
            inner.remove(node, safe=True)
            return
        self._made[key] = node
        inner.remove(node)
        for value in node.outputs:
            value.name = self._names.unique(value.name or "constant")
        self._graph.insert_before(before, node)


def _identity(value: ir.Value | None) -> object:
    """What is equal for equal small constants."""
    array = (
        g.constant(value)
        if value is not None and (value.const_value is None or value.const_value.size <= SMALL)
        else None
    )
    return value if array is None else (str(array.dtype), array.shape, array.tobytes())


def _is_known(node: ir.Node, graph: ir.Graph) -> bool:
    """Whether a node reads constants only, or what was made of them in the main graph."""
    given = [value for value in node.inputs if value is not None]
    return bool(given) and all(g.is_constant(value) or _is_arranged(value, graph) for value in given)


def _is_arranged(value: ir.Value, graph: ir.Graph) -> bool:
    producer = value.producer()
    return producer is not None and producer.graph is graph and is_op(producer, *MOVED) and _is_known(producer, graph)
