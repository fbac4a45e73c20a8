"""The two models of a comparison, as graphs that take the same samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.analysis.taps import type_integers
from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.onnx.reader import is_quantized, read_onnx
from converter_lite.formats.onnx.versions import fit_to_engine
from converter_lite.formats.registry import FORMATS, by_suffix, framework_of, output_format, readable
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.passes.input_shapes import fix_input_shapes
from converter_lite.passes.pipeline import ALL_REWRITES, settle
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.taken_types import take_types
from converter_lite.passes.widening import HALVES, compute_in_float32
from converter_lite.pipeline.prepare import Preparation


@dataclass(frozen=True, slots=True)
class ModelPair:
    """A float and a quantized model.

    Attributes:
        reference: The float graph as it was read.
        optimized: The same, folded as the format of the quantized file requires.
        quantized: The quantized file as ONNX.
    """

    reference: ir.Model
    optimized: ir.Model
    quantized: ir.Model


def read_pair(
    float_file: Path,
    quantized_file: Path,
    *,
    input_shapes: Mapping[str, Sequence[int]],
    confined: bool = True,
    allow_unsafe: bool = False,
) -> ModelPair:
    """Read both files.

    Args:
        float_file: Of any format that is read.
        quantized_file: ``.onnx``, ``.ms`` or ``.nb``.
        input_shapes: Sizes of open dimensions.
        confined: Refuse external data outside the folder of a file.
        allow_unsafe: Code that the float file holds may run, in a framework's own process.

    Raises:
        UsageError: A file has an unknown ending, or the first model is quantized and the second one is not.
        ModelError: A file cannot be read, or the models have different inputs or outputs.
        FormatError: A ``.ms`` or ``.nb`` file is damaged.
    """
    name = by_suffix(quantized_file)
    if name is None:
        endings = ", ".join(known.suffix for known in FORMATS.values())
        raise UsageError(f"the file does not end with {endings}", where=str(quantized_file))
    model, quantized_already = read_reference(ModelFiles(float_file, None, input_shapes, confined, allow_unsafe))
    if quantized_already:
        raise UsageError(
            "the first model is quantized already", where=str(float_file), hint="the float model comes first"
        )
    quantized = _read_onnx(quantized_file, confined=confined) if quantized_file.suffix == ".onnx" else None
    if quantized is not None:
        fix_input_shapes(model, _sizes_of(quantized, model))
    _make_plain(model)
    fmt = output_format(name, FileOptions())
    source = Source(model, 0, str(float_file))
    optimized = Preparation(source, ALL_REWRITES)(replace(fmt.requirements, keeps_qdq=False)).model
    if quantized is None:
        quantized = _runnable(quantized_file, fmt.runnable, optimized)
    elif input_shapes:
        open_inputs = {str(v.name) for v in quantized.graph.inputs if g.static_shape(v) is None}
        fix_input_shapes(quantized, {n: shape for n, shape in input_shapes.items() if n in open_inputs})
    _make_plain(quantized)
    take_types(quantized, model)
    _check_interface(model, quantized, quantized_file)
    return ModelPair(model, optimized, quantized)


def _sizes_of(given: ir.Model, model: ir.Model) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs that are open in a model and fixed in the other one, which was made for these sizes."""
    fixed = {str(value.name): shape for value in given.graph.inputs if (shape := g.static_shape(value)) is not None}
    found = {}
    for value in model.graph.inputs:
        shape = fixed.get(str(value.name))
        if shape is None or value.shape is None or g.static_shape(value) is not None:
            continue
        if len(shape) == len(value.shape) and all(
            own == size for own, size in zip(value.shape, shape, strict=True) if isinstance(own, int)
        ):
            found[str(value.name)] = shape
    return found


def _make_plain(model: ir.Model) -> None:
    """A graph whose tensors are layers: float16 inside becomes float32, and of an If whose condition is known one branch is left.

    onnxruntime (1.32) does not load every graph of which it finds the latter itself.
    """
    if type_integers(model):
        infer_shapes(model)
    if any(node.op_type == "If" for node in model.graph):
        settle(model)
    nodes = (node for node in g.all_nodes(model.graph) if node.op_type not in ("Cast", "Constant"))
    if any(value.dtype in HALVES for node in nodes for value in node.outputs):
        compute_in_float32(model)


def read_reference(files: ModelFiles) -> tuple[ir.Model, bool]:
    """The first model, and whether it holds integers.

    Raises:
        UsageError: Its file has an unknown ending.
    """
    path = files.path
    name = framework_of(path)
    if name is None:
        endings = ", ".join(ending for known in readable().values() for ending in known.suffixes)
        raise UsageError(f"the file does not end with {endings}", where=str(path))
    if path.suffix != ".onnx":
        source = readable()[name].read_source(files)
        infer_shapes(source.model)
        return source.model, source.is_quantized
    model = fit_to_engine(read_onnx(path, input_shapes=files.input_shapes, confined=files.confined), path)
    return model, is_quantized(model)


def _read_onnx(path: Path, *, confined: bool) -> ir.Model:
    return fit_to_engine(read_onnx(path, confined=confined), path)


def _runnable(path: Path, runnable: Callable[..., bytes | Path], like: ir.Model) -> ir.Model:
    if not path.is_file():
        raise ModelError("the model file does not exist", where=str(path))
    try:
        data = runnable(path, like=like)
    except OSError as error:
        raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(path)) from error
    assert isinstance(data, bytes)
    model = ir.serde.deserialize_model(onnx.load_model_from_string(data))
    g.assign_names(model)
    infer_shapes(model)
    return model


def _check_interface(reference: ir.Model, quantized: ir.Model, path: Path) -> None:
    hint = "both files must be made from the same model"
    ours, theirs = ([str(v.name) for v in model.graph.inputs] for model in (reference, quantized))
    if set(theirs) - set(ours):
        raise ModelError(
            f"its inputs are {', '.join(theirs)}, those of the float model {', '.join(ours)}",
            where=str(path),
            hint=hint,
        )
    shapes = {str(value.name): value.shape for value in reference.graph.inputs}
    for value in quantized.graph.inputs:
        given, wanted = value.shape, shapes[str(value.name)]
        if given is not None and wanted is not None and not _can_be_equal(given, wanted):
            raise ModelError(
                f"its input '{value.name}' has the shape {given}, that of the float model {wanted}",
                where=str(path),
                hint=hint,
            )
    counts = len(reference.graph.outputs), len(quantized.graph.outputs)
    if counts[0] != counts[1]:
        raise ModelError(f"it has {counts[1]} outputs, the float model {counts[0]}", where=str(path))


def _can_be_equal(one: ir.Shape, other: ir.Shape) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs)
