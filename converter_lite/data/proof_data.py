"""Samples that a written file is compared on, from one ``.npz`` file or a folder of BIN files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.dataset import Dataset, open_dataset
from converter_lite.data.inputs import InputSpec, check_names, format_shape
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.layout import Layout
from converter_lite.errors import DataError, UsageError
from converter_lite.system.archives import BROKEN_ARCHIVE
from converter_lite.system.confinement import is_inside

FLAG = "--proofData"

HINT = "Give an .npz file with an array per input, or a folder with a folder of BIN files per input, named after it."


def open_proof_data(path: Path, specs: Sequence[InputSpec], *, layout: Layout, confined: bool = True) -> Dataset:
    """The samples in a file or folder.

    Args:
        path: An ``.npz`` file whose arrays are named after the inputs, in the layout of the model: one sample each, or several
            along one more axis in front. Or a folder with the BIN files of each input in a folder named after it (``/`` in a name
            is ``_`` there); the files of an only input may lie in the folder itself.
        specs: Inputs of the model.
        layout: Of BIN files of four-dimensional inputs.
        confined: Refuse links to files outside the folder.

    Raises:
        DataError: There are no samples, or they do not fit the inputs.
    """
    where = f"{FLAG}={path}"
    if path.is_dir():
        folders = [(spec.name, path / spec.name.replace("/", "_")) for spec in specs]
        if len(specs) == 1 and not folders[0][1].is_dir():
            folders = [(specs[0].name, path)]
        try:
            return open_dataset(folders, specs, layout, size=None, confined=confined)
        except DataError as error:
            message = f"{error.message} ({error.where})" if error.where else error.message
            raise DataError(message, where=where, hint=HINT) from error
    return IterableDataset(_feeds(_arrays(path, where), specs, where), specs)


def check_proof_data(path: Path, outputs: Iterable[tuple[str, Path | None]] = ()) -> None:
    """Check what is known before the model is read.

    Args:
        path: A file or a folder.
        outputs: What is going to be written: flag or key, and path.

    Raises:
        DataError: There is neither a file nor a folder.
        UsageError: An output would lie among the samples.
    """
    if not path.is_file() and not path.is_dir():
        raise DataError("there is no such file or folder", where=f"{FLAG}={path}", hint=HINT)
    for flag, output in outputs:
        if output is not None and path.is_dir() and is_inside(output, path):
            raise UsageError(f"{output} lies in {FLAG}={path}", where=flag, hint="choose a path outside of it")


def _arrays(path: Path, where: str) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except BROKEN_ARCHIVE as error:
        raise DataError("this is not an .npz file of numbers", where=where, hint=HINT) from error


def _feeds(arrays: dict[str, NDArray[Any]], specs: Sequence[InputSpec], where: str) -> list[dict[str, NDArray[Any]]]:
    check_names(arrays, [spec.name for spec in specs], key=where)
    counts: dict[str, int] = {}
    for spec in specs:
        if spec.name not in arrays:
            raise DataError(f"there is no array for input '{spec.name}'", where=where, hint=HINT)
        array, rank = arrays[spec.name], len(spec.shape)
        if array.ndim == rank + 1:
            counts[spec.name] = len(array)
        elif not array.size and 0 not in spec.shape:
            raise DataError(f"array '{spec.name}' {format_shape(array.shape)} holds no sample", where=where)
        elif array.ndim != rank:
            raise DataError(
                f"array '{spec.name}' {format_shape(array.shape)} has neither the {rank} dimensions of the input "
                f"{format_shape(spec.shape)} nor one more in front",
                where=where,
            )
    if len(set(counts.values())) > 1 or not all(counts.values()):
        found = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise DataError(f"the inputs have different numbers of samples, or none ({found})", where=where)
    count = next(iter(counts.values()), 1)
    return [
        {name: array[index] if name in counts else array for name, array in arrays.items()} for index in range(count)
    ]
