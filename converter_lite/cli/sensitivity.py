"""``converter_lite sensitivity``: what each layer costs, and what to leave in float for a wanted accuracy."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.cli.arguments import (
    cosine,
    external_paths,
    option,
    parse_input_shape,
    path_of,
    unsafe_models,
    whole_number,
)
from converter_lite.cli.exit_status import run_work
from converter_lite.errors import ModelError, QualityError, UsageError, one_of
from converter_lite.formats.registry import readable
from converter_lite.pipeline.request import LAYOUTS, MAX_THREADS, ConvertRequest
from converter_lite.system.files import refuse_overwrites

if TYPE_CHECKING:
    from converter_lite.analysis.kernels import KernelUse
    from converter_lite.analysis.layer_sensitivity import Sensitivity
    from converter_lite.log import Log
    from converter_lite.quantization.quantizer import Quantizer
    from converter_lite.runtime.engine import Feed

FORMATS = ("ONNX", "MINDIR_LITE", "NAIVE_BUFFER", "PADDLE")
"""Formats that can be analysed: their quantized networks are measured as ONNX graphs."""

MOST = 65535


@click.command("sensitivity", short_help="Measure what quantizing each layer costs.")
@option("fmk", "Framework of the model.", "ONNX", choices=tuple(readable()))
@option("modelFile", "Model to analyse.", metavar="PATH")
@option("weightFile", "Parameters of a PADDLE or CAFFE model.", metavar="PATH")
@option("configFile", "INI file that says how to quantize, and names the data.", metavar="PATH")
@option("inputShape", "Fixed input shapes, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@option("inputDataFormat", "Layout of 4-D BIN files.", "NHWC", choices=LAYOUTS)
@option("saveType", "Format whose device table is followed.", "ONNX", choices=FORMATS)
@option("targetCosine", "Find the skip_quant_node= line for this cosine of every output.", metavar="X")
@option("samples", "Samples on which each layer is measured.", "16", metavar="N")
@option("shown", "Layers in the table; 0 = all.", "20", metavar="N")
@option("csv", "Write all layers to this file.", metavar="FILE")
@option("json", "Write a machine-readable result to this file.", metavar="FILE")
@external_paths
@unsafe_models
@option("threads", "Worker threads; 0 = one per core.", "0", metavar="N")
def sensitivity_command(**options: Any) -> int:
    """Measure what quantizing each layer costs: alone, and all but it."""
    return run_work(lambda: _run(_wish(options)), json_file=path_of(options["json"]), details=False)


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options, checked."""

    request: ConvertRequest
    target: float | None
    samples: int
    shown: int
    csv: Path | None
    json: Path | None


def _wish(options: dict[str, Any]) -> _Wish:
    for flag, name in (("modelFile", "model_file"), ("configFile", "config_file")):
        if not options[name]:
            raise UsageError("the flag is required", where=f"--{flag}")
    request = ConvertRequest(
        model_file=Path(options["model_file"]),
        output_file=Path(options["model_file"]).parent / ".sensitivity",
        fmk=options["fmk"],
        weight_file=path_of(options["weight_file"]),
        config_file=path_of(options["config_file"]),
        input_shape=parse_input_shape(options["input_shape"]),
        input_data_format=options["input_data_format"],
        save_type=(one_of(options["save_type"], FORMATS, "--saveType"),),
        threads=whole_number(options["threads"], "--threads", most=MAX_THREADS, what="number of threads"),
        allow_external_paths=options["allow_external_paths"],
        allow_unsafe_models=options["allow_unsafe_models"],
    )
    target = cosine(options["target_cosine"], "--targetCosine")
    if target is not None and not 0.0 < target < 1.0:
        raise UsageError("a cosine to reach lies between 0 and 1", where=f"--targetCosine={target:g}")
    wish = _Wish(
        request,
        target,
        samples=whole_number(options["samples"], "--samples", least=1, most=MOST),
        shown=whole_number(options["shown"], "--shown", most=MOST) or MOST,
        csv=path_of(options["csv"]),
        json=path_of(options["json"]),
    )
    refuse_overwrites((wish.csv, wish.json), (request.model_file, request.weight_file, request.config_file))
    return wish


def _run(wish: _Wish) -> None:
    from converter_lite.analysis.kernels import kernels, summary
    from converter_lite.analysis.layer_sensitivity import analyse
    from converter_lite.analysis.sample_source import random_feeds
    from converter_lite.cli.inspect import RUNS
    from converter_lite.log import NORMAL, Log, library_messages, shown_below
    from converter_lite.pipeline.remedies import advice
    from converter_lite.quantization.qdq.build import qdq_model
    from converter_lite.quantization.settings import Goal

    log = Log(NORMAL, sys.stdout, sys.stderr)
    with library_messages(log):
        quantizer = _quantizer(wish, log)
        goal = None if wish.target is None else Goal(wish.target)
        result, quantized = analyse(quantizer, judges=quantizer.judges, samples=wish.samples, goal=goal)
        _report(result, wish, log)
        uses = []
        if wish.request.save_type == ("ONNX",):
            model = qdq_model(quantized)
            inputs = {str(value.name) for value in model.graph.inputs}
            shapes = {name: shape for name, shape in wish.request.input_shape.items() if name in inputs}
            uses = kernels(model, random_feeds(model, RUNS, quantized=model, input_shapes=shapes))
            log.info(f"onnxruntime: {summary(uses)}")
        is_real = quantizer.resources.samples is not None
        content = _write(result, uses, wish, is_real=is_real)
    if not result.is_reached and result.reached is not None and wish.target is not None:
        raise QualityError(
            f"cosine {wish.target:.15g} cannot be reached by leaving layers out; "
            f"{shown_below(result.reached.cosine, wish.target)} can",
            hint=advice(quantizer.choice, is_real=is_real),
            details=content,
        )


def _quantizer(wish: _Wish, log: Log) -> Quantizer:
    from converter_lite.analysis.sample_source import SampleSource
    from converter_lite.calibration.context import CalibrationContext
    from converter_lite.data.random_samples import random_samples
    from converter_lite.formats.base import FileOptions
    from converter_lite.formats.registry import output_format
    from converter_lite.pipeline.prepare import Preparation
    from converter_lite.pipeline.read import read_config, read_source
    from converter_lite.pipeline.rewrites import chosen_rewrites
    from converter_lite.pipeline.samples import check_folders
    from converter_lite.quantization.choice import choose
    from converter_lite.quantization.quantizer import SUBSTITUTES, Quantizer, Resources

    request = wish.request
    threads = request.threads or os.cpu_count() or 1
    config = read_config(request, log)
    assert config is not None
    check_folders(config, (("--csv", wish.csv), ("--json", wish.json)), confined=not request.allow_external_paths)
    source = read_source(request, static_shapes=dict(request.input_shape))
    if source.is_quantized:
        raise ModelError("the model is quantized already", where=source.where, hint="start from the float model")
    inputs = {str(value.name) for value in source.model.graph.inputs}
    shapes = {name: shape for name, shape in request.input_shape.items() if name in inputs}  # others were built in
    fmt = output_format(request.save_type[0], FileOptions(config=config))
    prepared = Preparation(source, chosen_rewrites(request.optimize, config, log))(fmt.requirements.of_quantized())
    samples = SampleSource(
        config,
        None,
        shapes,
        input_format=request.input_data_format,
        threads=threads,
        confined=not request.allow_external_paths,
    ).dataset(prepared.model, log)
    choice = choose(config, prepared.model, prepared.done.vanished, has_samples=samples is not None)
    if choice is None:
        raise UsageError("the configuration quantizes nothing", where=str(request.config_file), hint="set quant_type")
    choice = replace(fmt.restrict(choice, prepared.model), goal=None)
    for note in choice.notes:
        log.warning(note)
    substitutes: Sequence[Feed] = ()
    if samples is None:
        log.warning("layers are measured on random samples: calibration data would show what matters")
        substitutes = tuple(random_samples(prepared.model, SUBSTITUTES, fixed_shapes=shapes))
    return Quantizer(
        prepared.model,
        choice,
        Resources(samples, CalibrationContext(threads=threads, log=log)),
        substitutes,
    )


def _report(result: Sensitivity, wish: _Wish, log: Log) -> None:
    from converter_lite.analysis.layer_sensitivity import table
    from converter_lite.cli.inspect import columns
    from converter_lite.log import counted

    on = f"{counted(len(result.layers), 'layer')} on {counted(result.samples, 'sample')}"
    log.info(f"{on}; sorted by error per cost")
    log.info("\n".join(columns(list(table(result, shown=wish.shown)))))
    log.info(f"everything quantized: cosine {result.quantized.cosine:.6f}, largest error {result.quantized.error:.4g}")
    if result.reached is not None and result.is_reached and not result.skip:
        log.info(f"cosine {wish.target:.15g} holds without leaving anything out")
    elif result.reached is not None and result.line:
        log.info(f"{counted(len(result.skip), 'layer')} left out: cosine {result.reached.cosine:.6f}, with this line:")
        log.info(result.line)


def _write(result: Sensitivity, uses: list[KernelUse], wish: _Wish, *, is_real: bool) -> dict[str, Any]:
    """Write what was asked for; returns the result as plain data."""
    from converter_lite.analysis.kernels import to_json as kernels_to_json
    from converter_lite.analysis.layer_sensitivity import csv_text, to_json
    from converter_lite.system.files import write_text

    if wish.csv is not None:
        write_text(wish.csv, csv_text(result))
    content = {"status": 0, "real_samples": is_real, **to_json(result), "kernels": kernels_to_json(uses)}
    if wish.json is not None:
        write_text(wish.json, json.dumps(content, indent=1) + "\n")
    return content
