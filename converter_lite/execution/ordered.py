"""``map`` over threads of this process, results in the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any


def map_ordered(function: Any, items: Iterable[Any], threads: int, *, together: int = 1) -> Iterator[Any]:
    """``map`` over worker threads: order kept, at most ``2 * threads`` tasks under way. One thread is the caller's own.

    Args:
        function: Called in threads.
        items: Read in the caller's thread, as they are needed.
        threads: Worker threads.
        together: Items of a task: handing over one takes as long as 0.05 ms of work.
    """
    if threads <= 1:
        yield from map(function, items)
        return
    iterator = iter(items)
    tasks = iter(lambda: list(islice(iterator, together)), [])
    pending: deque[Future[list[Any]]] = deque()
    with ThreadPoolExecutor(max_workers=threads) as pool:
        try:
            for task in islice(tasks, 2 * threads):
                pending.append(pool.submit(_apply, function, task))
            while pending:
                results = pending.popleft().result()
                for task in islice(tasks, 1):
                    pending.append(pool.submit(_apply, function, task))
                yield from results
        finally:
            for future in pending:
                future.cancel()


def _apply(function: Any, items: list[Any]) -> list[Any]:
    return [function(item) for item in items]
