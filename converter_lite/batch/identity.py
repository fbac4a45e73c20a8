"""A hash of everything that a job depends on: as long as it is the same, so is the result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from converter_lite import __version__
from converter_lite.batch.jobs import Job
from converter_lite.errors import ConverterError
from converter_lite.formats.registry import is_model_folder, weight_files_beside
from converter_lite.system.files import content_digest

INPUT_FILES = ("modelFile", "weightFile", "configFile", "plan", "proofData")
"""Flags that name files or folders which are read."""

WITHOUT_EFFECT = ("threads", "cache")
"""Flags that change no byte of a result."""


def identity(job: Job) -> str:
    """SHA-256 over the version of this program, the flags, and the content of all files that the job reads.

    Empty if a file cannot be read: such a job never counts as done.
    """
    digest = hashlib.sha256(__version__.encode())
    for name, value in job.flags:
        if name not in WITHOUT_EFFECT:
            digest.update(f"\n{name}={value}".encode("utf-8", "surrogateescape"))
    try:
        for path in files_read(job):
            digest.update(f"\n{path.name}\0".encode("utf-8", "surrogateescape"))
            digest.update(bytes.fromhex(content_digest(path)))
    except (OSError, ConverterError):
        return ""
    return digest.hexdigest()


def files_read(job: Job) -> Iterator[Path]:
    """Files that are named by flags or found beside a model, those with its large tensors, and the calibration samples."""
    for path in (path for flag in INPUT_FILES if (path := job.path(flag)) is not None):
        is_folder = is_model_folder(path) or (path == job.path("proofData") and path.is_dir())
        yield from sorted(file for file in path.rglob("*") if file.is_file()) if is_folder else (path,)
    model = job.path("modelFile")
    if model is not None and job.flag("fmk") == "ONNX":
        yield from _external_data(model)
    elif model is not None and not job.flag("weightFile"):
        yield from weight_files_beside(model, job.flag("fmk"))
    config = job.path("configFile")
    if config is not None:
        yield from _samples(config, job.folder)


def _external_data(model: Path) -> list[Path]:
    import onnx_ir as ir

    from converter_lite.formats.onnx.checks import external_files

    try:
        loaded = ir.load(model)
    except Exception as error:  # a broken model fails in its own conversion, with a reason
        raise OSError(f"{model} cannot be loaded") from error
    files = external_files(loaded)
    if not all(file.is_file() for file in files):
        raise OSError(f"{model} has tensors in something that is not a file")  # a device or pipe has no end
    return list(files)


def _samples(config: Path, folder: Path) -> Iterator[Path]:
    from converter_lite.config.parser import load_config
    from converter_lite.data.files import list_files

    data = load_config(config).data_preprocess_param
    for name, directory in data.calibrate_path or ():
        yield from list_files(folder / directory, count=data.calibrate_size, input_name=name, confined=False).files
