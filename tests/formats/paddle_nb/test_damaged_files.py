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
from tests.formats.paddle_nb.models import small_network, sparse_file
from tests.mutation import mutations

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
"""Mutated files per seed; the full run has 10,000."""


def seed_file(meta_version: int) -> bytes:
    quantized = plan_weights(small_network(), target="x86", bits=8)
    return write(quantized, options=NbOptions("x86", meta_version=meta_version))


def test_a_mutated_file_with_sparse_weights_is_read_or_refused_with_a_format_error() -> None:
    refused = 0
    for data in mutations(sparse_file(), CASES, seed=3):
        try:
            read(data)
        except FormatError:
            refused += 1
    assert refused > CASES // 3


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
    data = bytearray(4)
    pending, names = [0], []
    for slot, named in ((0, False), (3, True), (3, True), (5, True)):
        # Slot 0 is a name where one is required, `slot` the vector; both offsets stand in the table behind its vtable.
        entries = [8 if named else 0, *([0] * slot)][: slot + 1]
        entries[slot] = 4
        vtable = len(data)
        data += struct.pack(f"<HH{slot + 1}H", 6 + 2 * slot, 12, *entries)
        position = len(data)
        for place in pending:
            struct.pack_into("<I", data, place, position - place)
        data += struct.pack("<iII", position - vtable, 8, 0)
        names += [position + 8] if named else []
        data += struct.pack("<I", width) + bytes(4 * width)
        pending = [len(data) - 4 * width + 4 * index for index in range(width)]
    for place in names:
        struct.pack_into("<I", data, place, len(data) - place)
    return bytes(data) + struct.pack("<I", 1) + b"x"


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
