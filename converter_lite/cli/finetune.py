"""``converter_lite finetune``: quantization-aware training of a classifier on labelled pictures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.cli.arguments import (
    cosine,
    external_paths,
    format_flags,
    option,
    parse_input_shape,
    path_of,
    ratio,
    unsafe_models,
    values_of_flags,
    whole_number,
)
from converter_lite.cli.exit_status import results_are_in_place, run_conversion
from converter_lite.errors import UsageError, one_of
from converter_lite.formats.registry import FORMATS, readable
from converter_lite.pipeline.request import MAX_THREADS, ConvertRequest
from converter_lite.system.extras import require
from converter_lite.system.files import destinations, refuse_overwrites

if TYPE_CHECKING:
    from converter_lite.learning.finetune import Training

MOST = 1_000_000
AUGMENT = ("all", "crop", "none")


@click.command("finetune", short_help="Train a quantized classifier on labelled pictures.")
@option("fmk", "Framework of the model.", "ONNX", choices=tuple(readable()))
@option("modelFile", "Float model to start from.", metavar="PATH")
@option("weightFile", "Parameters of a PADDLE or CAFFE model.", metavar="PATH")
@option("outputFile", "Result, without suffix.", metavar="PATH")
@option(
    "configFile",
    "INI file with quant_type=FULL_QUANT; its samples calibrate, its keys prepare pictures.",
    metavar="PATH",
)
@option(
    "saveType",
    "Output format; grids differ between formats, so each is trained for itself.",
    "ONNX",
    choices=tuple(FORMATS),
)
@option("inputShape", "Fixed input shapes, name:1,3,224,224.", metavar="SHAPES")
@option("data", "Pictures: a folder with a folder for each class, or a CSV file with path,label rows.", metavar="PATH")
@option("validation", "The same, pictures that are only looked at: accuracy after each epoch.", metavar="PATH")
@option("classes", "Names of the classes in the order of the outputs, one per line.", metavar="FILE")
@option("epochs", "Passes over the pictures.", "20", metavar="N")
@option("learningRate", "Of Adam; it falls to the end.", "0.0003", metavar="X")
@option("batchSize", "Pictures in a step.", "32", metavar="N")
@option("seed", "Of the order of pictures and of what is changed in them.", "0", metavar="N")
@option("augment", "Move pictures and mirror them at random, or only move them.", "all", choices=AUGMENT)
@option("distill", "Weight, 0 to 1, of what the float model says about a picture, beside its label.", "0", metavar="X")
@option("checkpoint", "Write the state to this file after each epoch.", metavar="FILE")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint.")
@option(
    "minCosine", "Quality gate: least mean cosine with the float model; training may lead away from it.", metavar="X"
)
@option("threads", "Worker threads; 0 = one per core, and 1 for training. The bytes depend on it.", "0", metavar="N")
@option("json", "Write a machine-readable result to this file.", metavar="FILE")
@format_flags
@external_paths
@unsafe_models
def finetune_command(**options: Any) -> int:
    """Quantize a classifier of pictures, train it on labels as a device will compute it, write it, and prove the file.

    The same data, flags and seed give the same file.
    """
    return run_conversion(lambda: _run(_wish(options)), json_file=path_of(options["json"]), details=False)


@dataclass(frozen=True, slots=True)
class _Wish:
    """The options, checked."""

    request: ConvertRequest
    training: Training


def _wish(options: dict[str, Any]) -> _Wish:
    missing = [f"--{flag}" for flag, name in _REQUIRED if not options[name]]
    if missing:
        raise UsageError("must be given", where=", ".join(missing))
    require(("torch",), what="training", extra="learn", where="converter_lite finetune")
    checkpoint = path_of(options["checkpoint"])
    if options["resume"] and checkpoint is None:
        raise UsageError("has no effect without --checkpoint", where="--resume")
    request = ConvertRequest(
        model_file=Path(options["model_file"]),
        output_file=options["output_file"],
        fmk=options["fmk"],
        weight_file=path_of(options["weight_file"]),
        config_file=path_of(options["config_file"]),
        input_shape=parse_input_shape(options["input_shape"]),
        save_type=(one_of(options["save_type"], tuple(FORMATS), "--saveType"),),
        min_cosine=cosine(options["min_cosine"], "--minCosine"),
        threads=whole_number(options["threads"], "--threads", most=MAX_THREADS, what="number of threads"),
        json=path_of(options["json"]),
        allow_external_paths=options["allow_external_paths"],
        allow_unsafe_models=options["allow_unsafe_models"],
        **values_of_flags(options),
    )
    read = (request.model_file, request.weight_file, request.config_file)
    taught = (path_of(options[name]) for name in ("classes", "data", "validation"))
    results = destinations(request.output_file, [FORMATS[name].suffix for name in request.save_type])
    refuse_overwrites((*results, checkpoint, request.json), (*read, *taught))
    return _Wish(request, _training(options, checkpoint))


_REQUIRED = (
    ("modelFile", "model_file"),
    ("outputFile", "output_file"),
    ("configFile", "config_file"),
    ("data", "data"),
)


def _training(options: dict[str, Any], checkpoint: Path | None) -> Training:
    from converter_lite.data.labelled import read_classes
    from converter_lite.learning.finetune import Training

    rate = ratio(options["learning_rate"], "--learningRate")
    distill = cosine(options["distill"], "--distill")
    if rate is None:
        raise UsageError("must be given", where="--learningRate")
    if distill is None or distill < 0:
        raise UsageError(f"{options['distill']!r} is not a number from 0 to 1", where="--distill")
    return Training(
        data=Path(options["data"]),
        validation=path_of(options["validation"]),
        classes=tuple(read_classes(Path(options["classes"]))) if options["classes"] else (),
        epochs=whole_number(options["epochs"], "--epochs", least=1, most=MOST),
        rate=rate,
        batch=whole_number(options["batch_size"], "--batchSize", least=1, most=MOST),
        seed=whole_number(options["seed"], "--seed", most=10**9 - 1),
        augment=one_of(options["augment"], AUGMENT, "--augment"),
        distill=distill,
        threads=whole_number(options["threads"], "--threads", most=MAX_THREADS, what="number of threads"),
        checkpoint=checkpoint,
        resume=options["resume"],
    )


def _run(wish: _Wish) -> None:
    from converter_lite.config.parser import load_config
    from converter_lite.learning.finetune import check_lesson, finetune
    from converter_lite.log import NORMAL, Log, library_messages
    from converter_lite.pipeline.convert import run
    from converter_lite.pipeline.summary import summary

    log = Log(NORMAL, sys.stdout, sys.stderr)
    assert wish.request.config_file is not None
    data = load_config(wish.request.config_file).data_preprocess_param
    with library_messages(log):
        result = run(
            wish.request,
            log,
            train=lambda start: finetune(start, data, wish.training, log),
            check=lambda model: check_lesson(model, wish.training),
        )
    results_are_in_place()
    log.info(summary(result))
