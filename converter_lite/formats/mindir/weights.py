"""Constants of a MindIR file as arrays: views of the file, or of the files beside it that hold the weights of large models."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.program import DTYPES, Tensor, shape_text, type_name

FRONT = 64
"""Bytes before the first weight of a separate file; the first of them is 1 in files of little-endian machines."""


class Weights:
    """What constants hold.

    Args:
        folder: Where the file lies.
        confined: Refuse files outside of it.
        where: The file, for messages.
    """

    def __init__(self, folder: Path, *, confined: bool, where: str = "") -> None:
        self._folder, self._confined, self.where = folder, confined, where
        self._files: dict[str, NDArray[np.uint8]] = {}

    @property
    def bytes(self) -> int:
        """Size of the separate files that were used."""
        return sum(data.size for data in self._files.values())

    def array(self, tensor: Tensor) -> NDArray[Any]:
        """The numbers of a constant.

        Raises:
            ModelError: They are damaged, packed or encrypted, or their file cannot be read.
        """
        dtype, what = DTYPES.get(tensor.kind), f"constant '{tensor.name}'"
        if dtype is None:
            raise ModelError(f"{what} is of type {type_name(tensor.kind)}, which is not read", where=self.where)
        if tensor.compression:
            raise ModelError(
                f"{what} is compressed (compression_type {tensor.compression})",
                where=self.where,
                hint="export the model without quantization of its weights, and let converter_lite do that",
            )
        if tensor.is_quantized:
            raise ModelError(
                f"{what} has quantization parameters, whose layout is not documented",
                where=self.where,
                hint="export the float model, and let converter_lite quantize it",
            )
        if any(size < 0 for size in tensor.dims):
            raise ModelError(f"{what} has the open shape {shape_text(tensor.dims)}", where=self.where)
        count = math.prod(tensor.dims)
        raw: memoryview | NDArray[np.uint8] = tensor.data if tensor.data is not None else memoryview(b"")
        if tensor.apart is not None:
            raw = self._apart(tensor)
        if len(raw) != count * dtype.itemsize:
            raise ModelError(
                f"{what} has {len(raw)} bytes for {shape_text(tensor.dims)} of {type_name(tensor.kind)}",
                where=self.where,
            )
        return np.frombuffer(raw, dtype, count).reshape(tensor.dims)

    def _apart(self, tensor: Tensor) -> NDArray[np.uint8]:
        apart = tensor.apart
        assert apart is not None
        if apart.location not in self._files:
            self._files[apart.location] = self._opened(apart.location)
        data = self._files[apart.location]
        if apart.offset < 0 or apart.length < 0 or apart.offset + apart.length > data.size:
            raise ModelError(
                f"weight '{tensor.name}' lies at bytes {apart.offset} to {apart.offset + apart.length} of {apart.location}, "
                f"which has {data.size}",
                where=self.where,
                hint="the file with the weights is of another export, or it is cut off",
            )
        return data[apart.offset : apart.offset + apart.length]

    def _opened(self, location: str) -> NDArray[np.uint8]:
        parts = PurePosixPath(location.replace("\\", "/")).parts
        path = self._folder.joinpath(*parts) if parts else self._folder
        try:
            folder, target = self._folder.resolve(), path.resolve()
            if self._confined and not target.is_relative_to(folder):
                raise ModelError(
                    f"its weights are in '{location}', outside of the folder of the model", where=self.where
                )
            data: NDArray[np.uint8] = np.memmap(target, np.uint8, "r")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is empty"
            raise ModelError(
                f"the file with its weights, '{location}', cannot be read: {reason}",
                where=self.where,
                hint="NAME_graph.mindir needs the folder NAME_variables beside it",
            ) from None
        if data.size < FRONT or data[0] != 1:
            raise ModelError(
                f"'{location}' is no file with weights, or of a big-endian machine, or encrypted", where=self.where
            )
        return data
