"""Work done ahead of its consumer, in order and bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int, ahead: int | None = None
) -> Iterator[Result]:
    """``map`` in worker threads: results come in the order of the items, at most ``ahead`` of them wait.

    An exception of ``function`` is raised where its result would have come. When the iterator is exhausted, fails or is
    closed, no thread of it is left running. Threads start with the first ``next``.

    Args:
        function: Called from several threads at once.
        items: Read from the consumer's thread only.
        workers: Threads; 0 = compute in the consumer's thread, when asked.
        ahead: Results that may exist before they are asked for; ``None`` = two per worker.
    """
    if workers < 1:
        yield from map(function, items)
        return
    limit = max(1, 2 * workers if ahead is None else ahead)
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="calibration-data")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= limit:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
