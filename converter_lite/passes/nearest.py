"""Resizes to nearest elements, as frameworks compute them that multiply places by the ratio of the sizes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.interpolation import nearest_by_ratio, nearest_of_onnx
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.spelled_out.inserting import insert

MODES = {"asymmetric": "floor", "half_pixel": "round_prefer_ceil", "align_corners": "round_prefer_ceil"}
"""How places are mapped -> how they are rounded in the frameworks."""

SCALES = 2
"""Place of the factors among the inputs."""

FIRST_SIDE = 2
"""The first axis behind batch and channels."""


def gather_by_ratio(model: ir.Model) -> int:
    """Replace each Resize to a size with Gathers where ONNX, which divides by the inverse, takes other elements.

    Factors stay: of which number in float64 they were made is not known.

    Returns:
        How many were.
    """
    found = [
        node for node in model.graph if is_op(node, "Resize") and g.text_attribute(node, "mode", "nearest") == "nearest"
    ]
    if found:
        infer_shapes(model)
    return sum(_gather(model.graph, node) for node in found)


def _gather(graph: ir.Graph, node: ir.Node) -> bool:
    x, before, after = node.inputs[0], _sides(node.inputs[0]), _sides(node.outputs[0])
    transform = g.text_attribute(node, "coordinate_transformation_mode", "half_pixel")
    rounding = g.text_attribute(node, "nearest_mode", "round_prefer_floor")
    given = node.inputs[SCALES] if len(node.inputs) > SCALES else None
    factors = g.constant(given) if given is not None else np.zeros(0)
    if x is None or not before or len(before) != len(after) or MODES.get(transform) != rounding:
        return False
    if "axes" in node.attributes or factors is None or factors.size:
        return False
    sides = list(zip(before, after, strict=True))
    wanted = [nearest_by_ratio(transform, size, result) for size, result in sides]
    if wanted == [nearest_of_onnx(transform, rounding, size, result) for size, result in sides]:
        return False
    shape = [*(x.shape or ())]
    for axis, elements in enumerate(wanted, FIRST_SIDE):
        index = g.add_initializer(graph, f"{node.name}_axis_{axis}", np.array(elements, np.int64))
        shape[axis] = len(elements)
        x = insert(graph, node, "Gather", [x, index], shape, axis=axis)
    replace([node], ir.node("Identity", [x]))
    return True


def _sides(value: ir.Value | None) -> list[int]:
    """Sizes of a picture behind batch and channels, which no framework resizes; nothing where one is not known."""
    sides = list(value.shape or ())[FIRST_SIDE:] if value is not None else []
    known = [side for side in sides if isinstance(side, int) and side > 0]
    return known if len(known) == len(sides) else []
