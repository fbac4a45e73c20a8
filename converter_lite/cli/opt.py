"""The ``opt`` command: Paddle-Lite's converter, with its flags and its output."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from converter_lite import __version__
from converter_lite.cli.completion import BY_METAVAR, words
from converter_lite.cli.console import end_process, protect_streams, silence_libraries
from converter_lite.cli.deferring import defer_imports
from converter_lite.cli.exit_status import clean_up_when_terminated, results_are_in_place
from converter_lite.cli.memory import keep_freed_memory, multiply_in_one_thread, use_one_heap
from converter_lite.cli.opt_arguments import (
    SINGLE_FILES,
    idle_beside,
    normalize,
    refuse_contradictions,
    refuse_output,
    repeated,
    sparse_threshold,
    without_effect,
)
from converter_lite.cli.opt_listings import SAVED, announce, draw, print_tables, record_tailoring, report_result, warn
from converter_lite.cli.opt_request import convert, program_of, refuse_places, request_of, source_files
from converter_lite.errors import (
    EXIT_DEFECT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ConverterError,
    UsageError,
    refused_by_system,
)

if TYPE_CHECKING:
    from converter_lite.formats.paddle.program import Program

WRITABLE = ("arm", "x86", "host")
EARLIER_TARGETS = {"npu": "huawei_kirin_npu", "apu": "mediatek_apu", "rknpu": "rockchip_npu"}
"""Targets of earlier releases -> their names since."""

REFUSED_TARGETS = (
    *("opencl", "opencl_buffer", "metal", "arm_metal", "x86_metal", "x86_opencl", "xpu", "mlu", "bm"),
    *("imagination_nna", "intel_fpga", "rockchip_npu", "mediatek_apu", "huawei_kirin_npu", "huawei_ascend_npu"),
    *("amlogic_npu", "verisilicon_timvx", "eeasytech_npu", "android_nnapi", "cambricon_mlu", "qualcomm_qnn"),
    "kunlunxin_xtcl",
)
"""Targets whose files need graph passes that only the original has."""

MODELS = (("model_file", "model_dir"), ("model_set_dir", "model_set"))
"""Flags that name a model, and a set of them."""

NOT_AVAILABLE = {
    "nnadapter_mixed_precision_quantization_config_path": "files for NNAdapter devices need the original's opt",
}
"""Flags that are known and refused, with the reason."""


class _Command(click.Command):
    """The command with booleans in all spellings of the original, errors without tracebacks, and the documented exit status."""

    def main(self, args: Any = None, prog_name: str | None = None, *_: Any, **__: Any) -> Any:
        name = prog_name or "opt"
        try:
            arguments = normalize(list(sys.argv[1:] if args is None else args))
            for flag in repeated(arguments):
                click.echo(f"Warning: {flag} is given more than once; the last one counts", err=True)
            status = super().main(arguments, prog_name=name, standalone_mode=False)
        except click.exceptions.Exit as done:
            status = done.exit_code
        except click.Abort:
            click.echo("interrupted; no result was written", err=True)
            status = EXIT_INTERRUPTED
        except click.ClickException as error:
            click.echo(f"Error: {error.format_message()}", err=True)
            click.echo(f"  {name} --help lists the flags", err=True)
            status = EXIT_USAGE
        except ConverterError as error:
            said = str(error)
            if "converter_lite --" not in said:  # a hint without its command: opt has no such flag
                said = said.replace("--saveType", "converter_lite --saveType")
            click.echo(f"Error: {said}", err=True)
            status = error.exit_status
        except BrokenPipeError:
            status = 1
        except MemoryError:
            click.echo("Error: out of memory", err=True)
            status = 1
        except OSError as error:
            click.echo(f"Error: {refused_by_system(error)}", err=True)
            status = 1
        except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
            click.echo(f"Error: this is a defect of converter_lite: {type(error).__name__}: {error}", err=True)
            status = EXIT_DEFECT
        sys.exit(status if isinstance(status, int) else 0)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _option(
    name: str, help_text: str, default: str = "", *, choices: Sequence[str] = (), **more: Any
) -> Callable[[_Function], _Function]:
    shown = f"{help_text}  [default: {default}]" if default else help_text
    complete = words(choices) if choices else BY_METAVAR.get(more.get("metavar", ""))
    return click.option(f"--{name}", name, default=default, help=shown, shell_complete=complete, **more)


@click.command(
    cls=_Command,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
    short_help="Paddle-Lite's opt, with its flags: a Paddle or ONNX model to a .nb file.",
    epilog="Exit status: 0 done, 1 conversion failed or model not supported, 2 wrong usage, 3 our defect.",
)
@click.version_option(__version__, message=f"opt (converter_lite) {__version__}")
@_option("model_dir", "Directory of a Paddle model; not used when model_file is given.", metavar="DIR")
@_option("model_file", "Program file of a Paddle model, or an ONNX file (needs no param_file).", metavar="FILE")
@_option("param_file", "File with all parameters of the Paddle model.", metavar="FILE")
@_option(
    "optimize_out_type",
    "naive_buffer: one .nb file; protobuf: a folder with model and params.",
    "naive_buffer",
    metavar="TYPE",
    choices=("naive_buffer", "protobuf"),
)
@_option("optimize_out", "Result; .nb is appended unless it is there.", metavar="PATH")
@_option(
    "valid_targets",
    "arm, x86, host: comma or blank between them, the first counts.",
    "arm",
    metavar="TARGETS",
    choices=WRITABLE,
)
@_option("quant_model", "Store weights as integers: true or false.", "false", metavar="BOOL")
@_option(
    "quant_type",
    "QUANT_INT8 or QUANT_INT16.",
    "QUANT_INT16",
    metavar="TYPE",
    choices=("QUANT_INT8", "QUANT_INT16"),
)
@_option("enable_fp16", "arm: compute in float16 where there are kernels for it.", "false", metavar="BOOL")
@_option("print_supported_ops", "Table of the operators of valid_targets.", "false", metavar="BOOL")
@_option("print_all_ops", "Table of all operators and targets.", "false", metavar="BOOL")
@_option("print_all_ops_in_md_format", "The same in Markdown.", "false", metavar="BOOL")
@_option("print_model_ops", "Operators of the model, and whether the targets have them.", "false", metavar="BOOL")
@_option("display_kernels", "Operators that have kernels.", "false", metavar="BOOL")
@_option("record_tailoring_info", "Also list the operators and kernels of the result.", "false", metavar="BOOL")
@_option("optimized_nb_model_path", "A .nb file to draw.", metavar="FILE")
@_option("visualization_file_output_path", "Folder for its drawing: Block_N.dot for Graphviz.", metavar="DIR")
@_option("inputShape", "Fixed input shapes, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@_option("configFile", "INI file of converter_lite: full int8 or weights, in one step.", metavar="FILE")
@_option(
    "allowExternalPaths",
    "Read parameters, external data and samples outside their folder too.",
    "false",
    metavar="BOOL",
)
@_option(
    "sparse_model", "Target arm: store 1x1 convolutions without the zeros of their weights.", "false", metavar="BOOL"
)
@_option("sparse_threshold", "Least share of zeros for that, 0 to 1.", "0.6", metavar="SHARE")
@_option("model_set_dir", "Directory of model directories: each becomes a .nb file in optimize_out.", metavar="DIR")
@_option("model_set", "The same.", metavar="DIR")
@_option("model_filename", "Name of the program file in each directory of model_set_dir.", metavar="NAME")
@_option("param_filename", "Name of the parameter file there.", metavar="NAME")
@_option("nnadapter_mixed_precision_quantization_config_path", "Known, not available.", hidden=True)
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> int:
    """Convert a Paddle or ONNX model to a .nb file for Paddle-Lite."""
    given = {name for name in options if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for name, reason in NOT_AVAILABLE.items():
        if options[name] not in ("", "false"):
            raise UsageError(reason, where=f"--{name}={options[name]}", hint="leave the flag out")
    targets = target_names(options["valid_targets"])
    sparse_threshold(options, targets)
    if print_tables(options, given, targets):
        return 0
    has_model, has_set = (bool(options[one] or options[other]) for one, other in MODELS)
    if options["print_model_ops"] == "true" and has_model and not has_set:
        warn(idle_beside("print_model_ops", options, given))
        return _print_model(options, targets)
    drawn, folder = options["optimized_nb_model_path"], options["visualization_file_output_path"]
    if drawn or folder:
        warn(idle_beside("optimized_nb_model_path", options, given))
        draw(drawn, folder)
        return 0
    if has_set:
        from converter_lite.cli.opt_model_set import convert_set

        return convert_set(options, given, written_target(targets), targets)
    if not has_model:
        if given:
            raise UsageError("there is no model", where="opt", hint="give --model_dir or --model_file")
        click.echo(f"paddlelite opt version:converter_lite {__version__}\n{context.get_help()}")
        return 0
    refuse_contradictions(options, given)
    warn(without_effect(options, given, targets))
    refuse_output(options)
    return _convert(options, targets)


def target_names(text: str) -> list[str]:
    """The value of ``--valid_targets``, commas or blanks between names, in order of preference.

    Raises:
        UsageError: A name is unknown, or there is none.
    """
    from converter_lite.errors import did_you_mean

    names = [name for name in re.split(r"[,\s]+", text) if name]
    for name in names:
        if name not in (*WRITABLE, *REFUSED_TARGETS):
            hint = did_you_mean(EARLIER_TARGETS.get(name, name), (*WRITABLE, *REFUSED_TARGETS))
            raise UsageError(f"Wrong target {name!r} found{hint}", where="--valid_targets")
    if not names:
        raise UsageError("there is no target", where="--valid_targets", hint="use arm, x86 or host")
    return names


def written_target(names: Sequence[str]) -> str:
    """The first target that can be written.

    Raises:
        UsageError: None of them can.
    """
    written = [name for name in names if name in WRITABLE]
    if not written:
        raise UsageError(
            f"files for {', '.join(names)} need graph passes that only the original's opt has",
            where="--valid_targets",
            hint="use arm, x86 or host here, or that opt",
        )
    for name in names:
        if name in REFUSED_TARGETS:
            click.echo(f"Warning: {name} cannot be used; the file has kernels of {written[0]} only", err=True)
    return written[0]


def _convert(options: dict[str, Any], targets: list[str]) -> int:
    request = request_of(options, written_target(targets), targets)
    announce(request)
    refuse_places(request)
    result = convert(request)
    results_are_in_place()
    report_result(result)
    if not request.nb_protobuf:
        click.echo(SAVED.format(request.output_file))
    if options["record_tailoring_info"] == "true":
        folder = request.output_file.parent if request.nb_protobuf else request.output_file.with_suffix("")
        record_tailoring(folder, [program_of(request.output_file)])
    return 0


def _print_model(options: dict[str, Any], targets: list[str]) -> int:
    """List the operators of a model beside the targets' kernels, and whether a file for the first target can be written.

    A Paddle program is shown before a target is refused, since the original's kernels for it are known.
    """
    from converter_lite.formats.paddle import tables
    from converter_lite.formats.paddle.inference_model.reader import load

    program_file, parameter_file = source_files(options)
    is_paddle = program_file.suffix not in SINGLE_FILES
    if is_paddle:
        program = load(program_file, parameter_file, confined=options["allowExternalPaths"] != "true")[0]
    else:
        program = _float_program(options, targets)
    operators = tables.model_operators(program)
    click.echo("OPs in the input model include:")
    click.echo(tables.model_table(operators, targets))
    missing = tables.unknown_operators(operators)
    if missing:
        click.echo(
            f"Error: This model is not supported, because {len(missing)} ops are not supported on "
            f"'{', '.join(targets)}'. These unsupported ops are: '{', '.join(missing)}'.",
            err=True,
        )
        return 1
    if is_paddle:
        _float_program(options, targets)
    click.echo("Paddle-Lite supports this model!")
    return 0


def _float_program(options: dict[str, Any], targets: list[str]) -> Program:
    """The program of a model without any quantization: whether its operators can be written at all.

    Raises:
        ConverterError: The model cannot be read, or the target cannot express it; every such node is named.
    """
    from converter_lite.formats.paddle.exporter.build import NbOptions, build
    from converter_lite.formats.paddle.format import NB_REQUIREMENTS
    from converter_lite.passes.pipeline import Rewrites
    from converter_lite.pipeline.prepare import Preparation
    from converter_lite.pipeline.read import read_source
    from converter_lite.quantization.plan import QuantizedModel, QuantPlan

    asked = {**options, "optimize_out": options["optimize_out"] or "unused"}
    request = request_of(asked, written_target(targets), targets)
    source = read_source(request, static_shapes=request.input_shape)
    model = Preparation(source, Rewrites(request.optimize))(NB_REQUIREMENTS).model
    target = request.nb_target
    return build(QuantizedModel(model, QuantPlan(target)), options=NbOptions(target=target)).program


def main() -> None:
    """Entry point: the process ends here, without taking down every module that it has loaded."""
    protect_streams()
    silence_libraries()
    use_one_heap()
    multiply_in_one_thread()
    clean_up_when_terminated()
    start_fast(sys.argv)
    try:
        cli.main()
    except SystemExit as done:
        end_process(done.code)


def start_fast(arguments: Sequence[str]) -> None:
    """Make a process start faster that has one short conversion to do."""
    if not any("configFile" in argument for argument in arguments):
        # A conversion without samples takes less time than all the imports, and what it allocates lives until the end.
        gc.set_threshold(100_000)
        keep_freed_memory()
        defer_imports()


if __name__ == "__main__":
    main()
