"""Writing results all or nothing: temporary files beside their destination, renamed when everything is proven."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from converter_lite.errors import ConverterError, UsageError
from converter_lite.system.interruptions import interruptions_come_too_late
from converter_lite.system.work_directory import WORK_PREFIX, make_work_directory

_BLOCK = 1 << 20
"""Bytes that are read at a time."""

FILE_MODE = 0o644
"""Permissions of results, whatever permissions a temporary file has."""

NO_STREAM = "a result cannot be a device, a pipe or an open stream: files appear whole, by renaming"


class Transaction:
    """Files under construction. Until :meth:`commit` nothing exists at the destinations.

    The work directory stands beside the destination, so that renaming is atomic.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.committed = False
        self._planned: list[tuple[Path, Path]] = []

    def add(self, made: Path, destination: Path) -> None:
        """Register a finished file of the work directory."""
        self._planned.append((made, destination))

    def commit(self) -> None:
        """Put every file into place; if one of them fails, the replaced files come back.

        Raises:
            ConverterError: A file could not be put into place.
        """
        with interruptions_come_too_late():
            self._put_into_place()
            self.committed = True

    def _put_into_place(self) -> None:
        done: list[tuple[Path, Path | None]] = []
        try:
            for _, destination in self._planned:
                if is_stream(destination):
                    raise OSError(errno.EINVAL, NO_STREAM, str(destination))
            for made, destination in self._planned:
                made.chmod(FILE_MODE)
                backup = self.work / f"replaced_{len(done)}" if destination.exists() else None
                if backup is not None and len(self._planned) > 1:
                    _keep(destination, backup)
                done.append((destination, backup))
                made.replace(destination)
        except BaseException as error:  # also Ctrl-C
            for destination, backup in reversed(done):
                with contextlib.suppress(OSError):
                    if backup is not None and backup.exists():
                        backup.replace(destination)
                    elif backup is None:
                        destination.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise _cannot_write(error, self.work.parent) from error
            raise


def _keep(file: Path, backup: Path) -> None:
    """A second name for a file, or a copy on file systems without links (FAT, some network shares)."""
    try:
        os.link(file, backup)
    except OSError:
        shutil.copy2(file, backup)


@contextlib.contextmanager
def transaction(directory: Path) -> Iterator[Transaction]:
    """A transaction for files of ``directory`` (made if missing); its work directory is removed in any case.

    A process that is killed leaves its work directory; the next transaction in the same place removes it.

    Raises:
        ConverterError: The directory cannot be written, or the disk is full.
        UsageError: It is below ``~``.
    """
    refuse_home_sign(directory)
    work: Path | None = None
    files: Transaction | None = None
    lock: int | None = None
    made = _missing_parents(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        work, lock = make_work_directory(directory)
        files = Transaction(work)
        yield files
    except BrokenPipeError:  # of a stream: whoever read what is printed has gone
        raise
    except OSError as error:
        raise _cannot_write(error, directory) from error
    finally:
        is_done = files is not None and files.committed
        with interruptions_come_too_late() if is_done else contextlib.nullcontext():
            _clean_up(work, lock, made)


def _clean_up(work: Path | None, lock: int | None, made: list[Path]) -> None:
    if work is not None:
        shutil.rmtree(work, ignore_errors=True)
    if lock is not None:
        os.close(lock)
    for folder in made:
        with contextlib.suppress(OSError):
            folder.rmdir()


def destination(output_file: Path, suffix: str) -> Path:
    """``out`` or ``out.onnx`` -> ``out.onnx``.

    Raises:
        UsageError: The path names a directory, or is not valid text.
    """
    if str(output_file).endswith(("/", os.sep)) or _is_folder(output_file) or not output_file.name:
        raise UsageError("outputFile names a directory", where=str(output_file), hint="add a file name, without suffix")
    refuse_other_encoding(output_file, "outputFile")
    if output_file.name.endswith(suffix):
        return output_file
    return output_file.with_name(output_file.name + suffix)


def destinations(output_file: Path, suffixes: Sequence[str]) -> list[Path]:
    """One path per suffix: ``out`` or ``out.onnx`` -> ``out.ms``, ``out.onnx``.

    Raises:
        UsageError: The path names a directory, or is not valid text.
    """
    given = next((suffix for suffix in suffixes if output_file.name.endswith(suffix)), "")
    stem = output_file.name.removesuffix(given)
    if given and stem and not str(output_file).endswith(("/", os.sep)) and not _is_folder(output_file):
        # A folder of the name without suffix is no matter: opt puts the lists for tailoring into one.
        return [destination(output_file.with_name(stem + suffix), suffix) for suffix in suffixes]
    return [destination(output_file, suffix) for suffix in suffixes]


def refuse_other_encoding(path: Path, name: str) -> None:
    """Refuse a path for models, called ``name``, that is not UTF-8: libraries that check and run them cannot open it.

    Raises:
        UsageError: It is not.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in str(path)):
        raise UsageError("the path is not UTF-8 text", where=ascii(str(path)), hint=f"choose another {name}")


def refuse_home_sign(path: Path) -> None:
    """Refuse a path below ``~``, which a shell left as it is: a folder of that name would be made in the current one.

    Raises:
        UsageError: It begins with ``~``.
    """
    if path.parts[:1] == ("~",):
        hint = "write $HOME or the whole path: shells put a folder for ~ at the beginning of a word only"
        raise UsageError("~ is no folder here", where=str(path), hint=hint)


def refuse_overwrites(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """:func:`refuse_overwrite` for several outputs, each beside those before it; those that are not asked for are ``None``."""
    wanted, read = [path for path in outputs if path is not None], [path for path in inputs if path is not None]
    for index, output in enumerate(wanted):
        refuse_overwrite(output, read, also=wanted[:index])


def refuse_overwrite(output: Path, inputs: Sequence[Path], *, also: Sequence[Path] = ()) -> None:
    """Refuse an output that is one of the input files, or one of the other outputs (``also``).

    Raises:
        UsageError: It is, or it is a directory, a device or a pipe, or below ``~``.
    """
    refuse_home_sign(output)
    if _is_folder(output):
        raise UsageError("the path of an output is a directory", where=str(output), hint="add a file name")
    if is_stream(output):
        raise UsageError(NO_STREAM, where=str(output), hint="name a file")
    for paths, what in ((inputs, "an input"), (also, "another output")):
        if any(_is_same(path, output) for path in paths):
            raise UsageError(f"the output would overwrite {what}", where=str(output), hint="choose another path")


def is_stream(path: Path) -> bool:
    """Whether this is a device, a pipe, or the name of an open file (``/dev/stdout``): a result would take its place."""
    mode = _mode(path)
    is_special = mode and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return bool(is_special) or (path.is_symlink() and str(path.readlink()).startswith("/proc/"))


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Kind and rights of what is there, 0 if nothing is: from Python 3.14 on, ``Path.exists`` hides why it cannot tell."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:  # a name that is too long, for one
        raise UsageError(f"the path cannot be used: {error.strerror}", where=str(path)) from error


def _is_same(path: Path, other: Path) -> bool:
    if _mode(path) and _mode(other):
        return path.samefile(other)
    return path.resolve() == other.resolve()


def is_file(path: Path) -> bool:
    """Whether this is a file; not where a folder may not be looked into, or the name is too long for one.

    Up to Python 3.13 ``Path.is_file`` fails there; whoever reads the file says what is wrong.
    """
    with contextlib.suppress(OSError):
        return path.is_file()
    return False


def is_folder(path: Path) -> bool:
    """The same for a folder."""
    with contextlib.suppress(OSError):
        return path.is_dir()
    return False


def refuse_irregular(path: Path) -> None:
    """Refuse to read what is neither a file nor a folder: a pipe could block for ever, a device never end.

    Raises:
        OSError: It is one of these.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "this is not a regular file", str(path))


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read.

    Raises:
        OSError: It cannot be opened, or is not a regular file.
    """
    refuse_irregular(path)
    return path.open("rb")


def read_regular(path: Path) -> bytes:
    """The content of a file, as :func:`open_regular` opens it.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return file.read()


def content_digest(*paths: Path) -> str:
    """SHA-256 of the content of files, one after another.

    Raises:
        OSError: One cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically.

    Raises:
        ConverterError: It cannot be written.
    """
    with transaction(path.parent) as files:
        stage_text(files, path, text).commit()


def stage_text(files: Transaction, path: Path, text: str) -> Transaction:
    """Add a text file to a transaction of its folder.

    Raises:
        OSError: It cannot be written.
    """
    made = files.work / "text"
    made.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")  # of paths that are not UTF-8
    files.add(made, path)
    return files


def _missing_parents(directory: Path) -> list[Path]:
    """Folders that do not exist yet, innermost first; they are removed again if nothing is put into them."""
    missing = []
    while not directory.exists() and directory != directory.parent:
        missing.append(directory)
        directory = directory.parent
    return missing


def _cannot_write(error: OSError, directory: Path) -> ConverterError:
    # The system names no file when the disk is full, and our work directory says nothing to a user.
    named = Path(error.filename or WORK_PREFIX)
    where = str(directory if any(part.startswith(WORK_PREFIX) for part in named.parts) else named)
    if isinstance(error, FileExistsError):
        return ConverterError(
            "cannot write: a file stands where a folder should be", where=where, hint="choose another"
        )
    return ConverterError(f"cannot write: {error.strerror or error}", where=where, hint="check space and permissions")
