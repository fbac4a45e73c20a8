"""Streams of bit fields, in both orders that the weight encodings use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError

_CHUNK = 1 << 14
"""Values that are split into single bits at a time; a multiple of 8, so that chunks end at byte boundaries."""


def pack_low_first(values: NDArray[np.integer], width: int) -> bytes:
    """Fields of ``width`` bits, least significant bit first, zero padded to a byte."""
    flat = values.reshape(-1)
    chunks = (_spread(flat[i : i + _CHUNK], width)[:, ::-1] for i in range(0, flat.size, _CHUNK))
    return b"".join(np.packbits(c.reshape(-1), bitorder="little").tobytes() for c in chunks)


def low_first(data: bytes | memoryview, width: int, count: int) -> Iterator[NDArray[np.int32]]:
    """What :func:`pack_low_first` packed, a part at a time.

    Raises:
        FormatError: The data are too short.
    """
    raw = np.frombuffer(data, np.uint8)
    if raw.size * 8 < count * width:
        raise FormatError(f"{count} packed weights of {width} bits do not fit into {raw.size} bytes")
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        piece = raw[start * width // 8 : -(-(start + size) * width // 8)]
        fields = np.unpackbits(piece, bitorder="little", count=size * width).reshape(size, width)
        yield _collect(fields[:, ::-1])


def _spread(values: NDArray[np.integer], width: int) -> NDArray[np.uint8]:
    """Bits of every value, most significant first; shape (values, width)."""
    shifts = np.arange(width - 1, -1, -1, dtype=np.int64)
    return ((values.astype(np.int64)[:, None] >> shifts) & 1).astype(np.uint8)


def _collect(fields: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Numbers of up to 32 bits; the longest come out negative where their first bit is set."""
    values = np.zeros(len(fields), np.uint32)
    for column in range(fields.shape[1]):
        values <<= 1
        values |= fields[:, column]
    return values.view(np.int32)


class BitWriter:
    """A stream of fields, most significant bit first."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.uint8]] = []

    def write(self, values: NDArray[np.integer] | list[int], width: int) -> None:
        """Append fields of one width."""
        self._parts.append(_spread(np.asarray(values, np.int64).reshape(-1), width).reshape(-1))

    def bytes(self) -> bytes:
        """The stream, zero padded to a byte."""
        return np.packbits(np.concatenate(self._parts)).tobytes() if self._parts else b""


class BitReader:
    """Reads what :class:`BitWriter` wrote."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._raw = np.frombuffer(data, np.uint8)
        self._position = 0

    def parts(self, width: int, count: int) -> Iterator[NDArray[np.int32]]:
        """The next fields of one width, a part at a time; fields behind them can be read before these are consumed.

        Raises:
            FormatError: The stream ends before.
        """
        start, self._position = self._position, self._position + width * count
        if self._position > self._raw.size * 8:
            raise FormatError(f"an encoded weight ends after {self._raw.size} bytes")
        return (
            self._fields(start + first * width, width, min(_CHUNK, count - first)) for first in range(0, count, _CHUNK)
        )

    def read(self, width: int, count: int) -> NDArray[np.int32]:
        """The next fields of one width.

        Raises:
            FormatError: The stream ends before.
        """
        return np.concatenate([np.zeros(0, np.int32), *self.parts(width, count)])

    def one(self, width: int) -> int:
        """The next field."""
        return int(self.read(width, 1).view(np.uint32)[0])

    def _fields(self, start: int, width: int, count: int) -> NDArray[np.int32]:
        if width == 0:
            return np.zeros(count, np.int32)
        bits = np.unpackbits(self._raw[start // 8 : -(-(start + count * width) // 8)])
        return _collect(bits[start % 8 : start % 8 + count * width].reshape(count, width))
