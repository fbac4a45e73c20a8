"""The context that every step that runs models receives."""

from __future__ import annotations

from dataclasses import dataclass, field

from converter_lite.log import Log
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine


@dataclass(frozen=True, slots=True)
class RunContext:
    """How models are run, and where progress is reported.

    Attributes:
        engine: Runs them.
        threads: Samples or tensors processed in parallel; no result depends on it.
        log: Receives progress, stage times, details and warnings.
    """

    engine: Engine = DEFAULT_ENGINE
    threads: int = 1
    log: Log = field(default_factory=Log)
