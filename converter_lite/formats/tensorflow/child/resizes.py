"""Resizes that tf2onnx writes otherwise than TensorFlow computes them.

It divides the sizes, and 22 times float32(21 / 22) is below 21; it picks elements where TensorFlow averages areas, takes the
lower of two equally near ones where TensorFlow crops, and has one cubic function where TensorFlow has two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from converter_lite.formats.child import Refusal

STRING = 3
"""``AttributeProto.STRING``."""


def refuse_other_resizes(operations: Iterable[Any], static_value: Callable[[Any], Any]) -> None:
    """Refuse averages of areas, but where each area is one element repeated, and cubic functions as before TensorFlow 2.

    Args:
        operations: Of a graph of TensorFlow.
        static_value: The numbers of a tensor, or ``None``.

    Raises:
        Refusal: There is one.
    """
    for operation in operations:
        if operation.type == "ResizeBicubic" and not operation.get_attr("half_pixel_centers"):
            raise Refusal(
                f"ONNX has no counterpart of ResizeBicubic without half_pixel_centers (node {operation.name})",
                "resize with tf.image.resize of TensorFlow 2, or with another method, such as bilinear",
            )
        if operation.type != "ResizeArea":
            continue
        given, wanted = operation.inputs[0].shape.as_list()[1:3], static_value(operation.inputs[1])
        is_known = wanted is not None and None not in given
        if not is_known or operation.get_attr("align_corners") or any(np.asarray(wanted) % given):
            raise Refusal(
                f"ONNX has no counterpart of ResizeArea (node {operation.name}): a resize with method 'area'",
                "resize with another method, such as bilinear, or average with pooling layers",
            )


def name_half_pixels(graph: Any) -> None:
    """Say in each Resize of a graph of tf2onnx how it rounds with words that the operator has since set 13."""
    for node in graph.get_nodes():
        mode = node.get_attr("coordinate_transformation_mode") if node.type == "Resize" else None
        if mode is not None and mode.s == b"tf_half_pixel_for_nn":
            node.set_attr("coordinate_transformation_mode", "half_pixel")
            node.set_attr("nearest_mode", "round_prefer_ceil")


def round_up_crops(nodes: Iterable[Any]) -> None:
    """Let nodes of ONNX that crop and resize to nearest elements take the upper of two equally near ones."""
    for node in nodes:
        words = {attribute.name: attribute.s for attribute in node.attribute}
        is_crop = words.get("coordinate_transformation_mode") == b"tf_crop_and_resize"
        if is_crop and words.get("mode") == b"nearest" and "nearest_mode" not in words:
            node.attribute.add(name="nearest_mode", type=STRING, s=b"round_prefer_ceil")


def state_sizes(graph: Any) -> None:
    """Give each Resize of a graph of tf2onnx the sizes instead of the factors, where those are less by rounding."""
    for node in graph.get_nodes():
        if node.type != "Resize" or len(node.input) != 3 or not node.inputs[2].is_const():
            continue
        shape, factors = graph.get_shape(node.input[0]), node.inputs[2].get_tensor_value(as_list=False)
        if not shape or min(shape[2:]) < 1:
            continue
        pairs = list(zip(shape[2:], factors[2:], strict=True))
        wanted = [round(size * float(factor)) for size, factor in pairs]
        if wanted != [math.floor(size * float(factor)) for size, factor in pairs]:
            _state(graph, node, wanted)


def _state(graph: Any, node: Any, wanted: list[int]) -> None:
    """Sizes of the input for the first two axes, and these for the others."""

    def constant(name: str, values: list[int]) -> str:
        return str(graph.make_const(f"{node.name}/{name}", np.array(values, np.int64)).output[0])

    shape = graph.make_node("Shape", [node.input[0]], name=f"{node.name}/shape").output[0]
    bounds = [constant("begin", [0]), constant("end", [2])]
    outer = graph.make_node("Slice", [shape, *bounds], name=f"{node.name}/outer").output[0]
    sizes = graph.make_node(
        "Concat", [outer, constant("inner", wanted)], attr={"axis": 0}, name=f"{node.name}/sizes"
    ).output[0]
    graph.replace_inputs(node, [*node.input[:2], "", sizes])
    graph.set_shape(node.output[0], [*graph.get_shape(node.input[0])[:2], *wanted])
