"""What every step that runs models is given, in one piece."""

from __future__ import annotations

from dataclasses import dataclass, field

from converter_lite.log import Log
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine


@dataclass(frozen=True, slots=True)
class RunContext:
    """How models are run, and who hears of it.

    Attributes:
        engine: Runs them.
        threads: Samples or tensors worked on side by side; no result depends on it.
        log: Receives progress, stage times, details and warnings.
    """

    engine: Engine = DEFAULT_ENGINE
    threads: int = 1
    log: Log = field(default_factory=Log)
