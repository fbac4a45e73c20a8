import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.workshop import Workshop


@pytest.fixture(scope="session")
def start() -> Callable[..., AbstractContextManager[Any]]:
    """Starts clusters on this machine; imported late: no other test needs it."""
    from distributed import LocalCluster

    def start(workers: int, *, processes: bool) -> AbstractContextManager[Any]:
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=processes,
            memory_limit=0,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )

    return start


@pytest.fixture(scope="session")
def cluster(start: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    """A real cluster of two worker processes; those that die are started again."""
    with start(2, processes=True) as cluster:
        yield cluster


@pytest.fixture
def threads(start: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    """A cluster without workers, whose workers would be threads of this process."""
    with start(0, processes=False) as cluster:
        yield cluster


@pytest.fixture
def flag(cluster: Any) -> str:
    """The flag that names it."""
    return f"--executor=dask:{cluster.scheduler_address}"


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A working directory with a model and data."""
    monkeypatch.chdir(tmp_path)
    return Workshop(tmp_path)
