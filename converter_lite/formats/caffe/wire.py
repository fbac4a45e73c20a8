"""Weights in a ``.caffemodel``: a ``NetParameter`` in protobuf's wire format.

Only names of layers and their blobs are read, straight from the bytes: numbers stay where they are in the file, while a message
class would hold a second copy and hand them out one Python object each.

Source: ``caffe.proto`` of BVLC/caffe. ``raw_data`` is of NVIDIA's fork, which stores float16 in it; OpenCV writes it, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, Wire

NET_LAYERS = {100: (1, 7, 0), 2: (4, 6, 1)}
"""Field of the network -> fields of its layers: name, blobs, and (0: none) what only the oldest format has."""

SHAPE, SHAPE_DIMS = 7, 1
LEGACY_SHAPE = (1, 2, 3, 4)
"""num, channels, height, width: the shape of blobs in older files."""

DATA, DOUBLE_DATA, RAW_TYPE, RAW_DATA = 5, 8, 10, 12
RAW_TYPES: dict[int, np.dtype[Any]] = {0: np.dtype("<f8"), 1: np.dtype("<f4"), 2: np.dtype("<f2")}
PLAIN: dict[int, np.dtype[Any]] = {DATA: np.dtype("<f4"), DOUBLE_DATA: np.dtype("<f8")}

MOST_DIMS = 32
"""Dimensions of a blob, ``kMaxBlobAxes`` in Caffe."""

BYTES_PER_BLOB = 12
"""Fewest bytes of a blob and its share of a layer, on average, beyond :data:`LEAST_BLOBS`."""

LEAST_BLOBS = 4096


@dataclass(frozen=True, slots=True)
class Blob:
    """One array of weights.

    Attributes:
        shape: As the file says, four sizes in older files.
        data: One dimension, in the type of the file: float32, float64 or float16.
    """

    shape: tuple[int, ...]
    data: NDArray[np.floating]

    def array(self) -> NDArray[np.float32]:
        """The weights in their shape; a view of the file where that holds float32."""
        return self.data.astype(np.float32, copy=False).reshape(self.shape)


class Weights:
    """Blobs by layer; decoded when they are asked for.

    Args:
        data: The file.
        where: Its name.

    Raises:
        ModelError: The file is no caffemodel, or it is damaged.
    """

    def __init__(self, data: bytes, where: str = "") -> None:
        if data[:4] == b"\x89HDF":
            raise ModelError(
                "the weights are in an HDF5 file, which cannot be read",
                where=where,
                hint="write them with net.save('weights.caffemodel') in Caffe's Python interface",
            )
        self._data, self._where = memoryview(data), where
        self._wire = Wire(self._data, self._damaged)
        self._blobs: dict[str, list[tuple[int, int]]] = {}
        self._left = LEAST_BLOBS + len(data) // BYTES_PER_BLOB
        for field, kind, start, end in self._fields(0, len(data)):
            if field in NET_LAYERS and kind == BYTES:
                self._add_layer(field, start, end)

    @property
    def layers(self) -> tuple[str, ...]:
        """Layers that have blobs, in the order of the file."""
        return tuple(self._blobs)

    def __contains__(self, layer: str) -> bool:
        return layer in self._blobs

    def blobs(self, layer: str) -> list[Blob]:
        """Blobs of a layer, none if the file does not have it.

        Raises:
            ModelError: One is damaged.
        """
        return [self._blob(layer, index, *span) for index, span in enumerate(self._blobs.get(layer, ()))]

    def _add_layer(self, field: int, start: int, end: int) -> None:
        name_field, blobs_field, oldest = NET_LAYERS[field]
        name, blobs = "", []
        for inner, kind, first, last in self._fields(start, end):
            if inner == name_field and kind == BYTES:
                name = bytes(self._data[first:last]).decode("utf-8", "replace")
            elif inner == blobs_field and kind == BYTES:
                self._left -= 1
                if self._left < 0:
                    raise self._damaged("it has far more blobs than bytes for them", first)
                blobs.append((first, last))
            elif inner == oldest and kind == BYTES:
                raise ModelError(
                    "the weights are in the first format of Caffe (V0)",
                    where=self._where,
                    hint="Caffe's tool upgrade_net_proto_binary turns them into the present one",
                )
        if blobs:  # of several layers with one name the last one counts, as in Caffe
            self._blobs[name] = blobs

    def _blob(self, layer: str, index: int, start: int, end: int) -> Blob:
        legacy, dims, has_shape, raw_type = [0, 0, 0, 0], list[int](), False, -1
        parts: dict[int, list[NDArray[np.floating]]] = {}
        raw: tuple[int, int] | None = None
        position = start
        for field, kind, first, last in self._fields(start, end):
            if first < position:  # inside a run of numbers that were read together
                continue
            if field in LEGACY_SHAPE and kind == VARINT:
                legacy[field - 1] = self._varint(first)[0]
            elif field == SHAPE and kind == BYTES:
                has_shape, dims = True, dims + self._dims(first, last)
            elif field in PLAIN:
                found, position = self._numbers(PLAIN[field], kind, first, last, end)
                parts.setdefault(field, []).append(found)
            elif field == RAW_TYPE and kind == VARINT:
                raw_type = self._varint(first)[0]
            elif field == RAW_DATA and kind == BYTES:
                raw = first, last
        what = f"blob {index} of layer '{layer}'"
        data = self._raw(raw_type, raw, what) if raw is not None else _joined(parts.get(DOUBLE_DATA) or parts.get(DATA))
        shape = tuple(dims) if has_shape else tuple(legacy) if any(legacy) else (data.size,)
        if len(shape) > MOST_DIMS or any(size < 0 for size in shape) or math.prod(shape) != data.size:
            raise ModelError(f"{what} has {data.size} numbers for shape {list(shape)[:MOST_DIMS]}", where=self._where)
        return Blob(shape, data)

    def _dims(self, start: int, end: int) -> list[int]:
        found = []
        for field, kind, first, last in self._fields(start, end):
            if field == SHAPE_DIMS and kind == VARINT:
                found.append(self._varint(first)[0])
            elif field == SHAPE_DIMS and kind == BYTES:
                while first < last and len(found) <= MOST_DIMS:
                    number, first = self._varint(first)
                    found.append(number)
        return found

    def _numbers(
        self, dtype: np.dtype[Any], kind: int, first: int, last: int, end: int
    ) -> tuple[NDArray[np.floating], int]:
        """Packed numbers, or a run of single ones, each behind its tag; with the position behind them."""
        if kind == BYTES:
            if (last - first) % dtype.itemsize:
                raise self._damaged(f"{last - first} bytes of numbers", first)
            return np.frombuffer(self._data, dtype, (last - first) // dtype.itemsize, first), last
        if kind != (FIXED32 if dtype.itemsize == 4 else FIXED64):
            raise self._damaged("a number has the wrong type", first)
        width = 1 + dtype.itemsize
        rows = np.frombuffer(self._data, np.uint8, (end - first + 1) // width * width, first - 1).reshape(-1, width)
        others = np.flatnonzero(rows[:, 0] != rows[0, 0])
        count = int(others[0]) if others.size else len(rows)
        return np.ascontiguousarray(rows[:count, 1:]).view(dtype).reshape(-1), first - 1 + count * width

    def _raw(self, kind: int, span: tuple[int, int], what: str) -> NDArray[np.floating]:
        if kind not in RAW_TYPES:
            raise ModelError(
                f"{what} has numbers of type {kind}", where=self._where, hint="save the weights as float32"
            )
        return self._numbers(RAW_TYPES[kind], BYTES, *span, span[1])[0]

    def _fields(self, start: int, end: int) -> Iterator[Field]:
        """Fields of a message: number, wire type, and where the value begins and ends."""
        return self._wire.fields(start, end)

    def _varint(self, position: int) -> tuple[int, int]:
        return self._wire.varint(position)

    def _damaged(self, what: str, position: int) -> ModelError:
        return ModelError(
            f"this is no caffemodel, or it is damaged: {what} at byte {position}",
            where=self._where,
            hint="--weightFile names the binary file with the weights, --modelFile the .prototxt",
        )


def _joined(parts: list[NDArray[np.floating]] | None) -> NDArray[np.floating]:
    if not parts:
        return np.empty(0, np.float32)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
