"""``opt --model_set_dir``: every model of a directory in one run, for a library that is tailored to all of them."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.cli.exit_status import results_are_in_place
from converter_lite.cli.opt_arguments import refuse_contradictions, without_effect
from converter_lite.cli.opt_listings import SAVED, announce, report_result, report_tailoring, stage_tailoring, warn
from converter_lite.cli.opt_request import convert, program_of, refuse_places, request_of
from converter_lite.errors import ConverterError, UsageError
from converter_lite.system.files import Transaction, transaction

if TYPE_CHECKING:
    from converter_lite.formats.paddle.program import Program
    from converter_lite.pipeline.request import ConvertRequest

OF_ONE_MODEL = ("model_dir", "model_file", "param_file", "configFile")
"""Flags that concern a single model."""


def convert_set(options: dict[str, Any], given: Collection[str], target: str, targets: Sequence[str]) -> int:
    """Convert the model in every directory of a directory to ``<optimize_out>/<its name>.nb``; returns the exit status.

    All or nothing: if one model cannot be converted the others are still tried, so that every such model is named, and
    no file is written.

    Args:
        options: Values of all flags.
        given: Names of those that were given.
        target: The one that is written.
        targets: Values of ``--valid_targets``.

    Raises:
        UsageError: A flag is missing, or concerns a single model; there are no models.
        ConverterError: A model cannot be converted.
    """
    folder = _set_folder(options)
    out = Path(options["optimize_out"])
    if not options["optimize_out"] or out.is_file():
        hint = "it gets one .nb file for each model"
        raise UsageError("a directory is required", where=f"--optimize_out={options['optimize_out']}", hint=hint)
    refuse_contradictions(options, given)
    warn(without_effect(options, given, targets))
    wishes = {path.name: _wishes(options, path, out) for path in _models(folder, out, options)}
    with transaction(out) as files:
        results, programs = _convert_all(wishes, target, targets, files)
        if options["record_tailoring_info"] == "true":
            stage_tailoring(files, out, programs)
        files.commit()
    results_are_in_place()
    for path in results if options["optimize_out_type"] != "protobuf" else ():
        click.echo(SAVED.format(path))
    if options["record_tailoring_info"] == "true":
        report_tailoring(out)
    return 0


def _set_folder(options: Mapping[str, str]) -> Path:
    named = {options[name] for name in ("model_set_dir", "model_set") if options[name]}
    if len(named) > 1:
        raise UsageError("--model_set_dir and --model_set mean the same and differ", where=" and ".join(sorted(named)))
    for name in OF_ONE_MODEL:
        if options[name]:
            hint = "leave one of them out; --model_filename and --param_filename name files in each directory of a set"
            raise UsageError(f"--{name} is for a single model, --model_set_dir for a set", where="opt", hint=hint)
    if options["print_model_ops"] == "true":
        raise UsageError("--print_model_ops shows a single model", where="opt", hint="give it with --model_dir")
    return Path(named.pop())


def _models(folder: Path, out: Path, options: Mapping[str, str]) -> list[Path]:
    """Directories of models, sorted by name, without hidden ones and that of the results.

    Raises:
        UsageError: There are none, or the results would stand in the directory of one.
    """
    if not folder.is_dir():
        raise UsageError("the directory of models does not exist", where=str(folder))
    found = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    models = [path for path in found if path.resolve() != out.resolve()]
    if len(models) < len(found) and _is_model(out, options):
        hint = "choose another directory; one beside the models is fine"
        raise UsageError("the results would stand among the files of a model", where=f"--optimize_out={out}", hint=hint)
    if not models:
        raise UsageError("the directory holds no model", where=str(folder), hint="each model is a directory in it")
    return models


def _is_model(folder: Path, options: Mapping[str, str]) -> bool:
    from converter_lite.formats.paddle.inference_model.reader import is_paddle_path

    program = options["model_filename"]
    return (folder / program).is_file() if program else is_paddle_path(folder)


def _wishes(options: Mapping[str, Any], model: Path, out: Path) -> dict[str, Any]:
    """The flags for one directory."""
    program, parameters = options["model_filename"], options["param_filename"]
    return {
        **options,
        "model_dir": str(model / program if program else model),
        "param_file": str(model / parameters) if parameters else "",
        "optimize_out": str(out / model.name),
    }


def _convert_all(
    wishes: Mapping[str, dict[str, Any]], target: str, targets: Sequence[str], files: Transaction
) -> tuple[list[Path], list[Program]]:
    """Convert every model into the work directory of ``files``; returns the places of the results, and their programs.

    Raises:
        ConverterError: At least one cannot be converted; all such models are named.
    """
    programs, made, failures = [], [], []
    places: dict[str, str] = {}
    for name in wishes:
        other = places.setdefault(name.removesuffix(".nb"), name)
        if other != name:
            raise UsageError(
                f"{other} and {name} would be written to one file", where="--model_set_dir", hint="rename one"
            )
    for name, options in wishes.items():
        try:
            request = request_of(options, target, targets)
            announce(request)
            refuse_places(request)  # what is written below goes elsewhere first
            path = _convert(request, files.work)
        except ConverterError as error:
            failures.append(f"{name}: {error}")
            continue
        programs.append(program_of(path))
        made.append((path, request.output_file))
    if failures:
        raise ConverterError(
            f"{len(failures)} of {len(wishes)} models cannot be converted, and no file was written:\n"
            + textwrap.indent("\n".join(failures), "  ")
        )
    for path, destination in made:
        _stage(path, destination, files)
    return [destination for _, destination in made], programs


def _convert(request: ConvertRequest, work: Path) -> Path:
    """Convert one model into ``work``; returns its file there."""
    output = request.output_file
    place = work / output.parent.name / output.name if request.nb_protobuf else work / output.name
    result = convert(replace(request, output_file=place))
    report_result(result, of=output.parent.name if request.nb_protobuf else output.name.removesuffix(".nb"))
    return place


def _stage(made: Path, destination: Path, files: Transaction) -> None:
    """Register a file, or the files of a protobuf result."""
    for part in [made] if made.suffix == ".nb" else sorted(made.parent.iterdir()):
        destination.parent.mkdir(parents=True, exist_ok=True)
        files.add(part, destination.with_name(part.name) if part is not made else destination)
