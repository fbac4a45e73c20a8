"""From a model file to a ``.nb`` file: what ``opt`` does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from converter_lite.errors import ConfigError, FormatError, TargetError, UsageError
from converter_lite.formats.paddle_nb.full_plan import adapt_plan
from converter_lite.formats.paddle_nb.output import NB_FORM
from converter_lite.formats.paddle_nb.parse import parse
from converter_lite.formats.paddle_nb.program import NbFile
from converter_lite.formats.paddle_nb.reader import read, to_graph
from converter_lite.formats.paddle_nb.serialize import serialize
from converter_lite.formats.paddle_nb.weight_plan import plan_weights
from converter_lite.formats.paddle_nb.writer import NbOptions, build, check
from converter_lite.frontends.paddle import locate, read_paddle
from converter_lite.output import refuse_overwrite, transaction
from converter_lite.preparing import optimized as optimize_for
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan

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
        full_int8_x86: Let an x86 file compute with integers where the model is quantized already; the kernels there are
            no faster than float, so that only the weights stay integers otherwise.
        config_file: INI file as ``converter_lite`` reads it; it says how to quantize, instead of ``weight_bits``.
        threads: Worker threads of a calibration; 0 = one per core.
    """

    model: Path
    output: Path
    params: Path | None = None
    target: str = "arm"
    weight_bits: int | None = None
    input_shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    full_int8_x86: bool = False
    config_file: Path | None = None
    threads: int = 0


@dataclass(frozen=True, slots=True)
class NbResult:
    """What was written.

    Attributes:
        path: The file.
        bytes: Its size.
        plan: What is quantized in it.
        file: Its structure.
        notes: What the user should know.
    """

    path: Path
    bytes: int
    plan: QuantPlan
    file: NbFile
    notes: tuple[str, ...] = ()


def convert_to_nb(request: NbRequest) -> NbResult:
    """Read a model, write a ``.nb`` file, and read that back. Nothing is left at the output path when it fails.

    Raises:
        ConverterError: The model cannot be read, the target cannot express it (every such node is named), or the
            result cannot be written.
    """
    refuse_overwrite(request.output, [path for path in (request.model, request.params) if path is not None])
    source = load_model(request)
    quantized, notes = prepare(source, request)
    file = build(quantized, options=NbOptions(target=request.target))
    data = serialize(file)
    _read_back(data, quantized, str(request.output))
    with transaction(request.output.parent) as files:
        made = files.work / "model.nb"
        made.write_bytes(data)
        files.add(made, request.output)
        files.commit()
    return NbResult(request.output, len(data), quantized.plan, file, notes)


def load_model(request: NbRequest) -> QuantizedModel:
    """The graph of any readable model file, with the plan that it came with (all float, mostly).

    Raises:
        ConverterError: It cannot be read.
    """
    path = request.model
    if path.suffix == ".onnx" and path.is_file():
        from converter_lite.frontends.onnx import is_quantized, read_onnx

        model = read_onnx(path, input_shapes=request.input_shapes or None)
        if not is_quantized(model):
            return QuantizedModel(model, QuantPlan("float"))
        from converter_lite.frontends.onnx_qdq import read_qdq

        return read_qdq(model, where=str(path))
    if path.suffix == ".nb" and path.is_file():
        return read(path.read_bytes(), where=str(path), input_shapes=request.input_shapes)
    return read_paddle(path, request.params, input_shapes=request.input_shapes)


def prepare(source: QuantizedModel, request: NbRequest) -> tuple[QuantizedModel, tuple[str, ...]]:
    """The optimized graph with the plan of the file, and what the user should know.

    Raises:
        TargetError: The target cannot express a node; all of them are named.
    """
    if source.plan.quantized_nodes:
        return _prepare_quantized(source, request)
    model = optimized(source.model)
    problems = check(model, request.target)
    if problems:
        dynamic = any(value.shape is None or not value.shape.is_static() for value in model.graph.inputs)
        raise TargetError(
            f"{len(problems)} of {len(list(model.graph))} nodes cannot be written for {request.target}:\n"
            + "\n".join(f"  {problem}" for problem in problems),
            hint="fixed input shapes (--inputShape) make such nodes constant in many models" if dynamic else "",
        )
    if request.config_file is not None:
        return _by_config(model, request)
    if request.weight_bits is None:
        return QuantizedModel(model, QuantPlan(request.target)), ()
    quantized = plan_weights(model, target=request.target, bits=request.weight_bits)
    notes = () if quantized.plan.weights else ("no weight was quantized: " + _top_reasons(quantized.plan),)
    return quantized, notes


def _by_config(model: ir.Model, request: NbRequest) -> tuple[QuantizedModel, tuple[str, ...]]:
    """Quantize as a configuration file says, in one step with the conversion."""
    from converter_lite.config.parser import load_config
    from converter_lite.data.configured import configured_dataset
    from converter_lite.data.inputs import input_specs
    from converter_lite.data.layout import Layout
    from converter_lite.data.remember import RememberingDataset
    from converter_lite.formats.paddle_nb.quantize import quantize_for_nb
    from converter_lite.log import Log
    from converter_lite.quantization.choose import choose

    assert request.config_file is not None
    threads, log = request.threads or os.cpu_count() or 1, Log()
    config = load_config(request.config_file)
    data = config.data_preprocess_param
    choice = choose(config, model, frozenset(), has_samples=data is not None and bool(data.calibrate_path))
    if choice is None:
        raise ConfigError("the file says nothing about quantization", where=str(request.config_file))
    shapes = {name: tuple(shape) for name, shape in request.input_shapes.items()}
    dataset = configured_dataset(
        config.data_preprocess_param, input_specs(model, shapes), input_format=Layout.NHWC, workers=min(threads, 4)
    )
    samples = None if dataset is None else RememberingDataset(dataset)
    target = request.target
    quantized = quantize_for_nb(model, choice.settings, target=target, samples=samples, threads=threads, log=log)
    notes = [*config.warnings, *(dataset.warnings if dataset is not None else ()), *log.warnings]
    return quantized, tuple(notes)


def _prepare_quantized(source: QuantizedModel, request: NbRequest) -> tuple[QuantizedModel, tuple[str, ...]]:
    notes = []
    if request.weight_bits is not None or request.config_file is not None:
        notes.append("the model is quantized already; --quant_model and --configFile change nothing")
    integer = request.target == "arm" or request.full_int8_x86
    had_integers = any(d.mode is NodeMode.INTEGER for d in source.plan.nodes.values())
    quantized = adapt_plan(source, request.target, integer=integer)
    if had_integers and not integer:
        notes.append(
            f"{request.target}: weights stay int8, computation is float; the int8 kernels there saturate beyond 63 and"
            " are not faster"
        )
    return quantized, tuple(notes)


def optimized(model: ir.Model) -> ir.Model:
    """The graph after all passes, with operators that Paddle-Lite has as one."""
    return optimize_for(model, NB_FORM)[0]


def _top_reasons(plan: QuantPlan) -> str:
    return "; ".join(f"{count} x {reason}" for reason, count in plan.float_reasons()[:3])


def _read_back(data: bytes, quantized: QuantizedModel, where: str) -> None:
    """A file that our own reader cannot take back is not handed out.

    Raises:
        FormatError: It cannot be read, or says something else than the plan.
    """
    again = to_graph(parse(data, where=where), where=where)
    wanted = sum(node.mode is not NodeMode.FLOAT for node in quantized.plan.nodes.values())
    found = len(again.plan.quantized_nodes)
    if found != wanted:
        raise FormatError(f"the written file has {found} quantized operators, the plan {wanted}", where=where)


def source_files(model: Path, params: Path | None) -> tuple[Path, Path | None]:
    """Program and parameter file as messages name them.

    Raises:
        UsageError: A file does not exist.
    """
    if model.suffix in (".onnx", ".nb"):
        if not model.is_file():
            raise UsageError("the model file does not exist", where=str(model))
        return model, None
    return locate(model, params)
