"""Recorded samples: what ``--extract-worst`` writes, and other files of that layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.analysis.polygraphy import Sample, read_polygraphy
from converter_lite.data.inputs import InputSpec, check_names, format_shape
from converter_lite.errors import DataError
from converter_lite.system.archives import BROKEN_ARCHIVE
from converter_lite.system.files import open_regular, read_regular

SET = "test_data_set_{}"
"""Folder of one sample, as ONNX's own test data are laid out."""


def read_recorded(path: Path, specs: Sequence[InputSpec], *, limit: int) -> list[Sample]:
    """Samples of a file or folder.

    Args:
        path: An ``.npz`` file (one array per input, one sample), a folder of such files, a folder with
            ``test_data_set_0/input_0.pb`` and so on, or the inputs that Polygraphy saved (``.json``).
        specs: Inputs of the model.
        limit: Most samples that are read.

    Raises:
        DataError: There is none, one cannot be read, or it does not fit the model.
    """
    files = _files(path)[:limit]
    if not files:
        raise DataError(
            "there are no recorded samples",
            where=str(path),
            hint="name an .npz file, a folder of them, a folder with test_data_set_0/input_0.pb, or inputs that Polygraphy saved",
        )
    if path.suffix == ".json" and path.is_file():
        samples = read_polygraphy(path)[:limit]
        places = [f"{path}: sample {index}" for index in range(1, len(samples) + 1)]
    else:
        samples = [_read_set(file, specs) if file.is_dir() else read_archive(file) for file in files]
        places = [str(file) for file in files]
    for place, sample in zip(places, samples, strict=True):
        _check(sample, specs, place)
    return samples


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / "input_0.pb").is_file():
        return [path]
    sets = [folder for folder in path.glob(SET.format("*")) if folder.is_dir()]
    return sorted(sets, key=lambda p: (len(p.name), p.name)) or sorted(path.glob("*.npz"))


def read_archive(path: Path) -> Sample:
    """The arrays of an ``.npz`` file.

    Raises:
        DataError: It cannot be read.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as data:
            return {name: data[name] for name in data.files}
    except BROKEN_ARCHIVE as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "they are no .npz file of numbers"
        raise DataError(f"the samples cannot be read: {reason}", where=str(path), hint="give an .npz file") from error


def _read_set(folder: Path, specs: Sequence[InputSpec]) -> Sample:
    import onnx
    from google.protobuf.message import DecodeError

    sample: Sample = {}
    for index, spec in enumerate(specs):
        path = folder / f"input_{index}.pb"
        try:
            tensor = onnx.TensorProto.FromString(read_regular(path))
            if onnx.external_data_helper.uses_external_data(tensor):
                raise ValueError("its numbers are in another file")
            if not isinstance(tensor.name, str):
                raise ValueError("its name is not text")
            sample[tensor.name or spec.name] = onnx.numpy_helper.to_array(tensor)
        except (OSError, DecodeError, ValueError, TypeError, KeyError, MemoryError) as error:
            raise DataError(f"the tensor cannot be read: {error}", where=str(path)) from error
    return sample


def _check(sample: Sample, specs: Sequence[InputSpec], where: str) -> None:
    check_names(sample, [spec.name for spec in specs], key=where)
    for spec in specs:
        array = sample.get(spec.name)
        if array is None:
            raise DataError(f"there is no array for input '{spec.name}'", where=where)
        sizes = zip(spec.shape, array.shape, strict=False)
        if array.dtype != spec.dtype or array.ndim != len(spec.shape) or any(s not in (None, n) for s, n in sizes):
            raise DataError(
                f"input {spec} is given as {array.dtype} {format_shape(array.shape)}",
                where=where,
            )


def tensor_bytes(name: str, array: NDArray[Any]) -> bytes:
    """An array as ONNX stores a test tensor."""
    import onnx

    return bytes(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name).SerializeToString(deterministic=True))


def recorded_files(inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    """File names and contents of one test data set."""
    files = {f"input_{i}.pb": tensor_bytes(name, array) for i, (name, array) in enumerate(inputs.items())}
    return {**files, **{f"output_{i}.pb": tensor_bytes(n, a) for i, (n, a) in enumerate(outputs.items())}}
