"""Encodings of integer weights: raw, packed bits, indices into the used values, and distances between stored values.

Values are signed integers in C order. Widths are bits; ``B`` is the width of a weight. Source: the format page,
sections "Compressed weights"; verified by decoding in the released runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_ms.bits import BitReader, BitWriter, pack_low_first, unpack_low_first
from converter_lite.formats.mindspore_ms.container import MsQuant
from converter_lite.formats.mindspore_ms.enums import Compression

_COORDINATE_FIELD = 8
_COUNT_FIELD = 32
_MAX_COORDINATE = 16
"""Largest width of a distance that is tried; longer ones never pay."""

WHOLE_BYTES = (8, 16)
"""Widths that are stored raw: packing has nothing to gain."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes of a weight and the encoding that they are in."""

    data: bytes
    compression: Compression


def store(q: NDArray[np.int32], quant: MsQuant, *, encode: bool) -> Encoded:
    """A weight in its smallest encoding, or the plainest one that has its width.

    Args:
        q: Integers in the axis order of the file.
        quant: Its parameters; channels lie along the first axis where there are several.
        encode: Choose by size; ties go to the plainest.
    """
    bits = quant.bits
    best = Encoded(pack(q, bits), Compression.NONE if bits in WHOLE_BYTES else Compression.BITPACKING)
    if not encode:
        return best
    size = len(best.data)
    used = int(np.count_nonzero(np.bincount(q.reshape(-1) + (1 << (bits - 1)))))
    if indexing_bytes(q.size, used, bits) < size:
        best, size = Encoded(encode_indexing(q, bits), Compression.INDEXING), indexing_bytes(q.size, used, bits)
    gap = _best_gap_width(q, quant, used)
    if gap is not None and gap[1] < size:
        best = Encoded(encode_sparse(q, quant, gap_width=gap[0]), Compression.SPARSE)
    return best


def restore(data: bytes | memoryview, compression: Compression, quant: MsQuant, count: int) -> NDArray[np.int32]:
    """The integers of an encoded weight, flat.

    Raises:
        FormatError: The bytes do not hold ``count`` weights in this encoding.
    """
    if not 1 <= quant.bits <= 16:
        raise FormatError(f"a weight has {quant.bits} bits")
    if compression is Compression.INDEXING:
        return decode_indexing(data, quant.bits, count)
    if compression is Compression.SPARSE:
        return decode_sparse(data, quant, count)
    return unpack(data, quant.bits, count)


def pack(q: NDArray[np.int32], bits: int) -> bytes:
    """Raw two's complement for 8 and 16 bits; otherwise packed bits in units of 8 (below 8 bits) or 16 bits."""
    if bits in WHOLE_BYTES:
        return q.astype(f"<i{bits // 8}").tobytes()
    data = pack_low_first(q.reshape(-1) + (1 << (bits - 1)), bits)
    return data + b"\0" * (len(data) % 2) if bits > 8 else data


def unpack(data: bytes | memoryview, bits: int, count: int) -> NDArray[np.int32]:
    """Inverse of :func:`pack`."""
    if bits in WHOLE_BYTES:
        values = np.frombuffer(data, f"<i{bits // 8}", len(data) // (bits // 8))
        if len(values) < count:
            raise FormatError(f"{count} weights of {bits} bits do not fit into {len(data)} bytes")
        return values[:count].astype(np.int32)
    return unpack_low_first(data, bits, count) - (1 << (bits - 1))


def index_width(used: int) -> int:
    """Bits of an index into ``used`` values."""
    return max(used - 1, 0).bit_length()


def indexing_bytes(count: int, used: int, bits: int) -> int:
    """Size of the INDEXING form."""
    return -(-(bits + bits * used + index_width(used) * count) // 8)


def encode_indexing(q: NDArray[np.int32], bits: int) -> bytes:
    """The distinct values, then an index for every weight."""
    used, indices = np.unique(q, return_inverse=True)
    stream = BitWriter()
    _write_values(stream, used, bits)
    stream.write(indices, index_width(len(used)))
    return stream.bytes()


def decode_indexing(data: bytes | memoryview, bits: int, count: int) -> NDArray[np.int32]:
    """Inverse of :func:`encode_indexing`, flat."""
    stream = BitReader(data)
    used = _read_values(stream, bits)
    return _look_up(used, stream.read(index_width(len(used)), count))


def _write_values(stream: BitWriter, used: NDArray[np.int32], bits: int) -> None:
    stream.write([len(used) % (1 << bits)], bits)
    stream.write(used + (1 << (bits - 1)), bits)


def _read_values(stream: BitReader, bits: int) -> NDArray[np.int32]:
    count = stream.one(bits) or 1 << bits
    return stream.read(bits, count) - (1 << (bits - 1))


def _look_up(used: NDArray[np.int32], indices: NDArray[np.int32]) -> NDArray[np.int32]:
    if indices.size and int(indices.max()) >= len(used):
        raise FormatError("an encoded weight points behind its table of values")
    return used[indices]


def _zero_points(quant: MsQuant, count: int) -> NDArray[np.int32]:
    """Zero point of every weight; channels are blocks of equal length."""
    channels = len(quant.zero_point)
    if channels == 1:
        return np.full(count, quant.zero_point[0], np.int32)
    if count % channels:
        raise FormatError(f"{count} weights do not divide into {channels} channels")
    return np.repeat(quant.zero_point, count // channels).astype(np.int32)


def _stored_positions(differs: NDArray[np.intp], gap_width: int, count: int) -> NDArray[np.int64]:
    """Positions that are stored: weights off the zero point, and one weight per full distance between or behind them."""
    reach = 1 << gap_width
    stops = np.append(differs, count)
    before = np.concatenate([[-1], differs])
    extra = (stops - before - 1) // reach
    ends = np.cumsum(extra + 1) - 1
    owner = np.repeat(np.arange(stops.size), extra + 1)
    step = np.arange(int(extra.sum()) + stops.size) - np.repeat(ends - extra, extra + 1)
    positions = before[owner] + (step + 1) * reach
    positions[ends] = stops
    return positions[:-1].astype(np.int64)


def _best_gap_width(q: NDArray[np.int32], quant: MsQuant, used: int) -> tuple[int, int] | None:
    """The width of distances that makes the SPARSE form smallest, and its bytes."""
    flat = q.reshape(-1)
    is_stored = flat.reshape(len(quant.zero_point), -1) != quant.zero_point[:, None]
    if np.count_nonzero(is_stored) * (index_width(used) + 1) >= flat.size * quant.bits:
        return None
    differs = np.flatnonzero(is_stored)
    gaps = np.append(differs, flat.size) - np.concatenate([[-1], differs]) - 1
    head = _COORDINATE_FIELD + _COUNT_FIELD + quant.bits + quant.bits * used
    sizes = []
    for width in range(1, _MAX_COORDINATE + 1):
        stored = int((gaps >> width).sum()) + differs.size
        sizes.append((-(-(head + stored * (index_width(used) + width)) // 8), width))
    size, width = min(sizes)
    return width, size


def encode_sparse(q: NDArray[np.int32], quant: MsQuant, *, gap_width: int) -> bytes:
    """The distinct values, then index and distance of every stored weight; the others equal their zero point."""
    flat = q.reshape(-1)
    differs = np.flatnonzero(flat != _zero_points(quant, flat.size))
    positions = _stored_positions(differs, gap_width, flat.size)
    used, indices = np.unique(flat, return_inverse=True)
    gaps = np.diff(positions, prepend=-1) - 1
    stream = BitWriter()
    stream.write([gap_width], _COORDINATE_FIELD)
    stream.write([len(positions)], _COUNT_FIELD)
    _write_values(stream, used, quant.bits)
    stream.write(indices.reshape(-1)[positions], index_width(len(used)))
    stream.write(gaps, gap_width)
    return stream.bytes()


def decode_sparse(data: bytes | memoryview, quant: MsQuant, count: int) -> NDArray[np.int32]:
    """Inverse of :func:`encode_sparse`, flat."""
    stream = BitReader(data)
    gap_width, stored = stream.one(_COORDINATE_FIELD), stream.one(_COUNT_FIELD) & 0xFFFFFFFF
    if stored > count or gap_width > _COUNT_FIELD:
        raise FormatError(f"a sparse weight stores {stored} of {count} values")
    used = _read_values(stream, quant.bits)
    values = _look_up(used, stream.read(index_width(len(used)), stored))
    positions = np.cumsum(stream.read(gap_width, stored).astype(np.int64) + 1) - 1
    if positions.size and (positions[-1] >= count or positions.min() < 0):
        raise FormatError("a sparse weight is longer than its shape")
    flat = _zero_points(quant, count)
    flat[positions] = values
    return flat
