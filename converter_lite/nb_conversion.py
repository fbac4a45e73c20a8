"""From a model file to a ``.nb`` file: what ``opt`` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.paddle_nb.capability import weight_of
from converter_lite.formats.paddle_nb.form import NB_FORM
from converter_lite.formats.paddle_nb.full_plan import adapt_plan, obstacles
from converter_lite.formats.paddle_nb.parse import check_written, parse
from converter_lite.formats.paddle_nb.program import NbFile
from converter_lite.formats.paddle_nb.reader import read
from converter_lite.formats.paddle_nb.serialize import serialize
from converter_lite.formats.paddle_nb.weight_plan import plan_weights
from converter_lite.formats.paddle_nb.writer import NbOptions, build
from converter_lite.frontends.paddle import locate, read_paddle
from converter_lite.frontends.paddle_graph import HANDLERS
from converter_lite.frontends.paddle_quant import FOLDED
from converter_lite.log import Log
from converter_lite.output import refuse_overwrite, transaction
from converter_lite.preparing import optimized as optimize_for
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan

if TYPE_CHECKING:
    from converter_lite.formats.paddle_nb.sparsify import Sparsity
    from converter_lite.request import OutputAccuracy

PROTOBUF_NAMES = ("model", "params")
"""Files in the folder of a protobuf result, named as the original names them."""

SINGLE_FILES = (".onnx", ".nb")
"""Suffixes of models that are one file, parameters included."""

QUANT_BITS = {"QUANT_INT8": 8, "QUANT_INT16": 16}
"""``--quant_type`` -> bits of weights."""


@dataclass(frozen=True, slots=True)
class NbRequest:
    """What ``opt`` is asked for.

    Attributes:
        model: ONNX file, ``.nb`` file, Paddle program file, or directory of a Paddle model.
        params: File with all parameters of a Paddle model; ``None`` looks beside the program.
        output: Path of the result, suffix included.
        target: ``arm``, ``x86`` or ``host``.
        weight_bits: 8 or 16 stores weights as integers; ``None`` keeps them float.
        input_shapes: Input name -> fixed shape.
        config_file: INI file as ``converter_lite`` reads it; it says how to quantize, instead of ``weight_bits``.
        threads: Worker threads of a calibration; 0 = one per core.
        meta_version: Layout of the file: 2, or 1 for libraries of release 2.7.
        protobuf: Write a folder with a program and its parameters as Paddle stores them, instead of one ``.nb`` file.
        allow_external_paths: Read parameters, external data and calibration files that lie outside their folder too.
        half: Compute in float16 where there are kernels for it; no other target than ``arm`` has any.
        sparse_threshold: Share of zeros from which a 1x1 convolution for ARM becomes sparse; ``None`` leaves all dense.
    """

    model: Path
    output: Path
    params: Path | None = None
    target: str = "arm"
    weight_bits: int | None = None
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    config_file: Path | None = None
    threads: int = 0
    meta_version: int = 2
    protobuf: bool = False
    allow_external_paths: bool = False
    half: bool = False
    sparse_threshold: float | None = None


@dataclass(frozen=True, slots=True)
class NbResult:
    """What was written.

    Attributes:
        path: The file, or the folder.
        bytes: Its size.
        plan: What is quantized in it.
        file: Its structure.
        notes: What the user should know.
        accuracy: Outputs beside those of the float model, where samples were given.
    """

    path: Path
    bytes: int
    plan: QuantPlan
    file: NbFile
    notes: tuple[str, ...] = ()
    accuracy: tuple[OutputAccuracy, ...] = ()


def convert_to_nb(request: NbRequest, log: Log | None = None) -> NbResult:
    """Read a model, write a ``.nb`` file, and read that back. Nothing is left at the output path when it fails.

    With a configuration file this is a conversion of :mod:`converter_lite.conversion`: its result is run beside the
    float model on calibration samples, and must pass the quality gate.

    Args:
        request: What is asked for.
        log: Shows the progress of such a conversion.

    Raises:
        ConverterError: The model cannot be read, the target cannot express it (every such node is named), or the
            result cannot be written.
    """
    if request.config_file is not None:
        return _by_config(request, request.config_file, Log() if log is None else log)
    targets = output_files(request)
    source = load_model(request)
    quantized, notes = prepare(source, request)
    file = build(quantized, options=NbOptions(request.target, request.meta_version))
    _refuse_nan(file)
    if request.sparse_threshold is not None:
        notes += _sparsified(file, request.sparse_threshold).notes
    if request.half and request.target == "arm":
        from converter_lite.formats.paddle_nb.half import to_half

        file, more = to_half(file)
        notes += more
    contents = _contents(file, request)
    with transaction(targets[0].parent) as files:
        for target, data in zip(targets, contents, strict=True):
            made = files.work / target.name
            made.write_bytes(data)
            files.add(made, target)
        files.commit()
    return NbResult(request.output, sum(map(len, contents)), quantized.plan, file, notes)


def output_files(request: NbRequest) -> list[Path]:
    """Files that a request writes.

    Raises:
        UsageError: One of them is a file of the model, or would be found in its place; or the model does not exist.
    """
    targets = [request.output / name for name in PROTOBUF_NAMES] if request.protobuf else [request.output]
    program, parameters = source_files(request.model, request.params)
    for target in targets:
        refuse_overwrite(target, [program] if parameters is None else [program, parameters])
    if request.protobuf and program.suffix not in SINGLE_FILES and request.output.resolve() == program.parent.resolve():
        raise UsageError(
            "a protobuf result beside its model would be found in its place",
            where=str(request.output),
            hint="choose another directory",
        )
    return targets


def _contents(file: NbFile, request: NbRequest) -> list[bytes]:
    """Bytes of the result's files, read back and compared with what they were made from."""
    if request.protobuf:
        from converter_lite.formats.paddle_nb.protobuf import protobuf_files

        return protobuf_files(file)
    data = serialize(file)
    check_written(data, file, where=str(request.output))
    return [data]


def _sparsified(file: NbFile, threshold: float) -> Sparsity:
    from converter_lite.formats.paddle_nb.sparsify import sparsify  # few conversions ask for it

    return sparsify(file, threshold)


def _refuse_nan(file: NbFile) -> None:
    for name, array in file.parameters.items():
        if array.dtype.kind == "f" and array.size and np.isnan(array.min()):  # a minimum is NaN if any element is
            raise ModelError("the constant holds NaN", where=name, hint="the model is damaged, or was trained badly")


def float_file(request: NbRequest) -> NbFile:
    """The file of a model without any quantization: whether its operators can be written at all.

    Raises:
        ConverterError: The model cannot be read, or the target cannot express it; every such node is named.
    """
    model = optimized(load_model(request).model)
    return build(QuantizedModel(model, QuantPlan(request.target)), options=NbOptions(target=request.target))


def unknown_operators(operators: Sequence[str]) -> list[str]:
    """Those operators of a Paddle program or a ``.nb`` file that are not read."""
    known = {*HANDLERS, *FOLDED, "feed", "fetch"}
    return [operator for operator in operators if operator not in known]


def _by_config(request: NbRequest, config_file: Path, log: Log) -> NbResult:
    """Quantize as a configuration file says, in one step with the conversion."""
    from converter_lite.conversion import run
    from converter_lite.request import NB_TARGETS, ConvertRequest

    if request.protobuf:
        raise UsageError("a protobuf result is not quantized in the same step", where=str(config_file))
    if request.target not in NB_TARGETS:
        raise UsageError(
            f"a configuration file is for {' and '.join(NB_TARGETS)}, not for {request.target}",
            where=str(config_file),
            hint="put one of them in front in --valid_targets, or leave --configFile out",
        )
    if request.model.suffix == ".nb":
        raise UsageError(
            "a .nb file is not quantized again", where=str(request.model), hint="start from the model it was made from"
        )
    result = run(
        ConvertRequest(
            model_file=request.model,
            output_file=request.output,
            fmk="ONNX" if request.model.suffix == ".onnx" else "PADDLE",
            weight_file=request.params,
            config_file=config_file,
            input_shape={name: tuple(shape) for name, shape in request.input_shapes.items()},
            save_type=("NAIVE_BUFFER",),
            nb_target=request.target,
            nb_fp16=request.half and request.target == "arm",
            nb_meta_version=request.meta_version,
            threads=request.threads,
            allow_external_paths=request.allow_external_paths,
        ),
        log,
    )
    (made,) = result.artefacts
    plan = result.plans.get(made.format, QuantPlan(request.target))
    file = parse(made.path.read_bytes(), where=str(made.path))
    return NbResult(made.path, made.bytes, plan, file, tuple(result.warnings), made.accuracy)


def load_model(request: NbRequest) -> QuantizedModel:
    """The graph of any readable model file, with the plan that it came with (all float, mostly).

    Raises:
        ConverterError: It cannot be read.
    """
    path, confined = request.model, not request.allow_external_paths
    if path.suffix == ".onnx" and path.is_file():
        from converter_lite.frontends.onnx import is_quantized, read_onnx
        from converter_lite.frontends.onnx_versions import fit_to_engine

        model = fit_to_engine(read_onnx(path, input_shapes=request.input_shapes or None, confined=confined), path)
        if not is_quantized(model):
            return QuantizedModel(model, QuantPlan("float"))
        from converter_lite.frontends.onnx_qdq import read_qdq

        return read_qdq(model, where=str(path))
    if path.suffix == ".nb" and path.is_file():
        return read(path.read_bytes(), where=str(path), input_shapes=request.input_shapes)
    return read_paddle(path, request.params, input_shapes=request.input_shapes, confined=confined)


def prepare(source: QuantizedModel, request: NbRequest) -> tuple[QuantizedModel, tuple[str, ...]]:
    """The optimized graph with the plan of the file, and what the user should know."""
    if source.plan.quantized_nodes:
        return _prepare_quantized(source, request)
    model = optimized(source.model)
    if request.weight_bits is None:
        return QuantizedModel(model, QuantPlan(request.target)), ()
    sparse = _sparse_nodes(model, request)
    quantized = plan_weights(model, target=request.target, bits=request.weight_bits, skip=frozenset(sparse))
    for node in sparse.values():
        quantized.plan.keep_float(node, "its weight is sparse")
    notes = []
    if sparse:
        notes.append(f"{len(sparse)} sparse convolutions keep float weights: --quant_model is for the dense ones")
    if not quantized.plan.weights:
        notes.append("no weight was quantized: " + _top_reasons(quantized.plan))
    return quantized, tuple(notes)


def _sparse_nodes(model: ir.Model, request: NbRequest) -> dict[str, ir.Node]:
    """Nodes by name whose weights are stored without their zeros: as float, in a weight-only file of the original too."""
    if request.sparse_threshold is None:
        return {}
    file = build(QuantizedModel(model, QuantPlan(request.target)), options=NbOptions(request.target))
    weights = _sparsified(file, request.sparse_threshold).weights
    return {str(node.name): node for node in model.graph if (v := weight_of(node)) is not None and v.name in weights}


def _prepare_quantized(source: QuantizedModel, request: NbRequest) -> tuple[QuantizedModel, tuple[str, ...]]:
    notes = []
    if request.weight_bits is not None:
        notes.append("the model is quantized already; --quant_model changes nothing")
    integer = request.target == "arm"
    had_integers = any(d.mode is NodeMode.INTEGER for d in source.plan.nodes.values())
    found = obstacles(source, request.target) if integer else Counter()
    quantized = adapt_plan(source, request.target, integer=integer)
    if had_integers and not integer:
        notes.append(
            f"{request.target}: weights stay int8, computation is float; the int8 kernels there saturate beyond 63 and"
            " are not faster"
        )
    if found:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in found.most_common(3))
        notes.append(f"{found.total()} quantized nodes compute in float: {reasons}")
    clipped = [name for name, array in quantized.q_weights.items() if array is not source.q_weights.get(name)]
    if clipped:
        notes.append(f"{len(clipped)} weights hold -128, stored as -127: the integer kernels are symmetric")
    return quantized, tuple(notes)


def optimized(model: ir.Model) -> ir.Model:
    """The graph after all passes, with operators that Paddle-Lite has as one."""
    return optimize_for(model, NB_FORM)[0]


def _top_reasons(plan: QuantPlan) -> str:
    return "; ".join(f"{count} x {reason}" for reason, count in plan.float_reasons()[:3])


def source_files(model: Path, params: Path | None) -> tuple[Path, Path | None]:
    """Program and parameter file as messages name them.

    Raises:
        UsageError: A file does not exist.
    """
    if model.suffix in SINGLE_FILES and not model.is_dir():
        if not model.is_file():
            raise UsageError("the model file does not exist", where=str(model))
        return model, None
    return locate(model, params)
