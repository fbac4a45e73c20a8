"""Commands in forked processes: everything is imported once, so that killing one twenty times takes seconds.

``python -m tests.faults.forking`` reads a line of JSON for each task and answers with one.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cli.workshop import environment

OUT, ERR = ".stdout", ".stderr"
"""Where the output of a command goes; in the working directory."""

PRELOADED = (
    *(
        "pipeline.convert",
        "data.images",
        "runtime.engine",
        "cli.opt_request",
        "formats.paddle.format",
        "pipeline.summary",
    ),
    *("formats.mindspore_lite.format", "formats.onnx.format"),
)
"""Modules that every command needs."""

EVENTS = ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree")
"""Audit events of the file system that count as a moment; files opened for writing too."""


@dataclass(frozen=True)
class Task:
    """Commands to run at the same time in a folder.

    Attributes:
        commands: Name of the program (``converter_lite`` or ``opt``) and arguments, for each.
        after: Seconds after which the first one gets ``signal``.
        event: Number of the file event at which it gets it.
        signal: Which.
        plain: Run without the rights of root.
        file_limit: Bytes that a file may have; 0 = no limit.
    """

    commands: list[list[str]]
    folder: str
    after: float | None = None
    event: int | None = None
    signal: int = int(signal.SIGKILL)
    plain: bool = False
    file_limit: int = 0


@dataclass(frozen=True)
class Ended:
    """How the commands of a task ended; negative: by this signal."""

    statuses: list[int]
    seconds: float
    texts: list[str] = field(default_factory=list)

    @property
    def status(self) -> int:
        return self.statuses[0]

    @property
    def text(self) -> str:
        """Standard output and error of the first command."""
        return self.texts[0]


class Forker:
    """The process that forks; a context manager."""

    def __enter__(self) -> Forker:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(OPENBLAS_NUM_THREADS="1"),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)

    def __call__(self, folder: Path, *commands: list[str], **more: Any) -> Ended:
        """Run commands and wait for them."""
        assert self._process.stdin is not None and self._process.stdout is not None
        task = Task([list(command) for command in commands], str(folder), **more)
        self._process.stdin.write(json.dumps(asdict(task)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        texts = []
        for index in range(len(commands)):
            files = [folder / f"{name}{index}" for name in (OUT, ERR)]
            # a command that is killed at once has not made them yet
            texts.append("".join(file.read_text(encoding="utf-8") for file in files if file.exists()))
            for file in files:
                file.unlink(missing_ok=True)
        ended = Ended(answer["statuses"], answer["seconds"], texts)
        assert "Traceback" not in "".join(texts), ended
        assert "defect" not in "".join(texts), ended
        return ended


def drop_capabilities() -> None:
    """Take root's power over permissions from this process; it stays the owner of its files.

    Raises:
        OSError: The system refuses.
    """
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise OSError(ctypes.get_errno(), "capset")


class _Trigger:
    """Audit hook that sends a signal to its own process at the n-th file event."""

    def __init__(self, event: int, number: int) -> None:
        self._left = event
        self._signal = number

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> None:
        written = name == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa+")
        if name in EVENTS or written:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._signal)


def _run_child(task: Task, index: int) -> None:
    os.chdir(task.folder)
    for number, name in ((1, OUT), (2, ERR)):
        target = os.open(f"{name}{index}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(target, number)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if task.plain:
        drop_capabilities()
    if task.file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (task.file_limit, task.file_limit))
    program, *arguments = task.commands[index]
    if program == "opt":
        from converter_lite.cli.opt import cli
    else:
        from converter_lite.cli.converter_lite import cli
    if task.event is not None and index == 0:
        sys.addaudithook(_Trigger(task.event, task.signal))
    status = 0
    try:
        cli.main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _perform(task: Task) -> Ended:
    start = time.perf_counter()
    children = []
    for index in range(len(task.commands)):
        child = os.fork()
        if child == 0:
            try:
                _run_child(task, index)
            finally:
                os._exit(99)
        children.append(child)
    if task.after is not None:
        time.sleep(task.after)
        os.kill(children[0], task.signal)
    ends = [os.waitpid(child, 0)[1] for child in children]
    return Ended([os.waitstatus_to_exitcode(end) for end in ends], time.perf_counter() - start)


def main() -> None:
    """Entry point."""
    for name in PRELOADED:
        importlib.import_module(f"converter_lite.{name}")
    for line in sys.stdin:
        print(json.dumps(asdict(_perform(Task(**json.loads(line))))), flush=True)


if __name__ == "__main__":
    main()
