"""What a conversion finds the ranges of its activations with: statistics that are known, and machines that observe samples."""

from __future__ import annotations

import os
from contextlib import ExitStack

from converter_lite.calibration.cache import StatisticsCache
from converter_lite.data.remember import RememberingDataset
from converter_lite.execution.executor import Executor
from converter_lite.execution.names import LOCAL
from converter_lite.execution.opening import open_executor
from converter_lite.log import Log
from converter_lite.pipeline.request import ConvertRequest


def statistics_cache(
    request: ConvertRequest, dataset: RememberingDataset | None, log: Log, *, formats: int
) -> StatisticsCache | None:
    """Where statistics are kept; ``None`` where neither a later run nor another format asks for them."""
    folder = request.cache
    if dataset is None or (folder is None and formats == 1):
        return None
    return StatisticsCache(folder, dataset.fingerprint() if folder is not None else "", log)


def calibration_executor(request: ConvertRequest, stack: ExitStack, log: Log, *, observes: bool) -> Executor | None:
    """What observes the samples; ``None``: this process.

    Args:
        request: Says where.
        stack: Ends what is started for it.
        log: Is told.
        observes: Whether there is something to observe.

    Raises:
        UsageError: The extra for it is not installed, or the address is none.
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
