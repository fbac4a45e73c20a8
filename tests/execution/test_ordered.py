from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from converter_lite.execution.ordered import map_ordered


def threads_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ordered")]


@pytest.mark.parametrize(("threads", "together"), [(0, 1), (1, 1), (3, 1), (2, 4)])
def test_mapping_keeps_the_order_and_runs_only_a_little_ahead(threads: int, together: int) -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        while taken < 50:
            taken += 1
            yield taken

    def slow(item: int) -> int:
        time.sleep(0.002 * (item % 3))
        return item

    results = map_ordered(slow, items(), threads, together=together)
    assert taken == 0
    for expected in range(1, 51):
        assert next(results) == expected
        assert taken < expected + (2 * threads + 1) * together
    assert not list(results)
    assert threads_left() == []


@pytest.mark.parametrize("threads", [0, 2])
def test_an_exception_comes_where_its_result_would_and_stops_the_threads(threads: int) -> None:
    def work(item: int) -> int:
        if item == 3:
            raise ValueError("item 3")
        return item

    results = map_ordered(work, range(100), threads)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3"):
        next(results)
    assert threads_left() == []


def test_closing_early_stops_the_threads() -> None:
    results = map_ordered(lambda item: item, range(1000), 3)
    next(results)
    assert threads_left() != []
    results.close()  # type: ignore[attr-defined]
    assert threads_left() == []


def test_work_runs_ahead_of_the_consumer() -> None:
    done = [threading.Event() for _ in range(4)]

    def work(item: int) -> int:
        done[item].set()
        return item

    results = map_ordered(work, range(4), 2)
    next(results)
    assert all(event.wait(10) for event in done)
    results.close()  # type: ignore[attr-defined]
