"""Raising a model's operator set version."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx import version_converter

from converter_lite.errors import ModelError
from converter_lite.graph import ALIASES, all_nodes, assign_names, opset
from converter_lite.passes.common import lift_constants
from converter_lite.passes.first_sets import RAISED
from converter_lite.passes.redefined import drop_values_of_pads, keep_definitions
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.skeleton import skeleton

_REFUSALS = (
    *(version_converter.ConvertError, onnx.shape_inference.InferenceError),
    *(RuntimeError, IndexError, ValueError, TypeError),
)
"""What the converter, a C++ extension, throws: its own errors, failed assertions, missing attributes."""


REDEFINED = frozenset({"GroupNormalization"})
"""Operators of set 20 that set 21 defines anew; it extends others to further types, and to attributes with neutral defaults."""


def declare_21(model: ir.Model) -> None:
    """Turn a model of operator set 20 into one of set 21 where no operator has to be converted, for a runtime of ours.

    Unlike :func:`raise_opset` it does not check the model or infer its shapes anew, most of the time of a short proof.
    """
    if opset(model) == 20 and REDEFINED.isdisjoint(node.op_type for node in all_nodes(model.graph)):
        model.graph.opset_imports[""] = 21
        model.ir_version = max(model.ir_version, minimal_ir_version(21))


def raise_opset(model: ir.Model, target: int) -> ir.Model:
    """The model with at least operator set ``target``; the same object when no operator changed in between.

    Names, aliases and ``meta`` of nodes and values carry over. Large constants never pass through the converter, so
    the model's size does not matter.

    Raises:
        ModelError: An operator cannot be expressed in the newer set.
    """
    if opset(model) >= target:
        return model
    model = change_opset(model, target)
    model.ir_version = max(model.ir_version, minimal_ir_version(target))
    return model


def change_opset(model: ir.Model, target: int) -> ir.Model:
    """The model at operator set ``target``, which may be lower than its own; the file version is left as it is.

    Raises:
        ModelError: An operator cannot be expressed there.
    """
    if changed_operators(model, target):
        model = _convert(model, opset(model), target)
    model.graph.opset_imports[""] = target
    return model


def minimal_ir_version(opset_version: int) -> int:
    """Oldest file format version that may carry this operator set; that of set 7 for older ones, some of which have none."""
    return int(onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", max(opset_version, RAISED))]))


def changed_operators(model: ir.Model, target: int) -> list[str]:
    """Operators of the model whose definition differs between its own operator set and ``target``."""
    current = opset(model)
    used = {node.op_type for node in all_nodes(model.graph) if not node.domain}
    return sorted(op for op in used if _since(op, current) != _since(op, target))


def _since(op_type: str, version: int) -> int:
    try:
        return int(onnx.defs.get_schema(op_type, version).since_version)
    except onnx.defs.SchemaError:
        return 0


def _convert(model: ir.Model, current: int, target: int) -> ir.Model:
    proto, detached = skeleton(model)
    proto.ir_version = max(proto.ir_version, minimal_ir_version(target))
    drop_values_of_pads(proto.graph)
    try:
        converted = ir.serde.deserialize_model(version_converter.convert_version(proto, target))
    except _REFUSALS as error:
        reason = str(error).strip().splitlines()[0].rpartition("failed: ")[2]
        raise ModelError(
            f"opset {current} cannot be {'raised' if target > current else 'lowered'} to {target}: {reason}",
            where=_first_refused(proto, target),
            hint=f"export the model again with opset {target}" + (" or newer" if target > current else " or older"),
        ) from error
    _reattach(converted.graph, detached)
    _carry_over(model, converted)
    lift_constants(converted)
    keep_definitions(converted, current, target)
    infer_shapes(converted)
    _carry_over_symbols(model, converted)
    assign_names(converted)
    return converted


def _first_refused(proto: onnx.ModelProto, target: int) -> str:
    """The first node that the converter refuses, found by halving."""
    nodes = list(proto.graph.node)
    accepted, refused = 0, len(nodes)
    del proto.graph.output[:]
    while refused - accepted > 1:
        middle = (accepted + refused) // 2
        del proto.graph.node[:]
        proto.graph.node.extend(nodes[:middle])
        try:
            version_converter.convert_version(proto, target)
            accepted = middle
        except _REFUSALS:
            refused = middle
    node = nodes[refused - 1]
    return f"{node.name} ({node.op_type})"


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


def _carry_over_symbols(old: ir.Model, new: ir.Model) -> None:
    """Keep the names of unknown sizes: equal names mean equal sizes, and inference may find fewer of them in the new set."""
    shapes = {value.name: value.shape for node in all_nodes(old.graph) for value in node.outputs}
    for node in all_nodes(new.graph):
        for value in node.outputs:
            before = shapes.get(value.name)
            if before is None or value.shape is None or len(before) != len(value.shape):
                continue
            value.shape = ir.Shape(
                [
                    now if isinstance(now, int) else _known(was, now)
                    for now, was in zip(value.shape, before, strict=True)
                ]
            )


def _known(first: int | ir.SymbolicDim, second: ir.SymbolicDim) -> int | ir.SymbolicDim:
    return first if isinstance(first, int) or first.value is not None else second
