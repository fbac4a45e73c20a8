"""The jobs of a batch: from a TOML file, or one for each of some model files."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from converter_lite.errors import ConfigError, UsageError, did_you_mean
from converter_lite.formats.registry import FORMATS, framework_of, holds_weights_only, is_model_folder, models_in
from converter_lite.pipeline.request import DEFAULT_SAVE_TYPE
from converter_lite.system.files import open_regular

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

JOB_KEYS = ("name", "models")
"""Keys of a job that are not flags of the converter."""

SWITCHES = ("allowExternalPaths", "allowUnsafeModels", "dryRun", "verbose")
"""Flags without a value on the command line."""

OF_ONE_RUN = ("report", "savePlan", "preview")
"""Flags that name a file or folder which the next run overwrites."""

MAX_BYTES = 1 << 24
"""A hundred thousand jobs."""

TOP_KEYS = ("folder", "outputDir", "defaults", "job")


@dataclass(frozen=True, slots=True)
class Job:
    """One conversion.

    Attributes:
        name: Unique in its batch.
        folder: Directory that relative paths are relative to.
        flags: Flags of ``converter_lite`` without dashes, as ``(name, value)``; a switch has the value ``true``.
    """

    name: str
    folder: Path
    flags: tuple[tuple[str, str], ...]

    def flag(self, name: str) -> str:
        """Value of a flag, empty if it is not given."""
        return dict(self.flags).get(name, "")

    def path(self, name: str) -> Path | None:
        """Value of a flag that names a file, ``None`` if it is not given."""
        value = self.flag(name)
        return self.folder / value if value else None


def read_jobs(path: Path, known: Collection[str], defaults: Mapping[str, str]) -> list[Job]:
    """Jobs of a TOML file.

    Args:
        path: The file: ``folder`` (what relative paths are relative to; itself relative to the file, whose own folder it is
            by default), ``outputDir``, a table ``defaults`` of flags, and one table ``[[job]]`` for each job with flags,
            ``name`` (by default that of the model file) or, instead of ``modelFile``, ``models`` (a pattern).
        known: Flags that a job may have.
        defaults: Flags of every job that neither the job nor the file gives.

    Raises:
        UsageError: The file cannot be read.
        ConfigError: It is not TOML, or something in it is unknown or missing; every such place is named.
    """
    content = _load(path)
    problems = [
        f"{path}: unknown key {key!r}{did_you_mean(key, TOP_KEYS)}" for key in sorted(content.keys() - set(TOP_KEYS))
    ]
    shared, tables = content.get("defaults", {}), content.get("job", [])
    folder, output_dir = content.get("folder", ""), content.get("outputDir", "")
    if not (
        isinstance(shared, dict)
        and isinstance(tables, list)
        and isinstance(folder, str)
        and isinstance(output_dir, str)
    ):
        raise ConfigError(
            "folder and outputDir are texts, [defaults] a table and each [[job]] a table of a list",
            where=str(path),
            hint="see the user guide for an example",
        )
    problems += _unknown(shared, known, f"{path}: [defaults]")
    jobs = []
    for number, table in enumerate(tables, 1):
        where = f"{path}: job {number}"
        found = _unknown(table, (*known, *JOB_KEYS), where)
        problems += found
        if not found:
            given = {**defaults, **_texts(shared), **_texts({k: v for k, v in table.items() if k not in JOB_KEYS})}
            jobs += _expanded(table, given, path.parent / folder, output_dir, where, problems)
    if not tables:
        problems.append(f"{path}: no [[job]]")
    problems += _conflicts(jobs, str(path))
    if problems:
        raise ConfigError(problems[0], where=str(path), problems=tuple(problems))
    return jobs


def jobs_of_models(patterns: Iterable[str], flags: Mapping[str, str], output_dir: str) -> list[Job]:
    """One job for each model file.

    Args:
        patterns: Files, or patterns with ``*``, ``?``, ``**``; relative to the current directory.
        flags: Flags of every job.
        output_dir: Folder of the results.

    Raises:
        UsageError: A pattern matches nothing.
        ConfigError: Two models would have the same name.
    """
    models = []
    for pattern in patterns:
        found = _matching(pattern, Path())
        if not found:
            raise UsageError("no file fits", where=pattern, hint="check the path; put quotes around a pattern")
        models += found
    jobs = _jobs(models, Path(), flags, output_dir)
    problems = _conflicts(jobs, "the models")
    if problems:
        raise ConfigError(problems[0], problems=tuple(problems))
    return jobs


def _load(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"the job file is larger than {MAX_BYTES >> 20} MiB", where=str(path))
        return tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"this is not TOML: {error}", where=str(path)) from error


def _unknown(table: Any, known: Collection[str], where: str) -> list[str]:
    if not isinstance(table, dict):
        return [f"{where}: this is not a table"]
    problems = [f"{where}: unknown key {key!r}{did_you_mean(key, known)}" for key in table if key not in known]
    kinds = (str, int, float, bool)
    problems += [f"{where}: {key} is not a text, number or boolean" for key, v in table.items() if type(v) not in kinds]
    return problems + [f"{where}: {key} {wrong}" for key, v in table.items() if (wrong := wrong_value(key, v))]


def wrong_value(flag: str, value: object) -> str:
    """What is wrong with a flag's value, as the rest of a sentence; empty: nothing that can be seen here."""
    if value == "":
        return "is empty: give a value, or leave it out"
    is_switch = str(value).lower() in ("true", "false")
    return f"is true or false, not {value!r}" if flag in SWITCHES and not is_switch else ""


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    """Values as the command line spells them."""
    return {
        key: str(value).lower() if isinstance(value, bool) or key in SWITCHES else str(value)
        for key, value in table.items()
    }


def _expanded(
    table: Mapping[str, Any],
    flags: dict[str, str],
    folder: Path,
    output_dir: str,
    where: str,
    problems: list[str],
) -> list[Job]:
    """The job of a table, or one for each model that its pattern fits."""
    pattern, model = table.get("models"), flags.get("modelFile")
    if (pattern is None) == (model is None):
        problems.append(f"{where}: give either modelFile or models")
        return []
    if pattern is None:
        return [_job(str(table.get("name") or Path(str(model)).stem), folder, flags, output_dir)]
    if "name" in table or "outputFile" in flags:
        problems.append(f"{where}: name and outputFile cannot stand beside models; set outputDir")
        return []
    models = _matching(str(pattern), folder)
    if not models:
        problems.append(f"{where}: no file fits {str(folder / str(pattern))!r}")
    return _jobs(models, folder, flags, output_dir)


def _jobs(models: Sequence[str], folder: Path, flags: Mapping[str, str], output_dir: str) -> list[Job]:
    """A job for each model, named after its file; where several have one name, after their folders, or their kinds, too."""
    named: dict[str, list[str]] = {}
    for model in models:
        named.setdefault(Path(model).stem, []).append(model)
    names: dict[str, str] = {}
    for stem, group in named.items():
        folders = [Path(model).parent.name for model in group]
        is_told_apart = len(group) > 1 and all(folders) and len(set(folders)) == len(folders)
        kinds = [f"{stem}_{Path(model).suffix.removeprefix('.')}" for model in group]
        of_several = folders if is_told_apart else kinds if len(set(kinds)) == len(kinds) else [stem] * len(group)
        names.update(zip(group, [stem] if len(group) == 1 else of_several, strict=True))
    return [_job(names[model], folder, {**flags, "modelFile": model}, output_dir) for model in models]


def _matching(pattern: str, folder: Path) -> list[str]:
    """Models that a pattern fits, relative to the folder unless the pattern is absolute; a model's own name fits itself.

    The name of another folder fits all models in it, and in the folders in it. Second files of models, which hold weights
    alone, are left out.
    """
    path = Path(pattern)
    if _is_model(folder / path):
        return [pattern]
    if (folder / path).is_dir():
        return [str(found if path.is_absolute() else found.relative_to(folder)) for found in models_in(folder / path)]
    if not path.name:
        return []
    root = Path(path.anchor) if path.is_absolute() else folder
    found = (
        match
        for match in root.glob(str(path.relative_to(path.anchor)))
        if _is_model(match) and not holds_weights_only(match)
    )
    return sorted(str(match if path.is_absolute() else match.relative_to(folder)) for match in found)


def _is_model(path: Path) -> bool:
    return path.is_file() or is_model_folder(path)


def _job(name: str, folder: Path, flags: Mapping[str, str], output_dir: str) -> Job:
    framework = framework_of(folder / flags.get("modelFile", "")) or "ONNX"
    complete = {"fmk": framework, "outputFile": str(Path(output_dir) / name), **flags}
    return Job(name, folder, tuple(sorted(complete.items())))


def _conflicts(jobs: list[Job], where: str) -> list[str]:
    """Names, results and other files of one run that two jobs share, however these are spelled."""
    names, outputs = [job.name for job in jobs], [job.flag("outputFile") for job in jobs]
    wanted = [("name", names, names), ("outputFile", outputs, [_result(job) for job in jobs])]
    for flag in OF_ONE_RUN:
        paths = [(job.flag(flag), os.path.normpath(job.folder / job.flag(flag))) for job in jobs if job.flag(flag)]
        wanted.append((flag, [shown for shown, _ in paths], [key for _, key in paths]))
    problems = []
    for what, shown, keys in wanted:
        spelled = dict(zip(keys, shown, strict=True))
        twice = sorted(spelled[key] for key, count in Counter(keys).items() if count > 1)
        problems += [f"{where}: several jobs have the {what} {text!r}" for text in twice]
    return problems


def _result(job: Job) -> str:
    """Where the results of a job go, without the end that it may have been given."""
    output = job.flag("outputFile")
    names = map(str.strip, (job.flag("saveType") or ",".join(DEFAULT_SAVE_TYPE)).split(","))
    suffix = next(
        (FORMATS[name].suffix for name in names if name in FORMATS and output.endswith(FORMATS[name].suffix)), ""
    )
    return os.path.normpath(job.folder / output.removesuffix(suffix))
