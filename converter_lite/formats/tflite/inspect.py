"""The content of a ``.tflite`` file, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter_lite.errors import FormatError
from converter_lite.formats.base import Block, as_table
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator, Subgraph, Tensor, TfliteModel, parse
from converter_lite.formats.tflite.importer.table import handler_of


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Head line; operators and tensors of each graph.

    Raises:
        FormatError: The file is damaged.
    """
    del confined
    data = path.read_bytes()
    try:
        file = parse(data)
    except FormatError as error:
        raise FormatError(error.message, where=f"{path} {error.where}".strip(), hint=error.hint) from error
    yield _head(file, len(data))
    for number, graph in enumerate(file.subgraphs):
        if len(file.subgraphs) > 1:
            yield f"graph {number} {graph.name!r}"
        yield as_table(operator_rows(graph))
        yield as_table(tensor_rows(graph))


def _head(file: TfliteModel, size: int) -> str:
    made = f", {file.description!r}" if file.description else ""
    names = ", ".join(f"{each.name} (graph {each.subgraph})" for each in file.signatures)
    unknown = {op.kind for graph in file.subgraphs for op in graph.operators if handler_of(op) is None}
    missing = sorted(unknown)
    lines = [f"TensorFlow Lite model, schema version {file.version}{made}, {size:,} bytes"]
    lines += [f"signatures: {names}"] if names else []
    lines += [f"operators that are not converted: {', '.join(missing)}"] if missing else []
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator, with the shapes of what it reads and makes, and its options that are not zero."""

    number: int
    operator: str
    result: str
    inputs: str
    outputs: str
    options: str


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor; ``bytes`` counts its data in the file."""

    number: int
    name: str
    kind: str
    type: str
    shape: str
    quantization: str
    bytes: int


def operator_rows(graph: Subgraph) -> list[OperatorRow]:
    """Operators in the order in which they run."""
    return [_operator_row(graph, number, op) for number, op in enumerate(graph.operators)]


def _operator_row(graph: Subgraph, number: int, op: Operator) -> OperatorRow:
    given, made = ([graph.tensors[i] for i in numbers if i != NOT_GIVEN] for numbers in (op.inputs, op.outputs))
    return OperatorRow(
        number,
        f"{op.kind} (custom)" if op.is_custom and not op.kind.endswith(")") else op.kind,
        made[0].name if made else "",
        ", ".join(_shape(tensor) for tensor in given if tensor.data is None),
        ", ".join(_shape(tensor) for tensor in made),
        " ".join(f"{name}={_text(value)}" for name, value in op.options.items() if np.any(value)),
    )


def tensor_rows(graph: Subgraph) -> list[TensorRow]:
    """Tensors by number."""
    return [
        TensorRow(
            number,
            tensor.name,
            _kind(graph, number),
            tensor.type.name.lower(),
            _shape(tensor),
            _quantization(tensor),
            0 if tensor.data is None else tensor.data.nbytes,
        )
        for number, tensor in enumerate(graph.tensors)
    ]


def _kind(graph: Subgraph, number: int) -> str:
    tensor = graph.tensors[number]
    if number in graph.inputs:
        return "input"
    if number in graph.outputs:
        return "output"
    if tensor.is_variable:
        return "state"
    if tensor.data is None:
        return "inner"
    return "sparse constant" if tensor.sparsity is not None else "constant"


def _shape(tensor: Tensor) -> str:
    return "x".join("?" if size < 0 else str(size) for size in tensor.open_shape) or "scalar"


def _quantization(tensor: Tensor) -> str:
    quant = tensor.quant
    if quant is None:
        return ""
    if quant.details:
        return quant.details
    if quant.scale.size == 1:
        return f"scale {quant.scale[0]:.6g}, zero point {quant.zero_point[0]}"
    return f"{quant.scale.size} channels along axis {quant.axis}"


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "[" + ",".join(str(v) for v in value.tolist()) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(int(value)) if isinstance(value, bool) else str(value)
