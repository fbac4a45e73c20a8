"""The layout of four-dimensional outputs, as the user asked for it: a Transpose at the border."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g

PERMUTATIONS = {"NHWC": (0, 2, 3, 1), "NCHW": (0, 3, 1, 2)}
"""Layout -> where its axes are in the other one."""


def change_output_layout(model: ir.Model, wanted: str) -> list[str]:
    """Transpose every four-dimensional output to a layout, from the other one, in place.

    Returns:
        The names of those outputs.
    """
    graph, names = model.graph, g.Names(model.graph)
    changed = []
    for value in dict.fromkeys(graph.outputs):
        if value.shape is None or len(value.shape) != 4 or value.producer() is None:
            continue
        name, order = str(value.name), PERMUTATIONS[wanted]
        value.name = names.unique(f"{name}_computed")
        transpose = ir.node("Transpose", [value], attributes={"perm": order}, name=f"{name}_{wanted.lower()}")
        result = transpose.outputs[0]
        result.name, result.type = name, value.type
        result.shape = ir.Shape([value.shape[axis] for axis in order])
        graph.append(transpose)
        g.replace_output(graph, value, result)
        changed.append(name)
    return changed
