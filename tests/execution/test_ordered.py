from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from converter_lite.execution.ordered import map_ordered


@pytest.mark.parametrize(("threads", "together"), [(1, 1), (3, 1), (2, 4)])
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
    for expected in range(1, 51):
        assert next(results) == expected
        assert taken < expected + (2 * threads + 1) * together
    assert not list(results)


def test_an_error_in_one_item_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_ordered(lambda x: 1 / x, [1, 2, 0, 4], 2))
