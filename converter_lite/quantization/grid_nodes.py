"""Grids of an already quantized model as nodes, where the runtime that it is for has no kernels for them.

So that a file gives the numbers of the model that was read, activations are bounded and rounded as floats there:
``step * floor(x / step + 1/2)`` between the ends of the grid. Zero is a number of every grid, so that the zero point takes no
part in it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.placement import is_fused_clamp, reads_grid
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan

MOVING = frozenset({"Flatten", "Identity", "MaxPool", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators whose results are on the grid of their first input."""

KERNEL_BITS = 8
"""Width of the integers of kernels."""

BOUNDED = {
    **dict.fromkeys(("HardSigmoid", "Sigmoid", "Softmax"), (0.0, 1.0)),
    **dict.fromkeys(("Cos", "Erf", "Sin", "Softsign", "Tanh"), (-1.0, 1.0)),
}
"""Operator -> bounds of its results."""

REASON = "it stands for the grid of integers that the runtime has no kernel for"


def needs_rounding(plan: QuantPlan) -> bool:
    """Whether a model has a grid that is not one of symmetric int8."""
    return any(map(_is_beyond_symmetric, plan.activations.values()))


def _is_beyond_symmetric(params: QuantParams) -> bool:
    is_wide = params.is_per_channel or params.spec.bits > KERNEL_BITS
    return is_wide or not params.spec.signed or bool(np.any(params.zero_point))


def add_rounding(
    quantized: QuantizedModel, adapted: QuantPlan, *, zero_points: bool = True, rounded: bool = True
) -> int:
    """Put activations on their grids where nodes that computed with integers no longer do, in place; returns how many.

    Args:
        quantized: As it was read.
        adapted: What the target can do. New nodes are entered; a grid goes to the value that is on it, if integers are made of
            it, and is taken out otherwise.
        zero_points: Whether the integer kernels of the target give integers with a zero point; without, such a result is float,
            and so is one that not only integer nodes read.
        rounded: Round as well; otherwise activations only end where the grid ends.
    """
    graph, plan = quantized.model.graph, quantized.plan
    values = (*graph.inputs, *(value for node in graph for value in node.outputs))
    names = ShortNames(graph)
    given, found, moved = set[ir.Value](), list[ir.Value](), set[ir.Value]()
    for value in values:
        if str(value.name) not in plan.activations:
            continue
        before = _moved_from(value, plan)
        if before is not None and (before in given or before in found):
            moved.add(value)
        if _gives_integers(value, adapted, plan, zero_points=zero_points) and (before is None or before in given):
            given.add(value)
        elif _is_left_over(value, plan, adapted):
            found.append(value)
    for value in found:
        params, readers = plan.activations[str(value.name)], _readers(value, plan)
        becomes_integer = any(_computes_integers(node, adapted) for node, _ in readers)
        if not becomes_integer:
            adapted.activations.pop(str(value.name), None)
        if not rounded:  # what becomes integers ends at theirs
            readers = [
                (node, position)
                for node, position in readers
                if not (_computes_integers(node, adapted) or _ends_behind(node, params, adapted))
            ]
            becomes_integer = False
        is_seen = bool(readers) or value.is_graph_output()
        if value in moved or not is_seen or (not rounded and _ends_before(value, params)):
            continue
        nodes = _grid(graph, value, params, names, is_rounded=rounded)
        _insert(graph, value, readers, nodes)
        for node in nodes:
            adapted.keep_float(node, REASON)
        if becomes_integer:
            adapted.activations.pop(str(value.name), None)
            adapted.activations[str(nodes[-1].outputs[0].name)] = params
    return sum(value not in moved for value in found)


def _gives_integers(value: ir.Value, adapted: QuantPlan, plan: QuantPlan, *, zero_points: bool) -> bool:
    """Whether an integer kernel makes a value, with its zero point."""
    if not _computes_integers(_maker(value, plan), adapted):
        return False
    return zero_points or (
        not _is_beyond_symmetric(plan.activations[str(value.name)]) and _is_all_integer(value, adapted)
    )


def _is_all_integer(value: ir.Value, adapted: QuantPlan) -> bool:
    """Whether only integer nodes read a value, as their data."""
    uses = value.uses()
    return (
        bool(uses)
        and not value.is_graph_output()
        and all(use.idx == 0 and _computes_integers(use.node, adapted) for use in uses)
    )


def _is_left_over(value: ir.Value, plan: QuantPlan, adapted: QuantPlan) -> bool:
    """Whether integers of a value are seen in the model, and not all of its readers make them."""
    producer, readers = value.producer(), _readers(value, plan)
    is_output = value.is_graph_output() and _computes_integers(producer, plan)
    return is_output or any(not _computes_integers(node, adapted) for node, _ in readers)


def _maker(value: ir.Value, plan: QuantPlan) -> ir.Node | None:
    """The node whose kernel makes the integers of a value: that in front of a Relu or Clip which is a part of it."""
    node = value.producer()
    if node is None or not is_fused_clamp(node, plan):
        return node
    before = node.inputs[0]
    return node if before is None else before.producer()


def _readers(value: ir.Value, plan: QuantPlan) -> list[tuple[ir.Node, int]]:
    """Nodes that see the integers of a value, with the number of the input."""
    return [(node, position) for node, position in value.uses() if reads_grid(node, position, plan)]


def _computes_integers(node: ir.Node | None, plan: QuantPlan) -> bool:
    return node is not None and plan.mode(node) is NodeMode.INTEGER


def _moved_from(value: ir.Value, plan: QuantPlan) -> ir.Value | None:
    """The value on the same grid whose numbers a value has, moved. A writer may move them as floats."""
    node, params = value.producer(), plan.activations[str(value.name)]
    if node is None or node.op_type not in MOVING or not _computes_integers(node, plan) or params.is_per_channel:
        return None
    before = node.inputs[0]
    given = plan.activations.get(str(before.name)) if before is not None else None
    return before if given is not None and given.spec == params.spec and _same(given, params) else None


def _same(one: QuantParams, other: QuantParams) -> bool:
    return np.array_equal(one.scale, other.scale) and np.array_equal(one.zero_point, other.zero_point)


def _insert(graph: ir.Graph, value: ir.Value, readers: list[tuple[ir.Node, int]], nodes: list[ir.Node]) -> None:
    """Let the readers take the last of the nodes for the value; it takes over the name of an output of the graph."""
    result, producer = nodes[-1].outputs[0], value.producer()
    for node, position in readers:
        node.replace_input_with(position, result)
    if producer is None:
        graph.insert_before(next(iter(graph)), nodes)
    else:
        graph.insert_after(producer, nodes)
    if value.is_graph_output() and len(list(value.uses())) == 1:
        value.name, result.name = result.name, value.name
        g.replace_output(graph, value, result)


def _ends_before(value: ir.Value, params: QuantParams) -> bool:
    """Whether no number of a value is more than half a step beyond its grid."""
    node = value.producer()
    bounds = None if node is None else BOUNDED.get(node.op_type) or g.clamp_bounds(node)
    (low, high), slack = params.real_range, 0.501 * params.scale
    return bounds is not None and bool(np.all(low - slack <= bounds[0]) and np.all(bounds[1] <= high + slack))


def _ends_behind(node: ir.Node, params: QuantParams, adapted: QuantPlan) -> bool:
    """Whether a node moves elements, and all that it gives becomes integers that reach no further than a grid."""
    if node.op_type not in MOVING:
        return False
    low, high = params.real_range
    for output in node.outputs:
        later = adapted.activations.get(str(output.name))
        if later is None or later.is_per_channel or not _is_all_integer(output, adapted):
            return False
        if np.any(later.real_range[0] < low) or np.any(later.real_range[1] > high):
            return False
    return True


def _grid(
    graph: ir.Graph, value: ir.Value, params: QuantParams, names: ShortNames, *, is_rounded: bool
) -> list[ir.Node]:
    """Nodes that put a value on its grid, or only end it there. Their names are short, since a file has them several times."""
    step, (low, high) = _along(value, params, params.scale), (_along(value, params, end) for end in params.real_range)
    nodes: list[ir.Node] = []
    bounded: list[tuple[str, list[ArrayLike]]] = [("Max", [low]), ("Min", [high])]
    if not params.is_per_channel:
        bounded = [("Clip", [low, high])]
    rounded: list[tuple[str, list[ArrayLike]]] = [
        ("Mul", [_steps_in_one(step)]),
        ("Add", [0.5]),
        ("Floor", []),
        ("Mul", [step]),
    ]
    for op_type, numbers in bounded + (rounded if is_rounded else []):
        constants = [names.constant(graph, number) for number in numbers]
        source, name = nodes[-1].outputs[0] if nodes else value, names.next()
        node = ir.node(op_type, [source, *constants], name=name)
        result = node.outputs[0]
        result.name, result.shape, result.type = name, value.shape, value.type
        nodes.append(node)
    return nodes


def _steps_in_one(step: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often a step goes into 1; 0, with which all numbers become zero, where float32 has no number so large."""
    count = 1.0 / step
    return np.where(count <= np.finfo(np.float32).max, count, 0.0)


def _along(value: ir.Value, params: QuantParams, numbers: ArrayLike) -> NDArray[np.float64]:
    """A number, or one for each channel, in the shape that they are multiplied with a value in.

    Raises:
        ModelError: There is one for each channel, and the value may have any number of axes.
    """
    array = np.asarray(numbers, np.float64)
    if not params.is_per_channel:
        return array.reshape(())
    if value.shape is None:
        reason = "it has a step for each channel, and its number of axes is not known"
        raise ModelError(reason, where=f"tensor {value.name}", hint="give the sizes of the inputs with --inputShape")
    return array.reshape([-1 if axis == params.spec.axis else 1 for axis in range(len(value.shape))])


class ShortNames:
    """``grid_1``, ``grid_2`` and so on, which neither nodes nor values of a graph have.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._values = g.Names(graph)
        self._nodes = g.known_names(graph)
        self._count = 0

    def next(self) -> str:
        """A name for a node and its result."""
        name = self._values.unique(self._numbered())
        while name in self._nodes:
            name = self._values.unique(self._numbered())
        return name

    def constant(self, graph: ir.Graph, number: ArrayLike) -> ir.Value:
        """A float32 constant in the graph."""
        return g.add_initializer(graph, self._numbered(), np.asarray(number, np.float32), names=self._values)

    def _numbered(self) -> str:
        self._count += 1
        return f"grid_{self._count}"
