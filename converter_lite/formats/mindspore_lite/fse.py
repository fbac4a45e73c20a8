"""FSE: finite state entropy coding of a weight with one codebook (Duda 2013, tabled asymmetric numeral systems).

The stream holds the symbol frequencies, a float32 value per symbol, and the bits in 64-bit words. Decoding walks it
backwards, so the runtime fills the weight from its end.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError

MAX_SYMBOLS = 65535
"""The symbol count is a 16-bit number."""

_MAX_TABLE_LOG = 16
_BLOCK = 1 << 13
"""Symbols or bits that are worked on at a time, to bound the memory of Python numbers."""

_HEADER = struct.Struct("<HHI")


@dataclass(frozen=True, slots=True)
class _Tables:
    """Encoder tables: next state by slot, and per symbol the two offsets of the state arithmetic."""

    log: int
    states: NDArray[np.int64]
    delta_bits: NDArray[np.int64]
    delta_state: NDArray[np.int64]


def table_log(symbols: int) -> int:
    """Logarithm of the number of states."""
    return min(_MAX_TABLE_LOG, symbols.bit_length() - 1 + 4)


def normalized_frequencies(counts: NDArray[np.int64], log: int) -> NDArray[np.int64]:
    """Frequencies with the sum ``2**log``, each at least 1; rounding errors go to the most frequent symbol."""
    size = 1 << log
    scaled = np.maximum(1, np.floor(counts * (size / counts.sum()) + 0.5).astype(np.int64))
    excess = int(scaled.sum()) - size
    if excess < 0:
        scaled[int(scaled.argmax())] -= excess
    for _ in range(excess):
        scaled[int(scaled.argmax())] -= 1
    return scaled


def _spread(frequencies: NDArray[np.integer], log: int) -> NDArray[np.uint16]:
    """Symbol of every slot."""
    size = 1 << log
    step = (size >> 1) + (size >> 3) + 3
    ordered = np.repeat(np.arange(len(frequencies), dtype=np.uint16), frequencies)
    symbols = np.empty(size, np.uint16)
    for start in range(0, size, _BLOCK):
        part = ordered[start : start + _BLOCK]
        symbols[(np.arange(start, start + len(part)) * step) % size] = part
    return symbols


def _encoder_tables(frequencies: NDArray[np.int64], log: int) -> _Tables:
    size = 1 << log
    symbols = _spread(frequencies, log)
    states = np.argsort(symbols, kind="stable") + size
    starts = np.cumsum(frequencies) - frequencies
    width = log - _floor_log2(np.maximum(frequencies - 1, 1))
    delta_bits = (width << 16) - (frequencies << width)
    single = frequencies == 1
    delta_bits[single] = (log << 16) - size
    return _Tables(log, states, delta_bits, np.where(single, starts - 1, starts - frequencies))


def estimated_bytes(counts: NDArray[np.int64]) -> int:
    """Size of the stream from the entropy of its symbols; the real one is a little larger."""
    counts = counts[counts > 0]
    head = _HEADER.size + 8 * (len(counts) + len(counts) % 2)
    return head + int((counts * np.log2(counts.sum() / counts)).sum() / 8) + 9


def encode_values(values: NDArray[np.floating] | NDArray[np.integer]) -> bytes | None:
    """Encode numbers by their distinct values, or ``None`` if there are too many of them."""
    used, symbols = np.unique(values, return_inverse=True)
    if len(used) > MAX_SYMBOLS:
        return None
    return encode_fse(symbols, used.astype(np.float32))


def _floor_log2(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1


def encode_fse(symbols: NDArray[np.integer], centroids: NDArray[np.float32]) -> bytes:
    """Encode symbol numbers (C order) with the value of each symbol.

    Args:
        symbols: Indices into ``centroids``; every one of them is used.
        centroids: Value of each symbol, at most ``MAX_SYMBOLS``.
    """
    flat = symbols.reshape(-1).astype(np.int64)
    count = len(centroids)
    log = table_log(count)
    frequencies = normalized_frequencies(np.bincount(flat, minlength=count), log)
    tables = _encoder_tables(frequencies, log)
    before, last = _run(flat, tables)
    widths = (before + tables.delta_bits[flat]) >> 16
    bits = _join(before & ((1 << widths) - 1), widths, last - (1 << log), log)
    return _assemble(frequencies, centroids, log, bits)


def _run(flat: NDArray[np.int64], tables: _Tables) -> tuple[NDArray[np.int64], int]:
    """State before every symbol, and the last one. Sequential by nature: plain numbers are fastest here."""
    states, delta_bits, delta_state = tables.states.tolist(), tables.delta_bits.tolist(), tables.delta_state.tolist()
    state = 1 << tables.log
    state = states[(state >> ((state + delta_bits[0]) >> 16)) + delta_state[0]]
    before = np.empty(flat.size, np.int64)
    for start in range(0, flat.size, _BLOCK):
        passed: list[int] = []
        for symbol in flat[start : start + _BLOCK].tolist():
            passed.append(state)
            state = states[(state >> ((state + delta_bits[symbol]) >> 16)) + delta_state[symbol]]
        before[start : start + len(passed)] = passed
    return before, state


def _join(fields: NDArray[np.int64], widths: NDArray[np.int64], last: int, log: int) -> NDArray[np.uint8]:
    """Single bits of fields of different widths, most significant first."""
    fields, widths = np.append(fields, last), np.append(widths, log)
    ends = np.cumsum(widths)
    total = int(ends[-1])
    bits = np.zeros(total, np.uint8)
    for place in range(int(widths.max(initial=0))):
        long = widths > place
        bits[ends[long] - 1 - place] = (fields[long] >> place) & 1
    return bits


def _assemble(
    frequencies: NDArray[np.int64], centroids: NDArray[np.float32], log: int, bits: NDArray[np.uint8]
) -> bytes:
    full, rest = divmod(len(bits), 64)
    words = np.packbits(bits[: full * 64]).view(">u8").astype("<u8").tobytes()
    tail = np.zeros(64, np.uint8)
    tail[:rest] = bits[full * 64 :]
    current = np.packbits(tail).view(">u8").astype("<u8").tobytes()
    head = _HEADER.pack(len(frequencies), log, full + 1)
    head = _padded(head + frequencies.astype("<u4").tobytes())
    return _padded(head + centroids.astype("<f4").tobytes()) + words + current + bytes([rest])


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)


@dataclass(frozen=True, slots=True, eq=False)
class FseStream:
    """An entropy coded weight: the value of each symbol, and the symbols in their bits.

    Attributes:
        frequencies: Of each symbol; their sum is the number of states.
        centroids: Value of each symbol.
        log: Logarithm of the number of states.
        words: The bits, most significant first in every word.
        size: Number of bits.
    """

    frequencies: NDArray[np.uint32]
    centroids: NDArray[np.float32]
    log: int
    words: NDArray[np.uint64]
    size: int

    @classmethod
    def of(cls, data: bytes | memoryview) -> FseStream:
        """Views of the bytes of a weight.

        Raises:
            FormatError: The head is damaged.
        """
        if len(data) < _HEADER.size:
            raise FormatError("an entropy coded weight is too short")
        count, log, words = _HEADER.unpack_from(data)
        values_at = _HEADER.size + -(-4 * count // 8) * 8
        words_at = values_at + -(-4 * count // 8) * 8
        if words < 1 or count < 1 or log > _MAX_TABLE_LOG or words_at + 8 * words + 1 > len(data):
            raise FormatError("the head of an entropy coded weight is damaged")
        frequencies = np.frombuffer(data, "<u4", count, _HEADER.size)
        if int(frequencies.sum(dtype=np.int64)) != 1 << log or frequencies.min() < 1:
            raise FormatError("the frequencies of an entropy coded weight are damaged")
        size = 64 * (words - 1) + min(data[words_at + 8 * words], 64)
        if size < log:
            raise FormatError("an entropy coded weight has no final state")
        centroids = np.frombuffer(data, "<f4", count, values_at)
        return cls(frequencies, centroids, log, np.frombuffer(data, "<u8", words, words_at), size)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The narrowest type of a symbol."""
        return np.dtype(np.uint8 if len(self.centroids) <= 1 << 8 else np.uint16)

    def parts(self, count: int) -> Iterator[tuple[slice, NDArray[np.unsignedinteger]]]:
        """Symbols with their positions in a flat weight, from its end backwards, a bounded number at a time.

        Raises:
            FormatError: The stream holds fewer than ``count`` symbols.
        """
        symbols, widths, bases = self._tables()
        position = self.size - self.log
        state = int(self._windows(self.size, self.size)[0]) & ((1 << self.log) - 1)
        while count:
            passed, state, position = self._block(widths, bases, state, position, min(count, _BLOCK))
            if position < 0:
                raise FormatError("an entropy coded weight ends before its last value")
            yield slice(count - len(passed), count), symbols[np.array(passed[::-1], np.int64)]
            count -= len(passed)

    def _tables(self) -> tuple[NDArray[np.unsignedinteger], bytearray, array[int]]:
        """Per state: its symbol, how many bits follow, and the base that they are added to."""
        symbols, size = _spread(self.frequencies, self.log), 1 << self.log
        numbers, widths, bases = self.frequencies.tolist(), bytearray(size), array("i", bytes(4 * size))
        for state, symbol in enumerate(array("H", symbols.tobytes())):
            number = numbers[symbol]
            numbers[symbol] = number + 1
            width = widths[state] = self.log + 1 - number.bit_length()
            bases[state] = (number << width) - size
        return symbols.astype(self.dtype), widths, bases

    def _block(
        self, widths: bytearray, bases: array[int], state: int, position: int, count: int
    ) -> tuple[list[int], int, int]:
        """Up to ``count`` states, the next state, and the position of its bits; negative if the stream ended before."""
        low = max(0, position - _BLOCK)
        windows = self._windows(low, position).tolist()
        place = position - low
        passed: list[int] = []
        while place >= 0 and len(passed) < count:
            passed.append(state)
            width = widths[state]
            state = bases[state] + (windows[place] & ((1 << width) - 1))
            place -= width
            if place < _MAX_TABLE_LOG and low:
                break
        return passed, state, place + low

    def _windows(self, low: int, high: int) -> NDArray[np.int32]:
        """For every position from ``low`` to ``high`` the 16 bits that end before it, as a number."""
        first = max(0, low - _MAX_TABLE_LOG) // 64
        bits = np.unpackbits(self.words[first : -(-high // 64)].astype(">u8").view(np.uint8))
        values = np.zeros(high - low + 1, np.int32)
        for place in range(min(_MAX_TABLE_LOG, high)):
            start = max(low, place + 1)
            values[start - low :] |= (
                bits[start - 1 - place - 64 * first : high - place - 64 * first].astype(np.int32) << place
            )
        return values


def decode_fse(stream: FseStream, count: int) -> NDArray[np.unsignedinteger]:
    """Symbols of a weight in C order, flat.

    Raises:
        FormatError: The stream holds fewer than ``count`` symbols.
    """
    symbols: NDArray[np.unsignedinteger] = np.empty(count, stream.dtype)
    for places, values in stream.parts(count):
        symbols[places] = values
    return symbols
