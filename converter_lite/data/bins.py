"""BIN files: the raw bytes of one input tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.inputs import InputSpec, format_shape
from converter_lite.data.layout import Layout, shape_in, to_layout
from converter_lite.errors import DataError


@dataclass(frozen=True)
class BinReader:
    """Reads files of one input.

    Args:
        spec: The model input.
        stored: Layout of the files of a four-dimensional input.
        model: The model's own layout of it.
        batch: Length of one file along the first axis.
    """

    spec: InputSpec
    stored: Layout
    model: Layout
    batch: int | None

    def read(self, path: Path) -> NDArray[Any]:
        """The tensor of one file, in the model's own layout.

        Raises:
            DataError: The file cannot be read, or its size does not match the input.
        """
        array = self.read_stored(path)
        return to_layout(array, self.stored, self.model) if array.ndim == 4 else array

    def read_stored(self, path: Path) -> NDArray[Any]:
        """The tensor of one file, axes as they are stored.

        Raises:
            DataError: See :meth:`read`.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
        shape = tensor_shape(self.spec, len(content), self.batch, path)
        if len(shape) == 4:
            shape = shape_in(shape, self.model, self.stored)
        # Files are little-endian, like every machine that such a model runs on.
        array = np.frombuffer(content, self.spec.dtype.newbyteorder("<")).astype(self.spec.dtype).reshape(shape)
        if array.dtype.kind == "f" and np.isnan(array).any():
            hint = "Remove the file, or correct how it was made."
            raise DataError(f"the file holds NaN for input '{self.spec.name}'", where=str(path), hint=hint)
        return array


def tensor_shape(spec: InputSpec, size: int, batch: int | None, path: Path) -> tuple[int, ...]:
    """The shape that ``size`` bytes give to an input: batch ``batch``, one other unknown dimension inferred.

    Raises:
        DataError: Several dimensions are unknown, or no shape fits.
    """
    wanted = list(spec.shape)
    if wanted and batch is not None:
        wanted[0] = batch
    unknown = [axis for axis, length in enumerate(wanted) if length is None]
    if len(unknown) > 1:
        raise DataError(
            f"input {spec} has {len(unknown)} unknown dimensions besides the batch, which a file's size cannot determine",
            where=str(path),
            hint=f"Fix them: --inputShape={spec.name}:" + ",".join(str(length or "N") for length in wanted),
        )
    known = math.prod(length for length in wanted if length is not None) * spec.dtype.itemsize
    if unknown:
        if not known or size == 0 or size % known:
            raise _wrong_size(spec, size, f"a multiple of {known}", wanted, path)
        wanted[unknown[0]] = size // known
    elif size != known:
        raise _wrong_size(spec, size, str(known), wanted, path)
    return tuple(int(length or 0) for length in wanted)


def _wrong_size(spec: InputSpec, size: int, wanted: str, shape: list[int | None], path: Path) -> DataError:
    hint = "Write the tensor's raw values (numpy: array.tofile) with the type and shape of the input, without a header."
    exact = int(wanted) if wanted.isdigit() else 0
    values = exact // spec.dtype.itemsize
    other_widths = [width for width in (1, 2, 4, 8) if width != spec.dtype.itemsize and size == values * width]
    several = f"hold {size // exact} samples: write each into a file of its own" if exact and size % exact == 0 else ""
    if exact and other_widths:
        hint = f"The values seem to be stored with {other_widths[0]} byte(s) each: store them as {spec.dtype}."
        hint += f" Or the file may {several}." if several else ""
    elif size and several:
        hint = f"The file seems to {several}."
    return DataError(
        f"the file has {size} bytes, input '{spec.name}' wants {wanted} ({spec.dtype} {format_shape(shape)})",
        where=str(path),
        hint=hint,
    )
