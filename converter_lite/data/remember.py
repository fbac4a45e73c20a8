"""Keeping the first samples of a data set in memory, so that later passes over them decode nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from threading import Lock
from typing import Any

from numpy.typing import NDArray

from converter_lite.data.dataset import Dataset, FileDataset
from converter_lite.errors import DataError

Feed = dict[str, NDArray[Any]]

PASSING_SAMPLES = 48
"""Most samples that are kept from an ordinary pass; callers that need more use ``head``."""

MAX_BYTES = 96 << 20
"""Memory for them."""


class RememberingDataset:
    """A data set whose first samples stay in memory once they have been read.

    Args:
        dataset: Where samples come from.
        passing: Most samples kept from a pass over all of them; :meth:`head` keeps as many as it is asked for.
        max_bytes: Memory for samples in any case.
    """

    def __init__(self, dataset: Dataset, *, passing: int = PASSING_SAMPLES, max_bytes: int = MAX_BYTES) -> None:
        self._dataset = dataset
        self._passing = passing
        self._room = max_bytes
        self._held: list[Feed] = []
        self._full = False
        self._reading = Lock()

    @property
    def is_of_files(self) -> bool:
        """Whether samples are read from files, which any thread may do; others are the caller's own work."""
        return isinstance(self._dataset, FileDataset)

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Feed]:
        held = list(self._held)
        yield from held
        start = len(held)
        complete = start > 0 and start == len(self)  # an empty data set reports that itself
        for index, feed in enumerate(() if complete else self._dataset.tail(start), start):
            if index < self._passing:
                with self._reading:
                    if index == len(self._held):
                        self._hold(feed)
            yield feed

    def fingerprint(self) -> str:
        """See :meth:`converter_lite.data.dataset.Dataset.fingerprint`."""
        return self._dataset.fingerprint()

    def tail(self, start: int) -> Iterator[Feed]:
        """One pass over the samples from number ``start`` on; those in memory are not read again."""
        held = list(self._held)
        yield from held[start:]
        if max(start, len(held)) < len(self):
            yield from self._dataset.tail(max(start, len(held)))

    def part(self, start: int, stop: int) -> Iterable[Feed]:
        """Samples number ``start`` to ``stop - 1`` in a form that can be pickled, for a process that sees the same files.

        Raises:
            DataError: The samples are not in files.
        """
        if not isinstance(self._dataset, FileDataset):
            raise DataError(
                "other processes can read samples from files only",
                where="calibration data",
                hint="Write them to files and name their folder with calibrate_path, or do not use a cluster.",
            )
        return self._dataset.part(start, stop)

    def head(self, count: int) -> list[Feed]:
        """The first samples, at most ``count`` and at most as many as fit in memory (one at least).

        A thread that asks while another one reads them waits.
        """
        wanted = max(min(count, len(self._dataset)), 1)
        with self._reading:
            if len(self._held) < wanted and not self._full:
                for feed in islice(self._dataset.tail(len(self._held)), wanted - len(self._held)):
                    self._hold(feed)
            return self._held[:wanted]

    def _hold(self, feed: Feed) -> None:
        size = sum(array.nbytes for array in feed.values())
        if self._full or (self._held and size > self._room):
            self._full = True
            return
        self._held.append(feed)
        self._room -= size
