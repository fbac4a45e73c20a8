"""The calibration samples of a request: Python's own, or files that a configuration names."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.config.settings import QuantizationConfig
from converter_lite.data.configured import configured_dataset
from converter_lite.data.dataset import Dataset
from converter_lite.data.inputs import InputSpec, format_shape, input_specs
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.layout import Layout
from converter_lite.data.proof_data import open_proof_data
from converter_lite.data.remember import RememberingDataset
from converter_lite.errors import ModelError
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.runtime.context import RunContext

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
    return RememberingDataset(dataset)


def open_proof_samples(request: ConvertRequest, model: ir.Model, context: RunContext) -> RememberingDataset | None:
    """The samples of ``--proofData``, ``None`` without any.

    Raises:
        DataError: There are none, or they do not fit the inputs.
    """
    if request.proof_data is None:
        return None
    specs = input_specs(model, dict(request.input_shape))
    layout = Layout(request.input_data_format)
    dataset = open_proof_data(request.proof_data, specs, layout=layout, confined=not request.allow_external_paths)
    for note in dataset.notes:
        context.log.info(note)
    return RememberingDataset(dataset)


def _found(
    request: ConvertRequest, config: QuantizationConfig | None, specs: list[InputSpec], threads: int
) -> Dataset | None:
    if request.calibration_data is not None:
        return IterableDataset(request.calibration_data, specs, limit=request.calibration_size)
    return configured_dataset(
        config.data_preprocess_param if config is not None else None,
        specs,
        input_format=Layout(request.input_data_format),
        workers=min(threads, MAX_READERS),
        confined=not request.allow_external_paths,
    )


def names_files(config: QuantizationConfig) -> bool:
    """Whether a section names calibration files."""
    data = config.data_preprocess_param
    return data is not None and bool(data.calibrate_path) and data.input_type is not None
