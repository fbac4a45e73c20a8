"""What can be told about a conversion before it: the model, its samples, and what each output format would quantize."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx_ir as ir

from converter_lite.config.checks import without_effect_on
from converter_lite.config.names import QuantType
from converter_lite.config.parser import config_from_mapping, load_config
from converter_lite.config.settings import QuantizationConfig
from converter_lite.data.inputs import format_shape, input_specs
from converter_lite.errors import ConverterError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.registry import output_format
from converter_lite.formats.source import Source
from converter_lite.log import Log
from converter_lite.passes.pipeline import Rewrites
from converter_lite.pipeline.convert import run
from converter_lite.pipeline.prepare import Preparation
from converter_lite.pipeline.read import read_source
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.pipeline.samples import open_samples
from converter_lite.preprocessing.check_inputs import check_inputs
from converter_lite.runtime.context import RunContext

KINDS = 4
"""Kinds of operators that are counted by name."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a conversion to one format would do.

    Attributes:
        format: As in ``--saveType``.
        quantized: Nodes that would be quantized.
        nodes: All of them; 0 in a float conversion.
        bytes: Expected size of the file.
        reasons: Why nodes stay float -> how many, most frequent first.
    """

    format: str
    quantized: int
    nodes: int
    bytes: int
    reasons: Mapping[str, int]


Outlooks = list["Outlook | ConverterError"]


@dataclass(slots=True)
class Examination:
    """What was found.

    Attributes:
        model: Sentences about the model.
        bytes: Size of its files.
        samples: Sentences about the calibration samples.
        outlooks: Kind of quantization -> what each format would do, or why it refuses.
        warnings: What a conversion would warn about.
        problems: What has to be put right first.
    """

    model: list[str] = field(default_factory=list)
    bytes: int = 0
    samples: list[str] = field(default_factory=list)
    outlooks: dict[str, Outlooks] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[ConverterError] = field(default_factory=list)


def examine(request: ConvertRequest, context: RunContext) -> Examination:
    """Examine the model of a request, its samples and its output formats; nothing is written.

    Args:
        request: Without a configuration, every kind of quantization is looked at with the default settings.
        context: Runs the model on the first samples.
    """
    found = Examination()
    try:
        config = None if request.config_file is None else load_config(request.config_file)
        source = read_source(request, static_shapes=request.input_shape)
        found.model, found.bytes = list(_about(source.model, source.is_quantized)), source.bytes
    except ConverterError as error:
        found.problems.append(error)
        return found
    log = Log()
    context = replace(context, log=log)
    if config is not None:
        found.warnings += config.warnings
        try:
            found.samples = _look_at_samples(request, config, source, context)
        except ConverterError as error:
            found.problems.append(error)
    if source.is_quantized and config is None:
        found.outlooks["as it is"] = _outlooks(request, None, log)
    else:
        for name, each in _configurations(config):
            found.outlooks[name] = _outlooks(request, each, log)
    found.warnings += [text for text in log.warnings if text not in found.warnings]
    return found


def _about(model: ir.Model, is_quantized: bool) -> Iterator[str]:
    kinds = Counter(node.op_type for node in model.graph)
    names = ", ".join(f"{count} {name}" for name, count in kinds.most_common(KINDS))
    more = ", ..." if len(kinds) > KINDS else ""
    state = "quantized already" if is_quantized else "float"
    yield f"{state}, {sum(kinds.values())} nodes ({names}{more}), operator set {model.opset_imports.get('', '-')}"
    for spec in input_specs(model):
        yield f"input {spec}"
    for value in model.graph.outputs:
        shape = None if value.shape is None else [size if isinstance(size, int) else None for size in value.shape]
        kind = "" if value.dtype is None else f" {value.dtype.numpy()}"
        yield f"output '{value.name}'{kind}{'' if shape is None else ' ' + format_shape(shape)}"


def _look_at_samples(
    request: ConvertRequest, config: QuantizationConfig, source: Source, context: RunContext
) -> list[str]:
    dataset = open_samples(request, config, source.model, context)
    data = config.data_preprocess_param
    if dataset is None:
        return ["none are named: no comparison on real data, and no quality gate"]
    dataset.head(1)
    requirements = output_format("ONNX", FileOptions()).requirements
    model = Preparation(source, Rewrites(request.optimize))(requirements.of_quantized()).model
    check_inputs(model, dataset, data, preview=None, context=context)
    folders = ", ".join(str(folder) for _, folder in data.calibrate_path)
    kind = data.input_type.value if data.input_type is not None else "BIN"
    return [f"{len(dataset)} ({kind}) from {folders}, readable, and they fit the inputs"]


def _configurations(config: QuantizationConfig | None) -> Iterator[tuple[str, QuantizationConfig]]:
    if config is not None:
        kind = config.common_quant_param.quant_type
        yield "float" if kind is None else kind.value, config
        return
    for each in QuantType:
        yield each.value, config_from_mapping({"common_quant_param": {"quant_type": each.value}}, external_data=True)


def _outlooks(request: ConvertRequest, config: QuantizationConfig | None, log: Log) -> Outlooks:
    """All formats at once; if one refuses, each by itself."""
    wanted = replace(request, config=config, config_file=None, dry_run=True)
    try:
        return list(_dry_run(wanted, request.save_type, log))
    except ConverterError as error:
        if len(request.save_type) == 1:
            return [error]
    found: Outlooks = []
    for name in request.save_type:
        own = Log()
        try:
            found += _dry_run(wanted, (name,), own)
        except ConverterError as error:
            found.append(error)
        idle = set() if config is None else set(without_effect_on(config, (name,)))  # they may have one on the others
        for text in (text for text in own.warnings if text not in idle):
            log.warning(text)
    return found


def _dry_run(request: ConvertRequest, formats: Sequence[str], log: Log) -> Iterator[Outlook]:
    output = Path(request.output_file)
    result = run(replace(request, save_type=tuple(formats), output_file=output), log)
    for name in formats:
        plan = result.plans.get(name)
        nodes, reasons = (len(plan.nodes), dict(plan.float_reasons())) if plan is not None else (0, {})
        quantized = len(plan.quantized_nodes) if plan is not None else 0
        yield Outlook(name, quantized, nodes, result.forecast_bytes[name], reasons)
