"""10,000 damaged files: every one is read, or refused with a FormatError; memory stays near the size of the file."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.importer.reader import read, to_quantized_model
from converter_lite.formats.mindspore_lite.options import Compatibility, MsOptions
from tests.formats.mindspore_lite.models import convolutional, floating, fully_quantized, weights_quantized
from tests.formats.mindspore_lite.test_writer import RANGES
from tests.support import assert_peak, reading_limit

pytestmark = pytest.mark.once

BATCHES, BATCH = 20, 500

WORDS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x01\0\0\0")


@cache
def originals() -> list[bytes]:
    model = convolutional()
    files = [write(floating(model)), write(fully_quantized(model, RANGES))]
    files += [write(weights_quantized(model, bits)) for bits in (1, 2, 4, 8, 12)]
    files += [write(weights_quantized(model, 4), options=MsOptions(compatibility=Compatibility.WHEEL))]
    return files


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes, a word, a cut, a moved block, or many bytes of one region."""
    changed = bytearray(data)
    kind = rng.integers(0, 5)
    if kind == 0:
        for place in rng.integers(0, len(data), rng.integers(1, 9)):
            changed[place] = rng.integers(0, 256)
    elif kind == 1:
        place = int(rng.integers(0, len(data) - 4))
        changed[place : place + 4] = WORDS[rng.integers(0, len(WORDS))]
    elif kind == 2:
        del changed[int(rng.integers(0, len(data))) :]
    elif kind == 3:
        source, target = rng.integers(0, len(data) - 16, 2)
        changed[target : target + 16] = data[source : source + 16]
    else:
        start = int(rng.integers(0, len(data)))
        for place in rng.integers(start, min(len(data), start + 400), 30):
            changed[place] = rng.integers(0, 256)
    return bytes(changed)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_files_are_read_or_refused_in_little_memory(batch: int) -> None:
    rng = np.random.default_rng(batch)
    files = originals()
    refused: list[bytes] = []

    def read() -> None:
        try:
            to_quantized_model(data)
        except FormatError:
            refused.append(data)

    for number in range(BATCH):
        data = damaged(files[number % len(files)], rng)
        assert_peak(read, reading_limit(data))
    assert len(refused) > BATCH // 10


def test_tables_that_share_their_children_do_not_multiply_the_work() -> None:
    model = convolutional()
    data = bytearray(write(floating(model)) + b"\0" * 40000)
    # a vector of 9,999 table offsets, all to the root, in place of the nodes
    start = len(data) - 40000
    start += -start % 4
    root = int.from_bytes(data[:4], "little")
    vtable = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    slot = root + int.from_bytes(data[vtable + 4 + 12 : vtable + 4 + 14], "little")
    data[slot : slot + 4] = (start - slot).to_bytes(4, "little")
    data[start : start + 4] = (9999).to_bytes(4, "little")
    with pytest.raises(FormatError):
        read(bytes(data))
