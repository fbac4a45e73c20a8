"""Reading a file, sound or damaged, takes no more than ten times its bytes, in every encoding."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite import encodings
from converter_lite.formats.mindspore_lite.container import MsModel, MsNode, MsQuant, MsTensor, to_bytes
from converter_lite.formats.mindspore_lite.enums import Compression, DataType, QuantType
from converter_lite.formats.mindspore_lite.fse import encode_values
from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model
from tests.mutation import mutations
from tests.support import assert_peak, reading_limit

pytestmark = pytest.mark.once

SHAPE = (128, 1024)
DAMAGED = 8
"""Damaged files of each sound one."""


def file_with(weight: MsTensor) -> bytes:
    """One product."""
    rows, columns = SHAPE
    weight.name, weight.dims = "w", SHAPE
    tensors = [MsTensor("x", DataType.FLOAT32, (1, columns)), weight, MsTensor("y", DataType.FLOAT32, (1, rows))]
    product = MsNode("product", "MatMulFusion", [0, 1], [2], {"transpose_b": True}, QuantType.WEIGHT)
    return to_bytes(MsModel("g", inputs=[0], outputs=[2], nodes=[product], tensors=tensors))


def normal_integers(bits: int, *, zeros: float = 0.0) -> NDArray[np.int32]:
    rng, last = np.random.default_rng(bits), 2 ** (bits - 1)
    q = np.clip(np.round(rng.normal(0, last / 3 + 0.2, SHAPE)), -last, last - 1)
    return np.where(rng.random(SHAPE) < zeros, 0, q).astype(np.int32)


def with_integers(bits: int, compression: Compression, encode: Callable[[MsQuant], bytes]) -> bytes:
    quant = MsQuant.of(np.linspace(0.5, 1, SHAPE[0]), np.zeros(SHAPE[0]), bits)
    kind = DataType.INT8 if bits <= 8 else DataType.INT16
    return file_with(MsTensor("", kind, (), encode(quant), quant=quant, compression=compression))


def packed(bits: int) -> bytes:
    compression = Compression.NONE if bits in encodings.WHOLE_BYTES else Compression.BITPACKING
    return with_integers(bits, compression, lambda _: encodings.pack(normal_integers(bits), bits))


def indexed(bits: int) -> bytes:
    few = normal_integers(bits) % 3 - 1
    return with_integers(bits, Compression.INDEXING, lambda _: encodings.encode_indexing(few, bits))


def sparse(bits: int) -> bytes:
    q = normal_integers(bits, zeros=0.97)
    return with_integers(bits, Compression.SPARSE, lambda quant: encodings.encode_sparse(q, quant, gap_width=5))


def entropy_coded(bits: int, *, zeros: float = 0.0) -> bytes:
    encoded = encode_values(normal_integers(bits, zeros=zeros))
    return file_with(MsTensor("", DataType.FLOAT32, (), encoded, compression=Compression.FSE))


def floats(kind: DataType) -> bytes:
    return file_with(MsTensor("", kind, (), normal_integers(8).astype(kind.numpy)))


def codebook() -> bytes:
    clusters = np.linspace(-1, 1, 256, dtype=np.float32)
    return file_with(MsTensor("", DataType.INT8, (), normal_integers(8).astype(np.int8), clusters=clusters))


FILES: dict[str, Callable[[], bytes]] = {
    **{f"packed, {bits} bits": partial(packed, bits) for bits in range(1, 17)},
    **{f"indexed, {bits} bits": partial(indexed, bits) for bits in (2, 4, 8, 12)},
    **{f"sparse, {bits} bits": partial(sparse, bits) for bits in (2, 4, 8, 12)},
    **{f"entropy coded, {bits} bits": partial(entropy_coded, bits) for bits in (1, 4, 8, 12)},
    "entropy coded, nearly all zero": partial(entropy_coded, 4, zeros=0.98),
    "float32": partial(floats, DataType.FLOAT32),
    "float16": partial(floats, DataType.FLOAT16),
    "codebook": codebook,
}


@cache
def file(name: str) -> bytes:
    return FILES[name]()


@pytest.mark.parametrize("name", FILES)
def test_reading_takes_no_more_than_ten_times_the_file(name: str) -> None:
    data = file(name)
    assert_peak(partial(to_quantized_model, data), reading_limit(data))


@pytest.mark.parametrize("name", FILES)
def test_reading_a_damaged_file_takes_no_more_than_ten_times_its_size(name: str) -> None:
    for damaged in mutations(file(name), DAMAGED, seed=len(name)):
        assert_peak(partial(to_quantized_model, damaged), reading_limit(damaged))
