"""``converter_lite compare``: a float and a quantized model, layer by layer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from converter_lite.errors import QualityError, UsageError, one_of
from converter_lite.log import shown_below
from converter_lite.pipeline.request import DEFAULT_MIN_COSINE, LAYOUTS, MAX_THREADS
from converter_lite.system.files import refuse_other_encoding, refuse_overwrites
from converter_lite.system.interruptions import interruptions_wait

if TYPE_CHECKING:
    import onnx_ir as ir

    from converter_lite.analysis.comparison import Comparison
    from converter_lite.log import Log
    from converter_lite.runtime.engine import Feed

MOST = 65535
ORDERS = ("worst", "graph")


@click.command("compare", short_help="Compare a float and a quantized model layer by layer.")
@click.argument("float_model", type=click.Path(path_type=Path))
@click.argument("quantized_model", type=click.Path(path_type=Path))
@option("configFile", "INI file of a conversion; its [data_preprocess_param] names the data.", metavar="PATH")
@option(
    "inputs", "Recorded samples: an .npz or Polygraphy .json file, or a folder with test_data_set_0.", metavar="PATH"
)
@option("inputShape", "Sizes of open dimensions, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@option("inputDataFormat", "Layout of 4-D BIN files.", "NHWC", choices=LAYOUTS)
@option("samples", "Most samples that are compared.", "16", metavar="N")
@option("order", "Order of the table: worst is by the layer's own error.", "worst", choices=ORDERS)
@option("shown", "Layers in the table; 0 = all.", "20", metavar="N")
@option("breakBelow", "Mean cosine below which a layer counts as broken.", f"{DEFAULT_MIN_COSINE:g}", metavar="X")
@option("minCosine", "Fail (exit status 1) if the mean cosine of an output is lower.", metavar="X")
@option("csv", "Write all layers to this file.", metavar="FILE")
@option("json", "Write a machine-readable result to this file.", metavar="FILE")
@click.option(
    "--extract-worst",
    "extract_worst",
    default="0",
    metavar="K",
    help="Extract this many of the worst layers as models of their own.",
)
@option("outputDir", "Folder for --extract-worst.", metavar="DIR")
@external_paths
@unsafe_models
@option("threads", "Worker threads; 0 = one per core.", "0", metavar="N")
def compare_command(float_model: Path, quantized_model: Path, **options: Any) -> int:
    """Compare FLOAT_MODEL (of any framework that is read) and QUANTIZED_MODEL (.onnx, .ms, .nb, .pdmodel) layer by layer.

    QUANTIZED_MODEL may also be outputs that another runtime recorded: an .npz file, a folder of them, or the .json file of
    polygraphy run --save-outputs.
    """
    from converter_lite.analysis.recorded_outputs import is_recording

    compare = _compare_recorded if is_recording(quantized_model) else _compare
    return run_work(
        lambda: compare(_wish(float_model, quantized_model, options)),
        json_file=path_of(options["json"]),
        details=False,
    )


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options, checked."""

    float_model: Path
    quantized_model: Path
    config_file: Path | None
    inputs: Path | None
    shapes: dict[str, tuple[int, ...]]
    input_format: str
    samples: int
    order: str
    shown: int
    threshold: float
    gate: float | None
    csv: Path | None
    json: Path | None
    worst: int
    folder: Path | None
    threads: int
    confined: bool
    allow_unsafe: bool


def _wish(float_model: Path, quantized_model: Path, options: dict[str, Any]) -> _Wish:
    threshold = cosine(options["break_below"], "--breakBelow")
    wish = _Wish(
        float_model,
        quantized_model,
        config_file=path_of(options["config_file"]),
        inputs=path_of(options["inputs"]),
        shapes=parse_input_shape(options["input_shape"]),
        input_format=one_of(options["input_data_format"], LAYOUTS, "--inputDataFormat"),
        samples=whole_number(options["samples"], "--samples", least=1, most=MOST),
        order=one_of(options["order"], ORDERS, "--order"),
        shown=whole_number(options["shown"], "--shown", most=MOST) or MOST,
        threshold=DEFAULT_MIN_COSINE if threshold is None else threshold,
        gate=cosine(options["min_cosine"], "--minCosine"),
        csv=path_of(options["csv"]),
        json=path_of(options["json"]),
        worst=whole_number(options["extract_worst"], "--extract-worst", most=MOST),
        folder=path_of(options["output_dir"]),
        threads=whole_number(options["threads"], "--threads", most=MAX_THREADS, what="number of threads"),
        confined=not options["allow_external_paths"],
        allow_unsafe=options["allow_unsafe_models"],
    )
    if bool(wish.worst) != (wish.folder is not None):
        raise UsageError("the flags belong together", where="--extract-worst, --outputDir", hint="give both or none")
    if wish.folder is not None:
        refuse_other_encoding(wish.folder, "--outputDir")
    inputs = (float_model, quantized_model, wish.config_file, wish.inputs)
    refuse_overwrites((wish.csv, wish.json), inputs)
    return wish


def _compare(wish: _Wish) -> None:
    with interruptions_wait():
        from converter_lite.analysis.comparison import compare_models
        from converter_lite.analysis.pair import read_pair
        from converter_lite.analysis.sample_source import SampleSource
        from converter_lite.config.parser import load_config
        from converter_lite.log import NORMAL, Log, library_messages
        from converter_lite.pipeline.samples import check_folders
        from converter_lite.runtime.context import RunContext

    log = Log(NORMAL, sys.stdout, sys.stderr)
    threads = wish.threads or os.cpu_count() or 1
    with library_messages(log):
        config = None if wish.config_file is None else load_config(wish.config_file)
        written = (("--csv", wish.csv), ("--json", wish.json), ("--outputDir", wish.folder))
        check_folders(None if wish.inputs else config, written, confined=wish.confined)
        pair = read_pair(
            wish.float_model,
            wish.quantized_model,
            input_shapes=wish.shapes,
            confined=wish.confined,
            allow_unsafe=wish.allow_unsafe,
        )
        inputs = {str(value.name) for value in pair.reference.graph.inputs}
        shapes = {name: shape for name, shape in wish.shapes.items() if name in inputs}  # others were built in
        source = SampleSource(
            config, wish.inputs, shapes, input_format=wish.input_format, threads=threads, confined=wish.confined
        )
        feeds, is_real = source.feeds(pair.reference, wish.samples, log, quantized=pair.quantized)
        comparison = compare_models(
            pair.reference,
            pair.quantized,
            feeds,
            optimized=pair.optimized,
            threshold=wish.threshold,
            context=RunContext(threads=threads, log=log),
        )
        _report(comparison, wish, log, is_real=is_real)
        _extract(comparison, wish, pair.reference, feeds, log)
        content = _write(comparison, wish, is_real=is_real)  # last, so that nothing is written if this is interrupted
    reached = {error.layer.tensor: error.accumulated.cosine for error in comparison.layers if error.is_output}
    _check_gate(reached, comparison.missed, wish, content)


def _compare_recorded(wish: _Wish) -> None:
    with interruptions_wait():
        from converter_lite.analysis import recorded_outputs as recorded
        from converter_lite.analysis.pair import read_reference
        from converter_lite.analysis.sample_source import SampleSource
        from converter_lite.cli.inspect import columns
        from converter_lite.config.parser import load_config
        from converter_lite.formats.source import ModelFiles
        from converter_lite.log import NORMAL, Log, counted, library_messages
        from converter_lite.pipeline.samples import check_folders
        from converter_lite.runtime.context import RunContext
        from converter_lite.system.files import write_text

    if wish.inputs is None and wish.config_file is None:
        raise UsageError(
            "it does not say for which samples", where=str(wish.quantized_model), hint="name them: --inputs"
        )
    if wish.folder is not None:
        raise UsageError("there is no second model to extract from", where="--extract-worst")
    log = Log(NORMAL, sys.stdout, sys.stderr)
    threads = wish.threads or os.cpu_count() or 1
    with library_messages(log):
        config = None if wish.config_file is None else load_config(wish.config_file)
        written = (("--csv", wish.csv), ("--json", wish.json))
        check_folders(None if wish.inputs else config, written, confined=wish.confined)
        outputs = recorded.read_outputs(wish.quantized_model, wish.inputs)[: wish.samples]
        files = ModelFiles(wish.float_model, None, wish.shapes, wish.confined, wish.allow_unsafe)
        reference, _ = read_reference(files)
        source = SampleSource(
            config, wish.inputs, wish.shapes, input_format=wish.input_format, threads=threads, confined=wish.confined
        )
        feeds, _ = source.feeds(reference, len(outputs), log, quantized=reference)
        context = RunContext(threads=threads, log=log)
        found = recorded.compare_recorded(reference, feeds, outputs, where=str(wish.quantized_model), context=context)
        log.info(f"{counted(found.samples, 'recorded sample')}, {counted(len(found.errors), 'tensor')}")
        log.info("\n".join(columns(list(recorded.table(found, worst_first=wish.order == "worst", shown=wish.shown)))))
        for line in recorded.notes(found):
            log.info(line)
        if found.unknown:
            log.warning(f"without a counterpart in the float model: {', '.join(found.unknown)}")
        if wish.csv is not None:
            write_text(wish.csv, recorded.csv_text(found))
        content = {"status": 0, "real_samples": True, **recorded.to_json(found)}
        if wish.json is not None:
            write_text(wish.json, json.dumps(content, indent=1) + "\n")
    reached = {item.tensor: item.error.cosine for item in found.errors if item.is_output}
    _check_gate(reached, found.missed, wish, content)


def _report(comparison: Comparison, wish: _Wish, log: Log, *, is_real: bool) -> None:
    from converter_lite.analysis.comparison_report import summary, table
    from converter_lite.cli.inspect import columns
    from converter_lite.log import counted

    is_worst = wish.order == "worst"
    kind, first = "" if is_real else "random ", "worst layer first" if is_worst else "layers in graph order"
    log.info(
        f"{counted(comparison.samples, f'{kind}sample')}; {first}; left the whole model up to the layer, right the layer "
        "alone"
    )
    log.info("\n".join(columns(list(table(comparison, worst_first=is_worst, shown=wish.shown)))))
    log.info("\n".join(summary(comparison)))


def _extract(comparison: Comparison, wish: _Wish, reference: ir.Model, feeds: Sequence[Feed], log: Log) -> None:
    from converter_lite.analysis.extraction import extract_worst
    from converter_lite.log import counted
    from converter_lite.runtime.engine import DEFAULT_ENGINE

    if wish.folder is None:
        return
    parts, left = extract_worst(comparison, reference, feeds, wish.folder, count=wish.worst, engine=DEFAULT_ENGINE)
    log.info(f"{wish.folder}: {counted(len(parts), 'layer')}, each as two models; README.md there says how to run them")
    for sentence in left:
        log.info(f"  not cut out: {sentence}")


def _write(comparison: Comparison, wish: _Wish, *, is_real: bool) -> dict[str, Any]:
    """Write what was asked for; returns the result as plain data."""
    from converter_lite.analysis.comparison_report import csv_text, to_json
    from converter_lite.system.files import write_text

    if wish.csv is not None:
        write_text(wish.csv, csv_text(comparison))
    content = {"status": 0, "real_samples": is_real, **to_json(comparison)}
    if wish.json is not None:
        write_text(wish.json, json.dumps(content, indent=1) + "\n")
    return content


def _check_gate(reached: Mapping[str, float], missed: Sequence[str], wish: _Wish, content: dict[str, Any]) -> None:
    """Refuse outputs that miss the gate, or that nothing is known of; ``content`` is what is known about the models."""
    if wish.gate is None:
        return
    problems = [
        f"cosine {shown_below(cosine, wish.gate)} of output {output} is below {wish.gate:.15g}"
        for output, cosine in reached.items()
        if not cosine >= wish.gate
    ]
    if missed or not reached:
        names = f"output {missed[0]}" if missed else "any output"
        problems.append(f"there is nothing to compare {names} with, so that it does not reach {wish.gate:.15g}")
    if problems:
        raise QualityError(problems[0], where=str(wish.quantized_model), details=content)
