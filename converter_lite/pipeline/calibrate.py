"""What a conversion uses to find the ranges of activations: cached statistics, and the executor that observes samples."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from converter_lite.calibration import cache
from converter_lite.execution.names import LOCAL
from converter_lite.execution.opening import open_executor
from converter_lite.log import Log
from converter_lite.pipeline.request import ConvertRequest

if TYPE_CHECKING:
    from converter_lite.calibration.cache import StatisticsCache
    from converter_lite.data.remember import RememberingDataset
    from converter_lite.execution.executor import Executor


def statistics_cache(
    request: ConvertRequest, dataset: RememberingDataset | None, log: Log, *, formats: int
) -> StatisticsCache | None:
    """Where statistics are kept; ``None`` if neither a later run nor another format needs them."""
    folder = request.cache
    if dataset is None or (folder is None and formats == 1):
        return None
    return cache.StatisticsCache(folder, dataset.fingerprint() if folder is not None else "", log)


def calibration_executor(request: ConvertRequest, stack: ExitStack, log: Log, *, observes: bool) -> Executor | None:
    """What observes the samples; ``None``: this process.

    Args:
        request: Says where.
        stack: Closes what is started here.
        log: Receives what is used.
        observes: Whether there is something to observe.

    Raises:
        UsageError: The extra that it needs is not installed, or the address is not one.
        ClusterError: There is no such cluster, or it cannot be used.
    """
    name = request.executor
    if name == LOCAL:
        return None
    if not observes:
        log.warning(
            f"--executor={name}: has no effect; only FULL_QUANT without --plan has ranges of activations to find"
        )
        return None
    with log.stage("cluster"):
        executor = stack.enter_context(open_executor(name, workers=request.threads or os.cpu_count() or 1))
    for warning in executor.warnings:
        log.warning(warning)
    log.info(f"ranges of activations: found by {executor}; bias correction, rounding and the proof run here")
    return executor
