"""Labelled pictures: a folder with a folder for each class, or a CSV file with ``path,label`` rows."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from converter_lite.data.images import is_picture
from converter_lite.errors import DataError, did_you_mean
from converter_lite.system.files import read_regular

HEADER = ["path", "label"]
"""First row of a CSV file that may have one."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Pictures with the number of the output that should be largest.

    Attributes:
        where: Folder or file that lists them.
        files: Their paths.
        labels: A number for each.
    """

    where: Path
    files: tuple[Path, ...]
    labels: tuple[int, ...]


def read_classes(path: Path) -> list[str]:
    """Names of classes in the order of a model's outputs, one per line.

    Raises:
        DataError: The file cannot be read, or a name stands twice.
    """
    names = [line.strip() for line in _text(path).splitlines() if line.strip()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"class {twice!r} stands there twice", where=str(path))
    return names


def read_labelled(path: Path, names: Sequence[str], outputs: int) -> Labelled:
    """The pictures of a folder or a CSV file.

    Args:
        path: A folder with a folder for each class, or a CSV file; its relative paths begin in its own folder.
        names: Classes in the order of the outputs; empty: folders in alphabetical order, labels are numbers from 0.
        outputs: Classes that the model tells apart.

    Raises:
        DataError: There are no such pictures, or they do not fit the outputs; a row is named by its line.
    """
    if names and len(names) != outputs:
        raise DataError(f"{len(names)} names of classes, but the model has {outputs} outputs", where="--classes")
    if path.is_dir():
        found = _of_folder(path, names, outputs)
    elif path.is_file():
        found = _of_csv(path, names, outputs)
    else:
        raise DataError("there is no such folder or CSV file", where=str(path))
    if not found:
        raise DataError("there are no pictures", where=str(path))
    files, labels = zip(*found, strict=True)
    if len(set(labels)) < 2:
        raise DataError("all pictures are of one class: there is nothing to tell apart", where=str(path))
    return Labelled(path, files, labels)


def _of_folder(path: Path, names: Sequence[str], outputs: int) -> list[tuple[Path, int]]:
    folders = sorted((entry for entry in _entries(path) if entry.is_dir()), key=lambda entry: os.fsencode(entry.name))
    if not folders:
        raise DataError("it has no folders: there should be one for each class", where=str(path))
    if names:
        for folder in folders:
            if folder.name not in names:
                near = did_you_mean(folder.name, names)
                raise DataError(f"no class has the name of the folder{near}", where=str(folder))
    elif len(folders) != outputs:
        raise DataError(
            f"{len(folders)} folders, but the model has {outputs} outputs",
            where=str(path),
            hint="--classes=FILE names the classes in the order of the outputs; some may have no pictures then",
        )
    found = []
    for number, folder in enumerate(folders):
        label = names.index(folder.name) if names else number
        for file in sorted(_entries(folder), key=lambda entry: os.fsencode(entry.name)):
            if not file.is_file() or not is_picture(file):
                raise DataError("this is not a picture", where=str(file), hint="Keep only pictures in the folders.")
            found.append((file, label))
    return found


def _of_csv(path: Path, names: Sequence[str], outputs: int) -> list[tuple[Path, int]]:
    found = []
    rows = csv.reader(_text(path).splitlines(), strict=True)
    try:
        for row in rows:
            if not row or (rows.line_num == 1 and [cell.strip() for cell in row] == HEADER):
                continue
            where = f"{path}:{rows.line_num}"
            if len(row) != len(HEADER):
                raise DataError(f"{len(row)} cells, where a path and a label should stand", where=where)
            file = path.parent / row[0].strip()
            if not file.is_file():
                raise DataError(f"there is no file {file}", where=where)
            found.append((file, _label(row[1].strip(), names, outputs, where)))
    except csv.Error as error:
        raise DataError(str(error), where=f"{path}:{rows.line_num}") from error
    return found


def _label(text: str, names: Sequence[str], outputs: int, where: str) -> int:
    if names:
        if text not in names:
            raise DataError(f"no class has the name {text!r}{did_you_mean(text, names)}", where=where)
        return names.index(text)
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) >= outputs:
        raise DataError(
            f"label {text!r} is not a number from 0 to {outputs - 1}, an output of the model",
            where=where,
            hint="--classes=FILE gives the outputs names",
        )
    return int(text)


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, without hidden files."""
    try:
        return [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"the folder cannot be read: {error.strerror}", where=str(folder)) from error


def _text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise DataError("the file is not UTF-8 text", where=str(path)) from error
