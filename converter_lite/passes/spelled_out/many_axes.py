"""Operators on tensors of many axes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

MOST_AXES = 6
"""Axes up to which runtimes move elements."""

MOST_FOR_SOFTMAX = 5
"""Axes up to which they have a Softmax."""

ALONG_ONE_AXIS = 13
"""The first operator set in which Softmax works along one axis."""


@for_each("Transpose")
def spell_out_many_axes(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Transpose of more than six axes (windows of volumes, patches of videos) by one of fewer, or by a few of them.

    ::

        x (1, 4, 4, 8, 7, 7, 64) ─ Reshape (4, 4, 8, 7, 7, 64) ─ Transpose ─ Reshape ─ y

    Axes of one element are left out, and axes that stay together are one. Where more than six are left, one moves beforehand to
    where it stays together with others. Refused: unknown sizes.
    """
    value, shape = node.inputs[0], g.static_shape(node.inputs[0])
    if value is None or shape is None or len(shape) <= MOST_AXES or 0 in shape:
        return False
    order = g.ints_attribute(node, "perm") or tuple(reversed(range(len(shape))))
    wanted = [axis for axis in order if shape[axis] > 1]
    present = sorted(wanted)
    while len(_groups(present, wanted)) > MOST_AXES:
        nearer = min(_with_one_moved(present, wanted), key=lambda axes: len(_groups(axes, wanted)))
        value = _moved(graph, node, value, present, nearer)
        present = nearer
    value = _moved(graph, node, value, present, wanted)
    target = g.add_initializer(graph, f"{node.name}_shape", np.array([shape[axis] for axis in order], np.int64))
    replace([node], ir.node("Reshape", [value, target]))
    return True


@for_each("Softmax", "LogSoftmax", since=ALONG_ONE_AXIS)
def spell_out_deep_softmax(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Softmax or LogSoftmax of more than five axes by one of three: what is before the axis, it, and what is behind.

    Refused: unknown sizes, and operator sets in which it works along several axes.
    """
    value, shape = node.inputs[0], g.static_shape(node.inputs[0])
    if value is None or shape is None or len(shape) <= MOST_FOR_SOFTMAX:
        return False
    axis = g.int_attribute(node, "axis", -1) % len(shape)
    sizes = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    result = insert(graph, node, node.op_type, [reshaped(graph, node, value, sizes)], sizes, axis=1)
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(shape, np.int64))
    replace([node], ir.node("Reshape", [result, target]))
    return True


def _groups(present: list[int], wanted: list[int]) -> list[list[int]]:
    """Axes in the wanted order; those that follow each other in the present one, too, are a group."""
    groups: list[list[int]] = []
    for axis in wanted:
        if groups and present.index(axis) == present.index(groups[-1][-1]) + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _with_one_moved(present: list[int], wanted: list[int]) -> Iterator[list[int]]:
    """Every order of the axes that differs from the present one by the place of one group."""
    groups = sorted(_groups(present, wanted), key=lambda group: present.index(group[0]))
    for number, group in enumerate(groups):
        others = groups[:number] + groups[number + 1 :]
        for place in range(len(groups)):
            yield [axis for part in (*others[:place], group, *others[place:]) for axis in part]


def _moved(graph: ir.Graph, node: ir.Node, value: ir.Value, present: list[int], wanted: list[int]) -> ir.Value:
    """A Transpose of groups of axes; the axes are those of the input of ``node``."""
    shape, groups = g.static_shape(node.inputs[0]) or (), _groups(present, wanted)
    before = sorted(groups, key=lambda group: present.index(group[0]))
    sizes = [math.prod(shape[axis] for axis in group) for group in before]
    order = [before.index(group) for group in groups]
    taken = reshaped(graph, node, value, tuple(sizes))
    return insert(graph, node, "Transpose", [taken], [sizes[axis] for axis in order], perm=order)
