"""Work on a Dask cluster: one that runs somewhere, or workers on this machine that end with the work.

The only module that knows ``distributed``. The work is sent to the workers once, as the result of a task that every piece depends
on: the scheduler can recompute everything that is lost with a worker, and a client that dies leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from converter_lite.errors import ClusterError, ConverterError, UsageError
from converter_lite.execution.environment import Environment, environment
from converter_lite.execution.executor import Result, Task, Work
from converter_lite.system.extras import require
from converter_lite.system.interruptions import started_without_ctrl_c
from converter_lite.system.work_directory import temporary_folder

PACKAGES = ("dask", "distributed")
"""Packages of the extra."""

CONNECT_SECONDS = 10
"""How long a scheduler may take to answer."""

WORKER_SECONDS = 60.0
"""How long there may be no worker; clusters that scale on demand start some in this time."""

POLL_SECONDS = 5.0
"""How often a waiting run checks whether there are workers."""

WORKERS_HINT = "start workers (dask worker ADDRESS), and look at the log of the scheduler and of workers that ended"

_Answer = TypeVar("_Answer")


@contextlib.contextmanager
def dask_executor(address: str, *, workers: int) -> Iterator[DaskExecutor]:
    """A cluster, checked; see :func:`converter_lite.execution.opening.open_executor`.

    Args:
        address: Of a scheduler; empty: a cluster on this machine, which ends with the context.
        workers: Worker processes of such a cluster.

    Raises:
        UsageError: The address is none, or the extra is not installed.
        ClusterError: The cluster cannot be reached or used.
    """
    where = f"--executor=dask:{address}" if address else "--executor=dask"
    require(PACKAGES, what="a Dask cluster", extra="dask", where=where)
    import dask
    import distributed  # noqa: F401  # adds its part of the configuration, which would be lost at the end of `set`

    # the graph of a large model is sent with its task on purpose
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}), contextlib.ExitStack() as stack:
        target = address or stack.enter_context(_own_cluster(workers, where))
        stack.enter_context(_quiet())
        client = stack.enter_context(_client(target, where))
        executor = DaskExecutor(client, where, is_remote=bool(address))
        executor.check()
        yield executor


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece under way: its number, and the worker that it was meant for."""

    number: int
    worker: str


class DaskExecutor:
    """Workers of a Dask cluster. See :class:`converter_lite.execution.executor.Executor`.

    Args:
        client: Connected client.
        where: The flag that names the cluster, for messages.
        is_remote: Whether its workers may see other files.
    """

    threads = 1

    def __init__(self, client: Any, where: str, *, is_remote: bool) -> None:
        self._client = client
        self._where = where
        self.is_remote = is_remote
        self.warnings: list[str] = []
        self._last_seen = time.monotonic()

    def __str__(self) -> str:
        threads = self._client.nthreads()
        address = self._client.scheduler.address
        return f"a Dask cluster ({address}, workers: {len(threads)}, threads: {sum(threads.values())})"

    def check(self) -> None:
        """Check that there are workers and that they compute the same as this process.

        Raises:
            ClusterError: There are none in time, or a worker has different versions of packages that affect results.
        """
        if not self._client.nthreads():
            demand = self._client.submit(environment, pure=False)
            try:
                self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
            except asyncio.TimeoutError as error:
                text = f"the cluster has no worker after {WORKER_SECONDS:.0f} s"
                raise ClusterError(text, where=self._where, hint=WORKERS_HINT) from error
            demand.release()
        own, odd = environment(), []
        with self._failures():
            answers = self._client.run(environment, on_error="return")
        for worker, found in answers.items():
            if not isinstance(found, Environment):
                raise ClusterError(
                    f"worker {worker} cannot run this program: {found}", where=self._where, hint=_SAME_VERSIONS
                )
            _refuse_differences(own, found, worker, self._where)
            if found.processor != own.processor:
                odd.append(worker)
        if odd:
            self.warnings.append(
                f"{self._where}: worker {odd[0]} ({len(odd)} of {len(answers)}) has a processor of another kind than this"
                " machine: the last digits of results, and so their bytes, may differ from those of a local run"
            )

    def run(
        self, work: Work[Task, Result], tasks: Sequence[Task], *, ordered: bool = False
    ) -> Generator[tuple[int, Result | ConverterError], None, None]:
        """See :class:`converter_lite.execution.executor.Executor`.

        Raises:
            ClusterError: The scheduler or all workers are lost.
        """
        self._last_seen = time.monotonic()
        name, own = f"{type(work).__name__}-{uuid.uuid4().hex}", environment()
        shared = self._submit(_carry, work, key=f"{name}-all")
        left, running = deque(enumerate(tasks)), dict[Any, _Piece]()
        try:
            while left or running:
                for place in self._places(running.values(), len(left), 2 if ordered else 1):
                    number, task = left.popleft()
                    future = self._submit(_perform, shared, own, task, key=f"{name}-{number}", place=place)
                    running[future] = _Piece(number, place)
                waiting = list(running)
                for future in self._done(waiting[:1] if ordered else waiting):
                    yield running.pop(future).number, self._outcome(future)
        finally:
            if running:
                self._abandon(list(running), shared)

    def _submit(self, *call: Any, key: str, place: str = "") -> Any:
        """Submit a task, to one worker if there is one; others may take it over if that is lost."""
        with self._failures():
            workers = [place] if place else None
            return self._client.submit(*call, key=key, workers=workers, allow_other_workers=bool(place))

    def _places(self, running: Collection[_Piece], wanted: int, share: int) -> list[str]:
        """Workers for the next pieces; one empty name if there is no worker at all.

        Left to itself, the scheduler keeps pieces of unknown length at the first worker that has the work. And when a worker
        dies, everything queued there counts as failed, so nothing is sent that would have to wait.

        Args:
            running: Pieces under way.
            wanted: Pieces that are left.
            share: Pieces per thread: more than one if results have to wait for their turn.
        """
        threads = self._workers()
        if not threads:
            return [""] if wanted and not running else []
        taken = Counter(piece.worker for piece in running)
        free = sorted((n, worker) for worker, count in threads.items() for n in range(taken[worker], count * share))
        room = sum(threads.values()) * share - len(running)  # some may have lost their worker and run elsewhere
        return [worker for _, worker in free][: max(min(wanted, room), 0)]

    def _done(self, futures: list[Any]) -> list[Any]:
        """Pieces that have ended, as soon as there is one; none if that takes long, since workers may have changed by then."""
        from distributed import wait

        with self._failures(), self._client.as_current(), contextlib.suppress(asyncio.TimeoutError):
            done = wait(futures, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED").done
            return [future for future in futures if future in done]
        return []

    def _outcome(self, future: Any) -> Any:
        from distributed import KilledWorker

        if future.status == "finished":
            return self._patiently(lambda limit: future.result(timeout=limit))
        error = self._patiently(lambda limit: future.exception(timeout=limit))
        if isinstance(error, KilledWorker):
            return ClusterError(
                f"it took {error.allowed_failures + 1} worker(s) down, the last one at {error.last_worker.address}",
                where=self._where,
                hint="the system kills processes when memory runs out: give workers more memory or fewer threads",
            )
        if isinstance(error, ConverterError) and not isinstance(error, ClusterError):
            return error
        raise error

    def _patiently(self, ask: Callable[[float], _Answer]) -> _Answer:
        """Ask the cluster until it answers, as long as it has workers."""
        while True:
            with self._failures(), contextlib.suppress(asyncio.TimeoutError):
                return ask(POLL_SECONDS)
            self._workers()

    def _workers(self) -> dict[str, int]:
        """Address of each worker -> its threads.

        Raises:
            ClusterError: There is none for too long, or the scheduler is lost.
        """
        with self._failures():
            threads: dict[str, int] = self._client.nthreads()
        now = time.monotonic()
        if threads:
            self._last_seen = now
        elif now - self._last_seen > WORKER_SECONDS:
            text = f"all workers have been gone for {now - self._last_seen:.0f} s"
            raise ClusterError(text, where=self._where, hint=WORKERS_HINT)
        return threads

    def _abandon(self, futures: list[Any], shared: Any) -> None:
        """Cancel work that nobody waits for any more; a lost cluster cannot be notified."""
        with contextlib.suppress(Exception, asyncio.CancelledError):
            self._client.cancel(futures)
            self._client.run(_stop, shared.key)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn what a broken connection raises, and a client that has noticed it (anything), into an error for users."""
        broken = (OSError, asyncio.TimeoutError, asyncio.CancelledError, CancelledError)
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            if self._client.status == "running" and not isinstance(error, broken):
                raise
            raise ClusterError(
                "the connection to the scheduler is lost",
                where=self._where,
                hint="see whether the scheduler runs, and start again",
            ) from error


_SAME_VERSIONS = "install the same versions on every machine"


def _refuse_differences(own: Environment, found: Environment, worker: str, where: str) -> None:
    different = own.differences(found)
    if different:
        raise ClusterError(
            f"worker {worker} has other versions (here / there): {', '.join(different)}",
            where=where,
            hint=_SAME_VERSIONS,
        )


def _carry(work: Any) -> Any:
    """The task whose result every worker gets once."""
    return work


def _perform(work: Any, client: Environment, task: Any) -> Any:
    """One piece, on a worker; workers that joined later have not been checked yet."""
    from distributed import get_worker

    _refuse_differences(client, environment(), get_worker().address, "--executor")
    return work(task)


async def _stop(key: str, dask_worker: Any) -> None:
    """End the work under way on a worker."""
    work = dask_worker.data.get(key)
    if work is not None:
        await asyncio.to_thread(work.stop)


@contextlib.contextmanager
def _own_cluster(workers: int, where: str) -> Iterator[Any]:
    import dask
    from distributed import LocalCluster
    from distributed.gc import disable_gc_diagnosis

    with contextlib.ExitStack() as stack:
        try:
            folder = str(stack.enter_context(temporary_folder()))
            stack.enter_context(dask.config.set({"temporary-directory": folder}))  # of the scheduler
            with started_without_ctrl_c():
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=0,  # as a run without a cluster: the system decides
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                    preload=["converter_lite.execution.own_worker"],
                    local_directory=folder,
                )
                stack.enter_context(cluster)
        except (OSError, RuntimeError, asyncio.TimeoutError) as error:
            raise ClusterError(f"workers on this machine cannot be started: {error}", where=where) from error
        disable_gc_diagnosis(force=True)  # it only logs, and a Ctrl-C that comes while it does is lost
        yield cluster


@contextlib.contextmanager
def _client(target: Any, where: str) -> Iterator[Any]:
    from distributed import Client

    if isinstance(target, str):
        _greet(target, where)
    with Client(target, timeout=CONNECT_SECONDS, set_as_default=False) as client:
        yield client


def _greet(address: str, where: str) -> None:
    """Check that a scheduler answers: a client would wait for ever at the port of another program.

    Raises:
        UsageError: The address is not valid.
        ClusterError: Nobody answers there, or not a scheduler.
    """
    with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
        answer = thread.submit(asyncio.run, _kind_of(address))
    try:
        kind = answer.result()
    except (ValueError, TypeError) as error:  # TypeError: tls:// without certificates
        raise UsageError(
            f"this is not a scheduler address: {error}", where=where, hint="write dask:tcp://HOST:8786"
        ) from error
    except Exception as error:  # another protocol may raise anything
        raise ClusterError(
            "no Dask scheduler answers",
            where=where,
            hint="start one (dask scheduler), check host and port, and whether this machine may connect to it",
        ) from error
    if kind != "Scheduler":
        raise ClusterError(f"this is a Dask {kind}, not a scheduler", where=where, hint="name the scheduler's port")


async def _kind_of(address: str) -> str:
    from distributed.core import rpc
    from distributed.security import Security

    async def ask() -> str:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as peer:
            return str((await peer.identity())["type"])

    return await asyncio.wait_for(ask(), CONNECT_SECONDS)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the library's messages: what matters becomes an error of ours."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
