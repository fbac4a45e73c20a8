"""What a calibration needs besides model and samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from converter_lite.runtime.context import RunContext

if TYPE_CHECKING:
    from converter_lite.calibration.cache import StatisticsCache
    from converter_lite.execution.executor import Executor


@dataclass(frozen=True, slots=True)
class CalibrationContext(RunContext):
    """A :class:`~converter_lite.runtime.context.RunContext` that can also observe activations.

    Attributes:
        cache: Statistics of earlier runs and of other formats of this one; if it is on disk, all kinds are collected, for any
            method that may follow. ``None`` keeps nothing.
        executor: Observes shards of the samples; ``None``: this process. The result does not depend on it.
        begins: Called before all samples run: what looks at the first ones meanwhile comes to its end.
    """

    cache: StatisticsCache | None = None
    executor: Executor | None = None
    begins: Callable[[], None] = lambda: None
