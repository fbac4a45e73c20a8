"""Operators that a newer operator set defines anew, and that ONNX's own converter of versions leaves as they are.

Found by running one-operator models of each definition in onnxruntime before and after (``tests/passes/test_redefined.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.passes.rewrite import replace
from converter_lite.passes.skeleton import graphs_of


def drop_values_of_pads(graph: onnx.GraphProto) -> None:
    """Remove the value to pad with where no value is used, in place: the converter would leave an attribute that has gone."""
    for node in (node for inner in graphs_of(graph) for node in inner.node):
        given = {attribute.name: attribute for attribute in node.attribute} if node.op_type == "Pad" else {}
        if "value" in given and "mode" in given and given["mode"].s != b"constant":
            node.attribute.remove(given["value"])


def keep_definitions(model: ir.Model, current: int, target: int) -> None:
    """Make nodes compute what they did in operator set ``current``, in place; the model is one of set ``target``.

    Raises:
        ModelError: No node of the newer set computes it.
    """
    due = {operator: keep for operator, (since, keep) in _KEEP.items() if current < since <= target}
    if not due:
        return
    for node in list(g.all_nodes(model.graph)):
        if node.op_type in due and not node.domain:
            due[node.op_type](model.graph, node)


def _keep_positions(_: ir.Graph, node: ir.Node) -> None:
    """Name the positions of what was an Upsample, or a Resize of set 10.

    An output element is at its place divided by the factor; mode nearest rounds down where a picture grows, and up where it
    shrinks.

    Source: onnxruntime, as run; the older specification leaves the positions open.
    """
    factors = g.constant(node.inputs[-1])
    least, most = (1.0, 1.0) if factors is None or not factors.size else (factors.min(), factors.max())
    node.attributes["coordinate_transformation_mode"] = ir.AttrString("coordinate_transformation_mode", "asymmetric")
    if g.text_attribute(node, "mode", "nearest") != "nearest":
        return
    if least < 1 < most:
        raise ModelError(
            "it shrinks one axis and stretches another, which sets from 11 on do not do in mode nearest",
            where=f"{node.name} (Resize)",
            hint="export the model again with opset 11 or newer",
        )
    node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "ceil" if least < 1 else "floor")


def _keep_columns(_: ir.Graph, node: ir.Node) -> None:
    """Hardmax finds one maximum among all elements from its axis on, as of a matrix."""
    value = node.inputs[0]
    axis = g.int_attribute(node, "axis", 1)
    if value is None or (value.shape is not None and axis % max(len(value.shape), 1) == len(value.shape) - 1):
        node.attributes["axis"] = ir.AttrInt64("axis", -1)
        return
    flat = ir.node("Flatten", [value], attributes={"axis": axis})
    chosen = ir.node("Hardmax", [flat.outputs[0]], attributes={"axis": -1})
    shape = ir.node("Shape", [value])
    if node.graph is not None:
        node.graph.insert_before(node, [flat, chosen, shape])
    replace([node], ir.node("Reshape", [chosen.outputs[0], shape.outputs[0]]))


def _give_channels(graph: ir.Graph, node: ir.Node) -> None:
    """GroupNormalization reads a scale and a bias for each channel, where it read one for each group."""
    value, groups = node.inputs[0], g.int_attribute(node, "num_groups", 1)
    channels = value.shape[1] if value is not None and value.shape is not None else None
    for place in (1, 2):
        array = g.constant(node.inputs[place])
        if array is None or not isinstance(channels, int):
            raise ModelError(
                "a scale or bias per group that is computed, or an unknown number of channels, cannot be given to set 21",
                where=f"{node.name} (GroupNormalization)",
                hint="export the model again with opset 21 or newer",
            )
        if array.size == groups != channels:
            repeated = np.repeat(array, channels // groups)
            node.replace_input_with(place, g.add_initializer(graph, f"{node.name}_{place}_per_channel", repeated))


_KEEP: dict[str, tuple[int, Callable[[ir.Graph, ir.Node], None]]] = {
    "Resize": (11, _keep_positions),
    "Hardmax": (13, _keep_columns),
    "GroupNormalization": (21, _give_channels),
}
"""Operator -> the set that defines it anew, and what makes a node of that set compute what it did before."""
