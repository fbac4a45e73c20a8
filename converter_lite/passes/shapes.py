"""Types and shapes of intermediate values, found without loading the weights."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir

from converter_lite.passes.rounded_sizes import round_sizes
from converter_lite.passes.skeleton import graphs_of, skeleton

_log = logging.getLogger(__name__)

UNKNOWN = "unk__"
"""How inference names sizes that it does not know, with a number behind it."""

NOT_INFERRED = frozenset({"GroupNormalization", "MeanVarianceNormalization"})
"""Operators of which onnx (1.23) infers nothing, and whose result has the type and shape of their input."""


def infer_shapes(model: ir.Model) -> int:
    """Fill in types and shapes of the main graph's values; returns how many were learned.

    A number takes precedence over a symbol, and inference over the file, since files carry shapes from earlier versions of the
    model. Where inference finds nothing, the file's shape stays.
    """
    proto, _ = skeleton(model)
    _forget_outputs(proto.graph)
    _describe_alike(proto.graph)
    try:
        found = _inferred(proto)
        while round_sizes(model, proto, _known(found)):
            found = _inferred(proto)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
        _log.debug("shape inference failed, shapes stay as they are: %s", error)
        return 0
    shapes = {
        value: [_dimension(dim) for dim in found[value.name].tensor_type.shape.dim]
        for value in (*model.graph.inputs, *_results(model.graph))
        if value.name in found and found[value.name].tensor_type.HasField("shape")
    }
    symbols = _symbols(model.graph, shapes)
    learned = 0
    for value in _results(model.graph):
        if value.type is None and value.name in found:
            value.type = _type(found[value.name])
        if value in shapes:
            learned += _merge(value, [symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in shapes[value]])
    return learned


def _type(found: onnx.TypeProto) -> ir.TypeProtocol | None:
    """The type of a value, ``None`` where it is not known."""
    for name, kind in (("sequence_type", ir.SequenceType), ("optional_type", ir.OptionalType)):
        if found.HasField(name):
            inner = _type(getattr(found, name).elem_type)
            return None if inner is None else kind(inner)
    return ir.TensorType(ir.DataType(found.tensor_type.elem_type)) if found.tensor_type.elem_type else None


def _symbols(graph: ir.Graph, shapes: Mapping[ir.Value, list[int | str | None]]) -> dict[str, str]:
    """Name of a size in this inference -> its name in the graph.

    Each inference counts unknown sizes from 0: a name that another size has from an earlier one becomes a new one.
    """
    used = {dim.value for value in (*graph.inputs, *_results(graph)) for dim in _symbolic(value) if dim.value}
    names: dict[str, str] = {}
    for value, dims in shapes.items():
        if value.shape is not None and len(value.shape) == len(dims):
            for new, old in zip(dims, value.shape, strict=True):
                if isinstance(new, str) and isinstance(old, ir.SymbolicDim) and old.value:
                    names.setdefault(new, old.value)
    number = 0
    for new in dict.fromkeys(
        dim for dims in shapes.values() for dim in dims if isinstance(dim, str) and dim not in names
    ):
        names[new] = new
        while names[new] in used:
            names[new], number = f"{UNKNOWN}{number}", number + 1
        used.add(names[new])
    return names


def _symbolic(value: ir.Value) -> Iterator[ir.SymbolicDim]:
    yield from (dim for dim in value.shape or () if isinstance(dim, ir.SymbolicDim))


def _inferred(proto: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    graph = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True).graph
    return {info.name: info.type for info in (*graph.input, *graph.value_info, *graph.output)}


def _known(types: Mapping[str, onnx.TypeProto]) -> dict[str, tuple[int, ...]]:
    """Shapes of tensors whose sizes are all known."""
    dims = {name: described.tensor_type.shape.dim for name, described in types.items()}
    return {name: tuple(d.dim_value for d in shape) for name, shape in dims.items() if all(d.dim_value for d in shape)}


def _forget_outputs(graph: onnx.GraphProto) -> None:
    """Drop outputs that are inputs or constants, and the shapes that the file gives other outputs.

    Inference takes the latter for granted, even with another number of axes than it finds. Where an input or a constant is an
    output, it takes the shape of the output for that of all readers, or none; and if that contradicts what is fed to the input,
    or an output is read before it is computed, onnx up to 1.21 crashes the process.
    """
    given = {value.name for value in (*graph.input, *graph.initializer)}
    for output in list(graph.output):
        if output.name in given:
            graph.output.remove(output)
        elif output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def _describe_alike(graph: onnx.GraphProto) -> None:
    """Let inference see an operator that it knows in the place of one that gives what has the shape of its input."""
    for node in (node for inner in graphs_of(graph) for node in inner.node if node.op_type in NOT_INFERRED):
        if node.domain in ("", "ai.onnx"):
            del node.input[1:], node.attribute[:]
            node.op_type = "Identity"


def _results(graph: ir.Graph) -> Iterator[ir.Value]:
    for node in graph:
        yield from node.outputs


def _merge(value: ir.Value, dims: list[int | str | None]) -> bool:
    if value.shape is not None and len(value.shape) == len(dims):
        dims = [_prefer(new, old) for new, old in zip(dims, value.shape, strict=True)]
    shape = ir.Shape(dims)
    if value.shape == shape:
        return False
    value.shape = shape
    return True


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return dim.dim_param or None


def _prefer(new: int | str | None, old: int | ir.SymbolicDim) -> int | str | None:
    if isinstance(new, int):
        return new
    if isinstance(old, int):
        return old
    return old.value or new
