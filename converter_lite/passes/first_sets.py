"""Operator sets 1 to 6 (2017 and 2018), which ONNX's own converter of versions raises in part only.

It knows no sets of operators such as Pad and Split of set 1, and refuses additions along an axis of channels, which most files
of these years have.

Source: the ONNX operator changelog. Numbers: ONNX's own records of models that PyTorch exported then
(``tests/passes/test_first_sets.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.passes.shapes import infer_shapes

RAISED = 7
"""The first operator set in which operators broadcast as NumPy does."""


def raise_first_sets(model: ir.Model) -> None:
    """Make a model of operator set 1 to 6 one of set 7, in place.

    A BatchNormalization or Dropout without the mark of a test (``is_test``) is taken for one, since files of these sets often
    lack it.

    Raises:
        ModelError: An operator depends on a size or a value that is computed.
    """
    version = g.opset(model)
    if version >= RAISED:
        return
    for node in g.all_nodes(model.graph):
        if node.domain:
            continue
        for name in _DROPPED.get(node.op_type, ()):
            node.attributes.pop(name, None)
        node.attributes.pop("consumed_inputs", None)
        since, rule = _RULES.get(node.op_type, (0, None))
        if rule is not None and version < since:
            rule(model.graph, node)
    model.graph.opset_imports[""] = RAISED
    _align(model, version)
    g.assign_names(model)


def _align(model: ir.Model, version: int) -> None:
    """Rewrite what needs the number of axes, as far as it is known, until nothing is left."""
    left = [node for node in g.all_nodes(model.graph) if _needs_rank(node, version)]
    while left:
        infer_shapes(model)
        still = []
        for node in left:
            first = node.inputs[0]
            if first is None or first.shape is None:
                still.append(node)
            elif node.op_type == "Tile":
                _list_repeats(model.graph, node, len(first.shape))
            else:
                _add_axes(node, len(first.shape))
                node.outputs[0].shape = node.outputs[0].shape or first.shape
        if len(still) == len(left):
            raise _refusal(still[0], "the number of axes of its input is unknown")
        left = still


def _needs_rank(node: ir.Node, version: int) -> bool:
    if node.op_type == "Tile":
        return version < 6
    if node.op_type == "PRelu":
        slope = g.static_shape(node.inputs[1])
        return slope is None or len(slope) == 1 != slope[0]
    if node.op_type not in _ELEMENTWISE:
        return False
    if not node.attributes.pop("broadcast", None):
        node.attributes.pop("axis", None)
    return "axis" in node.attributes


def _add_axes(node: ir.Node, rank: int) -> None:
    """Append axes of size 1 to the second operand, whose first axis lies at the one that the node names."""
    axis = 1 if node.op_type == "PRelu" else g.int_attribute(node, "axis", 0) % max(rank, 1)
    node.attributes.pop("axis", None)
    second = node.inputs[1]
    if second is None or second.shape is None:
        raise _refusal(node, "the number of axes of its second input is unknown")
    own = len(second.shape)
    if node.op_type == "PRelu" and own != 1:
        return
    appended = list(range(own, rank - axis))
    if appended and node.graph is not None:
        unsqueezed = ir.node("Unsqueeze", [second], attributes={"axes": appended}, name=f"{node.name}_axes")
        unsqueezed.outputs[0].name = g.unique_name(node.graph, f"{second.name}_axes")
        node.graph.insert_before(node, unsqueezed)
        node.replace_input_with(1, unsqueezed.outputs[0])


def _list_repeats(graph: ir.Graph, node: ir.Node, rank: int) -> None:
    """Tile: one number for each axis, where one axis and its number were given."""
    tiles, axis = (g.scalar(value) for value in node.inputs[1:3])
    if tiles is None or axis is None:
        raise _refusal(node, "what it repeats is computed")
    repeats = np.ones(rank, np.int64)
    repeats[int(axis)] = int(tiles)
    value = g.add_initializer(graph, f"{node.name}_repeats", repeats)
    node.resize_inputs(2)
    node.replace_input_with(1, value)


def _name_type(_: ir.Graph, node: ir.Node) -> None:
    """Cast: the number of a type, where its name was given."""
    name = str(g.attribute(node, "to"))
    if name not in ir.DataType.__members__:
        raise _refusal(node, f"there is no type {name!r}")
    node.attributes["to"] = ir.AttrInt64("to", ir.DataType[name].value)


def _join_channels(_: ir.Graph, node: ir.Node) -> None:
    """Concat: along axis 1 where none was given."""
    node.attributes.setdefault("axis", ir.AttrInt64("axis", 1))


def _store_shape(graph: ir.Graph, node: ir.Node) -> None:
    """Reshape: the shape is an input."""
    shape = np.array(g.ints_attribute(node, "shape"), np.int64)
    node.attributes.pop("shape", None)
    node.resize_inputs(2)
    node.replace_input_with(1, g.add_initializer(graph, f"{node.name}_shape", shape))


def _rename_pads(_: ir.Graph, node: ir.Node) -> None:
    """Pad: ``pads`` was called ``paddings``."""
    node.attributes["pads"] = ir.AttrInt64s("pads", g.ints_attribute(node, "paddings"))
    node.attributes.pop("paddings", None)


def _list_parts(_: ir.Graph, node: ir.Node) -> None:
    """Split: sizes of the parts are an attribute, where they could be an input as well."""
    if len(node.inputs) > 1:
        sizes = g.constant(node.inputs[1])
        if sizes is None:
            raise _refusal(node, "its parts are computed")
        node.attributes["split"] = ir.AttrInt64s("split", [int(size) for size in sizes.reshape(-1)])
        node.resize_inputs(1)


def _round_power(_: ir.Graph, node: ir.Node) -> None:
    """LpPool: the norm is a whole number."""
    power = g.float_attribute(node, "p", 2.0)
    if power != int(power):
        raise _refusal(node, f"a norm of {power} has no equal in newer sets")
    node.attributes["p"] = ir.AttrInt64("p", int(power))


def _keep_constants(_: ir.Graph, node: ir.Node) -> None:
    """Selu: constants had fewer digits."""
    for name, value in (("alpha", 1.6732), ("gamma", 1.0507)):
        node.attributes.setdefault(name, ir.AttrFloat32(name, value))


def _join_factors(_: ir.Graph, node: ir.Node) -> None:
    """Upsample: one factor for each axis, where height and width had one."""
    factors = [node.attributes.pop(name).as_float() for name in ("height_scale", "width_scale")]
    node.attributes["scales"] = ir.AttrFloat32s("scales", [1.0, 1.0, *factors])
    if g.attribute(node, "mode") == "bilinear":
        node.attributes["mode"] = ir.AttrString("mode", "linear")


def _refusal(node: ir.Node, reason: str) -> ModelError:
    return ModelError(
        f"an operator set before {RAISED} cannot be raised: {reason}",
        where=g.label(node),
        hint=f"export the model again with opset {RAISED} or newer",
    )


_ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"},
)
"""Operators whose second operand began at an axis of the first one that they name (``axis``), if they ``broadcast``."""

_RULES: dict[str, tuple[int, Callable[[ir.Graph, ir.Node], None]]] = {
    "Cast": (6, _name_type),
    "Concat": (4, _join_channels),
    "GlobalLpPool": (2, _round_power),
    "LpPool": (2, _round_power),
    "Pad": (2, _rename_pads),
    "Reshape": (5, _store_shape),
    "Selu": (6, _keep_constants),
    "Split": (2, _list_parts),
    "Upsample": (7, _join_factors),
}
"""Operator -> the set that defines it anew, and what makes a node of that set compute what it did before."""

_DROPPED = {
    "BatchNormalization": ("is_test",),
    "Dropout": ("is_test",),
    "GRU": ("output_sequence",),
    "Gemm": ("broadcast",),
    "LSTM": ("output_sequence",),
    "RNN": ("output_sequence",),
}
"""Attributes that say what is understood without them in newer sets."""
