"""A model as a small protobuf message, for the C++ parts of ``onnx`` that only look at structure."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

DETACH_ABOVE = 1024
"""Bytes; larger constants are declared as inputs of the skeleton. Shapes, axes and bounds are smaller and stay."""


def skeleton(model: ir.Model) -> tuple[onnx.ModelProto, dict[str, ir.Value]]:
    """The main graph as a message without its large constants, and these constants by name.

    Large constants become inputs with their type and shape, so the message stays small whatever the model's size.
    Recorded shapes of intermediate values are left out, except behind operators of other domains, whose shapes
    nothing can infer again.
    """
    graph = model.graph
    proto = onnx.ModelProto(ir_version=model.ir_version, producer_name=model.producer_name or "")
    for domain, version in graph.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.graph.name = graph.name or "graph"
    detached: dict[str, ir.Value] = {}
    for value in graph.inputs:
        proto.graph.input.append(ir.serde.serialize_value(value))
    for name, value in graph.initializers.items():
        _add_constant(proto.graph, name, value, detached)
    for node in graph:
        proto.graph.node.append(ir.serde.serialize_node(node))
        if node.domain:
            described = [v for v in node.outputs if v.name and v.type is not None and not v.is_graph_output()]
            proto.graph.value_info.extend(ir.serde.serialize_value(v) for v in described)
    for value in graph.outputs:
        proto.graph.output.append(ir.serde.serialize_value(value))
    return proto, detached


def _add_constant(proto: onnx.GraphProto, name: str, value: ir.Value, detached: dict[str, ir.Value]) -> None:
    tensor = value.const_value
    if tensor is None:
        return
    if tensor.nbytes <= DETACH_ABOVE or tensor.dtype == ir.DataType.STRING:
        message = ir.serde.serialize_tensor(tensor)
        message.name = name
        proto.initializer.append(message)
        return
    if not value.is_graph_input():
        shape = list(tensor.shape.numpy())
        proto.input.append(onnx.helper.make_tensor_value_info(name, int(tensor.dtype), shape))
    detached[name] = value


def graphs_of(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph, and those in its nodes."""
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
            yield from graphs_of(inner)
