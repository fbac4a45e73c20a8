"""The ``converter_lite`` command: the original's flags, and ours."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from converter_lite import __version__
from converter_lite.cli.arguments import (
    cosine,
    encryption_key,
    executor_option,
    external_paths,
    format_flags,
    option,
    parse_input_shape,
    parse_input_value,
    path_of,
    ratio,
    refuse_empty,
    refuse_folders,
    refuse_repeated,
    refuse_single_dashes,
    refuse_swallowed,
    switch,
    unsafe_models,
    values_of,
    values_of_flags,
    whole_number,
)
from converter_lite.cli.batch import batch_command
from converter_lite.cli.compare import compare_command
from converter_lite.cli.completion import words
from converter_lite.cli.console import end_process, protect_streams, silence_libraries
from converter_lite.cli.deferring import defer_imports
from converter_lite.cli.doctor import doctor_command
from converter_lite.cli.exit_status import (
    FAILURE_LINE,
    clean_up_when_terminated,
    interruption,
    report_defect,
    results_are_in_place,
    run_conversion,
    usage_failure,
)
from converter_lite.cli.finetune import finetune_command
from converter_lite.cli.help import GroupedHelp
from converter_lite.cli.memory import multiply_in_one_thread, use_one_heap
from converter_lite.cli.overview import overview_command
from converter_lite.cli.sensitivity import sensitivity_command
from converter_lite.errors import EXIT_FAILED, ConverterError, UsageError, refused_by_system
from converter_lite.formats.registry import FORMATS, readable
from converter_lite.pipeline.request import (
    DEFAULT_SAVE_TYPE,
    ENCRYPTED_FRAMEWORKS,
    INPUT_TYPES,
    LAYOUTS,
    MAX_THREADS,
    NOT_AVAILABLE,
    OPTIMIZE,
    OUTPUT_TYPES,
    ConvertRequest,
)
from converter_lite.system.interruptions import interruptions_wait

MAY_BE_EMPTY = ("--weightFile", "--device")
"""Flags whose empty value is one; it would switch off others unnoticed (that of a variable that is not set, say)."""

WITH_JSON = ("compare", "finetune", "sensitivity")
"""Commands whose ``--json`` is one result, of a failure as well, like that of a conversion."""

OPT = "opt"
"""The command of Paddle-Lite's converter; elsewhere in a shell this name may be LLVM's."""


class _Command(GroupedHelp):
    """Without a subcommand it converts; errors then end with the closing line of a conversion."""

    def main(self, args: Any = None, *_: Any, **__: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        if arguments[:1] == [OPT]:  # spellings, messages and exit status of its own
            _opt().main(arguments[1:], f"converter_lite {OPT}")
        command = arguments[0] if arguments[:1] and arguments[0] in self.commands else ""
        try:
            refuse_repeated(arguments)
            refuse_single_dashes(arguments, self._flags())
            refuse_swallowed(arguments, self._flags(with_values=True))
            refuse_empty(arguments, self._flags(with_values=True).difference(MAY_BE_EMPTY))
            refuse_folders(arguments, self._flags(metavar="FILE"))
            status = super().main(arguments, prog_name="converter_lite", standalone_mode=False)
        except click.exceptions.Exit as done:
            status = done.exit_code
        except click.Abort:
            status = interruption(json_file=self._json_of_unfinished(arguments))
            _close(status, command)
        except (click.ClickException, UsageError) as error:
            status = usage_failure(error, json_file=self._json_of_unfinished(arguments), command=command)
            _close(status, command)
        except BrokenPipeError:
            status = EXIT_FAILED  # nobody reads the output
        except OSError as error:  # the disk behind the output is full, for one
            status = EXIT_FAILED
            with suppress(OSError):
                click.echo(f"ERROR {refused_by_system(error)}", err=True)
                _close(status, command)
        except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
            status = report_defect(error)
            _close(status, command)
        sys.exit(status if isinstance(status, int) else 0)

    def _flags(self, *, with_values: bool = False, metavar: str = "") -> set[str]:
        parameters = [parameter for command in (self, *self.commands.values()) for parameter in command.params]
        options = [option for option in parameters if isinstance(option, click.Option)]
        wanted = [option for option in options if not metavar or option.metavar == metavar]
        return {name for option in wanted if not (with_values and option.is_flag) for name in option.opts}

    def _json_of_unfinished(self, arguments: list[str]) -> Path | None:
        # --json of a batch is a file of another kind, and some commands have none
        others = [name for name in self.commands if name not in WITH_JSON]
        return _json_of_refused(arguments) if set(others).isdisjoint(arguments) else None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), OPT))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _opt() if cmd_name == OPT else super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            names = ", ".join(self.list_commands(ctx))
            raise UsageError(f"{args[0]!r} is neither a flag (they begin with --) nor a command ({names})")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Command,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
    epilog="Exit status: 0 done, 1 conversion failed or quality gate missed, 2 wrong usage or configuration, 3 our defect.",
)
@click.version_option(__version__)
@option("fmk", "Framework of the model.", choices=tuple(readable()))
@option("modelFile", "Model to convert.", metavar="PATH")
@option("outputFile", "Result, without suffix.", metavar="PATH")
@option(
    "weightFile",
    f"Parameters of a {' or '.join(name for name, known in readable().items() if known.has_weight_file)} model; "
    "without it they are looked for beside the model.",
    metavar="PATH",
)
@option("configFile", "INI file that says how to quantize; without it the model is converted in float.", metavar="PATH")
@option("inputShape", "Fixed input shapes, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@option("inputValue", "Inputs that become constants, name:16000;name2:1,0,1.", metavar="VALUES")
@option("inputDataFormat", "Layout of 4-D BIN calibration files.", "NHWC", choices=LAYOUTS)
@option("inputDataType", "Element type of the inputs.", "DEFAULT", choices=INPUT_TYPES)
@option("outputDataType", "Element type of the outputs.", "DEFAULT", choices=OUTPUT_TYPES)
@option("outputDataFormat", "Layout of 4-D outputs; without it that of the model.", choices=LAYOUTS)
@option("fp16", "on: store float constants as float16.", "off", choices=("on", "off"))
@option("optimize", "Graph optimization; the device levels do what general does.", "general", choices=OPTIMIZE)
@option(
    "saveType",
    "Output formats, with commas between them.",
    ",".join(DEFAULT_SAVE_TYPE),
    metavar=f"[{'|'.join(FORMATS)}],...",
    shell_complete=words(tuple(FORMATS)),
)
@format_flags
@option("decryptKey", f"Hexadecimal key of an encrypted {' or '.join(ENCRYPTED_FRAMEWORKS)} model.", metavar="KEY")
@option("decryptMode", "How such a model is encrypted.", "AES-GCM", choices=("AES-GCM", "AES-CBC"))
@option(
    "encryption",
    "true: encrypt the .ms file (AES-GCM); the default is true with --encryptKey.",
    choices=("true", "false"),
)
@option("encryptKey", "Key for that: 32 hexadecimal digits.", metavar="KEY")
@option("infer", "true: run the result once on random data too.", "false", choices=("true", "false"))
@option(
    "minCosine", "Quality gate: least mean cosine of each output.  [default: 0.95 for 8 bits and more]", metavar="X"
)
@option("minSpeedup", "Gate for ONNX files: least speed, as a multiple of the float model's.", metavar="X")
@option("proofData", "Compare on these samples: an .npz file, or a folder of BIN files per input.", metavar="PATH")
@option("plan", "Use the plans of this JSON file.", metavar="FILE")
@option("savePlan", "Write the plans to this JSON file.", metavar="FILE")
@click.option("--dryRun", "dry_run", is_flag=True, help="Print the plan and the size forecast, write nothing.")
@option("json", "Write a machine-readable result to this file.", metavar="FILE")
@option("report", "Write a page about layers, errors and sizes to this file (HTML).", metavar="FILE")
@option("threads", "Worker threads; 0 = one per core.", "0", metavar="N")
@option(
    "cache", "Folder for statistics of activations: later runs on the same data read no sample for them.", metavar="DIR"
)
@executor_option
@option("preview", "Folder for pictures of the first prepared samples (PNG).", metavar="DIR")
@external_paths
@unsafe_models
@click.option("-v", "--verbose", is_flag=True, help="Print details.")
@click.option("--quiet", is_flag=True, help="Print warnings, errors and the closing line only.")
@option("trainModel", "Known, not available.", "false", hidden=True)
@option("device", "Known, not available.", hidden=True)
@option("optimizeTransformer", "Known, not available.", "false", hidden=True)
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> int:
    """Convert a trained model to a quantized one, and prove that the result runs and stays accurate."""
    sources = (context.get_parameter_source(name) for name in options)
    is_given = any(source is click.core.ParameterSource.COMMANDLINE for source in sources)
    if context.invoked_subcommand is not None:
        if is_given:
            raise UsageError("flags of a conversion have no effect here", where=context.invoked_subcommand)
        return 0
    if not is_given:
        click.echo(context.get_help())
        return 0
    return run_conversion(
        lambda: _convert(_request(options), verbose=options["verbose"], quiet=options["quiet"]),
        json_file=_json_file(options),
        details=options["verbose"],
    )


def _uses(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from converter_lite.config.template import TEMPLATES

    return [CompletionItem(use, help=TEMPLATES[use].title) for use in TEMPLATES if use.startswith(incomplete)]


@cli.command("template", short_help="Print a commented configuration to start from, or list them.")
@click.argument("use", default="", shell_complete=_uses)
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


@cli.command("inspect", short_help="Show operators, tensors and quantization of a model file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--kernels",
    is_flag=True,
    help="Show which kernels compute in integers: runs an .onnx file, or reads what trtexec --exportLayerInfo wrote.",
)
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --kernels: what trtexec --exportProfile wrote.",
)
@option("inputShape", "With --kernels: sizes of open dimensions, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@click.option(
    "--allowExternalPaths", "allow_external_paths", is_flag=True, help="Read external data outside the folder too."
)
def inspect_command(
    file: Path, kernels: bool, profile: Path | None, input_shape: str, allow_external_paths: bool
) -> int:
    """Print operators, tensors and quantization of a model FILE of any framework that is read."""
    from converter_lite.cli.inspect import inspect, inspect_kernels

    try:
        if not kernels and profile is not None:
            raise UsageError("has no effect without --kernels", where=f"--profile={profile}")
        if not kernels and input_shape:
            raise UsageError("has no effect without --kernels", where=f"--inputShape={input_shape}")
        confined, shapes = not allow_external_paths, parse_input_shape(input_shape)
        click.echo(
            inspect_kernels(file, profile=profile, input_shapes=shapes, confined=confined)
            if kernels
            else inspect(file, confined=confined)
        )
    except ConverterError as error:
        click.echo(f"ERROR {error}", err=True)
        return error.exit_status
    return 0


cli.add_command(batch_command)
cli.add_command(compare_command)
cli.add_command(doctor_command)
cli.add_command(finetune_command)
cli.add_command(overview_command)
cli.add_command(sensitivity_command)


def _close(status: int, command: str) -> None:
    """The closing line of a conversion that failed; other commands have none."""
    if not command:
        click.echo(FAILURE_LINE.format(status=status))


def _opt() -> click.Command:
    from converter_lite.cli.opt import cli as opt

    return opt


def _request(options: dict[str, Any]) -> ConvertRequest:
    missing = [f"--{flag}" for flag in ("fmk", "modelFile", "outputFile") if not options[_parameter(flag)]]
    if missing:
        required = "the flag is required" if len(missing) == 1 else "these flags are required"
        raise UsageError(required, where=", ".join(missing))
    for flag, (nothing, reason) in NOT_AVAILABLE.items():
        if options[_parameter(flag)] != nothing:
            raise UsageError(reason, where=f"--{flag}={options[_parameter(flag)]}")
    if options["verbose"] and options["quiet"]:
        raise UsageError("-v and --quiet exclude each other")
    return ConvertRequest(
        model_file=Path(options["model_file"]),
        output_file=options["output_file"],
        fmk=options["fmk"],
        weight_file=path_of(options["weight_file"]),
        config_file=path_of(options["config_file"]),
        input_shape=parse_input_shape(options["input_shape"]),
        input_value=parse_input_value(options["input_value"]),
        input_data_format=options["input_data_format"],
        input_data_type=options["input_data_type"],
        output_data_type=options["output_data_type"],
        output_data_format=options["output_data_format"],
        fp16=switch(options["fp16"], "--fp16", on="on", off="off"),
        optimize=options["optimize"],
        save_type=options["save_type"],
        **values_of_flags(options),
        decrypt_key=options["decrypt_key"],
        decrypt_mode=options["decrypt_mode"],
        encrypt_key=encryption_key(options["encryption"], options["encrypt_key"]),
        infer=switch(options["infer"], "--infer"),
        min_cosine=cosine(options["min_cosine"], "--minCosine"),
        min_speedup=ratio(options["min_speedup"], "--minSpeedup"),
        proof_data=path_of(options["proof_data"]),
        plan=path_of(options["plan"]),
        save_plan=path_of(options["save_plan"]),
        dry_run=options["dry_run"],
        json=path_of(options["json"]),
        report=path_of(options["report"]),
        threads=whole_number(options["threads"], "--threads", most=MAX_THREADS, what="number of threads"),
        cache=path_of(options["cache"]),
        executor=options["executor"],
        preview=path_of(options["preview"]),
        allow_external_paths=options["allow_external_paths"],
        allow_unsafe_models=options["allow_unsafe_models"],
    )


def _convert(request: ConvertRequest, *, verbose: bool, quiet: bool) -> None:
    with interruptions_wait():
        from converter_lite.log import DETAILED, NORMAL, QUIET, Log, library_messages

        log = Log(DETAILED if verbose else QUIET if quiet else NORMAL, sys.stdout, sys.stderr)
        with log.announced("loading"):
            from converter_lite.pipeline.convert import run
            from converter_lite.pipeline.summary import summary

    with library_messages(log):
        result = run(request, log)
    results_are_in_place()
    log.info(summary(result))


def _parameter(flag: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in flag)


def _json_file(options: dict[str, Any]) -> Path | None:
    """Where the machine-readable result goes; checked first, since failures are written there too.

    Raises:
        UsageError: The path is an input, or the model that is to be written.
    """
    path = path_of(options["json"])
    if path is None:
        return None
    from converter_lite.system.files import refuse_overwrite

    inputs = [Path(options[name]) for name in ("model_file", "config_file", "weight_file", "plan") if options[name]]
    output = Path(options["output_file"] or "model")
    # An output without a name (a folder) is refused later.
    names = {output.name.removesuffix(f.suffix) + f.suffix for f in FORMATS.values()} if output.name else ()
    others = [Path(options[name]) for name in ("save_plan", "report") if options[name]]
    refuse_overwrite(path, inputs, also=[*(output.with_name(name) for name in names), *others])
    return path


def _json_of_refused(arguments: list[str]) -> Path | None:
    """Where ``--json`` of a command line that could not be parsed goes, if it may be written."""
    given = values_of(arguments)
    names = ("json", "modelFile", "configFile", "weightFile", "plan", "outputFile", "savePlan", "report")
    try:
        refuse_folders(arguments, ("--json",))
        return _json_file({_parameter(name): given.get(f"--{name}", "") for name in names})
    except UsageError:
        return None


def main() -> None:
    """Entry point. Characters that the terminal cannot show, or would obey, are escaped; the process ends here."""
    protect_streams()
    silence_libraries()
    use_one_heap()
    multiply_in_one_thread()
    defer_imports()
    clean_up_when_terminated()
    if sys.argv[1:2] == [OPT]:
        from converter_lite.cli.opt import start_fast

        start_fast(sys.argv)
    try:
        cli.main()
    except SystemExit as done:
        end_process(done.code)
