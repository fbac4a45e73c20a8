"""Work that takes its process with it: what a cluster meets when machines fail. Workers import it by name."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

from converter_lite.batch.run import JobRunner
from converter_lite.calibration.shards import ShardObserver
from converter_lite.calibration.statistics import TensorStatistics
from converter_lite.errors import ModelError
from converter_lite.runtime.engine import Feed


def is_first(marker: Path) -> bool:
    """Whether nobody, in whatever process, asked before."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingObserver(ShardObserver):
    """The first process that has observed three samples dies in the middle of its shard."""

    def __init__(self, marker: Path, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.marker = marker
        self.observed = 0

    def observe(self, feed: Feed) -> list[TensorStatistics]:
        self.observed += 1
        if self.observed == 3 and is_first(self.marker):
            die()
        return super().observe(feed)


class DyingRunner(JobRunner):
    """The process of the first job dies while the job runs."""

    def __init__(self, marker: Path, threads: int) -> None:
        super().__init__(threads)
        self.marker = marker

    def _run(self, command: list[str], folder: Path) -> tuple[int, str, str]:
        if is_first(self.marker):
            threading.Timer(0.3, die).start()
        return super()._run(command, folder)


class Pieces:
    """Small pieces: a number comes back squared; text does something to the worker."""

    def __call__(self, task: int | str) -> int:
        if isinstance(task, int):
            return task * task
        if task == "die":
            die()
        if task == "refuse":
            raise ModelError("it is refused", where="a node", hint="another model")
        raise ZeroDivisionError(task)

    def stop(self) -> None:
        """Nothing runs on."""
