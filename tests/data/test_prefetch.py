import threading
from collections.abc import Iterator

import pytest

from converter_lite.data.prefetch import ordered_map


def data_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("calibration-data")]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_keep_the_order_of_the_items(workers: int) -> None:
    assert list(ordered_map(lambda item: item * item, range(50), workers=workers)) == [n * n for n in range(50)]
    assert data_threads() == []


def test_no_more_results_exist_than_allowed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = ordered_map(lambda item: item, items(), workers=2, ahead=5)
    assert taken == []
    for count in range(1, 20):
        next(results)
        assert len(taken) <= count + 5
    results.close()  # type: ignore[attr-defined]


def test_closing_early_stops_the_threads() -> None:
    results = ordered_map(lambda item: item, range(1000), workers=3)
    next(results)
    assert data_threads() != []
    results.close()  # type: ignore[attr-defined]
    assert data_threads() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_comes_where_its_result_would_and_stops_the_threads(workers: int) -> None:
    def work(item: int) -> int:
        if item == 3:
            raise ValueError("item 3")
        return item

    results = ordered_map(work, range(100), workers=workers)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3"):
        next(results)
    assert data_threads() == []


def test_work_runs_ahead_of_the_consumer() -> None:
    done = [threading.Event() for _ in range(4)]

    def work(item: int) -> int:
        done[item].set()
        return item

    results = ordered_map(work, range(4), workers=2, ahead=4)
    next(results)
    assert all(event.wait(10) for event in done)
    results.close()  # type: ignore[attr-defined]
