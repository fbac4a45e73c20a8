"""Writing results all or none: temporary files beside their destination, renamed when everything is proven."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from converter_lite.errors import ConverterError, UsageError

FILE_MODE = 0o644


class Transaction:
    """Files under construction. Until :meth:`commit` nothing exists at the destinations.

    The work directory stands beside the destination, so that renaming is atomic.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self._planned: list[tuple[Path, Path]] = []

    def add(self, made: Path, destination: Path) -> None:
        """Register a finished file of the work directory."""
        self._planned.append((made, destination))

    def commit(self) -> None:
        """Put every file into place; what was replaced comes back if one of them fails.

        Raises:
            ConverterError: A file could not be put into place.
        """
        done: list[tuple[Path, Path | None]] = []
        try:
            for made, destination in self._planned:
                made.chmod(FILE_MODE)
                backup = self.work / f"replaced_{len(done)}" if destination.exists() else None
                if backup is not None and len(self._planned) > 1:
                    os.link(destination, backup)
                done.append((destination, backup))
                made.replace(destination)
        except OSError as error:
            for destination, backup in reversed(done):
                with contextlib.suppress(OSError):
                    if backup is not None and backup.exists():
                        backup.replace(destination)
                    elif backup is None:
                        destination.unlink(missing_ok=True)
            raise _cannot_write(error) from error


@contextlib.contextmanager
def transaction(directory: Path) -> Iterator[Transaction]:
    """A transaction for files of ``directory`` (made if missing); its work directory is removed in any case.

    Raises:
        ConverterError: The directory cannot be written, or the disk is full.
    """
    work: Path | None = None
    made = _missing_parents(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".converter_lite_", dir=directory))
        yield Transaction(work)
    except OSError as error:
        raise _cannot_write(error) from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def destination(output_file: Path, suffix: str) -> Path:
    """``out`` or ``out.onnx`` -> ``out.onnx``.

    Raises:
        UsageError: The path names a directory.
    """
    if str(output_file).endswith(("/", os.sep)) or output_file.is_dir() or not output_file.name:
        raise UsageError("outputFile names a directory", where=str(output_file), hint="add a file name, without suffix")
    if output_file.name.endswith(suffix):
        return output_file
    return output_file.with_name(output_file.name + suffix)


def refuse_overwrite(destination: Path, inputs: list[Path]) -> None:
    """Refuse an output that is one of the input files.

    Raises:
        UsageError: It is.
    """
    for path in inputs:
        if path.exists() and destination.exists() and path.samefile(destination):
            raise UsageError(
                "the output would overwrite an input", where=str(destination), hint="choose another outputFile"
            )


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically.

    Raises:
        ConverterError: It cannot be written.
    """
    with transaction(path.parent) as files:
        made = files.work / "text"
        made.write_text(text, encoding="utf-8", newline="\n")
        files.add(made, path)
        files.commit()


def _missing_parents(directory: Path) -> list[Path]:
    """Folders that do not exist yet, innermost first; they are removed again if nothing is put into them."""
    missing = []
    while not directory.exists() and directory != directory.parent:
        missing.append(directory)
        directory = directory.parent
    return missing


def _cannot_write(error: OSError) -> ConverterError:
    where = str(error.filename or "")
    return ConverterError(f"cannot write: {error.strerror or error}", where=where, hint="check space and permissions")
