"""Filters of sparse_conv2d, which are stored without their zeros, as constants like any other."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Importer
from converter_lite.formats.paddle.program import Operator
from converter_lite.formats.paddle.sparse import SLOTS, SparseWeight, decode

DENSE_PER_STORED = 64
"""Most elements of dense filters per stored number that a file may ask for: no real filter is sparser."""

DENSE_MINIMUM = 1 << 20
"""Elements of dense filters that every file may ask for."""


def dense_filter(importer: Importer, op: Operator, data: ir.Value) -> str:
    """Name of the constant that is the filter of a sparse convolution of ``data``.

    It is made once per stored filter and input size.

    Raises:
        ModelError: The size of the input is unknown, or the file asks for far more elements than it stores.
        FormatError: The stored filter contradicts itself, or the input.
    """
    values, ends, steps = (importer.array(op.input(slot)) for slot in SLOTS)
    if values is None or ends is None or steps is None or {ends.dtype, steps.dtype} != {np.dtype(np.int32)}:
        raise ModelError("its sparse weight is not three constants, two of them int32")
    if values.dtype not in (np.float32, np.int8):
        raise ModelError(f"its sparse weight is {values.dtype}, neither float32 nor int8")
    shape = importer.shape(data) or []
    if len(shape) != 4 or min(shape[1:]) < 1:
        hint = "give --inputShape with the size that the file was made for"
        raise ModelError(f"its sparse weight fits one input size, and that of {data.name} is not fixed", hint=hint)
    stored = SparseWeight(
        values.reshape(-1),
        ends.reshape(-1),
        steps.reshape(-1),
        first=int(op.get("first_ic", 0)),
        paired=bool(op.get("flag_semi", 0)),
    )
    key = (*(op.input(slot) for slot in SLOTS), stored.first, stored.paired, *shape[1:])
    if key not in importer.dense_filters:
        _spend(importer, ends.size * shape[1])
        name = str(op.input("NonZeroWeights")).removesuffix(f"_{SLOTS['NonZeroWeights']}")
        while importer.array(name) is not None:
            name += ".dense"
        importer.parameters[name] = decode(stored, shape[1], shape[2] * shape[3])[:, :, None, None]
        importer.dense_filters[key] = name
    return importer.dense_filters[key]


def _spend(importer: Importer, elements: int) -> None:
    if importer.dense_left is None:
        stored = sum(array.size for array in importer.parameters.values())
        importer.dense_left = DENSE_MINIMUM + DENSE_PER_STORED * stored
    importer.dense_left -= elements
    if importer.dense_left < 0:
        raise ModelError("its sparse weights stand for far more numbers than the file holds")
