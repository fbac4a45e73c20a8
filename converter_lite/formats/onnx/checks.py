"""What is checked of a file before any work: that it is complete, supported, and a valid graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import onnx
import onnx_ir as ir

from converter_lite.errors import ModelError, nearest
from converter_lite.formats.onnx.external import PlacedTensor
from converter_lite.formats.onnx.functions import check_functions, refuse_graph_parameters
from converter_lite.graph import all_nodes, assign_names, label, opset
from converter_lite.passes.skeleton import graphs_of
from converter_lite.system.confinement import is_inside

DAMAGED = "the file is not an ONNX model, or it is damaged"

WINDOWED = frozenset(
    {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"}
)
"""Operators on tensors of batch, channel and at least one more axis."""

DEFAULT_OPSET = 13
"""The standard operator set for a file that imports only sets of other domains."""


def check_model(model: ir.Model, path: Path, *, confined: bool = True) -> None:
    """Name the nodes of a freshly loaded model, and refuse a model that later steps could not handle.

    Args:
        model: The model.
        path: Its file.
        confined: Refuse external data outside the folder of the file.

    Raises:
        ModelError: The file is damaged or no model at all, its external data are missing, or it uses an operator or an
            operator set that is unknown.
    """
    if not model.ir_version or not model.graph.opset_imports:
        raise ModelError(DAMAGED, where=str(path), hint="it names no format version or no operator set")
    if not len(model.graph):
        raise ModelError("the model has no nodes", where=str(path))
    refuse_graph_parameters(model, where=str(path))
    _check_text(model, path)
    assign_names(model)
    _check_opset(model, path)
    _check_operators(model, path)
    _check_attributes(model, path)
    _check_links(model, path)
    check_functions(model, where=str(path))
    _check_tensors(model, path, confined=confined)


def refuse_repeated_names(proto: onnx.ModelProto, path: Path) -> None:
    """Refuse several constants with one name: runtimes take the first, the last, or none of them.

    Raises:
        ModelError: Their name.
    """
    seen: set[str] = set()
    for tensor in proto.graph.initializer:
        if tensor.name in seen:
            raise ModelError(
                f"several initializers are called {tensor.name!r}", where=str(path), hint="give each a name of its own"
            )
        seen.add(tensor.name)


def refuse_unreadable_values(proto: onnx.ModelProto, path: Path) -> None:
    """Refuse what onnx_ir drops without a word, or cannot name: maps, sparse constants, external data at no place of a file.

    Raises:
        ModelError: The name of the value.
    """
    for graph in graphs_of(proto.graph):
        for name in _sparse_constants(graph):
            raise ModelError(
                f"{name} is a sparse tensor, which is not read",
                where=str(path),
                hint="save the model with all its numbers, zeros too",
            )
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("map_type") or value.type.sequence_type.elem_type.HasField("map_type"):
                raise ModelError(
                    f"{value.name!r} holds maps, which are not read",
                    where=str(path),
                    hint="export the model without them (options={'zipmap': False} in skl2onnx)",
                )
        for tensor in _proto_tensors(graph):
            for entry in tensor.external_data:
                if entry.key in ("offset", "length") and not (entry.value.isascii() and entry.value.isdigit()):
                    raise ModelError(
                        f"the {entry.key} of the external data of tensor {tensor.name!r} is no number of bytes: "
                        f"{entry.value!r}",
                        where=str(path),
                        hint="save the model again",
                    )


def _sparse_constants(graph: onnx.GraphProto) -> Iterator[str]:
    """What is sparse in a graph, as a message names it."""
    yield from (f"initializer {sparse.values.name!r}" for sparse in graph.sparse_initializer)
    for node in graph.node:
        if any(attribute.HasField("sparse_tensor") for attribute in node.attribute):
            yield f"constant {node.output[0]!r}"


def _proto_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Constants of a graph: initializers, and tensors in attributes."""
    yield from graph.initializer
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)


def _check_text(model: ir.Model, path: Path) -> None:
    """Protobuf returns names that are not UTF-8 as bytes."""
    for text in _texts(model):
        if isinstance(text, bytes):
            raise ModelError(DAMAGED, where=str(path), hint=f"the name {text!r} is not valid text")


def _texts(model: ir.Model) -> Iterator[object]:
    yield from model.graph.opset_imports
    yield from model.graph.initializers
    for value in (*model.graph.inputs, *model.graph.outputs):
        yield value.name
        yield from (dim.value for dim in value.shape or () if not isinstance(dim, int))
    for domain, name, overload in model.functions:
        yield from (domain, name, overload)
    for node in _nodes(model):
        yield from (node.name, node.op_type, node.domain, *node.attributes)
        yield from (value.name for value in (*node.inputs, *node.outputs) if value is not None)


def _check_links(model: ir.Model, path: Path) -> None:
    """Check that every value that is read is computed, an input, or stored, and that nothing depends on itself."""
    for node in _nodes(model):
        for value in node.inputs:
            if value is not None and not _has_source(value):
                raise ModelError(f"{label(node)} reads '{value.name}', which nothing computes", where=str(path))
    for value in (value for graph in _graphs(model) for value in graph.outputs):
        if not _has_source(value):
            raise ModelError(f"nothing computes the output '{value.name}'", where=str(path))
    try:
        model.graph.sort()
    except ValueError as error:
        raise ModelError("the graph has a cycle", where=str(path)) from error


def _has_source(value: ir.Value) -> bool:
    return value.producer() is not None or value.is_graph_input() or value.is_initializer()


def _check_tensors(model: ir.Model, path: Path, *, confined: bool) -> None:
    """Report missing or short data now, not when a weight is used. From here on external data have their resolved path."""
    for name, tensor, put in stored_tensors(model):
        if any(size < 0 for size in tensor.shape.numpy()):
            raise ModelError(f"tensor '{name}' has a negative size: {list(tensor.shape.numpy())}", where=str(path))
        if isinstance(tensor, ir.ExternalTensor):
            _check_description(tensor, name, str(path))
            if confined:
                _check_place(tensor, path)
            _check_external_tensor(tensor, path)
            put(_resolved(tensor, path))
        else:
            _check_embedded_tensor(tensor, name, str(path))


Put = Callable[[ir.ExternalTensor], None]


def external_files(model: ir.Model) -> tuple[Path, ...]:
    """Files with tensors of a model, in the order of their names."""
    tensors = (tensor for _, tensor, _ in stored_tensors(model))
    return tuple(sorted({Path(tensor.path) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}))


def stored_tensors(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol, Put]]:
    """Initializers and tensors in attributes, those of local functions too: its name, the tensor, how to replace it."""
    for graph in _graphs(model):
        for name, value in graph.initializers.items():
            if value.const_value is not None:
                yield name, value.const_value, partial(setattr, value, "const_value")
    for node in _nodes(model):
        for key, attribute in list(node.attributes.items()):
            if attribute.type is ir.AttributeType.TENSOR and attribute.value is not None:
                yield f"{key} of {label(node)}", attribute.value, partial(_put_attribute, node, key)
            elif attribute.type is ir.AttributeType.TENSORS and attribute.value is not None:
                for index, tensor in enumerate(attribute.value):
                    yield f"{key} of {label(node)}", tensor, partial(_put_element, node, key, index)


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    yield from all_nodes(model.graph)
    for function in model.functions.values():
        yield from all_nodes(function)


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    yield model.graph
    for node in _nodes(model):
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH and attribute.value is not None:
                yield attribute.value
            elif attribute.type is ir.AttributeType.GRAPHS and attribute.value is not None:
                yield from attribute.value


def _put_element(node: ir.Node, key: str, index: int, tensor: ir.ExternalTensor) -> None:
    tensors = list(node.attributes[key].value)
    tensors[index] = tensor
    node.attributes[key] = ir.AttrTensors(key, tensors)


def _put_attribute(node: ir.Node, key: str, tensor: ir.ExternalTensor) -> None:
    node.attributes[key] = ir.AttrTensor(key, tensor)


def _resolved(tensor: ir.ExternalTensor, path: Path) -> ir.ExternalTensor:
    """The same data, named without links and ``..``, which onnx_ir does not follow."""
    file = (path.parent / tensor.location).resolve()
    return PlacedTensor(
        file.name,
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=tensor.shape,
        name=tensor.name or "",
        doc_string=tensor.doc_string,
        base_dir=file.parent,
    )


def _check_embedded_tensor(tensor: ir.TensorProtocol, name: str, where: str) -> None:
    try:
        tensor.numpy()
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        AssertionError,
    ) as error:  # onnx_ir uses assertions for some of it
        raise ModelError(f"the numbers of tensor '{name}' are damaged: {error}", where=where) from error


def _check_description(tensor: ir.ExternalTensor, name: str, where: str) -> None:
    if not isinstance(tensor.location, str):  # bytes that are not UTF-8
        raise ModelError(
            f"the external data of tensor '{name}' are in a file whose name is not valid text", where=where
        )
    if tensor.dtype is ir.DataType.UNDEFINED or tensor.dtype.is_string():
        raise ModelError(f"tensor '{name}' has external data of type {tensor.dtype.name}", where=where)


def _check_place(tensor: ir.ExternalTensor, path: Path) -> None:
    """Refuse data outside the folder of the model file, or of the file that it links to."""
    if not is_inside(path.parent / tensor.location, path.parent, Path(os.path.realpath(path)).parent):
        raise ModelError(
            f"tensor '{tensor.name}' points outside the model's folder: {tensor.location}",
            where=str(path),
            hint="--allowExternalPaths reads it all the same, if you trust the model",
        )


def _check_external_tensor(tensor: ir.ExternalTensor, path: Path) -> None:
    file, where = path.parent / tensor.location, str(path)
    if not file.is_file():
        raise ModelError(
            f"the external data file '{tensor.location}' is missing",
            where=where,
            hint="keep it beside the model file, under the name it was saved with",
        )
    if (tensor.offset or 0) < 0 or (tensor.length or 0) < 0:
        raise ModelError(f"tensor '{tensor.name}' lies before the start of its file", where=where)
    if tensor.length and tensor.length != tensor.nbytes:
        raise ModelError(
            f"tensor '{tensor.name}' has {tensor.nbytes} bytes by its shape, and {tensor.length} in '{tensor.location}'",
            where=where,
            hint="save the model again",
        )
    needed = (tensor.offset or 0) + tensor.nbytes
    if file.stat().st_size < needed:
        raise ModelError(
            f"the external data file '{tensor.location}' is too short for tensor '{tensor.name}'",
            where=where,
            hint=f"it has {file.stat().st_size} of at least {needed} bytes; copy it again",
        )


def check_ranks(model: ir.Model, path: Path) -> None:
    """Refuse images without an axis to slide a window along, once shapes are known: some runtimes crash on them.

    Raises:
        ModelError: A convolution or a pooling reads a tensor of fewer than three dimensions.
    """
    for node in all_nodes(model.graph):
        value = node.inputs[0] if node.op_type in WINDOWED and not node.domain and node.inputs else None
        if value is not None and value.shape is not None and len(value.shape) < 3:
            raise ModelError(
                f"{label(node)} reads '{value.name}', which has {len(value.shape)} dimensions and not at least 3",
                where=str(path),
            )


def _check_opset(model: ir.Model, path: Path) -> None:
    imports = model.graph.opset_imports
    if "ai.onnx" in imports:
        imports.setdefault("", imports.pop("ai.onnx"))
    version, newest = opset(model), onnx.defs.onnx_opset_version()
    if version > newest:
        raise ModelError(
            f"opset {version} is newer than the newest known one, {newest}",
            where=str(path),
            hint="install a newer onnx package, or export with an older opset",
        )
    imports.setdefault("", DEFAULT_OPSET)


def _check_operators(model: ir.Model, path: Path) -> None:
    """Refuse operators that the standard set has never had; all of them are named."""
    version = opset(model)
    functions = {(domain, name) for domain, name, _ in model.functions}
    unknown = [
        node
        for node in all_nodes(model.graph)
        if not node.domain and ("", node.op_type) not in functions and not _is_known(node, version)
    ]
    if unknown:
        shown = ", ".join(label(node) for node in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        known = [schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain]
        raise ModelError(
            f"opset {version} has no such operator: {shown}", where=str(path), hint=_advice(unknown[0].op_type, known)
        )


def _check_attributes(model: ir.Model, path: Path) -> None:
    """Check that attributes of standard operators have the types of the standard."""
    version = opset(model)
    known: dict[str, dict[str, str]] = {}
    for node in _nodes(model):
        if node.domain or not _is_known(node, version):
            continue
        if node.op_type not in known:
            schema = onnx.defs.get_schema(node.op_type, version, "")
            known[node.op_type] = {
                name: str(declared.type).rpartition(".")[2] for name, declared in schema.attributes.items()
            }
        for name, attribute in node.attributes.items():
            wanted = known[node.op_type].get(name, attribute.type.name)
            if attribute.type.name != wanted:
                raise ModelError(
                    f"attribute {name} of {label(node)} is {attribute.type.name}, not {wanted}", where=str(path)
                )


def _advice(op_type: str, known: list[str]) -> str:
    if op_type in known:
        since = min(
            schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if schema.name == op_type
        )
        return f"it exists from opset {since} on"
    match = nearest(op_type, known)
    return f"did the exporter mean {match}?" if match else "operators of other domains must name their domain"


def _is_known(node: ir.Node, version: int) -> bool:
    return bool(onnx.defs.has(node.op_type, version, ""))
