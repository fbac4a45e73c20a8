from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.container import MsQuant
from converter_lite.formats.mindspore_lite.encodings import (
    decode,
    encode_indexing,
    encode_sparse,
    indexing_bytes,
    pack,
    store,
)
from converter_lite.formats.mindspore_lite.enums import Compression
from converter_lite.formats.mindspore_lite.fse import (
    FseStream,
    decode_fse,
    encode_fse,
    estimated_bytes,
    normalized_frequencies,
    table_log,
)


def weights(bits: int, channels: int, size: int, zeros: float, seed: int) -> tuple[NDArray[np.int32], MsQuant]:
    """Integers of all widths around their zero points; ``zeros`` is the share that equals them."""
    rng = np.random.default_rng(seed)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    zero_point = rng.integers(low, high + 1, channels).astype(np.int32)
    q = np.clip(np.round(rng.normal(0, 2.0**bits / 6, (channels, size))), low, high).astype(np.int32)
    q = np.where(rng.random(q.shape) < zeros, zero_point[:, None], q).astype(np.int32)
    return q, MsQuant.of(np.ones(channels), zero_point, bits)


ANY_WEIGHTS = st.builds(
    weights,
    st.integers(1, 16),
    st.integers(1, 5),
    st.integers(1, 90),
    st.sampled_from([0.0, 0.5, 0.97, 1.0]),
    st.integers(0, 1000),
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(ANY_WEIGHTS, st.booleans())
def test_what_is_stored_comes_back(case: tuple[NDArray[np.int32], MsQuant], encode: bool) -> None:
    q, quant = case
    stored = store(q, quant, encode=encode)
    np.testing.assert_array_equal(decode(stored.data, stored.compression, quant, q.size), q.reshape(-1))


@settings(derandomize=True, max_examples=100, deadline=None)
@given(ANY_WEIGHTS, st.integers(1, 9))
def test_every_encoding_is_its_own_inverse_whether_it_pays_or_not(
    case: tuple[NDArray[np.int32], MsQuant], gap_width: int
) -> None:
    q, quant = case
    indexed = encode_indexing(q, quant.bits)
    assert len(indexed) == indexing_bytes(q.size, len(np.unique(q)), quant.bits)
    forms = {
        Compression.BITPACKING: pack(q, quant.bits),
        Compression.INDEXING: indexed,
        Compression.SPARSE: encode_sparse(q, quant, gap_width=gap_width),
    }
    for compression, data in forms.items():
        np.testing.assert_array_equal(decode(data, compression, quant, q.size), q.reshape(-1))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(ANY_WEIGHTS)
def test_entropy_coding_is_exact(case: tuple[NDArray[np.int32], MsQuant]) -> None:
    used, symbols = np.unique(case[0], return_inverse=True)
    stream = FseStream.of(encode_fse(symbols, used.astype(np.float32)))
    np.testing.assert_array_equal(stream.centroids[decode_fse(stream, symbols.size)], case[0].reshape(-1))


def test_packed_bits_come_least_significant_first() -> None:
    assert pack(np.array([-4, 3, 0], np.int32), 3) == bytes([0b00_111_000, 0b1])
    assert pack(np.array([-256, 255], np.int32), 9) == bytes([0, 0b11111110, 0b11, 0])


def test_eight_and_sixteen_bits_are_plain_numbers() -> None:
    assert pack(np.array([-1, 2], np.int32), 8) == b"\xff\x02"
    assert pack(np.array([-1, 2], np.int32), 16) == b"\xff\xff\x02\x00"


def test_indices_come_most_significant_first() -> None:
    # 4 bits: 2 values, -8 (0000) and 7 (1111), then one bit per weight
    assert encode_indexing(np.array([7, -8, 7, 7], np.int32), 4) == bytes([0b0010_0000, 0b1111_1011])


def test_as_many_values_as_fit_are_counted_as_zero() -> None:
    data = encode_indexing(np.array([-2, -1, 0, 1], np.int32), 2)
    assert data[0] >> 6 == 0


def test_a_sparse_weight_stores_a_value_per_full_distance_even_at_the_end() -> None:
    quant = MsQuant.of(1.0, 0, 8)
    q = np.zeros(20, np.int32)
    q[1] = 5
    data = encode_sparse(q, quant, gap_width=3)
    stored = int.from_bytes(data[1:5], "big")
    assert stored == 3  # the weight itself, and one for each 8 weights behind it


def test_the_smallest_encoding_is_chosen_and_ties_stay_plain() -> None:
    quant = MsQuant.of(1.0, 0, 8)
    few = np.tile(np.array([1, 2, 3, 4], np.int32), 100)
    assert store(few, quant, encode=True).compression is Compression.INDEXING
    empty = np.zeros(400, np.int32)
    empty[7] = 1
    assert store(empty, quant, encode=True).compression is Compression.SPARSE
    full = np.random.default_rng(0).integers(-128, 128, 4000).astype(np.int32)
    assert store(full, quant, encode=True).compression is Compression.NONE
    assert store(few, quant, encode=False).compression is Compression.NONE


@pytest.mark.parametrize("encoding", [Compression.NONE, Compression.INDEXING, Compression.SPARSE])
def test_a_cut_weight_is_refused(encoding: Compression) -> None:
    q, quant = weights(5, 2, 50, 0.5, 0)
    data = {
        Compression.NONE: pack(q, 5),
        Compression.INDEXING: encode_indexing(q, 5),
        Compression.SPARSE: encode_sparse(q, quant, gap_width=2),
    }[encoding]
    with pytest.raises(FormatError):
        decode(data[: len(data) // 2], encoding, quant, q.size)


def test_a_cut_entropy_coded_weight_is_refused() -> None:
    q, _ = weights(5, 1, 400, 0.0, 0)
    used, symbols = np.unique(q, return_inverse=True)
    data = encode_fse(symbols, used.astype(np.float32))
    for size in (3, 40, len(data) // 2, len(data) - 1):
        with pytest.raises(FormatError):
            decode_fse(FseStream.of(data[:size]), q.size)


def test_more_symbols_than_a_stream_holds_are_refused() -> None:
    data = encode_fse(np.array([0, 1, 2, 1]), np.arange(3, dtype=np.float32))
    with pytest.raises(FormatError):
        decode_fse(FseStream.of(data), 5000)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 5000), min_size=1, max_size=300))
def test_scaled_frequencies_fill_the_table(counts: list[int]) -> None:
    log = table_log(len(counts))
    scaled = normalized_frequencies(np.array(counts), log)
    assert scaled.sum() == 1 << log
    assert scaled.min() >= 1


def test_the_estimate_of_entropy_coding_is_close() -> None:
    q, _ = weights(8, 1, 20000, 0.0, 0)
    used, symbols, counts = np.unique(q, return_inverse=True, return_counts=True)
    size = len(encode_fse(symbols, used.astype(np.float32)))
    assert 0.97 * size <= estimated_bytes(counts) <= size
