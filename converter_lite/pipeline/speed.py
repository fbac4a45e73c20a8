"""How fast a written file is beside the float model, in the runtime that is installed here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import onnx_ir as ir

from converter_lite.runtime.engine import Feed, KernelRun, Session
from converter_lite.runtime.serializing import constant_bytes

ROUNDS, SECONDS = 15, 0.25
"""Runs of each model, unless they take longer than this together."""

LEAST_ROUNDS = 3

CLEAR, CLEAR_SECONDS = 1.25, 0.03
"""No more runs are needed once all runs of one model were this many times as fast as any of the other, for this long together."""

TIMED_BYTES = 256 << 20
"""Bytes of constants above which models are timed only if a gate asks for it: loading them takes seconds."""

TIMED_NODES = 4_000
"""The same for nodes: the runtime loads 2,000 with Q/DQ pairs in 3 seconds, and twice as many in three times that."""

SLOWER, MEANINGFUL_MS = 0.95, 1.0
"""Below this ratio a file is called slower, if the float model takes this long: shorter runs are mostly calls of the runtime."""

SHOWN_KINDS, SHOWN_NODES = 3, 2

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Speed:
    """Processor time of a sample, one thread, milliseconds.

    Attributes:
        float_ms: Of the model that was read.
        file_ms: Of the written file.
    """

    float_ms: float
    file_ms: float

    @property
    def speedup(self) -> float:
        """How many times as fast as the float model the file is."""
        return self.float_ms / max(self.file_ms, 1e-9)

    @property
    def is_slower(self) -> bool:
        """Whether the file is slower by more than chance."""
        return self.float_ms >= MEANINGFUL_MS and self.speedup < SLOWER


def loads_slowly(model: ir.Model) -> bool:
    """Whether a model is too large to be timed without being asked."""
    return constant_bytes(model) > TIMED_BYTES or len(model.graph) > TIMED_NODES


def compare_speed(
    reference: Session,
    session: Session,
    feeds: tuple[Feed, Feed],
    *,
    until_clear: bool = False,
    clock: Clock | None = None,
) -> Speed:
    """Median times of two sessions of one thread each, which run in turns.

    Args:
        reference: The float model.
        session: The written file.
        feeds: A sample for each.
        until_clear: Whether it is enough to know which one is faster.
        clock: Processor time of this thread, seconds.
    """
    now = clock or time.thread_time
    runs: tuple[list[float], list[float]] = ([], [])
    spent = 0.0
    for number in range(ROUNDS + 1):  # the first one prepares memory
        for each, feed, times in zip((reference, session), feeds, runs, strict=True):
            start = now()
            each.run(feed)
            times.append(now() - start)
            spent += times[-1]
        if number >= LEAST_ROUNDS and (spent > SECONDS or (until_clear and spent > CLEAR_SECONDS and _is_clear(*runs))):
            break
    before, after = (median(times[1:]) * 1000 for times in runs)
    return Speed(before, after)


def _is_clear(before: Sequence[float], after: Sequence[float]) -> bool:
    first, second = before[1:], after[1:]
    return max(second) * CLEAR < min(first) or max(first) * CLEAR < min(second)


def slow_kinds(reference: Sequence[KernelRun], file: Sequence[KernelRun]) -> str:
    """The kinds of kernels that take longer in the file, with the slowest nodes of each."""
    before, after = _by_kind(reference), _by_kind(file)
    more = {kind: after[kind] - before[kind] for kind in after if after[kind] > before[kind]}
    shown = []
    for kind in sorted(more, key=lambda kind: -more[kind])[:SHOWN_KINDS]:
        runs = sorted((run for run in file if run.kernel == kind), key=lambda run: -run.microseconds)
        nodes = ", ".join(run.node for run in runs[:SHOWN_NODES]) + (", ..." if len(runs) > SHOWN_NODES else "")
        shown.append(f"{kind} {more[kind] / 1000:+.2f} ms ({nodes})")
    return "; ".join(shown)


def _by_kind(runs: Sequence[KernelRun]) -> Counter[str]:
    found: Counter[str] = Counter()
    for run in runs:
        found[run.kernel] += run.microseconds
    return found
