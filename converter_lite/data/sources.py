"""The files of one model input: checking them against the input, and turning one into an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.bins import BinReader, tensor_shape
from converter_lite.data.files import FileList
from converter_lite.data.images import ImagePreprocess, load_image
from converter_lite.data.inputs import InputSpec, format_shape
from converter_lite.data.layout import DOUBT_RATIO, Layout, model_layout, roughness_ratio
from converter_lite.errors import DataError

DOUBT_FILES = 8
"""BIN files of an input that are examined for a wrong layout."""


@dataclass(frozen=True)
class Source:
    """The files of one input, and how one of them becomes an array; can be pickled."""

    spec: InputSpec
    files: tuple[Path, ...]
    load: Callable[[Path], NDArray[Any]]


@dataclass(frozen=True)
class OpenedSource:
    """A source, the number of its files that make one sample of a fixed batch, and what the log should say."""

    source: Source
    stack: int
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def _layout_of(spec: InputSpec) -> tuple[Layout, tuple[str, ...]]:
    if len(spec.shape) != 4:
        return Layout.NCHW, ()
    layout, note = model_layout(spec)
    return layout, (note,) if note else ()


def open_images(spec: InputSpec, listed: FileList, settings: ImagePreprocess) -> OpenedSource:
    """Pictures for one input.

    Raises:
        DataError: Rank, channels or size of the input do not fit the preprocessed pictures.
    """
    layout, notes = _layout_of(spec)
    _check_image_input(spec, layout, settings)
    order = settings.image_to_format or "BGR (image_to_format is not set)"
    values = "normalized" if settings.normalize_mean else "values 0..255 (normalize_mean and normalize_std are not set)"
    note = f"input '{spec.name}': pictures as {order}, {values}, {layout.value} {spec.dtype} {format_shape(spec.shape)}"

    load = partial(_load_picture, spec, layout, settings)
    return OpenedSource(Source(spec, listed.files, load), spec.shape[0] or 1, (*notes, note))


def _load_picture(spec: InputSpec, layout: Layout, settings: ImagePreprocess, path: Path) -> NDArray[Any]:
    picture = load_image(path, settings, planar=layout is Layout.NCHW)[np.newaxis]
    _check_size(spec, layout, picture.shape, str(path))
    return _cast(picture, spec.dtype)


def _check_image_input(spec: InputSpec, layout: Layout, settings: ImagePreprocess) -> None:
    if len(spec.shape) != 4:
        raise DataError(
            f"input {spec} has {len(spec.shape)} dimension(s), pictures need 4",
            where="input_type",
            hint="Set input_type=BIN and give raw tensors.",
        )
    channels = layout.split(spec.shape)[2]
    if channels is not None and channels != settings.channels:
        hints = {1: "Set image_to_format=GRAY.", 3: "Set image_to_format=RGB or BGR."}
        raise DataError(
            f"the pictures have {settings.channels} channel(s), input {spec} ({layout.value}) wants {channels}",
            where="image_to_format",
            hint=hints.get(channels, "Set input_type=BIN and give raw tensors."),
        )
    if settings.final_size is not None:
        height, width = settings.final_size
        keys = "center_crop_width, center_crop_height" if settings.crop_size else "resize_width, resize_height"
        shape = (1, channels, height, width) if layout is Layout.NCHW else (1, height, width, channels)
        _check_size(spec, layout, shape, keys)


def _check_size(spec: InputSpec, layout: Layout, shape: tuple[int | None, ...], where: str) -> None:
    wanted, given = layout.split(spec.shape)[:2], layout.split(shape)[:2]
    if any(want is not None and want != got for want, got in zip(wanted, given, strict=True)):
        height, width = ("any" if want is None else want for want in wanted)
        raise DataError(
            f"the preprocessed picture is {given[1]}x{given[0]} (width x height), "
            f"input '{spec.name}' wants {width}x{height}",
            where=where,
            hint=f"Set center_crop_width={width} and center_crop_height={height}, "
            f"or resize_width={width}, resize_height={height} and resize_method=LINEAR.",
        )


def _cast(array: NDArray[np.float32], dtype: np.dtype) -> NDArray[Any]:
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return np.clip(np.rint(array), limits.min, limits.max).astype(dtype)
    return array.astype(dtype, copy=False)


def open_bins(spec: InputSpec, listed: FileList, input_format: Layout) -> OpenedSource:
    """BIN files for one input.

    Raises:
        DataError: A file's size does not match the input.
    """
    layout, notes = _layout_of(spec)
    batch, stack = _bin_batch(spec, listed.files[0])
    reader = BinReader(spec, stored=input_format, model=layout, batch=batch)
    for path in listed.files:
        tensor_shape(spec, path.stat().st_size, batch, path)
    warnings: tuple[str, ...] = ()
    if len(spec.shape) == 4:
        action = "" if input_format is layout else ", transposed"
        notes = (
            *notes,
            f"input '{spec.name}': BIN files are read as {input_format.value} (inputDataFormat), "
            f"the model's layout is {layout.value}{action}",
        )
        warnings = _layout_doubt(reader, listed.files)
    return OpenedSource(Source(spec, listed.files, reader.read), stack, notes, warnings)


def _bin_batch(spec: InputSpec, first: Path) -> tuple[int | None, int]:
    """Length of a file along the first axis, and how many files make a sample: decided by the first file."""
    if not spec.shape:
        return None, 1
    batch = spec.shape[0]
    if batch is None:
        # A vector of unknown length has no batch: the file determines its length.
        return (1 if len(spec.shape) > 1 else None), 1
    if batch > 1 and None not in spec.shape:
        values = int(np.prod([length or 0 for length in spec.shape[1:]]))
        if first.stat().st_size == values * spec.dtype.itemsize:
            return 1, batch
    return batch, 1


def _layout_doubt(reader: BinReader, files: Sequence[Path]) -> tuple[str, ...]:
    ratios = []
    for path in files[:DOUBT_FILES]:
        array = reader.read_stored(path)
        if reader.stored.split(array.shape)[2] == 1:
            return ()
        ratios.append((roughness_ratio(array, array.shape, reader.stored), path))
    if not median(ratio for ratio, _ in ratios) > DOUBT_RATIO:  # nor NaN
        return ()
    worst = max(ratios)[1]
    other = reader.stored.other.value
    return (
        f"{worst}: the values look like {other}, but BIN files are read as {reader.stored.value}; if they are {other}, "
        f"set --inputDataFormat={other}",
    )
