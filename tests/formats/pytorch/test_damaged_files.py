"""Damaged files: a clear error, never anything else, in bounded time and memory."""

from __future__ import annotations

import os

import pytest

from converter_lite.errors import ConverterError
from tests.fuzz.readers import READERS
from tests.mutation import mutations
from tests.support import assert_peak, reading_limit

CASES = int(os.environ.get("FUZZ_CASES", "300"))
"""Mutated files per seed; the full run has 10,000."""


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_file_is_described_or_refused_in_little_memory(seed: int) -> None:
    reader, refused = READERS["pytorch"], 0
    content = reader.seeds()[seed]

    def try_to_read(data: bytes) -> None:
        nonlocal refused
        try:
            reader.read(data)
        except ConverterError:
            refused += 1

    for data in mutations(content, CASES, seed=seed):
        assert_peak(lambda data=data: try_to_read(data), reading_limit(data))  # type: ignore[misc]
    assert refused > CASES // 10 or content[:1] == b"\x80"  # of a pickle its names are listed, whatever they are
