"""Reading ONNX files."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir
import onnx_ir.passes.common as library
from google.protobuf.message import DecodeError

from converter_lite.errors import ModelError
from converter_lite.formats.onnx.checks import (
    DAMAGED,
    check_model,
    check_ranks,
    refuse_repeated_names,
    refuse_unreadable_values,
)
from converter_lite.formats.onnx.integer_operators import INTEGER_OPERATORS
from converter_lite.graph import ALIASES, all_nodes, assign_names, load_constants, opset
from converter_lite.passes import skeleton
from converter_lite.passes.common import lift_constants
from converter_lite.passes.first_sets import raise_first_sets
from converter_lite.passes.input_shapes import fix_input_shapes, inputs_and_results
from converter_lite.passes.opset import minimal_ir_version, raise_opset
from converter_lite.passes.shapes import infer_shapes

_log = logging.getLogger(__name__)

WORKING_OPSET = 13
"""Passes see at least this operator set: axes are inputs, and per-channel quantization can be written."""

TOLERABLE_OPSET = 11
"""From this operator set on, a model that cannot be raised is read as it is; writers that need more then refuse it."""

QUANTIZED_OPERATORS = frozenset({"QuantizeLinear", "DequantizeLinear"}) | INTEGER_OPERATORS

SCOPES = "pkg.torch.onnx.name_scopes"
"""Where PyTorch's exporter writes which modules a node comes from: ``['', 'block', 'block.0', 'conv2d']``."""

LIBRARY_REFUSALS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, ir.passes.InvariantError)
"""What the passes of onnx_ir raise on constants and functions that break the standard."""


def read_onnx(
    path: str | Path, *, input_shapes: Mapping[str, Sequence[int]] | None = None, confined: bool = True
) -> ir.Model:
    """The model in a file, named, sorted, with shapes and at operator set 13 or newer; weights load on demand.

    Initializers are no longer inputs, local functions are inlined, Constant nodes are initializers. Operators of
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
        check_ranks(model, path)  # of inputs: onnx up to 1.21 ends the process where it infers shapes of such images
        raise_first_sets(model)
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
    """Whether the model already computes with quantized tensors."""
    return any(node.op_type in QUANTIZED_OPERATORS for node in all_nodes(model.graph))


def _is_unknown(dim: int | ir.SymbolicDim) -> bool:
    """Whether this is how an exporter writes a size of which it knows nothing: -1, or ``?``, which is no name of a size."""
    if isinstance(dim, int):
        return dim < 0
    return dim.value is not None and not any(letter.isalpha() for letter in dim.value)


def _load(path: Path) -> ir.Model:
    if not path.exists():
        raise ModelError("the model file does not exist", where=str(path))
    if path.is_dir():
        raise ModelError("this is a directory, not a model file", where=str(path))
    if not path.is_file():  # a pipe would block, a device may never end
        raise ModelError("this is not a regular file", where=str(path), hint="save the model as a file first")
    try:
        proto = onnx.load(path, format="protobuf", load_external_data=False)
        refuse_repeated_names(proto, path)
        refuse_unreadable_values(proto, path)
        _describe_once(proto.graph)
        model = ir.from_proto(proto)
        ir.external_data.set_base_dir(model.graph, path.parent)
    except (DecodeError, ir.serde.SerdeError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelError(DAMAGED, where=str(path), hint=_other_kind(path) or _reason(error)) from error
    except OSError as error:
        raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(path)) from error
    return model


def _describe_once(graph: onnx.GraphProto) -> None:
    """Describe outputs that are inputs or constants as those: a value has one shape, and the last one read would hold."""
    given = {value.name: value.type for value in graph.input}
    for tensor in graph.initializer:
        given.setdefault(tensor.name, onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims))
    for output in graph.output:
        if output.name in given:
            output.type.CopyFrom(given[output.name])


BEGINNINGS = {
    b"version https://git-lfs": "it is a pointer of Git LFS: `git lfs pull` fetches the file",
    b"\x1f\x8b": "it is compressed with gzip: unpack it first",
    b"PK\x03\x04": "it is a zip archive: unpack it first",
    b"<ir_version": "it is ONNX's text form: onnx.save(onnx.load(FILE, format='onnxtxt'), 'm.onnx') makes a model",
    b"ir_version:": "it is protobuf's text form: onnx.save(onnx.load(FILE, format='textproto'), 'm.onnx') makes a model",
    b"<": "it is a web page or other markup, not the file that a link was meant to give",
    b"{": "it is JSON or another text: save the model as protobuf (.onnx)",
}
"""How other files begin that are taken for models; of text without its blanks, if that fits."""


def _other_kind(path: Path) -> str:
    with path.open("rb") as stream:
        start = stream.read(256)
    packed = b"".join(start.split())
    return next((what for begin, what in BEGINNINGS.items() if start.startswith(begin) or packed.startswith(begin)), "")


def _reason(error: BaseException) -> str:
    """First line of the innermost message: passes wrap the original error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _normalize(model: ir.Model) -> None:
    """Normalize what files write in several ways."""
    if model.functions:
        library.InlinePass()(model)
    overridable = sum(value.is_initializer() for value in model.graph.inputs)
    if overridable:
        _log.debug("%d inputs with a default value are constants from here on", overridable)
        library.RemoveInitializersFromInputsPass()(model)
    for value in inputs_and_results(model.graph):
        if value.shape is not None:
            value.shape = ir.Shape([ir.SymbolicDim(None) if _is_unknown(dim) else dim for dim in value.shape])
    for node in all_nodes(model.graph):
        if node.op_type == "STFT":  # inference counts both sides where the attribute is left out, against the standard
            node.attributes.setdefault("onesided", ir.AttrInt64("onesided", 1))
    assign_names(model)
    _name_modules(model)
    lift_constants(model)
    load_constants(model, largest=skeleton.DETACH_ABOVE)
    library.RemoveUnusedOpsetsPass()(model)
    model.ir_version = max(model.ir_version, minimal_ir_version(opset(model)))


def _name_modules(model: ir.Model) -> None:
    """Let nodes that come from PyTorch be found by the names of their modules: the exporter's own names say little of them.

    The exporter's scopes name them. A convolution into which it folded a BatchNormalization has the scopes of that; its weight
    is called after the module still.
    """
    for node in all_nodes(model.graph):
        names = {name for name in re.findall(r"'([^']*)'", node.metadata_props.get(SCOPES, "")) if name}
        for value in node.inputs:
            if value is not None and value.is_initializer():
                module, dot, _ = str(value.name).rpartition(".")
                names.update((module, str(value.name)) if module and dot else ())
        node.meta[ALIASES].update(names)


def _raise_to_working_opset(model: ir.Model) -> ir.Model:
    try:
        return raise_opset(model, WORKING_OPSET)
    except ModelError as error:
        if opset(model) < TOLERABLE_OPSET:
            raise
        _log.warning("%s", error.message)
        return model
