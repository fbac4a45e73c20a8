"""Damaged ``.nb`` files: a clear error, never anything else, in bounded time and memory."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import FormatError
from converter_lite.formats.paddle_nb.flat import decode
from converter_lite.formats.paddle_nb.parse import HEADER, is_nb, parse
from converter_lite.formats.paddle_nb.reader import read
from converter_lite.formats.paddle_nb.weight_plan import plan_weights
from converter_lite.formats.paddle_nb.writer import NbOptions, write
from tests.formats.paddle_nb.models import small_network
from tests.mutation import mutations

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
"""Mutated files per seed; the full run has 10,000."""


def seed_file(meta_version: int) -> bytes:
    quantized = plan_weights(small_network(), target="x86", bits=8)
    return write(quantized, options=NbOptions("x86", meta_version=meta_version))


@pytest.mark.parametrize("meta_version", [1, 2])
def test_a_mutated_file_is_read_or_refused_with_a_format_error(meta_version: int) -> None:
    refused = 0
    for data in mutations(seed_file(meta_version), CASES, seed=meta_version):
        try:
            read(data)
        except FormatError:
            refused += 1
    assert refused > CASES // 3


def test_reading_a_damaged_file_needs_no_more_than_ten_times_its_memory() -> None:
    data = seed_file(2)
    tracemalloc.start()
    for mutated in mutations(data, 200, seed=9):
        try:
            parse(mutated)
        except FormatError:
            continue
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(data) + 4_000_000


def test_every_truncation_is_refused() -> None:
    data = seed_file(2)
    for length in range(0, len(data), 97):
        with pytest.raises(FormatError):
            parse(data[:length])


def test_offsets_that_share_their_targets_do_not_multiply_the_work() -> None:
    with pytest.raises(FormatError, match="overlap"):
        decode("ProgramDesc", shared_vectors(400), where="")


def shared_vectors(width: int) -> bytes:
    """Blocks, operators, attributes, integers: each vector points ``width`` times at the same child behind it."""
    chain = ((0, "blocks"), (3, "ops"), (3, "attrs"), (5, "ints"))
    data = bytearray(struct.pack("<I", 0))
    root = None
    pending: list[int] = []
    for slot, _ in chain:
        vtable = len(data)
        size = 4 + 2 * (slot + 1)
        data += struct.pack("<HH", size, 8) + struct.pack(f"<{slot + 1}H", *([0] * slot), 4)
        position = len(data)
        data += struct.pack("<iI", position - vtable, 4)
        if root is None:
            root = position
        for place in pending:
            struct.pack_into("<I", data, place, position - place)
        start = len(data)
        data += struct.pack("<I", width) + bytes(4 * width)
        pending = [start + 4 + 4 * index for index in range(width)]
    struct.pack_into("<I", data, 0, root or 0)
    for place in pending:
        struct.pack_into("<I", data, place, 0)
    return bytes(data)


def test_other_files_are_not_taken_for_nb_files(tmp_path: Path) -> None:
    assert is_nb(seed_file(2))
    for data in (b"", b"PK\x03\x04" + bytes(60), bytes(100), np.random.default_rng(0).bytes(200)):
        assert not is_nb(data)


def test_a_file_of_the_oldest_layout_is_refused_with_a_remedy() -> None:
    data = bytearray(seed_file(2))
    data[:2] = struct.pack("<H", 0)
    with pytest.raises(FormatError, match=r"before 2\.7") as caught:
        parse(bytes(data), where="old.nb")
    assert "newer opt" in str(caught.value)


def test_parameters_of_another_version_are_refused() -> None:
    data = bytearray(seed_file(2))
    _, _, size = HEADER.unpack_from(data)
    struct.pack_into("<H", data, HEADER.size + size, 1)
    with pytest.raises(FormatError, match="version 1"):
        parse(bytes(data))
