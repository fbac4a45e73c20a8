"""Damaged files: every one is read, or refused with a reason; memory stays near the size of the file."""

from __future__ import annotations

import os
from functools import cache

import pytest

from converter_lite.errors import ConverterError
from converter_lite.formats.tflite.container import parse
from converter_lite.formats.tflite.importer.builder import MOST_REPEATED
from converter_lite.formats.tflite.importer.graph import to_quantized_model
from tests.formats.tflite.models import seeds
from tests.mutation import mutations
from tests.support import assert_peak, reading_limit, shared_model

pytestmark = pytest.mark.once

CASES = int(os.environ.get("FUZZ_CASES", "200"))
"""Mutated files per seed; the full run has 2,000 of each of five."""

WRITTEN_OUT = (2, 4)
"""Numbers of the files with a layer and a loop that are written out."""

WRITTEN_OPERATOR = 6000
"""Bytes of an operator each time that it is written."""


@cache
def originals() -> list[bytes]:
    return seeds()


@pytest.mark.parametrize("number", range(len(originals())))
def test_damaged_files_are_read_or_refused_in_little_memory(number: int) -> None:
    original, refused = originals()[number], 0
    calls = WRITTEN_OPERATOR * MOST_REPEATED if number in WRITTEN_OUT else 0

    def read() -> None:
        nonlocal refused
        try:
            to_quantized_model(data)
        except ConverterError as error:
            assert error.message
            refused += 1

    for data in mutations(original, CASES, seed=number):
        assert_peak(read, reading_limit(data) + calls)
    assert refused > CASES // 5


@pytest.mark.parametrize("number", range(len(originals())))
def test_every_part_of_a_file_is_refused(number: int) -> None:
    data = originals()[number]
    for length in range(0, len(data) - 64, max(1, len(data) // 200)):
        with pytest.raises(ConverterError):
            parse(data[:length])


@pytest.mark.shared
@pytest.mark.parametrize("name", ["resnet8_int8", "kws_int8", "ultraface_rfb_320", "dtln_1_dynamic_int8"])
def test_reading_a_real_file_takes_no_more_than_ten_times_its_size(name: str) -> None:
    data = shared_model(f"frameworks/tflite/{name}.tflite").read_bytes()
    to_quantized_model(data)  # what is imported on first use does not count
    assert_peak(lambda: to_quantized_model(data), reading_limit(data))
    for damaged in mutations(data, 20, seed=len(name)):
        assert_peak(lambda damaged=damaged: to_quantized_model(damaged), reading_limit(damaged))  # type: ignore[misc]


def test_tables_that_share_their_children_do_not_multiply_the_work() -> None:
    data = bytearray(seeds()[0] + b"\0" * 40000)
    start = len(data) - 40000
    start += -start % 4
    root = int.from_bytes(data[:4], "little")
    vtable = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    slot = root + int.from_bytes(data[vtable + 8 : vtable + 10], "little")
    graphs = slot + int.from_bytes(data[slot : slot + 4], "little")
    graph = graphs + 4 + int.from_bytes(data[graphs + 4 : graphs + 8], "little")
    data[slot : slot + 4] = (start - slot).to_bytes(4, "little")
    data[start : start + 4] = (9000).to_bytes(4, "little")
    for place in range(start + 4, start + 4 + 4 * 9000, 4):
        data[place : place + 4] = ((graph - place) & 0xFFFFFFFF).to_bytes(4, "little")
    with pytest.raises(ConverterError, match=r"overlap|outside"):
        parse(bytes(data))
