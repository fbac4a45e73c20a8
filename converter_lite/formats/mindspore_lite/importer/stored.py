"""Constants of a ``.ms`` file: checked when they are loaded, decoded when they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite import encodings
from converter_lite.formats.mindspore_lite.container import MsQuant, MsTensor
from converter_lite.formats.mindspore_lite.enums import Compression, DataType
from converter_lite.formats.mindspore_lite.fse import FseStream, decode_fse

ELEMENTS_PER_BYTE = 64
"""Most elements of all constants of a file, per byte of the file: weights that are mostly zero take little space."""

KEPT_PER_BYTE = 4
"""Bytes of decoded weights that are kept, per byte of the file; what does not fit is decoded anew at every read."""

_CODES = 256
"""Codes of a k-means weight: int8 counted from its least number."""


@dataclass(slots=True)
class ElementBudget:
    """The budget that is left for the constants of a file.

    Attributes:
        elements: Elements; a damaged shape could ask for any number.
        kept: Bytes of decoded weights that may be kept.
    """

    elements: int
    kept: int

    @classmethod
    def of(cls, file_size: int) -> ElementBudget:
        """The budget of a whole file."""
        return cls(ELEMENTS_PER_BYTE * file_size, KEPT_PER_BYTE * file_size)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A constant: plain numbers, integers with their parameters, or codes of a table.

    Attributes:
        dims: Its shape.
        dtype: Type of :attr:`array`, the narrowest that holds it.
        source: The array, flat, or what decodes it.
        quant: Quantization parameters of integers.
        table: Values of codes.
    """

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    source: NDArray[Any] | Callable[[], NDArray[Any]]
    quant: MsQuant | None = None
    table: NDArray[np.float32] | None = None

    @property
    def array(self) -> NDArray[Any]:
        """Numbers, integers or codes."""
        return (self.source if isinstance(self.source, np.ndarray) else self.source()).reshape(self.dims)

    @property
    def is_kept(self) -> bool:
        """Whether :attr:`array` needs no decoding."""
        return isinstance(self.source, np.ndarray)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)


def load(tensor: MsTensor, room: ElementBudget) -> Stored:
    """A constant, checked to its last bit; it is kept decoded if there is room.

    Args:
        tensor: The tensor with its data.
        room: The budget for constants; what this one takes is subtracted.

    Raises:
        FormatError: The data do not fit the shape, the type or the encoding.
    """
    count = _count(tensor, room.elements)
    room.elements -= count
    data = tensor.data if tensor.data is not None else b""
    raw = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data)
    if tensor.compression is Compression.FSE:
        return _entropy_coded(tensor, raw, count, room)
    if tensor.compression in (Compression.FSE_INT, Compression.FSE_INFER):
        raise FormatError(f"{tensor.name}: the encoding {tensor.compression.name} is newer than this reader")
    if tensor.clusters is not None and tensor.clusters.size:
        return _clustered(tensor, raw, count, tensor.clusters)
    if tensor.dtype in (DataType.INT8, DataType.INT16) and tensor.quant is not None:
        return _integers(tensor, raw, count, tensor.quant, room)
    array = _plain(tensor, tensor.dtype, raw, count)
    if tensor.dtype is DataType.INT32 and tensor.quant is not None:
        array = _dequantized_bias(tensor, array, tensor.quant)
    return Stored(tensor.dims, array.dtype, array)


def _count(tensor: MsTensor, limit: int) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
        if size < 0 or count > limit:
            raise FormatError(f"{tensor.name}: the shape {tensor.dims} cannot be that of a constant in this file")
    return count


def _entropy_coded(tensor: MsTensor, raw: memoryview, count: int, room: ElementBudget) -> Stored:
    stream = FseStream.of(raw)
    decode = partial(decode_fse, stream, count)
    source = _kept_or_checked(decode, partial(stream.parts, count), count * stream.dtype.itemsize, room)
    return Stored(tensor.dims, stream.dtype, source, table=stream.centroids)


def _integers(tensor: MsTensor, raw: memoryview, count: int, quant: MsQuant, room: ElementBudget) -> Stored:
    encoded = (raw, tensor.compression, quant, count)
    dtype = encodings.integer_type(quant.bits)
    decode = partial(encodings.decode, *encoded)
    if encodings.is_plain(tensor.compression, quant):
        return Stored(tensor.dims, dtype, decode(), quant)
    source = _kept_or_checked(decode, partial(encodings.parts, *encoded), count * dtype.itemsize, room)
    return Stored(tensor.dims, dtype, source, quant)


def _kept_or_checked(
    decode: Callable[[], NDArray[Any]], parts: Callable[[], Iterator[object]], size: int, room: ElementBudget
) -> NDArray[Any] | Callable[[], NDArray[Any]]:
    """The decoded array, or a function that decodes it; damage is found now in either case."""
    if size <= room.kept:
        room.kept -= size
        return decode()
    deque(parts(), maxlen=0)
    return decode


def _plain(tensor: MsTensor, kind: DataType, raw: memoryview, count: int) -> NDArray[Any]:
    if kind is DataType.STRING:
        raise FormatError(f"{tensor.name}: constants of strings are not supported")
    dtype = kind.numpy
    if len(raw) < count * dtype.itemsize:
        raise FormatError(f"{tensor.name}: {len(raw)} bytes for {count} numbers of {dtype.itemsize} bytes")
    return np.frombuffer(raw, dtype, count)


def _dequantized_bias(tensor: MsTensor, array: NDArray[np.int32], quant: MsQuant) -> NDArray[np.float32]:
    last = tensor.dims[-1] if tensor.dims else 1
    if len(quant.scale) not in (1, last):
        raise FormatError(f"{tensor.name}: {len(quant.scale)} scales for a bias of {array.size}")
    with np.errstate(over="ignore", invalid="ignore"):
        return (array.reshape(tensor.dims) * quant.scale).astype(np.float32).reshape(-1)


def _clustered(tensor: MsTensor, raw: memoryview, count: int, clusters: NDArray[np.float32]) -> Stored:
    codes, middle = _plain(tensor, DataType.INT8, raw, count), _CODES // 2
    if codes.size and int(codes.max()) + middle >= len(clusters):
        raise FormatError(f"{tensor.name}: a weight points behind its codebook")
    table = np.zeros(_CODES, np.float32)
    table[: len(clusters)] = clusters[:_CODES]
    unsigned = codes.view(np.uint8)
    return Stored(tensor.dims, unsigned.dtype, unsigned, table=np.roll(table, middle))
