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

from converter_lite import __version__
from converter_lite.cli.console import flush_streams, protect_streams, silence_libraries
from converter_lite.cli.deferring import defer_imports
from converter_lite.cli.memory import use_one_heap
from converter_lite.errors import (
    EXIT_DEFECT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ConverterError,
    TargetError,
    UsageError,
    refused_by_system,
)

if TYPE_CHECKING:
    from converter_lite.formats.paddle_nb.kernels import Target
    from converter_lite.nb_conversion import NbRequest

WRITABLE = ("arm", "x86", "host")
REFUSED_TARGETS = (
    *("opencl", "opencl_buffer", "metal", "arm_metal", "x86_metal", "x86_opencl", "xpu", "mlu", "bm"),
    *("imagination_nna", "intel_fpga", "rockchip_npu", "mediatek_apu", "huawei_kirin_npu", "huawei_ascend_npu"),
    *("amlogic_npu", "verisilicon_timvx", "eeasytech_npu", "android_nnapi", "cambricon_mlu", "qualcomm_qnn"),
    "kunlunxin_xtcl",
)
"""Targets of the original whose files need graph passes that only it has."""

QUANT_TYPES = ("QUANT_INT8", "QUANT_INT16")
SWITCHES = (
    *("quant_model", "enable_fp16", "sparse_model", "record_tailoring_info", "print_supported_ops", "print_all_ops"),
    *("print_all_ops_in_md_format", "print_model_ops", "display_kernels"),
)
NOT_AVAILABLE = {
    "enable_fp16": "files with float16 kernels are not written",
    "sparse_model": "sparse convolutions are not written",
    "model_set_dir": "tailoring of a set of models is not there; convert each with --record_tailoring_info",
    "model_set": "tailoring of a set of models is not there; convert each with --record_tailoring_info",
    "optimized_nb_model_path": "drawing of a model is not there; converter_lite inspect lists its operators",
    "visualization_file_output_path": "drawing of a model is not there; converter_lite inspect lists its operators",
    "nnadapter_mixed_precision_quantization_config_path": "files for NNAdapter devices are not written",
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
        except OSError as error:
            click.echo(f"Error: {refused_by_system(error)}", err=True)
            status = 1
        except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
            click.echo(f"Error: this is a defect of converter_lite: {type(error).__name__}: {error}", err=True)
            status = EXIT_DEFECT
        sys.exit(status if isinstance(status, int) else 0)


def normalize(arguments: Sequence[str]) -> list[str]:
    """Write booleans as ``--flag=true|false``, whatever spelling was used; one dash in front of a flag is enough.

    Raises:
        UsageError: A boolean has a value that is none.
    """
    made = []
    for argument in arguments:
        text = re.sub(r"^-(?=[a-z]\w+)", "--", argument)
        name, equals, value = text.removeprefix("--").partition("=")
        if not text.startswith("--"):
            made.append(text)
        elif name in SWITCHES:
            made.append(f"--{name}={_boolean(name, value) if equals else 'true'}")
        elif name.removeprefix("no") in SWITCHES and not equals:
            made.append(f"--{name.removeprefix('no')}=false")
        else:
            made.append(text)
    return _join_values(made)


def _join_values(arguments: list[str]) -> list[str]:
    """``--flag=true true`` cannot happen, but ``--quant_model true`` (argparse) does: take the word as its value."""
    made: list[str] = []
    for argument in arguments:
        previous = made[-1] if made else ""
        name, _, value = previous.removeprefix("--").partition("=")
        if name in SWITCHES and value == "true" and argument.lower() in ("true", "false"):
            made[-1] = f"--{name}={argument.lower()}"
        else:
            made.append(argument)
    return made


def _boolean(name: str, value: str) -> str:
    lowered = value.strip().lower()
    if lowered in ("true", "1", "t", "yes", "y"):
        return "true"
    if lowered in ("false", "0", "f", "no", "n"):
        return "false"
    raise UsageError(f"{value!r} is neither true nor false", where=f"--{name}")


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
@_option("optimize_out_type", "naive_buffer (protobuf is refused).", "naive_buffer", metavar="TYPE")
@_option("optimize_out", "Result; .nb is appended unless it is there.", metavar="PATH")
@_option("valid_targets", "arm, x86, host: comma or blank between them, the first counts.", "arm", metavar="TARGETS")
@_option("quant_model", "Store weights as integers: true or false.", "false", metavar="BOOL")
@_option("quant_type", "QUANT_INT8 or QUANT_INT16.", "QUANT_INT16", metavar="TYPE")
@_option("print_supported_ops", "Table of the operators of valid_targets.", "false", metavar="BOOL")
@_option("print_all_ops", "Table of all operators and targets.", "false", metavar="BOOL")
@_option("print_all_ops_in_md_format", "The same in Markdown.", "false", metavar="BOOL")
@_option("print_model_ops", "Operators of the model, and whether the targets have them.", "false", metavar="BOOL")
@_option("display_kernels", "Operators that have kernels.", "false", metavar="BOOL")
@_option("record_tailoring_info", "Also list the operators and kernels of the result.", "false", metavar="BOOL")
@_option("inputShape", "Fixed input shapes, name:1,3,224,224;name2:1,128.", metavar="SHAPES")
@_option("configFile", "INI file of converter_lite: full int8 or weights, in one step.", metavar="FILE")
@_option("enable_fp16", "Known, not available.", "false", hidden=True)
@_option("sparse_model", "Known, not available.", "false", hidden=True)
@_option("sparse_threshold", "Used with sparse_model only.", "0.6", hidden=True)
@_option("model_filename", "Declared by the original, unused.", hidden=True)
@_option("param_filename", "Declared by the original, unused.", hidden=True)
@_option("model_set_dir", "Known, not available.", hidden=True)
@_option("model_set", "Known, not available.", hidden=True)
@_option("optimized_nb_model_path", "Known, not available.", hidden=True)
@_option("visualization_file_output_path", "Known, not available.", hidden=True)
@_option("nnadapter_mixed_precision_quantization_config_path", "Known, not available.", hidden=True)
@click.argument("more_targets", nargs=-1)
@click.pass_context
def cli(context: click.Context, /, **options: Any) -> int:
    """Convert a Paddle or ONNX model to a .nb file for Paddle-Lite."""
    for name, reason in NOT_AVAILABLE.items():
        if options[name] not in ("", "false"):
            raise UsageError(reason, where=f"--{name}={options[name]}")
    targets = parse_targets([options["valid_targets"], *options["more_targets"]])
    printed = _print_tables(options, targets)
    if printed:
        return 0
    if not options["model_file"] and not options["model_dir"]:
        click.echo(f"paddlelite opt version:converter_lite {__version__}\n{context.get_help()}")
        return 0 if not any(options[name] for name in ("optimize_out", "param_file")) else EXIT_USAGE
    if options["print_model_ops"] == "true":
        return _print_model(options, targets)
    if not options["optimize_out"]:
        raise UsageError("the flag is required", where="--optimize_out")
    return _convert(options, targets)


def parse_targets(texts: Sequence[str]) -> list[str]:
    """Targets that can be written, in order of preference.

    Raises:
        UsageError: A name is unknown.
        TargetError: None of them can be written.
    """
    from converter_lite.suggest import did_you_mean

    names = [name for text in texts for name in re.split(r"[,\s]+", text.strip()) if name]
    for name in names:
        if name not in (*WRITABLE, *REFUSED_TARGETS):
            hint = did_you_mean(name, (*WRITABLE, *REFUSED_TARGETS))
            raise UsageError(f"Wrong target {name!r} found{hint}", where="--valid_targets")
    written = [name for name in names if name in WRITABLE]
    if not written:
        raise TargetError(
            f"files for {', '.join(names) or 'no target'} need graph passes that only the original has",
            where="--valid_targets",
            hint="arm, x86 and host can be written",
        )
    for name in names:
        if name in REFUSED_TARGETS:
            click.echo(f"Warning: {name} cannot be used; the file has kernels of {written[0]} only", err=True)
    return written


TABLES = ("print_all_ops", "print_all_ops_in_md_format", "print_supported_ops", "display_kernels")
"""Flags that print a table and end the program, in the original's order."""


def _print_tables(options: dict[str, Any], targets: list[str]) -> bool:
    """The first table that is asked for; whether one was."""
    if all(options[name] != "true" for name in TABLES):
        return False
    from converter_lite.formats.paddle_nb import tables
    from converter_lite.formats.paddle_nb.kernels import operators

    if options["print_all_ops"] == "true":
        click.echo(tables.operator_table(operators(), tuple(tables.COLUMNS)))
    elif options["print_all_ops_in_md_format"] == "true":
        click.echo(tables.markdown_table(operators()))
    elif options["print_supported_ops"] == "true":
        columns = _columns(targets)
        click.echo(f"Supported OPs on '{','.join(f' {_column(name)}' for name in targets)}': ")
        click.echo(tables.operator_table(tables.supported(_targets(targets)), columns))
    else:
        click.echo("\n".join(f" - {name}" for name in operators()))
    return True


def _column(name: str) -> str:
    return {"arm": "kARM", "x86": "kX86", "host": "kHost"}[name]


def _columns(targets: list[str]) -> list[str]:
    return sorted({"kHost", *map(_column, targets)})


def _targets(names: list[str]) -> list[Target]:
    from converter_lite.formats.paddle_nb.kernels import Target

    return [Target.parse(name) for name in names]


def _request(options: dict[str, Any], targets: list[str]) -> NbRequest:
    from converter_lite.nb_conversion import QUANT_BITS, NbRequest

    if _one_of(options, "optimize_out_type", ("naive_buffer", "protobuf")) == "protobuf":
        raise UsageError("protobuf results are not written", where="--optimize_out_type", hint="use naive_buffer")
    bits = QUANT_BITS[_one_of(options, "quant_type", QUANT_TYPES)]
    output = options["optimize_out"]
    return NbRequest(
        model=Path(options["model_file"] or options["model_dir"]),
        params=Path(options["param_file"]) if options["param_file"] else None,
        output=Path(output if output.endswith(".nb") else f"{output}.nb"),
        target=targets[0],
        weight_bits=bits if options["quant_model"] == "true" else None,
        input_shapes=_input_shapes(options["inputShape"]),
        config_file=Path(options["configFile"]) if options["configFile"] else None,
    )


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


def _announce(request: NbRequest) -> None:
    from converter_lite.nb_conversion import source_files

    program, parameters = source_files(request.model, request.params)
    click.echo(f"Loading topology data from {program}")
    if parameters is not None:
        click.echo(f"Loading params data from {parameters}")
    elif program.suffix not in (".onnx", ".nb"):
        click.echo(f"Loading non-combined params data from {program.parent}")


def _convert(options: dict[str, Any], targets: list[str]) -> int:
    from converter_lite.nb_conversion import convert_to_nb

    request = _request(options, targets)
    _announce(request)
    result = convert_to_nb(request)
    click.echo("1. Model is successfully loaded!")
    for note in result.notes:
        click.echo(f"Warning: {note}", err=True)
    for output in result.accuracy:
        click.echo(f"output {output.name}: cosine {output.cosine:.6f} with the float model", err=True)
    click.echo(f"2. Model is optimized and saved into {result.path} successfully")
    if options["record_tailoring_info"] == "true":
        _record(result.path.with_suffix(""), result.file.program)
    return 0


def _record(folder: Path, program: Any) -> None:
    from converter_lite.formats.paddle_nb import tables
    from converter_lite.output import write_text

    operators, kernels = folder / ".tailored_ops_list", folder / ".tailored_kernels_list"
    write_text(operators, "\n".join(tables.model_operators(program)) + "\n")
    write_text(kernels, "\n".join(tables.tailored_kernels(program)) + "\n")
    click.echo(f"operators information of tailored model is stored into: {operators}")
    click.echo(f"kernels information of tailored model is stored into: {kernels}")


def _print_model(options: dict[str, Any], targets: list[str]) -> int:
    from converter_lite.formats.paddle_nb import tables
    from converter_lite.frontends.paddle import load
    from converter_lite.frontends.paddle_quant import FOLDED
    from converter_lite.nb_conversion import load_model, optimized, source_files

    request = _request({**options, "optimize_out": options["optimize_out"] or "unused"}, targets)
    _announce(request)
    program_file, parameter_file = source_files(request.model, request.params)
    if program_file.suffix in (".onnx", ".nb"):
        from converter_lite.formats.paddle_nb.writer import NbOptions, build
        from converter_lite.quantization.plan import QuantizedModel, QuantPlan

        model = optimized(load_model(request).model)
        program = build(QuantizedModel(model, QuantPlan("float")), options=NbOptions(target=targets[0])).program
    else:
        program = load(program_file, parameter_file)[0]
    operators = tables.model_operators(program)
    click.echo("OPs in the input model include:")
    click.echo(tables.operator_table(operators, _columns(targets)))
    missing = [name for name in tables.unsupported(operators, _targets(targets)) if name not in FOLDED]
    if not missing:
        click.echo("Paddle-Lite supports this model!")
        return 0
    click.echo(
        f"Error: This model is not supported, because {len(missing)} ops are not supported on "
        f"'{', '.join(targets)}'. These unsupported ops are: '{', '.join(missing)}'.",
        err=True,
    )
    return 1


def main() -> None:
    """Entry point: the process ends here, without taking down every module that it has loaded."""
    protect_streams()
    silence_libraries()
    use_one_heap()
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


def end_process(code: object) -> None:
    """End with an exit status at once, when everything is written; the interpreter's own way takes a fifth longer."""
    if not flush_streams():
        code = code or 1
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
