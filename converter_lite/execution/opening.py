"""Starting the executor that ``--executor`` names: threads here, or the workers of a Dask cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from converter_lite.execution.executor import Executor, LocalExecutor
from converter_lite.execution.names import LOCAL, check_executor


def open_executor(text: str, *, workers: int) -> AbstractContextManager[Executor]:
    """The executor that ``--executor`` names; leaving the context ends what was started for it.

    Args:
        text: See :func:`converter_lite.execution.names.check_executor`.
        workers: Pieces at the same time, unless a scheduler decides that.

    Raises:
        UsageError: There is no such executor, or the extra for it is not installed.
        ClusterError: There is no such cluster, or it cannot be used.
    """
    kind, _, address = check_executor(text).partition(":")
    if kind == LOCAL:
        return nullcontext(LocalExecutor(workers))
    from converter_lite.execution.dask_cluster import dask_executor

    return dask_executor(address, workers=workers)
