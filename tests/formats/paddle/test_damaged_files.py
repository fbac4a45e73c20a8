"""Damaged ``.nb`` files: a clear error, never anything else, in bounded time and memory."""

from __future__ import annotations

import os
import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from converter_lite.errors import FormatError
from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.nb.parse import HEADER, parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.nb.schema import SCHEMA
from tests.formats.paddle.models import small_network, sparse_file
from tests.formats.paddle.plans import plan_weights
from tests.formats.paddle.writing import write
from tests.mutation import mutations
from tests.support import assert_peak, build, normal, reading_limit

pytestmark = pytest.mark.once

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
"""Mutated files per seed; the full run has 10,000."""


def seed_file(meta_version: int) -> bytes:
    quantized = plan_weights(small_network(), target="x86", bits=8)
    return write(quantized, options=NbOptions("x86", meta_version=meta_version))


def seed_with_large_weights(bits: int) -> bytes:
    graph = "g (float[1,16,8,8] x) => (float[1,128,8,8] y) { c = Conv(x, w)\n y = Conv(c, v) }"
    model = build(graph, w=normal(512, 16, 1, 1), v=normal(128, 512, 1, 1))
    return write(plan_weights(model, target="x86", bits=bits), options=NbOptions("x86"))


SEEDS = {"meta_version 1": partial(seed_file, 1), "meta_version 2": partial(seed_file, 2), "sparse": sparse_file}


@pytest.mark.parametrize("name", SEEDS)
def test_a_mutated_file_is_read_or_refused_with_a_format_error_in_little_memory(name: str) -> None:
    refused: list[bytes] = []

    def try_to_read() -> None:
        try:
            read(data)
        except FormatError:
            refused.append(data)

    for data in mutations(SEEDS[name](), CASES, seed=len(name)):
        assert_peak(try_to_read, reading_limit(data))
    assert len(refused) > CASES // 3


@pytest.mark.parametrize("bits", [8, 16])
def test_integers_are_not_widened_by_reading(bits: int) -> None:
    data = seed_with_large_weights(bits)
    assert_peak(partial(read, data), 2 * len(data))


def test_every_truncation_is_refused() -> None:
    data = seed_file(2)
    for length in range(0, len(data), 97):
        with pytest.raises(FormatError):
            parse(data[:length])


def test_offsets_that_share_their_targets_do_not_multiply_the_work() -> None:
    with pytest.raises(FormatError, match="overlap"):
        SCHEMA.decode("ProgramDesc", shared_vectors(400), where="")


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
    for data in (b"", b"PK\x03\x04" + bytes(60), bytes(100), np.random.default_rng(0).bytes(200)):
        with pytest.raises(FormatError, match=r"this is not a \.nb file"):
            parse(data)


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
