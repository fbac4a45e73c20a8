"""Raising a model's operator set version."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import version_converter

from converter_lite.errors import ModelError
from converter_lite.graph import ALIASES, all_nodes, assign_names, opset
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.skeleton import skeleton

_REFUSALS = (version_converter.ConvertError, RuntimeError, IndexError, ValueError, TypeError)
"""What the converter, a C++ extension, throws: its own error, failed assertions, missing attributes."""


def raise_opset(model: ir.Model, target: int) -> ir.Model:
    """The model with at least operator set ``target``; the same object when no operator changed in between.

    Names, aliases and ``meta`` of nodes and values carry over. Large constants never pass through the converter, so
    the model's size does not matter.

    Raises:
        ModelError: An operator cannot be expressed in the newer set.
    """
    current = opset(model)
    if current >= target:
        return model
    changed = changed_operators(model, target)
    if changed:
        model = _convert(model, current, target, changed)
    model.graph.opset_imports[""] = target
    model.ir_version = max(model.ir_version, minimal_ir_version(target))
    return model


def minimal_ir_version(opset_version: int) -> int:
    """Oldest file format version that may carry this operator set."""
    return int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset_version)]))


def changed_operators(model: ir.Model, target: int) -> list[str]:
    """Operators of the model whose definition differs between its own operator set and ``target``."""
    current = opset(model)
    used = {node.op_type for node in all_nodes(model.graph) if node.domain in ("", "ai.onnx")}
    return sorted(op for op in used if _since(op, current) != _since(op, target))


def _since(op_type: str, version: int) -> int:
    try:
        return int(onnx.defs.get_schema(op_type, version).since_version)
    except onnx.defs.SchemaError:
        return 0


def _convert(model: ir.Model, current: int, target: int, changed: list[str]) -> ir.Model:
    proto, detached = skeleton(model)
    proto.ir_version = max(proto.ir_version, minimal_ir_version(target))
    try:
        converted = ir.serde.deserialize_model(version_converter.convert_version(proto, target))
    except _REFUSALS as error:
        culprits = [op for op in changed if op in str(error)] or changed
        raise ModelError(
            f"the model's opset {current} cannot be raised to {target}: {str(error).strip().splitlines()[0]}",
            where=", ".join(culprits),
            hint=f"export the model again with opset {target} or newer",
        ) from error
    _reattach(converted.graph, detached)
    _carry_over(model, converted)
    infer_shapes(converted)
    assign_names(converted)
    return converted


def _reattach(graph: ir.Graph, detached: dict[str, ir.Value]) -> None:
    for value in [v for v in graph.inputs if v.name in detached]:
        graph.inputs.remove(value)
        value.const_value = detached[value.name or ""].const_value
        graph.register_initializer(value)


def _carry_over(old: ir.Model, new: ir.Model) -> None:
    new.metadata_props.update(old.metadata_props)
    new.producer_name, new.producer_version = old.producer_name, old.producer_version
    new.graph.name = old.graph.name
    nodes = {node.name: node for node in all_nodes(old.graph)}
    values = {value.name: value for node in nodes.values() for value in node.outputs}
    for node in all_nodes(new.graph):
        if node.name in nodes:
            node.meta.update(nodes[node.name].meta)
            node.meta[ALIASES] = set(nodes[node.name].meta.get(ALIASES, ()))
        for value in node.outputs:
            if value.name in values:
                value.meta.update(values[value.name].meta)
                value.shape = value.shape or values[value.name].shape
