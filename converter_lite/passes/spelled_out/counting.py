"""Places counted from the front: ONNX counts those below zero from the end, runtimes read or write in front of the tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.spelled_out.inserting import insert

NEVER_BELOW_ZERO = frozenset(
    {"Abs", "ArgMax", "ArgMin", "Exp", "NonZero", "Relu", "Shape", "Sigmoid", "Size", "Softmax", "Sqrt"}
)
"""Operators no result of which is below zero."""

COUNTED = "counted from the front"
"""Key under which places that are not below zero remember it."""

FOLLOWED: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Add", "Concat", "Div", "Min", "Mul", "Sum"), None),
    **dict.fromkeys(("Cast", "Ceil", "CumSum", "Flatten", "Floor", "Identity", "Round", "Trilu"), (0,)),
    **dict.fromkeys(("Expand", "Gather", "GatherElements", "GatherND", "Reshape", "Slice", "Split", "Tile"), (0,)),
    **dict.fromkeys(("Squeeze", "Transpose", "Unsqueeze"), (0,)),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), (0,)),
    **dict.fromkeys(("ScatterElements", "ScatterND"), (0, 2)),
    "Clip": (1,),  # its lower bound
    "Mod": (1,),  # the sign of a remainder is that of the divisor
    "Pad": (0, 2),
    "Range": (0, 1),  # from the first one, or down to the last one
    "Where": (1, 2),
}
"""Operator -> inputs (all of them where nothing is said) that decide: if none of them is below zero, no result is."""


def counted(
    graph: ir.Graph, node: ir.Node, places: ir.Value, sizes: Sequence[int], *, trusted_inputs: bool = False
) -> ir.Value:
    """Places, to each of which below zero the size of its axis is added; the same ones where none is.

    ``trusted_inputs``: inputs of the model, such as the numbers of words, count from the front already.
    """
    kind, shape, stored = places.dtype or ir.DataType.INT64, g.static_shape(places), g.constant(places)
    whole = np.array(sizes[0] if len(sizes) == 1 else sizes, kind.numpy())  # places may be a single number
    if stored is not None:
        return places if (stored >= 0).all() else g.add_initializer(graph, f"{places.name}_counted", stored % whole)
    if is_from_the_front(places, trusted_inputs=trusted_inputs):
        return places
    places.meta[g.LENGTH] = min(*sizes, places.meta.get(g.LENGTH, sizes[0]))
    zero = g.add_initializer(graph, f"{node.name}_zero", np.array(0, kind.numpy()))
    below = insert(graph, node, "Less", [places, zero], shape)
    number = insert(graph, node, "Cast", [below], shape, to=kind.value)
    added = insert(graph, node, "Mul", [number, g.add_initializer(graph, f"{node.name}_sizes", whole)], shape)
    result = insert(graph, node, "Add", [places, added], shape)
    below.type = ir.TensorType(ir.DataType.BOOL)
    number.type = added.type = result.type = ir.TensorType(kind)
    result.meta[COUNTED] = True
    return result


def is_from_the_front(places: ir.Value, *, trusted_inputs: bool) -> bool:
    """Whether no place can be below zero, as far as its operators tell."""
    waiting, seen = [places], set()
    while waiting:
        value = waiting.pop()
        if value in seen or COUNTED in value.meta or value.dtype is ir.DataType.BOOL:
            continue
        seen.add(value)
        stored, producer = g.constant(value), value.producer()
        if stored is not None:
            decided = bool((stored >= 0).all())
        elif producer is None:
            decided = trusted_inputs
        elif producer.op_type == "Max":
            decided = any(bound is not None and (bound >= 0).all() for bound in map(g.constant, producer.inputs))
        elif producer.op_type == "TopK":
            decided = value is producer.outputs[1]  # the places; values may be anything
        else:
            decided = producer.op_type in NEVER_BELOW_ZERO
        if decided:
            continue
        if stored is not None or producer is None or producer.op_type not in FOLLOWED:
            return False
        if (producer.op_type == "Mod" and g.int_attribute(producer, "fmod", 0)) or not (inputs := _followed(producer)):
            return False
        waiting += inputs
    return True


def _followed(node: ir.Node) -> list[ir.Value]:
    places = FOLLOWED[node.op_type]
    inputs = node.inputs if places is None else [g.input_at(node, place) for place in places]
    return [value for value in inputs if value is not None]
