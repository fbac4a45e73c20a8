"""Reading ONNX files."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir
import onnx_ir.passes.common as library
from google.protobuf.message import DecodeError

from converter_lite.errors import ModelError, UsageError, nearest
from converter_lite.formats.onnx.checks import DAMAGED, check_model, check_ranks
from converter_lite.graph import all_nodes, assign_names, opset
from converter_lite.passes.common import lift_constants
from converter_lite.passes.opset import minimal_ir_version, raise_opset
from converter_lite.passes.shapes import infer_shapes

_log = logging.getLogger(__name__)

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

LIBRARY_REFUSALS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, ir.passes.InvariantError)
"""What the passes of onnx_ir raise on constants and functions that break the standard."""


def read_onnx(
    path: str | Path, *, input_shapes: Mapping[str, Sequence[int]] | None = None, confined: bool = True
) -> ir.Model:
    """The model in a file, named, sorted, with shapes and at operator set 13 or newer; weights load on demand.

    Initializers are no inputs any more, local functions are inlined, Constant nodes are initializers. Operators of
    other domains stay as they are.

    Args:
        path: An ONNX file; external data are looked for beside it.
        input_shapes: Shapes for :func:`fix_input_shapes`.
        confined: Refuse external data outside the folder of the file.

    Raises:
        ModelError: The file or its external data are missing or damaged, or it uses an operator or operator set that
            is unknown.
        UsageError: ``input_shapes`` does not fit the model.
    """
    path = Path(path)
    model = _load(path)
    check_model(model, path, confined=confined)
    try:
        _normalize(model)
    except LIBRARY_REFUSALS as error:
        raise ModelError(DAMAGED, where=str(path), hint=_reason(error)) from error
    try:
        model = _raise_to_working_opset(model)
        infer_shapes(model)
        check_ranks(model, path)
    except (ir.serde.SerdeError, UnicodeDecodeError) as error:
        raise ModelError(DAMAGED, where=str(path), hint=_reason(error)) from error
    if input_shapes:
        fix_input_shapes(model, input_shapes)
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


def _is_negative(dim: int | ir.SymbolicDim) -> bool:
    return isinstance(dim, int) and dim < 0


def _all_values(graph: ir.Graph) -> Iterable[ir.Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs


def _shape_text(shape: Sequence[int | ir.SymbolicDim]) -> str:
    return "(" + ", ".join(str(dim if isinstance(dim, int) else dim.value or "?") for dim in shape) + ")"


def _suggest(name: str, known: Mapping[str, ir.Value]) -> str:
    match = nearest(name, known)
    return f"did you mean '{match}'?" if match else f"known are {', '.join(known)}"


def _load(path: Path) -> ir.Model:
    if not path.exists():
        raise ModelError("the model file does not exist", where=str(path))
    if path.is_dir():
        raise ModelError("this is a directory, not a model file", where=str(path))
    if not path.is_file():  # a pipe would be waited for, a device may never end
        raise ModelError("this is no file", where=str(path), hint="save the model as a file first")
    try:
        model = ir.load(path, format="protobuf")
    except (DecodeError, ir.serde.SerdeError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelError(DAMAGED, where=str(path), hint=_reason(error)) from error
    except OSError as error:
        raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(path)) from error
    return model


def _reason(error: BaseException) -> str:
    """First line of the innermost message: a pass wraps what went wrong."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _normalize(model: ir.Model) -> None:
    """One form for what files write in several ways."""
    if model.functions:
        library.InlinePass()(model)
    overridable = sum(value.is_initializer() for value in model.graph.inputs)
    if overridable:
        _log.debug("%d inputs with a default value are constants from here on", overridable)
        library.RemoveInitializersFromInputsPass()(model)
    for value in _all_values(model.graph):
        if value.shape is not None:  # some exporters write -1 where they mean an unknown size
            value.shape = ir.Shape([ir.SymbolicDim(None) if _is_negative(dim) else dim for dim in value.shape])
    assign_names(model)
    lift_constants(model)
    library.RemoveUnusedOpsetsPass()(model)
    model.ir_version = max(model.ir_version, minimal_ir_version(opset(model)))


def _raise_to_working_opset(model: ir.Model) -> ir.Model:
    try:
        return raise_opset(model, WORKING_OPSET)
    except ModelError as error:
        if opset(model) < TOLERABLE_OPSET:
            raise
        _log.warning("%s", error.message)
        return model
