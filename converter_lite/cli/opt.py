"""The ``opt`` command: Paddle-Lite's converter, its flags and its lines."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from converter_lite import __version__
from converter_lite.cli.console import end_process, protect_streams, silence_libraries
from converter_lite.cli.deferring import defer_imports
from converter_lite.cli.memory import use_one_heap
from converter_lite.cli.opt_arguments import (
    normalize,
    refuse_contradictions,
    refuse_output,
    sparse_threshold,
    without_effect,
)
from converter_lite.cli.opt_listings import SAVED, announce, draw, print_tables, record_tailoring, tell
from converter_lite.cli.run import clean_up_when_terminated
from converter_lite.errors import (
    EXIT_DEFECT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ConverterError,
    TargetError,
    UsageError,
    refused_by_system,
)
from converter_lite.interruptions import interruptions_wait

if TYPE_CHECKING:
    from converter_lite.nb_conversion import NbRequest

WRITABLE = ("arm", "x86", "host")
REFUSED_TARGETS = (
    *("opencl", "opencl_buffer", "metal", "arm_metal", "x86_metal", "x86_opencl", "xpu", "mlu", "bm"),
    *("imagination_nna", "intel_fpga", "rockchip_npu", "mediatek_apu", "huawei_kirin_npu", "huawei_ascend_npu"),
    *("amlogic_npu", "verisilicon_timvx", "eeasytech_npu", "android_nnapi", "cambricon_mlu", "qualcomm_qnn"),
    "kunlunxin_xtcl",
)
"""Targets of the original whose files need graph passes that only it has."""

OLDER_LAYOUT = "PADDLE_LITE_MODEL_VERSION1"
"""Environment variable of the original: if it is set, files have the layout of release 2.7."""

MODELS = (("model_file", "model_dir"), ("model_set_dir", "model_set"))
"""Flags that name a model, and a set of them."""

QUANT_TYPES = ("QUANT_INT8", "QUANT_INT16")
NOT_AVAILABLE = {
    "nnadapter_mixed_precision_quantization_config_path": "files for NNAdapter devices need the original's opt",
}
"""Flags that are known and refused, with the reason."""


class _Command(click.Command):
    """Booleans in all the original's spellings; errors without tracebacks; the exit status as documented."""

    def main(self, args: Any = None, *_: Any, **__: Any) -> Any:
        try:
            arguments = normalize(list(sys.argv[1:] if args is None else args))
            status = super().main(arguments, prog_name="opt", standalone_mode=False)
        except click.exceptions.Exit as done:
            status = done.exit_code
        except click.Abort:
            click.echo("interrupted; nothing was written", err=True)
            status = EXIT_INTERRUPTED
        except click.ClickException as error:
            click.echo(f"Error: {error.format_message()}", err=True)
            click.echo("  opt --help lists the flags", err=True)
            status = EXIT_USAGE
        except ConverterError as error:
            click.echo(f"Error: {error}", err=True)
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


def _option(name: str, help_text: str, default: str = "", **more: Any) -> Callable[[_Function], _Function]:
    shown = f"{help_text}  [default: {default}]" if default else help_text
    return click.option(f"--{name}", name, default=default, help=shown, **more)


@click.command(
    cls=_Command,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
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
)
@_option("optimize_out", "Result; .nb is appended unless it is there.", metavar="PATH")
@_option("valid_targets", "arm, x86, host: comma or blank between them, the first counts.", "arm", metavar="TARGETS")
@_option("quant_model", "Store weights as integers: true or false.", "false", metavar="BOOL")
@_option("quant_type", "QUANT_INT8 or QUANT_INT16.", "QUANT_INT16", metavar="TYPE")
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
    if print_tables(options, targets):
        return 0
    has_model, has_set = (bool(options[one] or options[other]) for one, other in MODELS)
    if options["print_model_ops"] == "true" and has_model and not has_set:
        return _print_model(options, targets)
    if options["optimized_nb_model_path"] or options["visualization_file_output_path"]:
        return draw(options)
    if has_set:
        from converter_lite.cli.opt_model_set import convert_set

        return convert_set(options, given, targets, _request({**options, "optimize_out": "unused"}, targets))
    if not has_model:
        if given:
            raise UsageError("there is no model", where="opt", hint="give --model_dir or --model_file")
        click.echo(f"paddlelite opt version:converter_lite {__version__}\n{context.get_help()}")
        return 0
    refuse_contradictions(options, given)
    for note in without_effect(options, given, targets):
        click.echo(f"Warning: {note}", err=True)
    refuse_output(options)
    return _convert(options, targets)


def target_names(text: str) -> list[str]:
    """The value of ``--valid_targets``, commas or blanks between names, in order of preference.

    Raises:
        UsageError: A name is unknown, or there is none.
    """
    from converter_lite.suggest import did_you_mean

    names = [name for name in re.split(r"[,\s]+", text) if name]
    for name in names:
        if name not in (*WRITABLE, *REFUSED_TARGETS):
            hint = did_you_mean(name, (*WRITABLE, *REFUSED_TARGETS))
            raise UsageError(f"Wrong target {name!r} found{hint}", where="--valid_targets")
    if not names:
        raise UsageError("there is no target", where="--valid_targets", hint="use arm, x86 or host")
    return names


def written_target(names: Sequence[str]) -> str:
    """The first target that can be written.

    Raises:
        TargetError: None of them can.
    """
    written = [name for name in names if name in WRITABLE]
    if not written:
        raise TargetError(
            f"files for {', '.join(names)} need graph passes that only the original's opt has",
            where="--valid_targets",
            hint="use arm, x86 or host here, or that opt",
        )
    for name in names:
        if name in REFUSED_TARGETS:
            click.echo(f"Warning: {name} cannot be used; the file has kernels of {written[0]} only", err=True)
    return written[0]


def _request(options: dict[str, Any], targets: list[str]) -> NbRequest:
    from converter_lite.nb_conversion import QUANT_BITS, NbRequest

    protobuf = _one_of(options, "optimize_out_type", ("naive_buffer", "protobuf")) == "protobuf"
    bits = QUANT_BITS[_one_of(options, "quant_type", QUANT_TYPES)]
    output = options["optimize_out"]
    model, params = _model_paths(options)
    return NbRequest(
        model=model,
        params=params,
        output=Path(output if protobuf or output.endswith(".nb") else f"{output}.nb"),
        target=written_target(targets),
        weight_bits=bits if options["quant_model"] == "true" else None,
        input_shapes=_input_shapes(options["inputShape"]),
        config_file=Path(options["configFile"]) if options["configFile"] else None,
        meta_version=1 if OLDER_LAYOUT in os.environ else 2,
        protobuf=protobuf,
        allow_external_paths=options["allowExternalPaths"] == "true",
        half=options["enable_fp16"] == "true",
        sparse_threshold=sparse_threshold(options, targets),
    )


def _model_paths(options: dict[str, Any]) -> tuple[Path, Path | None]:
    """Model file or directory, and the file with its parameters if it was named."""
    parameters = options["param_file"]
    return Path(options["model_file"] or options["model_dir"]), Path(parameters) if parameters else None


def _one_of(options: dict[str, Any], name: str, allowed: Sequence[str]) -> str:
    value = str(options[name])
    if value not in allowed:
        from converter_lite.request import one_of

        one_of(value, allowed, f"--{name}")
    return value


def _input_shapes(text: str) -> dict[str, tuple[int, ...]]:
    if not text:
        return {}
    from converter_lite.cli.arguments import parse_input_shape

    return parse_input_shape(text)


def _convert(options: dict[str, Any], targets: list[str]) -> int:
    with interruptions_wait():
        from converter_lite.log import Log
        from converter_lite.nb_conversion import convert_to_nb

    request = _request(options, targets)
    announce(request)
    result = convert_to_nb(request, Log(shows_progress=True))
    tell(result)
    for output in result.accuracy:
        click.echo(f"output {output.name}: cosine {output.cosine:.6f} with the float model", err=True)
    if not request.protobuf:
        click.echo(SAVED.format(result.path))
    if options["record_tailoring_info"] == "true":
        record_tailoring(result.path.with_suffix(""), [result.file.program])
    return 0


def _print_model(options: dict[str, Any], targets: list[str]) -> int:
    """The operators of a model beside the targets' kernels, and whether a file for the first target can be written.

    A Paddle program is shown before a target is refused: what the original has for it is known.
    """
    from converter_lite.formats.paddle_nb import tables
    from converter_lite.frontends.paddle import load
    from converter_lite.nb_conversion import SINGLE_FILES, float_file, source_files, unknown_operators

    asked = {**options, "optimize_out": options["optimize_out"] or "unused"}
    program_file, parameter_file = source_files(*_model_paths(options))
    is_paddle = program_file.suffix not in SINGLE_FILES
    if is_paddle:
        program = load(program_file, parameter_file, confined=options["allowExternalPaths"] != "true")[0]
    else:
        program = float_file(_request(asked, targets)).program
    operators = tables.model_operators(program)
    click.echo("OPs in the input model include:")
    click.echo(tables.model_table(operators, targets))
    missing = unknown_operators(operators)
    if missing:
        click.echo(
            f"Error: This model is not supported, because {len(missing)} ops are not supported on "
            f"'{', '.join(targets)}'. These unsupported ops are: '{', '.join(missing)}'.",
            err=True,
        )
        return 1
    if is_paddle:
        float_file(_request(asked, targets))
    click.echo("Paddle-Lite supports this model!")
    return 0


def main() -> None:
    """Entry point: the process ends here, without taking down every module that it has loaded."""
    protect_streams()
    silence_libraries()
    use_one_heap()
    clean_up_when_terminated()
    if not any("configFile" in argument for argument in sys.argv):
        # A conversion without samples takes less time than all the imports; it multiplies no matrices in threads, and
        # what it makes stays until the end.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        gc.set_threshold(100_000)
        defer_imports()
    try:
        cli.main()
    except SystemExit as done:
        end_process(done.code)


if __name__ == "__main__":
    main()
