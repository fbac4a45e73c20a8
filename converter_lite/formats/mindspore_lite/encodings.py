"""Encodings of integer weights: raw, packed bits, indices into the used values, and distances between stored values.

Values are signed integers in C order. Widths are bits; ``B`` is the width of a weight. Source: the format page,
sections "Compressed weights"; verified by decoding in the released runtime.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.bits import BitReader, BitWriter, low_first, pack_low_first
from converter_lite.formats.mindspore_lite.container import MsQuant
from converter_lite.formats.mindspore_lite.enums import Compression

_COORDINATE_FIELD = 8
_COUNT_FIELD = 32
_MAX_COORDINATE = 16
"""Largest width of a distance that is tried; wider ones never pay off."""

_BLOCK = 1 << 16
"""Integers that are counted at a time."""

WHOLE_BYTES = (8, 16)
"""Widths that are stored raw: packing has nothing to gain."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes of a weight and the encoding that they are in."""

    data: bytes
    compression: Compression


def store(q: NDArray[np.int32], quant: MsQuant, *, encode: bool) -> Encoded:
    """A weight in its smallest encoding, or in the simplest one that has its width.

    Args:
        q: Integers in the axis order of the file.
        quant: Its parameters; channels lie along the first axis where there are several.
        encode: Choose by size; ties go to the simplest.
    """
    bits = quant.bits
    best = Encoded(pack(q, bits), Compression.NONE if bits in WHOLE_BYTES else Compression.BITPACKING)
    if not encode:
        return best
    size = len(best.data)
    used = _count_used(q.reshape(-1), bits)
    if indexing_bytes(q.size, used, bits) < size:
        best, size = Encoded(encode_indexing(q, bits), Compression.INDEXING), indexing_bytes(q.size, used, bits)
    gap = _best_gap_width(q, quant, used)
    if gap is not None and gap[1] < size:
        best = Encoded(encode_sparse(q, quant, gap_width=gap[0]), Compression.SPARSE)
    return best


def _count_used(q: NDArray[np.int32], bits: int) -> int:
    """Number of different integers."""
    seen = np.zeros(1 << bits, np.bool_)
    for start in range(0, q.size, _BLOCK):
        seen[q[start : start + _BLOCK] + (1 << (bits - 1))] = True
    return int(np.count_nonzero(seen))


Part = tuple[slice | NDArray[np.int64], NDArray[np.integer]]
"""Positions in a flat weight, and its integers there."""


def parts(data: bytes | memoryview, compression: Compression, quant: MsQuant, count: int) -> Iterator[Part]:
    """The integers of an encoded weight, a bounded number at a time; positions that no part contains are the zero point.

    Raises:
        FormatError: The bytes do not hold ``count`` weights in this encoding.
    """
    if not 1 <= quant.bits <= 16:
        raise FormatError(f"a weight has {quant.bits} bits")
    if compression is Compression.SPARSE:
        return _sparse_parts(data, quant, count)
    if compression is Compression.INDEXING:
        return _in_order(_indexed(BitReader(data), quant.bits, count))
    if quant.bits in WHOLE_BYTES:
        return _in_order(iter([_whole(data, quant.bits, count)]))
    middle = 1 << (quant.bits - 1)
    return _in_order(values - middle for values in low_first(data, quant.bits, count))


def decode(data: bytes | memoryview, compression: Compression, quant: MsQuant, count: int) -> NDArray[np.integer]:
    """The integers of an encoded weight, flat; int8 up to 8 bits, else int16.

    Raises:
        FormatError: The bytes do not hold ``count`` weights in this encoding.
    """
    pieces = parts(data, compression, quant, count)
    if is_plain(compression, quant):
        return _whole(data, quant.bits, count)
    flat: NDArray[np.integer] = np.empty(count, integer_type(quant.bits))
    if compression is Compression.SPARSE:
        flat.reshape(len(_channels(quant, count)), -1)[:] = _channels(quant, count)[:, None]
    for places, values in pieces:
        flat[places] = values
    return flat


def is_plain(compression: Compression, quant: MsQuant) -> bool:
    """Whether the integers lie in the file as they are."""
    return compression not in (Compression.INDEXING, Compression.SPARSE) and quant.bits in WHOLE_BYTES


def integer_type(bits: int) -> np.dtype[np.integer]:
    """The NumPy type that holds integers of this many bits."""
    return np.dtype("<i1" if bits <= 8 else "<i2")


def _in_order(pieces: Iterator[NDArray[np.integer]]) -> Iterator[Part]:
    start = 0
    for values in pieces:
        yield slice(start, start + len(values)), values
        start += len(values)


def pack(q: NDArray[np.int32], bits: int) -> bytes:
    """Raw two's complement for 8 and 16 bits; otherwise packed bits in units of 8 (below 8 bits) or 16 bits."""
    if bits in WHOLE_BYTES:
        return q.astype(f"<i{bits // 8}").tobytes()
    data = pack_low_first(q.reshape(-1) + (1 << (bits - 1)), bits)
    return data + b"\0" * (len(data) % 2) if bits > 8 else data


def _whole(data: bytes | memoryview, bits: int, count: int) -> NDArray[np.integer]:
    if len(data) * 8 < count * bits:
        raise FormatError(f"{count} weights of {bits} bits do not fit into {len(data)} bytes")
    return np.frombuffer(data, integer_type(bits), count)


def index_width(used: int) -> int:
    """Bits of an index into ``used`` values."""
    return max(used - 1, 0).bit_length()


def indexing_bytes(count: int, used: int, bits: int) -> int:
    """Size in the INDEXING encoding."""
    return -(-(bits + bits * used + index_width(used) * count) // 8)


def encode_indexing(q: NDArray[np.int32], bits: int) -> bytes:
    """The distinct values, then an index for every weight."""
    used, indices = np.unique(q, return_inverse=True)
    stream = BitWriter()
    _write_values(stream, used, bits)
    stream.write(indices, index_width(len(used)))
    return stream.bytes()


def _indexed(stream: BitReader, bits: int, count: int) -> Iterator[NDArray[np.int32]]:
    """A table of values, and the values that indices into it stand for."""
    used = _read_values(stream, bits)
    return (_look_up(used, indices) for indices in stream.parts(index_width(len(used)), count))


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


def _channels(quant: MsQuant, count: int) -> NDArray[np.int32]:
    """Zero points of blocks of equal length."""
    if count % len(quant.zero_point):
        raise FormatError(f"{count} weights do not divide into {len(quant.zero_point)} channels")
    return quant.zero_point


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
    """The width of distances that makes the SPARSE encoding smallest, and its bytes."""
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
    differs = np.flatnonzero(flat.reshape(len(quant.zero_point), -1) != quant.zero_point[:, None])
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


def _sparse_parts(data: bytes | memoryview, quant: MsQuant, count: int) -> Iterator[Part]:
    stream = BitReader(data)
    gap_width, stored = stream.one(_COORDINATE_FIELD), stream.one(_COUNT_FIELD)
    if stored > count or gap_width > _COUNT_FIELD:
        raise FormatError(f"a sparse weight stores {stored} of {count} values")
    _channels(quant, count)
    values, gaps = _indexed(stream, quant.bits, stored), stream.parts(gap_width, stored)
    end = 0
    for part, distances in zip(values, gaps, strict=True):
        positions = end + np.cumsum(distances.view(np.uint32).astype(np.int64) + 1) - 1
        end = int(positions[-1]) + 1
        if end > count:
            raise FormatError("a sparse weight is longer than its shape")
        yield positions, part
