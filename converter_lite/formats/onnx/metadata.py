"""What exporters note down in a model, and no runtime reads."""

from __future__ import annotations

import onnx

EXPORTERS = "pkg."
"""How keys of exporters begin (``pkg.torch``, ``pkg.onnxscript``)."""


def drop_metadata(proto: onnx.ModelProto) -> None:
    """Remove notes about graphs, nodes and tensors, and exporters' notes about the model, in place.

    PyTorch's exporter notes for every node the lines of source code that made it, with the paths of the machine. What others
    wrote about the model as a whole stays: programs read names of classes, strides and licences there.
    """
    kept = [entry for entry in proto.metadata_props if not entry.key.startswith(EXPORTERS)]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    for function in proto.functions:
        _clear(function)
        _drop_from_nodes(function.node)
        for info in function.value_info:
            _clear(info)
    _drop_from_graph(proto.graph)


def _drop_from_graph(graph: onnx.GraphProto) -> None:
    _clear(graph)
    for sparse in graph.sparse_initializer:
        _clear(sparse.values)
        _clear(sparse.indices)
    for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        _clear(item)
    _drop_from_nodes(graph.node)


def _drop_from_nodes(nodes: list[onnx.NodeProto]) -> None:
    for node in nodes:
        _clear(node)
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
            if attribute.HasField("t"):
                _clear(attribute.t)
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                _drop_from_graph(graph)


def _clear(
    item: onnx.GraphProto | onnx.NodeProto | onnx.ValueInfoProto | onnx.TensorProto | onnx.FunctionProto,
) -> None:
    item.ClearField("doc_string")
    item.ClearField("metadata_props")
