"""From ``opt``'s flags to a conversion: only an adapter, ``converter_lite`` does the work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter_lite.cli.opt_arguments import SINGLE_FILES, sparse_threshold
from converter_lite.errors import UsageError
from converter_lite.system.interruptions import interruptions_wait

if TYPE_CHECKING:
    from converter_lite.formats.paddle.program import Program
    from converter_lite.pipeline.request import ConvertRequest
    from converter_lite.pipeline.result import ConvertResult

OLDER_LAYOUT = "PADDLE_LITE_MODEL_VERSION1"
"""Environment variable of the original: if it is set, files have the layout of release 2.7."""

RANDOM_SAMPLES = 1
"""Random samples on which a file is proven: one shows a wrong file, and more would say no more about accuracy."""

QUANT_BITS = {"QUANT_INT8": 8, "QUANT_INT16": 16}
"""``--quant_type`` -> bits of weights."""


def request_of(options: dict[str, Any], target: str, targets: Sequence[str]) -> ConvertRequest:
    """What the flags ask for.

    Args:
        options: Values of all flags.
        target: The one that is written.
        targets: Values of ``--valid_targets``.

    Raises:
        UsageError: A value is wrong, or a file does not exist.
    """
    from converter_lite.cli.arguments import parse_input_shape
    from converter_lite.config import config_from_mapping
    from converter_lite.errors import one_of
    from converter_lite.pipeline.request import PROOF_SAMPLES, ConvertRequest

    protobuf = one_of(options["optimize_out_type"], ("naive_buffer", "protobuf"), "--optimize_out_type") == "protobuf"
    bits = QUANT_BITS[one_of(options["quant_type"], tuple(QUANT_BITS), "--quant_type")]
    if options["configFile"] and target == "host":
        raise UsageError(
            "a configuration file is for arm and x86, not for host",
            where=options["configFile"],
            hint="put one of them in front in --valid_targets, or leave --configFile out",
        )
    weights = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": str(bits)}}
    is_quantized = options["quant_model"] == "true"
    program, parameters = source_files(options)
    _refuse_other_frameworks(program)
    return ConvertRequest(
        model_file=program,
        weight_file=parameters,
        fmk="ONNX" if program.suffix == ".onnx" else "PADDLE",
        output_file=output_file(Path(options["optimize_out"]), protobuf=protobuf),
        config_file=Path(options["configFile"]) if options["configFile"] else None,
        config=config_from_mapping(weights) if is_quantized else None,
        quantize_if_possible=is_quantized,
        proof_samples=PROOF_SAMPLES if options["configFile"] else RANDOM_SAMPLES,
        input_shape=parse_input_shape(options["inputShape"]) if options["inputShape"] else {},
        save_type=("NAIVE_BUFFER",),
        nb_target=target,
        nb_fp16=options["enable_fp16"] == "true" and target == "arm",
        nb_meta_version=1 if OLDER_LAYOUT in os.environ else 2,
        nb_sparse_threshold=sparse_threshold(options, targets),
        nb_protobuf=protobuf,
        allow_external_paths=options["allowExternalPaths"] == "true",
    )


def output_file(path: Path, *, protobuf: bool) -> Path:
    """The file that ``--optimize_out`` names, with ``.nb`` appended; for a protobuf result, the program in its folder."""
    if protobuf:
        return path / "model"
    return path if path.name.endswith(".nb") else path.with_name(f"{path.name}.nb")


def source_files(options: dict[str, Any]) -> tuple[Path, Path | None]:
    """Program and parameter file of the model that the flags name.

    Raises:
        UsageError: A file does not exist.
    """
    model, params = Path(options["model_file"] or options["model_dir"]), options["param_file"]
    if model.suffix not in SINGLE_FILES or model.is_dir():
        from converter_lite.formats.paddle.inference_model.reader import locate

        return locate(model, Path(params) if params else None)
    if not model.is_file():
        raise UsageError("the model file does not exist", where=str(model))
    return model, None


def refuse_places(request: ConvertRequest) -> None:
    """Refuse an output that is a file of the model, or would be mistaken for one.

    Raises:
        UsageError: It is.
    """
    from converter_lite.system.files import refuse_overwrite

    output, program = request.output_file, request.model_file
    inputs = [program] if request.weight_file is None else [program, request.weight_file]
    for path in (output, output.with_name("params")) if request.nb_protobuf else (output,):
        refuse_overwrite(path, inputs)
    if request.nb_protobuf and program.suffix not in SINGLE_FILES and _are_same(output.parent, program.parent):
        raise UsageError(
            "a protobuf result beside its model would be found in its place",
            where=str(output.parent),
            hint="choose another directory",
        )


def _are_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def convert(request: ConvertRequest) -> ConvertResult:
    """Convert a model; its progress is shown.

    Raises:
        ConverterError: It cannot be converted, or the result is not proven.
    """
    with interruptions_wait():
        from converter_lite.log import Log, library_messages

        log = Log(shows_progress=True)
        with log.announced("loading"):
            from converter_lite.pipeline.convert import run

    try:
        with library_messages(log):
            return run(request, log)
    except UsageError as error:
        error.where = error.where.replace("--outputFile", "--optimize_out")
        raise


def program_of(path: Path) -> Program:
    """The program of a result: a ``.nb`` file, or the file ``model`` of a protobuf folder."""
    if path.suffix == ".nb":
        from converter_lite.formats.paddle.nb.parse import parse

        return parse(path.read_bytes(), where=str(path)).program
    from converter_lite.formats.paddle.inference_model.files import read_program

    return read_program(path.read_bytes())


def _refuse_other_frameworks(model: Path) -> None:
    """The flags are those of the original, which say nothing about layouts and shapes that other frameworks leave open."""
    from converter_lite.formats.registry import framework_of

    framework = framework_of(model)
    if framework in (None, "ONNX", "PADDLE"):
        return
    raise UsageError(
        f"opt takes models of Paddle and ONNX; by its name this is one for --fmk={framework}",
        where=str(model),
        hint=f"converter_lite --fmk={framework} --modelFile={model} --saveType=NAIVE_BUFFER writes the same files",
    )
