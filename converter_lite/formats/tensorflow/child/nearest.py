"""Resizes to nearest elements: TensorFlow takes those at places times a ratio, ONNX those at places by its inverse.

In float32 one in thirty pairs of sizes has other elements then.

Source: ``resize_nearest_neighbor_op.cc`` and ``image_resizer_state.h`` of TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from converter_lite.kernels.interpolation import nearest_by_ratio, nearest_of_onnx


def gather_nearest(graph: Any, operations: Iterable[Any]) -> None:
    """Make each such resize of a GraphDef two Gathers where ONNX's Resize would take other elements.

    Args:
        graph: It is changed.
        operations: Of the same graph.
    """
    by_name = {node.name: node for node in graph.node}
    for operation in operations:
        if operation.type != "ResizeNearestNeighbor" or operation.inputs[0].shape.rank is None:
            continue
        given, wanted = operation.inputs[0].shape.as_list()[1:3], tf.get_static_value(operation.inputs[1])
        if wanted is None or None in given or 0 in given:
            continue
        is_aligned, is_centred = (operation.get_attr(name) for name in ("align_corners", "half_pixel_centers"))
        transform = "align_corners" if is_aligned else "half_pixel" if is_centred else "asymmetric"
        rounding = "floor" if transform == "asymmetric" else "round_prefer_ceil"
        sides = [(int(size), int(result)) for size, result in zip(given, wanted, strict=True)]
        own = [nearest_by_ratio(transform, *side) for side in sides]
        if own != [nearest_of_onnx(transform, rounding, *side) for side in sides]:
            _gather(graph, by_name[operation.name], own)


def _gather(graph: Any, node: Any, elements: list[list[int]]) -> None:
    """Rows, and then columns, of a picture."""
    kind, value, number = node.attr["T"].type, node.input[0], tf.int32.as_datatype_enum
    rows = graph.node.add(name=f"{node.name}/rows")
    for made, axis, index in zip((rows, node), (1, 2), elements, strict=True):
        inputs = [value]
        for name, array in (("elements", np.array(index, np.int32)), ("axis", np.array(axis, np.int32))):
            stored = graph.node.add(name=f"{made.name}/{name}", op="Const")
            stored.attr["dtype"].type = number
            stored.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
            inputs.append(stored.name)
        made.op, value = "GatherV2", made.name
        made.ClearField("attr")
        made.attr["Tparams"].type, made.attr["Tindices"].type, made.attr["Taxis"].type = kind, number, number
        del made.input[:]
        made.input.extend(inputs)
