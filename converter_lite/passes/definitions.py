"""Operators that ONNX defines by others, replaced by their definition."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import onnx_ir.passes.common as library

from converter_lite.graph import ALIASES, assign_names, opset
from converter_lite.passes.common import lift_constants
from converter_lite.passes.rewrite import is_op
from converter_lite.passes.shapes import infer_shapes

LARGER = frozenset({"LayerNormalization"})
"""Operators whose definition is needed for the outputs behind the first."""

DOMAIN = "converter_lite.definitions"
"""Of functions that exist while they are inlined."""


def inline_definitions(model: ir.Model, operators: frozenset[str]) -> int:
    """Replace nodes of these operators by what the ONNX standard defines them as; returns how many there were.

    The nodes of a definition are found under the names of the node that it stands for.
    """
    total = 0
    while replaced := _inline_once(model, operators):  # definitions have such operators themselves
        total += replaced
    return total


def _inline_once(model: ir.Model, operators: frozenset[str]) -> int:
    aliases: dict[str, set[str]] = {}
    replaced, version = 0, opset(model)
    for node in model.graph:
        if is_op(node, *operators) and (node.op_type not in LARGER or len(node.outputs) > 1):
            body = _definition(node, version)
            if body is not None:
                aliases |= _call(model, node, body, version)
                replaced += 1
    if replaced:
        library.InlinePass()(model)
        model.graph.opset_imports.pop(DOMAIN, None)
        for node in model.graph:
            node.meta.setdefault(ALIASES, set()).update(aliases.get(node.name or "", ()))
        lift_constants(model)
        assign_names(model)
        infer_shapes(model)
    return replaced


def _definition(node: ir.Node, version: int) -> onnx.FunctionProto | None:
    """What the standard says, in the newest operator set up to the model's; ``None``: nothing about these inputs.

    Attributes that the node leaves out are added.
    """
    schema: Any = onnx.defs.get_schema(node.op_type, version)
    for name, attribute in schema.attributes.items():
        if name not in node.attributes and attribute.default_value.name:
            node.attributes.add(ir.serde.deserialize_attribute(attribute.default_value))
    if any(value is not None and value.type is None for value in node.inputs):
        return None
    fitting = [known for known in schema.context_dependent_function_opset_versions if known <= version]
    if fitting:
        types = [_type(value) for value in node.inputs]
        message = ir.serde.serialize_node(node).SerializeToString()
        content = schema.get_context_dependent_function_with_opset_version(max(fitting), message, types)
    else:
        fitting = [known for known in schema.function_opset_versions if known <= version]
        content = schema.get_function_with_opset_version(max(fitting)) if fitting else b""
    body = onnx.FunctionProto.FromString(content)
    del body.output[len(node.outputs) :]
    made = {name for inner in body.node for name in inner.output}
    return body if body.node and made.issuperset(body.output) else None


def _type(value: ir.Value | None) -> bytes:
    message = onnx.TypeProto()
    if value is not None:
        message.CopyFrom(ir.serde.serialize_value(value).type)
    return message.SerializeToString()


def _call(model: ir.Model, node: ir.Node, body: onnx.FunctionProto, version: int) -> dict[str, set[str]]:
    """Make the node a call of its definition; returns the names of the nodes inside, each with those of the node."""
    body.domain, body.name, body.overload = DOMAIN, node.op_type, str(len(model.functions))
    for entry in body.opset_import:
        entry.version = version if entry.domain == "" else entry.version
    for index, inner in enumerate(body.node):
        inner.name = f"{node.name}/{inner.op_type}_{index}"
    function = ir.serde.deserialize_function(body)
    model.functions[function.identifier()] = function
    node.domain, node.overload = DOMAIN, body.overload
    model.graph.opset_imports.setdefault(DOMAIN, 1)
    return {inner.name: {node.name or "", *node.meta.get(ALIASES, ())} for inner in body.node}
