"""Which files of a calibration directory are used."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from converter_lite.errors import DataError
from converter_lite.system.confinement import is_inside
from converter_lite.system.files import content_digest

MAX_NAMED = 5
"""File names that one message shows."""


@dataclass(frozen=True)
class FileList:
    """Files of one directory, in the order of use, and what the log should say about the others."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def list_files(
    directory: Path,
    *,
    count: int | None,
    input_name: str,
    accepts: Callable[[Path], bool] | None = None,
    confined: bool = True,
) -> FileList:
    """The first ``count`` entries of a directory, sorted by the bytes of their names.

    Hidden files (a leading dot) are left out with a note.

    Args:
        directory: Where the files are; not searched recursively.
        count: Files wanted; ``None`` = all.
        input_name: The model input they are for, named in messages.
        accepts: Whether a file is of the right kind; ``None`` = every file is.
        confined: Refuse links to files outside the directory.

    Raises:
        DataError: The directory cannot be read, has too few files, or something else is among the files wanted.
    """
    where = f"calibrate_path {input_name}:{directory}"
    try:
        names = sorted((entry.name for entry in directory.iterdir()), key=os.fsencode)
    except OSError as error:
        raise DataError(
            f"the directory cannot be read: {error.strerror}", where=where, hint="Correct the path."
        ) from error
    hidden = [name for name in names if name.startswith(".")]
    chosen = [directory / name for name in names if not name.startswith(".")][:count]
    if confined:
        _refuse_links_out(chosen, directory, where)
    _refuse_strays(chosen, accepts, where)
    if not chosen or (count is not None and len(chosen) < count):
        raise _too_few(len(chosen), count, where)
    note = f"{directory}: hidden file(s) left out: {_enumerate(hidden)}"
    return FileList(tuple(chosen), (note,) if hidden else ())


def _refuse_links_out(chosen: list[Path], directory: Path, where: str) -> None:
    outside = [path.name for path in chosen if path.is_symlink() and not is_inside(path, directory)]
    if outside:
        raise DataError(
            f"links to files outside the directory: {_enumerate(outside)}",
            where=where,
            hint="Copy the files, or allow such links with --allowExternalPaths.",
        )


def _refuse_strays(chosen: list[Path], accepts: Callable[[Path], bool] | None, where: str) -> None:
    folders = [path.name for path in chosen if path.is_dir()]
    if folders:
        raise DataError(
            f"subdirectories are not searched: {_enumerate(folders)}",
            where=where,
            hint="Move the files up or the subdirectory away.",
        )
    pipes = [path.name for path in chosen if path.exists() and not path.is_file()]
    if pipes:
        raise DataError(f"not a file: {_enumerate(pipes)}", where=where, hint="Move it out of the directory.")
    strays = [path.name for path in chosen if accepts is not None and not accepts(path)]
    if strays:
        raise DataError(
            f"not a picture: {_enumerate(strays)}",
            where=where,
            hint="Move the file(s) out of the directory, or set input_type=BIN for raw tensors.",
        )


def _too_few(found: int, wanted: int | None, where: str) -> DataError:
    need = f"calibrate_size wants {wanted}" if wanted is not None else "at least 1 is needed"
    hint = f"Add files or set calibrate_size={found}." if found and wanted else "Add files or correct the path."
    return DataError(f"{found} file(s) found, {need}", where=where, hint=hint)


def _enumerate(names: list[str]) -> str:
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def fingerprint_files(settings: str, files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 over settings and, for each ``(input name, file)``, the names and the content; not over the directory."""
    digest = hashlib.sha256(settings.encode())
    for input_name, path in files:
        try:
            content = content_digest(path)
        except OSError as error:
            raise DataError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
        digest.update(f"\n{input_name}\0{path.name}\0".encode("utf-8", "surrogateescape"))
        digest.update(bytes.fromhex(content))
    return digest.hexdigest()
