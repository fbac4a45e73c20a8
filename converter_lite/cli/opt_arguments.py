"""Spellings of ``opt``'s command line, and flags that exclude each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from converter_lite.errors import UsageError

SWITCHES = (
    *("quant_model", "enable_fp16", "sparse_model", "record_tailoring_info", "print_supported_ops", "print_all_ops"),
    *("print_all_ops_in_md_format", "print_model_ops", "display_kernels", "allowExternalPaths"),
)
"""Flags that take a boolean."""

SINGLE_FILES = (".onnx", ".nb")
"""Suffixes of models that are one file, parameters included."""

DECIDING = ("configFile", "inputShape")
"""Flags that an empty value (of a variable that is not set, say) would switch off unnoticed."""


def normalize(arguments: Sequence[str]) -> list[str]:
    """Write every flag as ``--flag=value``, whatever spelling was used.

    One dash in front is enough; a value may follow in the next word, also behind ``--flag=``; booleans may be written
    as ``--flag``, ``--noflag`` and in any case; several targets may be separate words.

    Raises:
        UsageError: A boolean has an invalid value, or a word belongs to no flag.
    """
    made: list[str] = []
    for argument in arguments:
        is_flag = re.match(r"--?[A-Za-z]", argument)
        name, equals, value = made[-1].partition("=") if made else ("", "", "")
        if is_flag:
            made.append(re.sub(r"^--?", "--", argument) if len(argument) > 2 else argument)
        elif name == "--valid_targets" and value:
            made[-1] += f",{argument}"
        elif name and not value and (equals or name.removeprefix("--") not in ("help", "version")):
            made[-1] = f"{name}={argument}"
        else:
            hint = "values stand behind their flag; blanks separate targets of --valid_targets only"
            raise UsageError("the word belongs to no flag", where=argument, hint=hint)
    return [_plain(argument) for argument in made]


def repeated(arguments: Sequence[str]) -> list[str]:
    """Flags that stand more than once in normalized arguments; the last one counts, as in the original."""
    count = Counter(argument.partition("=")[0] for argument in arguments)
    return [flag for flag, times in count.items() if times > 1]


def _plain(argument: str) -> str:
    """Booleans as ``--flag=true`` or ``--flag=false``; a missing value is empty, and no later flag is taken for it."""
    name, equals, value = argument.removeprefix("--").partition("=")
    if value.startswith("--"):
        raise UsageError("the value begins with two dashes, as a flag does", where=argument)
    if name in SWITCHES:
        return f"--{name}={_boolean(name, value) if equals else 'true'}"
    if name.removeprefix("no") in SWITCHES and not equals:
        return f"--{name.removeprefix('no')}=false"
    if argument.startswith("--") and not equals and name not in ("help", "version"):
        return f"{argument}="
    return argument


def _boolean(name: str, value: str) -> str:
    lowered = value.strip().lower()
    if lowered in ("true", "1", "t", "yes", "y"):
        return "true"
    if lowered in ("false", "0", "f", "no", "n"):
        return "false"
    raise UsageError(f"{value!r} is neither true nor false", where=f"--{name}")


def refuse_contradictions(options: Mapping[str, str], given: Collection[str]) -> None:
    """Refuse flags that should decide what the run does but cannot.

    Raises:
        UsageError: A deciding flag is empty, two of them say how to quantize, or the lists for tailoring have no place.
    """
    for name in DECIDING:
        if name in given and not options[name]:
            raise UsageError("the value is empty", where=f"--{name}", hint="give one, or leave the flag out")
    if options["configFile"] and options["quant_model"] == "true":
        raise UsageError(
            "the configuration file says how to quantize, and --quant_model says it too",
            where=f"--configFile={options['configFile']}",
            hint="leave one of them out",
        )
    if options["configFile"] and options["sparse_model"] == "true":
        raise UsageError(
            "--sparse_model is a step of its own behind a configuration file",
            where=f"--configFile={options['configFile']}",
            hint="convert with the file first, then its result: --model_file=result.nb --sparse_model=true",
        )
    folder = options["optimize_out"].removesuffix(".nb")
    if options["record_tailoring_info"] == "true" and Path(folder).is_file():
        raise UsageError(
            "the lists for tailoring go into a folder of this name, and it is a file",
            where=folder,
            hint="choose another --optimize_out",
        )


def refuse_output(options: Mapping[str, str]) -> None:
    """Refuse a value of ``--optimize_out`` that names no file, or no directory for a protobuf result.

    Raises:
        UsageError: It does not.
    """
    output = options["optimize_out"]
    if options["optimize_out_type"] == "protobuf":
        if not output:
            raise UsageError("a directory is required", where="--optimize_out=", hint="it gets model and params")
    elif PurePath(output).name in ("", "..", ".nb") or output.endswith("/"):
        raise UsageError("a file name is required; .nb is appended", where=f"--optimize_out={output}")
    elif Path(output).is_dir() and options["record_tailoring_info"] != "true" and not _holds_lists(Path(output)):
        raise UsageError(
            "it names a directory", where=f"--optimize_out={output}", hint="add a file name; .nb is appended"
        )


def _holds_lists(folder: Path) -> bool:
    """Whether an earlier run made it, with ``--record_tailoring_info``: it has the name of its result without ``.nb``."""
    return (folder / ".tailored_ops_list").is_file()


def sparse_threshold(options: Mapping[str, str], targets: Collection[str]) -> float | None:
    """Share of zeros from which a 1x1 convolution becomes sparse; ``None`` if files for the targets have no sparse ones.

    Raises:
        UsageError: It is not a share.
    """
    text = str(options["sparse_threshold"])
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        hint = "0.6, the default, makes convolutions sparse of whose weights 60 % or more are zero"
        raise UsageError("the threshold is not from 0 to 1", where=f"--sparse_threshold={text}", hint=hint)
    return share if options["sparse_model"] == "true" and set(targets) == {"arm"} else None


def without_effect(options: Mapping[str, str], given: Collection[str], targets: Collection[str]) -> Iterator[str]:
    """Sentences about flags that were given and change nothing."""
    if options["param_file"] and PurePath(options["model_file"] or options["model_dir"]).suffix in SINGLE_FILES:
        yield "--param_file is not read: an ONNX or .nb file holds its parameters"
    if options["enable_fp16"] == "true" and next((n for n in targets if n in ("arm", "x86", "host")), "arm") != "arm":
        yield "--enable_fp16 changes nothing for these targets: float16 kernels exist for ARM only"
    if options["model_dir"] and options["model_file"]:
        yield "--model_dir changes nothing beside --model_file, which is read"
    if "quant_type" in given and options["quant_model"] != "true":
        reason = "the configuration file says how to quantize" if options["configFile"] else "weights stay float"
        yield f"--quant_type changes nothing without --quant_model=true: {reason}"
    if "sparse_threshold" in given and options["sparse_model"] != "true":
        yield "--sparse_threshold changes nothing without --sparse_model=true: convolutions stay dense"
    others = ", ".join(name for name in targets if name != "arm")
    if options["sparse_model"] == "true" and others:
        yield f"--sparse_model is for arm only, and --valid_targets names {others}: the file is dense, as the original's"
    for name in ("model_filename", "param_filename"):
        if options[name] and not (options["model_set_dir"] or options["model_set"]):
            yield f"--{name} changes nothing without --model_set_dir; --model_file and --param_file name files"


LISTINGS = {
    **dict.fromkeys(("print_all_ops", "print_all_ops_in_md_format"), ()),
    "print_supported_ops": ("valid_targets",),
    "display_kernels": (),
    "print_model_ops": ("model_dir", "model_file", "param_file", "valid_targets", "inputShape", "allowExternalPaths"),
    "optimized_nb_model_path": ("visualization_file_output_path",),
}
"""Flags that show something and end the program -> flags that they look at."""


def idle_beside(listing: str, options: Mapping[str, str], given: Collection[str]) -> Iterator[str]:
    """A sentence about flags that were given beside one of :data:`LISTINGS`, and that it does not look at."""
    asked = (name for name in options if name in given and options[name] not in ("", "false"))
    idle = [f"--{name}" for name in asked if name not in (listing, *LISTINGS[listing])]
    if idle:
        verb = "changes" if len(idle) == 1 else "change"
        yield f"{', '.join(idle)} {verb} nothing beside --{listing}, which converts nothing"
