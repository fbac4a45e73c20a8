"""The calibration samples of a request: Python's own, or files that a configuration names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite.config.settings import QuantizationConfig
from converter_lite.data import configured, iterables, proof_data, remember
from converter_lite.data.inputs import InputSpec, check_names, feed_values, format_shape, input_specs
from converter_lite.data.layout import Layout
from converter_lite.errors import ModelError, UsageError
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.runtime.context import RunContext
from converter_lite.system.confinement import is_inside

if TYPE_CHECKING:
    from converter_lite.data.dataset import Dataset
    from converter_lite.data.remember import RememberingDataset

MAX_READERS = 4
"""Most threads that decode samples."""


def open_samples(
    request: ConvertRequest, config: QuantizationConfig | None, model: ir.Model, context: RunContext
) -> RememberingDataset | None:
    """The samples, ``None`` without any.

    Args:
        request: May hold samples of its own.
        config: Names files otherwise.
        model: Its inputs say what a sample is.
        context: Its log receives remarks about the samples.

    Raises:
        ConfigError: The configuration does not fit the inputs.
        DataError: There are no files, or too few.
        ModelError: An input holds no values.
    """
    specs = input_specs(model, dict(request.input_shape))
    dataset = _found(request, config, specs, context.threads)
    if dataset is None:
        return None
    empty = next((spec for spec in specs if 0 in spec.shape), None)
    if empty is not None:
        raise ModelError(f"it has no values: its shape is {format_shape(empty.shape)}", where=f"input '{empty.name}'")
    for note in dataset.notes:
        context.log.info(note)
    for warning in dataset.warnings:
        context.log.warning(warning)
    return remember.RememberingDataset(dataset)


def check_folders(
    config: QuantizationConfig | None, outputs: Iterable[tuple[str, Path | None]], *, confined: bool
) -> None:
    """Check what is known of the calibration folders before the model is read.

    Args:
        config: Names them.
        outputs: What is going to be written: flag or key, and path.
        confined: Refuse links to files outside the folders.

    Raises:
        DataError: A folder does not have the files.
        UsageError: An output would become a sample of the next run.
    """
    for name, folder in _folders(config):
        assert config is not None and config.data_preprocess_param is not None
        configured.check_folder(config.data_preprocess_param, name, folder, confined=confined)
        for flag, path in outputs:
            if path is not None and is_inside(path, folder):
                raise UsageError(
                    f"{path} would be read as a sample of '{name}' by the next run",
                    where=flag,
                    hint=f"choose a path outside of {folder}",
                )


def check_inputs_exist(config: QuantizationConfig | None, model: ir.Model) -> None:
    """Check the names of the calibration folders before any work on the model.

    Raises:
        DataError: It has no such input.
    """
    known = [str(value.name) for value in feed_values(model)]
    check_names([name for name, _ in _folders(config)], known, key="calibrate_path")


def _folders(config: QuantizationConfig | None) -> list[tuple[str, Path]]:
    if config is None or not names_files(config):
        return []
    assert config.data_preprocess_param is not None
    return [(name, Path(folder)) for name, folder in config.data_preprocess_param.calibrate_path]


def open_proof_samples(request: ConvertRequest, model: ir.Model, context: RunContext) -> RememberingDataset | None:
    """The samples of ``--proofData``, ``None`` without any.

    Raises:
        DataError: There are none, or they do not fit the inputs.
    """
    if request.proof_data is None:
        return None
    specs = input_specs(model, dict(request.input_shape))
    layout = Layout(request.input_data_format)
    dataset = proof_data.open_proof_data(
        request.proof_data, specs, layout=layout, confined=not request.allow_external_paths
    )
    for note in dataset.notes:
        context.log.info(note)
    return remember.RememberingDataset(dataset)


def _found(
    request: ConvertRequest, config: QuantizationConfig | None, specs: list[InputSpec], threads: int
) -> Dataset | None:
    if request.calibration_data is not None:
        written = config.data_preprocess_param.calibrate_size if config and config.data_preprocess_param else None
        limit = written if request.calibration_size is None else request.calibration_size
        return iterables.IterableDataset(request.calibration_data, specs, limit=limit)
    if config is None or not names_files(config):
        return None
    return configured.configured_dataset(
        config.data_preprocess_param,
        specs,
        input_format=Layout(request.input_data_format),
        workers=min(threads, MAX_READERS),
        confined=not request.allow_external_paths,
    )


def names_files(config: QuantizationConfig) -> bool:
    """Whether a section names calibration files."""
    data = config.data_preprocess_param
    return data is not None and bool(data.calibrate_path) and data.input_type is not None
