"""``converter_lite doctor``: what can be told before a conversion, on one screen."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.cli.arguments import external_paths, option, parse_input_shape, path_of, unsafe_models
from converter_lite.cli.completion import words
from converter_lite.cli.exit_status import run_work
from converter_lite.errors import ConverterError, UsageError
from converter_lite.formats.registry import FORMATS, framework_of, readable
from converter_lite.pipeline.request import DEFAULT_SAVE_TYPE, ConvertRequest

if TYPE_CHECKING:
    from converter_lite.analysis.examination import Examination, Outlook

REASONS = 2
"""Reasons for float nodes that are shown for a format; without a configuration one, on the same line."""

EXTRAS = {
    "report": ("bokeh", "jinja2"),
    "encryption": ("cryptography",),
    "dask": ("dask", "distributed"),
    "tensorflow": ("tensorflow", "tf2onnx"),
    "pytorch": ("torch", "onnxscript"),
    "learn": ("torch",),
}
"""Optional parts of this package -> what they need."""


@click.command("doctor", short_help="Say what a conversion would do, and what is missing for it.")
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("config", type=click.Path(path_type=Path), required=False)
@option("fmk", "Framework of the model; without it, by the end of its name.", choices=tuple(readable()))
@option("weightFile", "Parameters of the model, if they are not beside it.", metavar="PATH")
@option("inputShape", "Fixed input shapes, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@option(
    "saveType",
    "Output formats to look at.  [default: all]",
    metavar=f"[{'|'.join(FORMATS)}],...",
    shell_complete=words(tuple(FORMATS)),
)
@external_paths
@unsafe_models
def doctor_command(model: Path, config: Path | None, **options: Any) -> int:
    """Examine MODEL, and the samples and settings of CONFIG, without converting anything.

    Shown are the processor and what it means for integer kernels, versions, inputs and outputs, the calibration samples, and
    for each output format what would be quantized. The exit status is that of a conversion with the same problems.
    """
    return run_work(lambda: _examine(model, config, options), json_file=None, details=False)


def _examine(model: Path, config: Path | None, options: dict[str, Any]) -> None:
    request = _request(model, config, options)
    click.echo("\n".join(_lines(_machine())))
    from converter_lite.analysis.examination import examine
    from converter_lite.log import Log, library_messages
    from converter_lite.runtime.context import RunContext
    from converter_lite.runtime.engine import DEFAULT_ENGINE

    with library_messages(Log()):
        found = examine(request, RunContext(DEFAULT_ENGINE, os.cpu_count() or 1, Log()))
    click.echo("".join(f"{line}\n" for line in _lines(_findings(request, found))), nl=False)
    _fail(found, is_asked=bool(options["save_type"]))
    click.echo("\n".join(_lines(_next(request, found, options))))


def _request(model: Path, config: Path | None, options: dict[str, Any]) -> ConvertRequest:
    framework = options["fmk"] or framework_of(model)
    if framework is None:
        endings = ", ".join(ending for known in readable().values() for ending in known.suffixes)
        raise UsageError(
            f"the name does not tell the framework (it ends with none of {endings})",
            where=str(model),
            hint="give it with --fmk",
        )
    return ConvertRequest(
        model_file=model,
        output_file=Path(".doctor"),
        fmk=framework,
        weight_file=path_of(options["weight_file"]),
        config_file=config,
        input_shape=parse_input_shape(options["input_shape"]),
        save_type=options["save_type"] or tuple(FORMATS),
        dry_run=True,
        allow_external_paths=options["allow_external_paths"],
        allow_unsafe_models=options["allow_unsafe_models"],
    )


_Row = tuple[str, str]


def _machine() -> Iterator[_Row]:
    from converter_lite.execution.processor import MEANINGS, processor_kind
    from converter_lite.pipeline.result import installed_versions
    from converter_lite.system.extras import missing

    kind = processor_kind()
    yield (
        "processor",
        f"{os.cpu_count()} cores, {kind}: {MEANINGS.get(kind, 'its kernels for int8 are not known here')}",
    )
    yield "versions", ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    absent = [name for name, packages in EXTRAS.items() if missing(packages)]
    yield "extras", f"not installed: {', '.join(absent)}" if absent else "all are installed"


def _findings(request: ConvertRequest, found: Examination) -> Iterator[_Row]:
    if found.model:
        yield "model", f"{request.model_file}: {request.fmk}, {found.bytes:,} bytes, {found.model[0]}"
    yield from (("", sentence) for sentence in found.model[1:])
    yield from (("samples", sentence) for sentence in found.samples)
    is_short = request.config_file is None
    for kind, outlooks in found.outlooks.items():
        title = kind
        for name, outlook in zip(request.save_type, outlooks, strict=True):
            for text in _outlook(outlook, found.bytes, is_short=is_short):
                yield title, f"{name:<13}{text}"
                title = name = ""
    yield from (("WARNING", sentence) for sentence in found.warnings)


def _outlook(outlook: Outlook | ConverterError, size: int, *, is_short: bool) -> Iterator[str]:
    if isinstance(outlook, ConverterError):
        first, *more = str(outlook).splitlines()
        yield f"refused: {first}{f' {more[0].strip()}' if first.endswith(':') and more else ''}"
        return
    counted = f"{outlook.quantized} of {outlook.nodes} nodes quantized, " if outlook.nodes else ""
    forecast = f"{counted}about {outlook.bytes:,} bytes ({outlook.bytes / max(size, 1):.2f} x)"
    shown = dict(itertools.islice(outlook.reasons.items(), 1 if is_short else REASONS))
    reasons = [f"{count} in float: {reason}" for reason, count in shown.items()]
    others = sum(outlook.reasons.values()) - sum(shown.values())
    reasons += [f"{others} for other reasons"] if others else []
    if is_short:
        yield "; ".join([forecast, *reasons])
        return
    yield forecast
    yield from (f"  {reason}" for reason in reasons)


def _next(request: ConvertRequest, found: Examination, options: dict[str, Any]) -> Iterator[_Row]:
    """The command that comes next, with all flags of this one."""
    given = [
        f"--{flag}={options[name]}" for flag, name in (("weightFile", "weight_file"), ("inputShape", "input_shape"))
    ]
    given = [text for text in given if not text.endswith("=")]
    for flag, name in (("allowExternalPaths", "allow_external_paths"), ("allowUnsafeModels", "allow_unsafe_models")):
        given += [f"--{flag}"] * options[name]
    save_type = options["save_type"]
    if request.config_file is None:
        again = ["converter_lite", "doctor", str(request.model_file), "full_quant.cfg"]
        again += [f"--fmk={options['fmk']}"] * bool(options["fmk"])
        again += [*given, *[f"--saveType={save_type}"] * bool(save_type)]
        yield "next", f"converter_lite template full_quant > full_quant.cfg && {shlex.join(again)}"
        return
    save_type = save_type or _save_type(request, found)
    flags = [f"--fmk={request.fmk}", f"--modelFile={request.model_file}"]
    flags += [f"--outputFile={request.model_file.stem or 'model'}_quantized", f"--configFile={request.config_file}"]
    flags += [*given, *[f"--saveType={save_type}"] * bool(save_type)]
    yield "next", shlex.join(["converter_lite", *flags])


def _save_type(request: ConvertRequest, found: Examination) -> str:
    """The formats of a conversion without those that refuse; empty for the usual ones."""
    (outlooks,) = found.outlooks.values()
    pairs = zip(request.save_type, outlooks, strict=True)
    willing = [name for name, outlook in pairs if not isinstance(outlook, ConverterError)]
    usual = [name for name in DEFAULT_SAVE_TYPE if name in willing]
    return "" if len(usual) == len(DEFAULT_SAVE_TYPE) else ",".join(usual or willing)


def _fail(found: Examination, *, is_asked: bool) -> None:
    """Raise what would stop a conversion.

    Raises:
        ConverterError: A problem, or the refusal of a format that was asked for, or of all formats.
    """
    for problem in found.problems:
        raise problem
    results = [outlook for outlooks in found.outlooks.values() for outlook in outlooks]
    refusals = [result for result in results if isinstance(result, ConverterError)]
    if refusals and (len(refusals) == len(results) or (is_asked and len(found.outlooks) == 1)):
        raise refusals[0]


def _lines(rows: Iterator[_Row]) -> Iterator[str]:
    before = ""
    for title, text in rows:
        yield f"{title if title != before else '':<14}{text}"
        before = title
