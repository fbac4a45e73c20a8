"""Reading files with the framework that made them, in a process of its own, whose result is an ONNX file."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import onnx_ir as ir

from converter_lite.errors import ConverterError, ModelError, UsageError
from converter_lite.formats.child import ANSWER, MODEL, REQUEST, Answer, Request, last_line
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.onnx.source import source_of
from converter_lite.formats.onnx.versions import fit_to_engine
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.passes.input_shapes import fix_input_shapes
from converter_lite.system.extras import install, missing_text
from converter_lite.system.work_directory import temporary_folder

_log = logging.getLogger(__name__)

TIME_LIMIT = 3600.0
"""Seconds that a framework may take for one file."""

KEPT = 1 << 16
"""Bytes of what a framework prints that are kept: its last words."""

LARGEST_ANSWER = 1 << 26
"""Bytes of an answer; a description of a million nodes is smaller."""

STARTER = Path(__file__).with_name("start_child.py")

FAILED = "{} cannot convert it: {}"


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, and the program that drives it.

    Attributes:
        name: As its makers write it.
        fmk: As in ``--fmk``.
        extra: Of this package: what installs it.
        program: Module that runs in its process.
        environment: Variables of that process, beside ours.
    """

    name: str
    fmk: str
    extra: str
    program: str
    environment: Mapping[str, str]

    @property
    def variable(self) -> str:
        """Environment variable that names another interpreter."""
        return f"CONVERTER_LITE_{self.fmk}_PYTHON"

    @property
    def interpreter(self) -> str:
        """The interpreter that has the framework; by default the one that runs us."""
        return os.environ.get(self.variable) or sys.executable


def read_with(framework: Framework, files: ModelFiles) -> Source:
    """The model of a file or folder.

    Raises:
        UsageError: The framework is not installed, or the shapes do not fit.
        ModelError: It does not exist, is refused, or the framework fails.
    """
    size = _size(files.path)
    request = Request(
        "convert",
        os.path.abspath(files.path),  # noqa: PTH100 - links stay as they are
        {name: list(shape) for name, shape in files.input_shapes.items()},
        files.allow_unsafe,
    )
    with _folder() as folder:
        answer = _ask(framework, request, folder, files.path)
        for note in answer.notes:
            _log.warning("%s", note)
        return _source(folder / MODEL, files, size, framework)


def describe_with(framework: Framework, path: Path) -> list[str | list[list[str]]]:
    """Blocks of the description of a file or folder.

    Raises:
        ConverterError: As :func:`read_with`.
    """
    _size(path)
    with _folder() as folder:
        request = Request("describe", os.path.abspath(path))  # noqa: PTH100
        return _ask(framework, request, folder, path).blocks


def _source(made: Path, files: ModelFiles, size: int, framework: Framework) -> Source:
    where = str(files.path)
    if not made.is_file():
        raise ModelError(f"{framework.name} ended without a result", where=where)
    try:
        model = read_onnx(made)
    except ConverterError as error:
        error.where = error.where.replace(str(made), where)
        error.hint = error.hint.replace(str(made), where)
        raise
    ir.external_data.load_to_model(model)  # the folder of the file goes away
    taken = {value.name for value in model.graph.inputs}
    fix_input_shapes(model, {name: shape for name, shape in files.input_shapes.items() if name in taken})
    model = fit_to_engine(model, files.path)
    return source_of(model, size, where)


def _size(path: Path) -> int:
    """Bytes of the file, or of all files in the folder."""
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if not path.exists():
            raise ModelError("the model file does not exist", where=str(path))
        if not path.is_file():  # a pipe would block, a device may never end
            raise ModelError("this is not a regular file", where=str(path), hint="save the model as a file first")
        with path.open("rb"):
            return path.stat().st_size
    except OSError as error:
        raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(path)) from error


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder; one that a killed process left is removed by the next."""
    try:
        with temporary_folder() as folder:
            yield folder
    except OSError as error:
        raise ConverterError(f"cannot write: {error.strerror or error}", where=tempfile.gettempdir()) from error


def _ask(framework: Framework, request: Request, folder: Path, path: Path) -> Answer:
    """The answer, if it is not a refusal.

    Raises:
        UsageError: The framework is not installed, or the command line does not fit the model.
        ModelError: The model is refused, or the program fails.
    """
    where = str(path)
    (folder / REQUEST).write_text(json.dumps(asdict(request)), encoding="utf-8")
    command = [framework.interpreter, str(STARTER), framework.program, str(folder)]
    try:
        status, said = _run(command, folder, _environment(framework))
    except OSError as error:
        raise UsageError(
            f"{framework.interpreter} cannot be started: {error.strerror}",
            where=f"{framework.variable}={framework.interpreter}",
            hint=f"name an interpreter that has {framework.name}",
        ) from error
    if status is None:
        raise ModelError(
            FAILED.format(framework.name, f"it took more than {TIME_LIMIT / 60:g} minutes"), where=where, hint=said
        )
    answer = _read_answer(folder)
    if status != 0 or answer is None:
        raise ModelError(FAILED.format(framework.name, said or "it said nothing"), where=where, hint=_ending(status))
    if answer.missing:
        raise _not_installed(framework, answer.missing)
    if answer.is_usage:
        raise UsageError(answer.refused, where="--inputShape", hint=answer.hint)
    if answer.refused:
        said_by = answer.refused if answer.hint else FAILED.format(framework.name, answer.refused)
        raise ModelError(said_by, where=where, hint=answer.hint)
    return answer


def _not_installed(framework: Framework, missing: list[str]) -> UsageError:
    own = framework.interpreter == sys.executable
    return UsageError(
        f"reading {framework.name} models needs {missing_text(missing)}"
        + ("" if own else f" for {framework.interpreter}"),
        where=f"--fmk={framework.fmk}",
        hint=install(framework.extra) if own else f"{framework.interpreter} -m pip install {' '.join(missing)}",
    )


def _ending(status: int) -> str:
    """How a process ended, for people."""
    if status >= 0:
        return f"its process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    memory = " (out of memory, most likely)" if name == "SIGKILL" else ""
    return f"its process was ended by {name}{memory}"


def _read_answer(folder: Path) -> Answer | None:
    file = folder / ANSWER
    try:
        if file.stat().st_size > LARGEST_ANSWER:
            return None
        return Answer(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _environment(framework: Framework) -> dict[str, str]:
    """Ours; another interpreter does not look for packages where ours does."""
    kept = dict(os.environ)
    if framework.interpreter != sys.executable:
        for name in ("PYTHONPATH", "PYTHONHOME"):
            kept.pop(name, None)
    # Sets in another order would number nodes differently: other bytes.
    return {**kept, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", **framework.environment}


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int | None, str]:
    """Exit status of a program (``None``: it took too long) and the last line that it printed.

    It, and whatever it starts, are gone afterwards.

    Raises:
        OSError: It cannot be started.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    words = _LastWords(process.stdout)
    status: int | None = None
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(TIME_LIMIT)
    finally:
        _end(process)
    return status, last_line(words.text())


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


class _LastWords:
    """The end of what a process prints, however much that is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        self._thread.join(timeout=5)
        return bytes(self._kept).decode("utf-8", "replace")

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._stream:
            while block := self._stream.read1(KEPT):  # type: ignore[attr-defined]
                self._kept += block
                del self._kept[:-KEPT]
