"""The content of a ``.ms`` file, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter_lite.errors import FormatError
from converter_lite.formats.base import Block, as_table
from converter_lite.formats.mindspore_lite.container import MsModel, MsTensor
from converter_lite.formats.mindspore_lite.enums import Compression, Format, QuantType
from converter_lite.formats.mindspore_lite.importer.reader import read


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Head line, operators, tensors.

    Raises:
        FormatError: The file is damaged.
    """
    del confined
    data = path.read_bytes()
    try:
        model = read(data)
    except FormatError as error:
        raise FormatError(error.message, where=f"{path} {error.where}".strip(), hint=error.hint) from error
    yield f"MindSpore Lite model {model.name!r}, {model.version}, {len(data):,} bytes"
    yield as_table(operator_rows(model))
    yield as_table(tensor_rows(model))


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator, with the shapes of its variables and its attributes that are not empty."""

    name: str
    operator: str
    quantization: str
    inputs: str
    outputs: str
    attributes: str


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor; ``bytes`` counts its data in the file."""

    number: int
    name: str
    kind: str
    type: str
    shape: str
    format: str
    quantization: str
    encoding: str
    bytes: int


def operator_rows(model: MsModel) -> list[OperatorRow]:
    """Operators in the order in which they run."""
    return [
        OperatorRow(
            node.name,
            node.op,
            "" if node.quant_type is QuantType.NONE else node.quant_type.name.lower(),
            ", ".join(_shape(model.tensors[i]) for i in node.inputs),
            ", ".join(_shape(model.tensors[i]) for i in node.outputs),
            " ".join(f"{name}={_text(value)}" for name, value in node.attributes.items() if _says_something(value)),
        )
        for node in model.nodes
    ]


def tensor_rows(model: MsModel) -> list[TensorRow]:
    """Tensors by number."""
    return [
        TensorRow(
            number,
            tensor.name,
            _kind(model, number),
            tensor.dtype.name.lower(),
            _shape(tensor),
            Format(tensor.format).name if tensor.format in list(Format) else str(tensor.format),
            _quantization(tensor),
            _encoding(tensor),
            _size(tensor),
        )
        for number, tensor in enumerate(model.tensors)
    ]


def _kind(model: MsModel, number: int) -> str:
    if number in model.inputs:
        return "input"
    if number in model.outputs:
        return "output"
    return "constant" if model.tensors[number].is_constant else "inner"


def _shape(tensor: MsTensor) -> str:
    return "x".join(str(d) for d in tensor.dims) if tensor.dims else "scalar" if tensor.is_constant else "?"


def _quantization(tensor: MsTensor) -> str:
    quant = tensor.quant
    if quant is None:
        return "codebook" if tensor.clusters is not None and len(tensor.clusters) else ""
    if len(quant.scale) == 1:
        return f"{quant.bits} bits, scale {quant.scale[0]:.6g}, zero point {quant.zero_point[0]}"
    corrected = np.any(quant.var_corr != 1) or np.any(quant.mean_corr != 0)
    return f"{quant.bits} bits, {len(quant.scale)} channels{', corrected' if corrected else ''}"


def _encoding(tensor: MsTensor) -> str:
    if not tensor.is_constant:
        return ""
    return "raw" if tensor.compression is Compression.NONE else tensor.compression.name.lower()


def _size(tensor: MsTensor) -> int:
    data = tensor.data
    return 0 if data is None else data.nbytes if isinstance(data, np.ndarray) else len(data)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "[" + ",".join(str(v) for v in value.tolist()) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _says_something(value: Any) -> bool:
    return value.size > 0 if isinstance(value, np.ndarray) else bool(value)
