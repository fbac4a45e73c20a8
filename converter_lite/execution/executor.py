"""Work that can be split into pieces, what executes the pieces, and the default: threads of this process."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

from converter_lite.errors import ConverterError

Task = TypeVar("Task")
Result = TypeVar("Result")
TaskOfWork = TypeVar("TaskOfWork", contravariant=True)
ResultOfWork = TypeVar("ResultOfWork", covariant=True)


class Work(Protocol[TaskOfWork, ResultOfWork]):
    """The function that is applied to each task, from several threads at once.

    Every process of a cluster has a copy of its own, made by pickling; what belongs to one process (an open model, child
    processes) is not pickled.
    """

    def __call__(self, task: TaskOfWork) -> ResultOfWork:
        """Do one piece.

        Raises:
            ConverterError: It failed; the other pieces are still done.
        """

    def stop(self) -> None:
        """End what is running: nobody waits for it any more."""


class Executor(Protocol):
    """Executes pieces of work side by side.

    Attributes:
        threads: Processor threads that one piece may use.
        is_remote: Whether the pieces are done on machines that may see other files than this one.
        warnings: What the user should know about it.
    """

    threads: int
    is_remote: bool
    warnings: list[str]

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, ordered: bool = False
    ) -> Generator[tuple[int, Result | ConverterError], None, None]:
        """Number and result of each task, or why it failed.

        Closing the iterator ends the work that is under way.

        Args:
            work: What to do.
            tasks: What to do it with.
            ordered: Give the results in the order of the tasks; otherwise as they complete.

        Raises:
            ConverterError: Nothing more can be done.
        """

    def __str__(self) -> str:
        """Where it works, for the log."""


class LocalExecutor:
    """Threads of this process. See :class:`Executor`.

    Args:
        workers: Pieces at the same time.
    """

    is_remote = False

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.threads = max((os.cpu_count() or 1) // workers, 1)
        self.warnings: list[str] = []

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, ordered: bool = False
    ) -> Generator[tuple[int, Result | ConverterError], None, None]:
        """See :class:`Executor`."""
        with ThreadPoolExecutor(max_workers=self._workers) as pool:
            futures = {pool.submit(_outcome, work, task): number for number, task in enumerate(tasks)}
            try:
                for future in futures if ordered else as_completed(futures):
                    yield futures[future], future.result()
            finally:
                for future in futures:
                    future.cancel()
                work.stop()

    def __str__(self) -> str:
        return "this machine"


def _outcome(work: Work[Task, Result], task: Task) -> Result | ConverterError:
    try:
        return work(task)
    except ConverterError as error:
        return error
