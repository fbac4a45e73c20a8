"""The ``converter_lite`` command: flags of the original, and ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from converter_lite import __version__
from converter_lite.cli.arguments import parse_input_shape, refuse_repeated, switch
from converter_lite.cli.console import flush_streams, protect_streams, silence_libraries
from converter_lite.cli.deferring import defer_imports
from converter_lite.cli.memory import use_one_heap
from converter_lite.cli.run import run_conversion, usage_failure
from converter_lite.errors import ConverterError, UsageError, refused_by_system
from converter_lite.request import (
    DEFAULT_SAVE_TYPE,
    INPUT_TYPES,
    MAX_THREADS,
    OPTIMIZE,
    OUTPUT_TYPES,
    SAVE_TYPES,
    ConvertRequest,
)

NOT_AVAILABLE = {
    "trainModel": ("false", "training models are not converted"),
    "decryptKey": ("", "encrypted models are not read"),
    "decryptMode": ("AES-GCM", "encrypted models are not read"),
    "encryption": ("false", "results are not encrypted"),
    "encryptKey": ("", "results are not encrypted"),
    "device": ("", "results are not bound to a device here; use [full_quant_param] target_device"),
    "optimizeTransformer": (
        "false",
        "there is no separate transformer optimization; --optimize=general does what there is",
    ),
    "outputDataFormat": ("", "the outputs keep the layout of the model"),
}
"""Flags of the original whose feature is not there: the value that asks for nothing, and the refusal of any other."""

BATCH_DECIDES = ("json", "quiet", "version")
"""Flags that a job of a batch does not have."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Command(click.Group):
    """Without a subcommand it converts; its errors end with the closing line of a conversion."""

    def main(self, args: Any = None, *_: Any, **__: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            refuse_repeated(arguments)
            status = super().main(arguments, prog_name="converter_lite", standalone_mode=False)
        except click.exceptions.Exit as done:
            status = done.exit_code
        except click.Abort:
            click.echo("interrupted; nothing was written", err=True)
            status = 130
        except (click.ClickException, UsageError) as error:
            status = usage_failure(error)
        except BrokenPipeError:
            status = 1
        except OSError as error:
            click.echo(f"ERROR {refused_by_system(error)}", err=True)
            status = 1
        sys.exit(status if isinstance(status, int) else 0)


def _option(name: str, help_text: str, default: str = "", **more: Any) -> Any:
    parameter = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    shown = f"{help_text}  [default: {default}]" if default else help_text
    return click.option(
        f"--{name}", parameter, default=default, help=shown, metavar=more.pop("metavar", "TEXT"), **more
    )


@click.group(
    cls=_Command,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
    epilog="Exit status: 0 done, 1 conversion failed or quality gate missed, 2 wrong usage or configuration, 3 our defect.",
)
@click.version_option(__version__)
@_option(
    "fmk", "Framework of the model: ONNX, PADDLE, MSLITE (known and refused: TF, TFLITE, CAFFE, MINDIR, PYTORCH, OM)."
)
@_option("modelFile", "Model to convert.", metavar="PATH")
@_option("outputFile", "Result, without suffix.", metavar="PATH")
@_option(
    "weightFile", "Parameters of a PADDLE model; without it they are looked for beside the program.", metavar="PATH"
)
@_option(
    "configFile", "INI file that says how to quantize; without it the model is converted in float.", metavar="PATH"
)
@_option("inputShape", "Fixed input shapes, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@_option("inputDataFormat", "Layout of 4-D BIN calibration files: NHWC or NCHW.", "NHWC")
@_option("inputDataType", f"Element type of the inputs: {', '.join(INPUT_TYPES)}.", "DEFAULT")
@_option("outputDataType", f"Element type of the outputs: {', '.join(OUTPUT_TYPES)}.", "DEFAULT")
@_option("fp16", "on: store float constants as float16.", "off")
@_option("optimize", f"Graph optimization: {', '.join(OPTIMIZE)}.", "general")
@_option("saveType", f"Output formats, comma separated: {', '.join(SAVE_TYPES)}.", ",".join(DEFAULT_SAVE_TYPE))
@_option("msCompat", "Runtimes of a .ms file: device, or wheel (also the released desktop packages).", "device")
@_option("nbTarget", "Processors of a .nb file: arm or x86.", "arm")
@_option("infer", "true: run the result once on random data too.", "false")
@_option(
    "minCosine", "Quality gate: least mean cosine of each output.  [default: 0.95 for 8 bits and more]", metavar="X"
)
@_option("plan", "Use the plans of this JSON file.", metavar="FILE")
@_option("savePlan", "Write the plans to this JSON file.", metavar="FILE")
@click.option("--dryRun", "dry_run", is_flag=True, help="Print the plan and the size forecast, write nothing.")
@_option("json", "Write a machine-readable result to this file.", metavar="FILE")
@_option("threads", "Worker threads; 0 = one per core.", "0", metavar="N")
@_option(
    "cache", "Folder for statistics of activations: later runs on the same data read no sample for them.", metavar="DIR"
)
@click.option(
    "--allowExternalPaths",
    "allow_external_paths",
    is_flag=True,
    help="Read external data and samples that lie, or are links to, outside their folder.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print details.")
@click.option("--quiet", is_flag=True, help="Print warnings, errors and the closing line only.")
@_option("trainModel", "Known, not available.", "false", hidden=True)
@_option("decryptKey", "Known, not available.", hidden=True)
@_option("decryptMode", "Known, not available.", "AES-GCM", hidden=True)
@_option("encryption", "Known, not available.", "false", hidden=True)
@_option("encryptKey", "Known, not available.", hidden=True)
@_option("device", "Known, not available.", hidden=True)
@_option("optimizeTransformer", "Known, not available.", "false", hidden=True)
@_option("outputDataFormat", "Known, not available.", hidden=True)
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> int:
    """Convert a trained model to a quantized one, and prove that the result runs and stays accurate."""
    if context.invoked_subcommand is not None:
        return 0
    if not any(context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in options):
        click.echo(context.get_help())
        return 0
    return run_conversion(
        lambda: _convert(_request(options), verbose=options["verbose"], quiet=options["quiet"]),
        json_file=_json_file(options),
        details=options["verbose"],
    )


@cli.command("template")
@click.argument("use", default="")
def template_command(use: str) -> int:
    """Print a commented INI file for a use, e.g. full_quant; without a name, list the uses."""
    from converter_lite.config.template import TEMPLATES, template

    try:
        click.echo(
            template(use) if use else "\n".join(f"{name:28} {TEMPLATES[name].title}" for name in TEMPLATES), nl=not use
        )
    except ConverterError as error:
        click.echo(f"ERROR {error}", err=True)
        return error.exit_status
    return 0


@cli.command("inspect")
@click.argument("file", type=click.Path(path_type=Path))
def inspect_command(file: Path) -> int:
    """Print operators, tensors and quantization of a .ms, .nb or .onnx FILE."""
    from converter_lite.cli.inspect import inspect

    try:
        click.echo(inspect(file))
    except ConverterError as error:
        click.echo(f"ERROR {error}", err=True)
        return error.exit_status
    return 0


@cli.command("batch")
@click.argument("sources", nargs=-1)
@_option("configFile", "Configuration of jobs that name none.", metavar="PATH")
@_option("outputDir", "Folder of the results, where models are named instead of a job file.", metavar="DIR")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FLAG=VALUE",
    help="A flag of every job that does not set it; repeatable.",
)
@click.option("-j", "workers", default="1", help="Jobs at the same time; 0 = one for each core.  [default: 1]")
@click.option("--resume", is_flag=True, help="Skip what an earlier run did and what has not changed since.")
@_option("json", "Results, kept after every job.", "batch_result.json", metavar="FILE")
@_option("junit", "Results as JUnit XML.", metavar="FILE")
def batch_command(sources: tuple[str, ...], **options: Any) -> int:
    """Convert the jobs of a TOML file, or each of some model files (patterns in quotes work too)."""
    from converter_lite.cli import batch

    known = [parameter.opts[-1].removeprefix("--") for parameter in cli.params]
    try:
        return batch.run_batch(
            batch.collect_jobs(
                sources,
                [name for name in known if name not in BATCH_DECIDES],
                options["settings"],
                config=options["config_file"],
                output_dir=options["output_dir"],
            ),
            batch.local_executor(batch.workers(options["workers"])),
            result_file=Path(options["json"]),
            junit=_path(options["junit"]),
            resume=options["resume"],
            suite=" ".join(sources),
        )
    except ConverterError as error:
        click.echo(f"ERROR {error}", err=True)
        return error.exit_status


def _request(options: dict[str, Any]) -> ConvertRequest:
    for flag in ("fmk", "modelFile", "outputFile"):
        if not options[_parameter(flag)]:
            raise UsageError("the flag is required", where=f"--{flag}")
    for flag, (nothing, reason) in NOT_AVAILABLE.items():
        if options[_parameter(flag)] != nothing:
            raise UsageError(reason, where=f"--{flag}={options[_parameter(flag)]}")
    if options["verbose"] and options["quiet"]:
        raise UsageError("-v and --quiet exclude each other")
    return ConvertRequest(
        model_file=Path(options["model_file"]),
        output_file=options["output_file"],
        fmk=options["fmk"],
        weight_file=_path(options["weight_file"]),
        config_file=_path(options["config_file"]),
        input_shape=parse_input_shape(options["input_shape"]),
        input_data_format=options["input_data_format"],
        input_data_type=options["input_data_type"],
        output_data_type=options["output_data_type"],
        fp16=switch(options["fp16"], "--fp16", on="on", off="off"),
        optimize=options["optimize"],
        save_type=options["save_type"],
        ms_compat=options["ms_compat"],
        nb_target=options["nb_target"],
        infer=switch(options["infer"], "--infer"),
        min_cosine=_number(options["min_cosine"], "--minCosine"),
        plan=_path(options["plan"]),
        save_plan=_path(options["save_plan"]),
        dry_run=options["dry_run"],
        json=_path(options["json"]),
        threads=_threads(options["threads"]),
        cache=_path(options["cache"]),
        allow_external_paths=options["allow_external_paths"],
    )


def _convert(request: ConvertRequest, *, verbose: bool, quiet: bool) -> None:
    from converter_lite.conversion import run
    from converter_lite.log import DETAILED, NORMAL, QUIET, Log, library_messages
    from converter_lite.output import write_text
    from converter_lite.reports.summary import summary

    log = Log(DETAILED if verbose else QUIET if quiet else NORMAL, sys.stdout)
    with library_messages(log):
        result = run(request, log)
    log.info(summary(result))
    if request.json is not None:
        write_text(request.json, json.dumps(result.to_json(), indent=1) + "\n")


def _parameter(flag: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in flag)


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _json_file(options: dict[str, Any]) -> Path | None:
    """Where the result for programs goes; checked first, since failures are written there too.

    Raises:
        UsageError: The path is a directory, an input, or the model that is to be written.
    """
    path = _path(options["json"])
    if path is None:
        return None
    from converter_lite.output import refuse_overwrite

    inputs = [Path(options[name]) for name in ("model_file", "config_file", "weight_file", "plan") if options[name]]
    output = Path(options["output_file"] or "model")
    names = {output.name.removesuffix(suffix) + suffix for suffix in SAVE_TYPES.values()}
    save_plan = [Path(options["save_plan"])] if options["save_plan"] else []
    refuse_overwrite(path, inputs, also=[*(output.with_name(name) for name in names), *save_plan])
    if options["json"].endswith("/"):
        raise UsageError("the path is a directory", where=f"--json={options['json']}", hint="add a file name")
    return path


def _number(text: str, flag: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -1.0 <= value <= 1.0:
        raise UsageError(f"{text!r} is not a number from -1 to 1", where=flag)
    return value


def _threads(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 4 or int(text) > MAX_THREADS:
        raise UsageError(f"{text!r} is not a number of threads (0 to {MAX_THREADS})", where="--threads")
    return int(text)


def main() -> None:
    """Entry point. Names that the terminal cannot show, or would obey, are escaped."""
    protect_streams()
    silence_libraries()
    use_one_heap()
    defer_imports()
    try:
        cli.main()
    except SystemExit as done:
        sys.exit(done.code if flush_streams() else done.code or 1)
