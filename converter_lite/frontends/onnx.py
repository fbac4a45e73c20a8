"""Reading ONNX files."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
import onnx_ir.passes.common as library
from google.protobuf.message import DecodeError

from converter_lite.errors import ModelError, UsageError
from converter_lite.graph import all_nodes, assign_names, label, opset
from converter_lite.passes.common import lift_constants
from converter_lite.passes.opset import minimal_ir_version, raise_opset
from converter_lite.passes.shapes import infer_shapes

_log = logging.getLogger(__name__)

OLDEST_OPSET = 7
"""Older operator sets broadcast and normalize in other ways."""

WORKING_OPSET = 13
"""Passes see at least this one: axes are inputs, and quantization per channel can be written."""

TOLERABLE_OPSET = 11
"""From here on a model that cannot be raised is read as it is; writers that need more refuse it then."""

QUANTIZED_OPERATORS = frozenset(
    {
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"),
        *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    }
)


def read_onnx(path: str | Path, *, input_shapes: Mapping[str, Sequence[int]] | None = None) -> ir.Model:
    """The model in a file, named, sorted, with shapes and at operator set 13 or newer; weights load on demand.

    Initializers are no inputs any more, local functions are inlined, Constant nodes are initializers. Operators of
    other domains stay as they are.

    Args:
        path: An ONNX file; external data are looked for beside it.
        input_shapes: Shapes for :func:`fix_input_shapes`.

    Raises:
        ModelError: The file or its external data are missing or damaged, or it uses an operator or operator set that
            is unknown.
        UsageError: ``input_shapes`` does not fit the model.
    """
    path = Path(path)
    model = _load(path)
    _check_external_data(model, path)
    _check_opset(model, path)
    _check_operators(model, path)
    _normalize(model)
    model = _raise_to_working_opset(model)
    if input_shapes:
        fix_input_shapes(model, input_shapes)
    else:
        infer_shapes(model)
    return model


def is_quantized(model: ir.Model) -> bool:
    """Whether the model computes with quantized tensors already."""
    return any(node.op_type in QUANTIZED_OPERATORS for node in all_nodes(model.graph))


def fix_input_shapes(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> None:
    """Give inputs the shapes that a person asked for, and find the shapes that follow from them.

    A symbol means the same size everywhere: fixing ``batch`` at one input fixes it at all. ``-1`` leaves a dimension
    as it is.

    Raises:
        UsageError: An input is unknown, or a shape contradicts the model or another one.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise UsageError(f"the model has no input '{name}'", where="inputShape", hint=_suggest(name, inputs))
        _fix_input(inputs[name], shape, sizes)
    for value in _all_values(model.graph):
        if value.shape is not None:
            value.shape = ir.Shape([_size_of(dim, sizes) for dim in value.shape])
    infer_shapes(model)


def _fix_input(value: ir.Value, shape: Sequence[int], sizes: dict[str, int]) -> None:
    own: list[int | ir.SymbolicDim] = (
        list(value.shape) if value.shape is not None else [ir.SymbolicDim(None)] * len(shape)
    )
    described = "x".join(map(str, shape))
    if len(own) != len(shape):
        raise UsageError(
            f"input '{value.name}' has {len(own)} dimensions {_shape_text(own)}, not {len(shape)} ({described})",
            where="inputShape",
        )
    for axis, size in enumerate(shape):
        if size == 0 or size < -1:
            raise UsageError(f"dimension {axis} of input '{value.name}' cannot be {size}", where="inputShape")
        if size != -1:
            own[axis] = _fixed(value, axis, own[axis], size, sizes)
    value.shape = ir.Shape(own)


def _fixed(value: ir.Value, axis: int, dim: int | ir.SymbolicDim, size: int, sizes: dict[str, int]) -> int:
    symbol = None if isinstance(dim, int) else dim.value
    known = dim if isinstance(dim, int) else sizes.get(symbol or "")
    if known is not None and known != size:
        because = f" ('{symbol}' was set by another input)" if symbol else ""
        raise UsageError(
            f"dimension {axis} of input '{value.name}' is {known}{because}, not {size}",
            where="inputShape",
            hint="only dimensions without a fixed size can be set",
        )
    if symbol:
        sizes[symbol] = size
    return size


def _size_of(dim: int | ir.SymbolicDim, sizes: Mapping[str, int]) -> int | ir.SymbolicDim:
    return dim if isinstance(dim, int) else sizes.get(dim.value or "", dim)


def _all_values(graph: ir.Graph) -> Iterable[ir.Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs


def _shape_text(shape: Sequence[int | ir.SymbolicDim]) -> str:
    return "(" + ", ".join(str(dim if isinstance(dim, int) else dim.value or "?") for dim in shape) + ")"


def _suggest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}"


def _load(path: Path) -> ir.Model:
    if not path.exists():
        raise ModelError("the model file does not exist", where=str(path))
    if path.is_dir():
        raise ModelError("this is a directory, not a model file", where=str(path))
    damaged = "the file is no ONNX model, or it is damaged"
    try:
        model = ir.load(path)
    except (DecodeError, ir.serde.SerdeError, ValueError, TypeError, KeyError) as error:
        raise ModelError(damaged, where=str(path), hint=str(error).strip().splitlines()[0]) from error
    except OSError as error:
        raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(path)) from error
    if not model.ir_version or not model.graph.opset_imports:
        raise ModelError(damaged, where=str(path), hint="it names no format version or no operator set")
    if not len(model.graph):
        raise ModelError("the model has no nodes", where=str(path))
    return model


def _check_external_data(model: ir.Model, path: Path) -> None:
    """Name missing or short data files now, not when a weight is used; data outside the model's folder are refused."""
    folder = path.resolve().parent
    for graph in model.graphs():
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                _check_external_tensor(tensor, folder, str(path))


def _check_external_tensor(tensor: ir.ExternalTensor, folder: Path, where: str) -> None:
    file = folder / tensor.location
    if not file.resolve().is_relative_to(folder):
        raise ModelError(f"tensor '{tensor.name}' points outside the model's folder: {tensor.location}", where=where)
    if not file.is_file():
        raise ModelError(
            f"the external data file '{tensor.location}' is missing",
            where=where,
            hint="keep it beside the model file, under the name it was saved with",
        )
    needed = (tensor.offset or 0) + (tensor.length or tensor.nbytes)
    if file.stat().st_size < needed:
        raise ModelError(
            f"the external data file '{tensor.location}' is too short for tensor '{tensor.name}'",
            where=where,
            hint=f"it has {file.stat().st_size} of at least {needed} bytes; copy it again",
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
    if "" in imports and version < OLDEST_OPSET:
        raise ModelError(
            f"opset {version} is too old",
            where=str(path),
            hint=f"export the model again with opset {OLDEST_OPSET} or newer",
        )
    imports.setdefault("", WORKING_OPSET)


def _check_operators(model: ir.Model, path: Path) -> None:
    """Refuse operators that the standard set has never had; all of them are named."""
    version = opset(model)
    functions = {(domain, name) for domain, name, _ in model.functions}
    unknown = [
        node
        for node in all_nodes(model.graph)
        if node.domain in ("", "ai.onnx") and ("", node.op_type) not in functions and not _is_known(node, version)
    ]
    if unknown:
        shown = ", ".join(label(node) for node in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        known = [schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain]
        raise ModelError(
            f"opset {version} has no such operator: {shown}", where=str(path), hint=_nearest(unknown[0].op_type, known)
        )


def _nearest(op_type: str, known: list[str]) -> str:
    near = difflib.get_close_matches(op_type, known, n=1)
    return f"did the exporter mean {near[0]}?" if near else "operators of other domains must name their domain"


def _is_known(node: ir.Node, version: int) -> bool:
    return bool(onnx.defs.has(node.op_type, version, ""))


def _normalize(model: ir.Model) -> None:
    """One form for what files write in several ways."""
    if model.functions:
        library.InlinePass()(model)
    overridable = sum(value.is_initializer() for value in model.graph.inputs)
    if overridable:
        _log.debug("%d inputs with a default value are constants from here on", overridable)
        library.RemoveInitializersFromInputsPass()(model)
    assign_names(model)
    lift_constants(model)
    model.graph.sort()
    library.RemoveUnusedOpsetsPass()(model)
    model.ir_version = max(model.ir_version, minimal_ir_version(opset(model)))


def _raise_to_working_opset(model: ir.Model) -> ir.Model:
    try:
        raised = raise_opset(model, WORKING_OPSET)
    except ModelError as error:
        if opset(model) < TOLERABLE_OPSET:
            raise
        _log.warning("%s", error.message)
        return model
    lift_constants(raised)
    return raised
