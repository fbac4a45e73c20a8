"""Paddle inference models as a float graph with its plan: float, trained with quantization, or quantized afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from converter_lite.errors import MISFITS, ModelError, UsageError
from converter_lite.formats.paddle.importer.fake_quantization import fold_quantization
from converter_lite.formats.paddle.importer.graph import to_quantized_model
from converter_lite.formats.paddle.importer.simplification import simplify
from converter_lite.formats.paddle.inference_model.files import (
    PROGRAM_SUFFIXES,
    find_files,
    find_parameters,
    read_combined,
    read_program,
    read_separate,
)
from converter_lite.formats.paddle.pir import translation
from converter_lite.formats.paddle.pir.scanner import is_pir
from converter_lite.formats.paddle.program import Program
from converter_lite.quantization.plan import QuantizedModel


def read_paddle(
    model: str | Path,
    params: str | Path | None = None,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    confined: bool = True,
) -> QuantizedModel:
    """A Paddle model as an ONNX graph and plan; Paddle itself is not needed.

    Args:
        model: A program file (``__model__``, ``*.pdmodel``, ``*.json``), or a directory that holds one.
        params: The file with all parameters; ``None`` finds it beside the program, or reads one file per variable.
        input_shapes: Shapes of inputs in place of the declared ones.
        confined: Refuse variables whose file is outside the folder of the program.

    Raises:
        UsageError: A file does not exist.
        ModelError: A file is damaged, they do not belong together, or an operator cannot be translated.
    """
    program_file, parameter_file = locate(Path(model), None if params is None else Path(params))
    program, parameters = load(program_file, parameter_file, confined=confined)
    where = str(program_file)
    program, parameters = fold_quantization(program, parameters, where=where)
    try:
        program, parameters = simplify(program, parameters)
    except MISFITS as error:
        raise ModelError(f"attributes of its operators make no sense: {error}", where=where) from None
    return to_quantized_model(program, parameters, target="paddle", where=where, input_shapes=input_shapes)


def locate(model: Path, params: Path | None) -> tuple[Path, Path | None]:
    """Program file and parameter file (``None``: one file per variable).

    Raises:
        UsageError: A file does not exist.
    """
    if model.is_dir():
        program, found = find_files(model)
        return program, params or found
    for path, what in ((model, "model file or directory"), (params, "parameter file")):
        if path is not None and not path.is_file():
            raise UsageError(f"the {what} does not exist", where=str(path))
    return model, params if params is not None else find_parameters(model)


def load(
    program_file: Path, parameter_file: Path | None, *, confined: bool = True
) -> tuple[Program, dict[str, NDArray[Any]]]:
    """Program and parameters as the files hold them; ``confined`` as in :func:`read_paddle`.

    Raises:
        ModelError: A file is damaged, or they do not belong together.
    """
    try:
        data = program_file.read_bytes()
        is_json = program_file.suffix == ".json" or is_pir(data)
        program = (translation.read_pir if is_json else read_program)(data, where=str(program_file))
        del data
        if parameter_file is None:
            return program, read_separate(program, program_file.parent, confined=confined)
        return program, read_combined(program, parameter_file.read_bytes(), where=str(parameter_file))
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", where=str(error.filename)) from error


def is_paddle_path(path: Path) -> bool:
    """Whether a path looks like a Paddle model: a directory with a program, or a program file."""
    if path.is_dir():
        try:
            find_files(path)
        except UsageError:
            return False
        return True
    return path.suffix in PROGRAM_SUFFIXES or path.name == "__model__"
