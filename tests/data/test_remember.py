from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.data.inputs import InputSpec
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.remember import RememberingDataset
from converter_lite.errors import DataError

Feed = dict[str, NDArray[Any]]


class Counting:
    """A data set that counts how often each sample is decoded."""

    def __init__(self, count: int, size: int = 1) -> None:
        self.names: list[str] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.decoded = [0] * count
        self._size = size

    def __len__(self) -> int:
        return len(self.decoded)

    def __iter__(self) -> Iterator[Feed]:
        return self.tail(0)

    def tail(self, start: int) -> Iterator[Feed]:
        for index in range(start, len(self.decoded)):
            self.decoded[index] += 1
            yield {"x": np.full(self._size, index, np.float32)}

    def fingerprint(self) -> str:
        return ""


def numbers(feeds: Any) -> list[int]:
    return [int(feed["x"][0]) for feed in feeds]


def test_a_small_data_set_is_decoded_once() -> None:
    source = Counting(5)
    dataset = RememberingDataset(source)
    for _ in range(3):
        assert numbers(dataset) == [0, 1, 2, 3, 4]
        assert numbers(dataset.head(3)) == [0, 1, 2]
    assert source.decoded == [1] * 5


def test_the_head_can_come_first_and_decodes_no_more_than_it_needs() -> None:
    source = Counting(5)
    dataset = RememberingDataset(source)
    assert numbers(dataset.head(2)) == [0, 1]
    assert numbers(dataset.head(2)) == [0, 1]
    assert source.decoded == [1, 1, 0, 0, 0]
    assert numbers(dataset.head(4)) == [0, 1, 2, 3]
    assert source.decoded == [1, 1, 1, 1, 0]
    assert numbers(dataset) == [0, 1, 2, 3, 4]
    assert source.decoded == [1] * 5


def test_threads_that_ask_at_once_decode_once() -> None:
    source = Counting(40)
    dataset = RememberingDataset(source)
    with ThreadPoolExecutor(4) as pool:
        heads = list(pool.map(dataset.head, [40, 30, 20, 40]))
    assert [numbers(head) for head in heads] == [list(range(count)) for count in (40, 30, 20, 40)]
    assert source.decoded == [1] * 40


def test_a_pass_that_stops_early_does_no_harm() -> None:
    dataset = RememberingDataset(Counting(5))
    iterator = iter(dataset)
    next(iterator)
    next(iterator)
    assert numbers(dataset) == [0, 1, 2, 3, 4]
    assert numbers(dataset.head(5)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("limits", "held"), [({"max_bytes": 100}, 2), ({"max_bytes": 1}, 1)])
def test_memory_is_bounded_but_one_sample_is_always_held(limits: dict[str, int], held: int) -> None:
    source = Counting(6, size=10)  # 40 bytes each
    dataset = RememberingDataset(source, **limits)
    assert numbers(dataset) == list(range(6))
    assert numbers(dataset) == list(range(6))
    assert numbers(dataset.head(6)) == list(range(held))
    assert source.decoded == [1] * held + [2] * (6 - held)


def test_a_pass_holds_a_few_samples_and_the_head_as_many_as_it_is_asked_for() -> None:
    source = Counting(6)
    dataset = RememberingDataset(source, passing=2)
    assert numbers(dataset) == list(range(6))
    assert numbers(dataset) == list(range(6))
    assert source.decoded == [1] * 2 + [2] * 4
    assert numbers(dataset.head(5)) == list(range(5))
    assert numbers(dataset) == list(range(6))
    assert source.decoded == [1] * 2 + [3] * 4


def test_samples_after_one_that_did_not_fit_are_not_held_out_of_order() -> None:
    class Growing(Counting):
        def tail(self, start: int) -> Iterator[Feed]:
            for index, size in list(enumerate((1, 1000, 1, 1)))[start:]:
                yield {"x": np.full(size, index, np.float32)}

    dataset = RememberingDataset(Growing(4), max_bytes=100)
    assert numbers(dataset) == [0, 1, 2, 3]
    assert numbers(dataset.head(4)) == [0]


def test_more_than_there_is_gives_what_there_is() -> None:
    assert numbers(RememberingDataset(Counting(2)).head(10)) == [0, 1]
    assert len(RememberingDataset(Counting(2))) == 2


def test_a_source_without_samples_says_so() -> None:
    spec = InputSpec("x", (1, 3), np.dtype(np.float32))
    dataset = RememberingDataset(IterableDataset([], [spec]))
    with pytest.raises(DataError, match="gave no sample"):
        list(dataset)
    with pytest.raises(DataError, match="gave no sample"):
        dataset.head(4)


def test_samples_that_are_held_during_a_pass_are_neither_lost_nor_doubled() -> None:
    dataset = RememberingDataset(Counting(10))
    dataset.head(2)
    passing = iter(dataset)
    first = numbers([next(passing)])
    dataset.head(6)
    assert first + numbers(passing) == list(range(10))
    assert numbers(dataset) == list(range(10))


def test_passes_and_heads_at_once_hold_the_samples_in_order() -> None:
    for _ in range(20):
        dataset = RememberingDataset(Counting(40), passing=40)
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda take: numbers(take()), [lambda d=dataset: d, lambda d=dataset: d.head(30)] * 4)
            )
        assert found == [list(range(40)), list(range(30))] * 4
        assert numbers(dataset) == list(range(40))
