"""Constants of a ``.ms`` file, decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_ms.container import MsQuant, MsTensor
from converter_lite.formats.mindspore_ms.encodings import restore
from converter_lite.formats.mindspore_ms.enums import Compression, DataType
from converter_lite.formats.mindspore_ms.fse import decode_fse

_CLUSTER_OFFSET = 128


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A constant: plain numbers, or integers with their parameters."""

    array: NDArray[Any]
    quant: MsQuant | None = None


def load(tensor: MsTensor, *, limit: int) -> Stored:
    """Decode a constant.

    Args:
        tensor: The tensor with its data.
        limit: Elements that a tensor may have; a damaged shape could ask for any number.

    Raises:
        FormatError: The data do not fit the shape, the type or the encoding.
    """
    count = _count(tensor, limit)
    data = tensor.data if tensor.data is not None else b""
    raw = data.reshape(-1).view(np.uint8).data if isinstance(data, np.ndarray) else memoryview(data)
    if tensor.compression is Compression.FSE:
        symbols, centroids = decode_fse(raw, count)
        return Stored(centroids[symbols].reshape(tensor.dims))
    if tensor.compression in (Compression.FSE_INT, Compression.FSE_INFER):
        raise FormatError(f"{tensor.name}: the encoding {tensor.compression.name} is newer than this reader")
    if tensor.clusters is not None and tensor.clusters.size:
        return Stored(_clustered(tensor, raw, count))
    if tensor.dtype in (DataType.INT8, DataType.INT16) and tensor.quant is not None:
        return Stored(restore(raw, tensor.compression, tensor.quant, count).reshape(tensor.dims), tensor.quant)
    array = _plain(tensor, raw, count)
    if tensor.dtype is DataType.INT32 and tensor.quant is not None:
        scale = tensor.quant.scale if len(tensor.quant.scale) in (1, array.shape[-1] if array.ndim else 1) else None
        if scale is None:
            raise FormatError(f"{tensor.name}: {len(tensor.quant.scale)} scales for a bias of {array.size}")
        with np.errstate(over="ignore", invalid="ignore"):
            return Stored((array * scale).astype(np.float32))
    return Stored(array)


def _count(tensor: MsTensor, limit: int) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
        if size < 0 or count > limit:
            raise FormatError(f"{tensor.name}: the shape {tensor.dims} cannot be that of a constant in this file")
    return count


def _plain(tensor: MsTensor, raw: memoryview, count: int) -> NDArray[Any]:
    if tensor.dtype is DataType.STRING:
        raise FormatError(f"{tensor.name}: constants of strings are not supported")
    dtype = tensor.dtype.numpy
    if len(raw) < count * dtype.itemsize:
        raise FormatError(f"{tensor.name}: {len(raw)} bytes for {count} numbers of {dtype.itemsize} bytes")
    return np.frombuffer(raw, dtype, count).reshape(tensor.dims)


def _clustered(tensor: MsTensor, raw: memoryview, count: int) -> NDArray[np.float32]:
    clusters = np.asarray(tensor.clusters, np.float32)
    places = _plain(MsTensor(tensor.name, DataType.INT8, tensor.dims), raw, count).astype(np.int32) + _CLUSTER_OFFSET
    if places.size and int(places.max()) >= len(clusters):
        raise FormatError(f"{tensor.name}: a weight points behind its codebook")
    return clusters[places]
