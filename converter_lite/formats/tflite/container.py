"""A TensorFlow Lite file in memory: subgraphs of tensors and operators. Constants are views of the bytes of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.schema import CUSTOM, IDENTIFIER, OPERATORS, SCHEMA, VERSION

NOT_GIVEN = -1
"""Number of an optional tensor that an operator does without."""

_LONG_CODES = 127
"""Code from which operators are named by the newer field."""

_OUTSIDE = 1
"""A buffer lies behind the FlatBuffer if its offset is larger than this."""


@dataclass(frozen=True, slots=True, eq=False)
class Quant:
    """Parameters of integers: ``real = scale * (q - zero_point)``.

    Attributes:
        scale: float32, one for the tensor or one for each channel.
        zero_point: int64, as many.
        axis: Of the channels.
        details: Name of a form of quantization that these numbers do not describe, mostly empty.
    """

    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int
    details: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor.

    Attributes:
        shape: Its sizes, where an open one is what the file was last run with.
        open_shape: The same with -1 for an open size.
        data: Bytes of a constant, ``None`` for what is computed.
        sparsity: Where the elements of a sparse constant belong.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    open_shape: tuple[int, ...]
    data: NDArray[np.uint8] | None = None
    quant: Quant | None = None
    is_variable: bool = False
    sparsity: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One operator.

    Attributes:
        kind: Its name; that of a custom operator is a text.
        is_custom: Whether it is one.
        inputs, outputs: Numbers of tensors; :data:`NOT_GIVEN` for what is left out.
        options: By field name.
        custom_options: Bytes whose meaning only a custom operator knows.
        intermediates: Numbers of tensors that stand for values inside.
    """

    kind: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()

    def get(self, name: str, default: Any = 0) -> Any:
        """An option."""
        return self.options.get(name, default)

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] != NOT_GIVEN


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """One graph; operators are in the order in which they run."""

    name: str
    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """A named way to call a subgraph: names of its inputs and outputs by tensor number."""

    name: str
    subgraph: int
    inputs: dict[int, str]
    outputs: dict[int, str]


@dataclass(frozen=True, slots=True, eq=False)
class TfliteModel:
    """A whole file; the first subgraph is the main one."""

    version: int
    description: str
    subgraphs: list[Subgraph]
    signatures: list[Signature]
    metadata: tuple[str, ...]


def parse(data: bytes) -> TfliteModel:
    """The content of a file.

    Raises:
        FormatError: It is not such a file, or damaged.
    """
    if data[4:8] != IDENTIFIER:
        raise FormatError("this is not a TensorFlow Lite file", hint="such a file has TFL3 behind its first four bytes")
    root = SCHEMA.decode("Model", data)
    if root["version"] != VERSION:
        raise FormatError(f"files of schema version {root['version']} are not read, only those of version {VERSION}")
    buffers = [_buffer(data, item, number) for number, item in enumerate(root.get("buffers", []))]
    codes = [_code(item) for item in root.get("operator_codes", [])]
    graphs = [_subgraph(data, item, codes, buffers) for item in root.get("subgraphs", [])]
    if not graphs:
        raise FormatError("the file holds no graph")
    signatures = [_signature(item) for item in root.get("signature_defs", [])]
    metadata = tuple(item.get("name", "") for item in root.get("metadata", []))
    return TfliteModel(root["version"], root.get("description", ""), graphs, signatures, metadata)


def _buffer(data: bytes, item: dict[str, Any], number: int) -> NDArray[np.uint8] | None:
    """Bytes of a buffer, inside of the FlatBuffer or behind it; ``None`` where it is empty."""
    start, size = item["offset"], item["size"]
    if start > _OUTSIDE:
        if size < 0 or start + size > len(data):
            raise FormatError(f"the file is damaged: buffer {number} reaches over its end")
        return np.frombuffer(data, np.uint8, size, start)
    found: NDArray[np.uint8] | None = item.get("data")
    return found if found is not None and found.size else None


def _code(item: dict[str, Any]) -> tuple[str, bool]:
    """Name of an operator, and whether it is a custom one."""
    old, new = item["deprecated_builtin_code"], item["builtin_code"]
    number = max(old, new) if old < _LONG_CODES else new
    name = OPERATORS[number] if 0 <= number < len(OPERATORS) else f"operator number {number}"
    if name == CUSTOM:
        own = item.get("custom_code", "") or CUSTOM
        return f"{own} (custom)" if own in OPERATORS else own, True
    return name, False


def _subgraph(
    data: bytes,
    item: dict[str, Any],
    codes: Sequence[tuple[str, bool]],
    buffers: Sequence[NDArray[np.uint8] | None],
) -> Subgraph:
    name = item.get("name", "")
    tensors = [_tensor(each, number, buffers) for number, each in enumerate(item.get("tensors", []))]
    graph = Subgraph(
        name,
        tensors,
        _numbers(item.get("inputs"), len(tensors), "an input of the graph"),
        _numbers(item.get("outputs"), len(tensors), "an output of the graph"),
        [_operator(data, each, codes, len(tensors)) for each in item.get("operators", [])],
    )
    if NOT_GIVEN in (*graph.inputs, *graph.outputs):
        raise FormatError("the file is damaged: an input or output of a graph has no tensor")
    return graph


def _tensor(item: dict[str, Any], number: int, buffers: Sequence[NDArray[np.uint8] | None]) -> Tensor:
    name = item.get("name", "") or f"tensor_{number}"
    if item["type"] not in iter(TensorType):
        raise FormatError(f"elements of type {item['type']} are unknown", where=name)
    buffer = item["buffer"]
    if buffer >= max(1, len(buffers)):
        raise FormatError(f"the file is damaged: buffer {buffer} does not exist", where=name)
    shape = _sizes(item.get("shape"))
    found = _sizes(item.get("shape_signature"))
    return Tensor(
        name,
        TensorType(item["type"]),
        shape,
        found if len(found) == len(shape) else shape,
        buffers[buffer] if buffers else None,
        _quant(item.get("quantization"), name),
        bool(item["is_variable"]),
        item.get("sparsity"),
    )


def _quant(item: dict[str, Any] | None, name: str) -> Quant | None:
    """Parameters of a tensor; ``None`` where the file has none."""
    if item is None:
        return None
    details = item["details"][0] or "an unknown kind" if "details" in item else ""
    scale: NDArray[np.float32] = item.get("scale", np.zeros(0, np.float32))
    if not scale.size:
        return Quant(scale, np.zeros(0, np.int64), 0, details) if details else None
    zero: NDArray[np.int64] = item.get("zero_point", np.zeros(0, np.int64))
    if zero.size not in (0, 1, scale.size):
        raise FormatError(f"the file is damaged: {scale.size} scales and {zero.size} zero points", where=name)
    zeros = np.broadcast_to(zero if zero.size else np.zeros(1, np.int64), scale.shape)
    return Quant(scale, zeros, int(item["quantized_dimension"]), details)


def _operator(data: bytes, item: dict[str, Any], codes: Sequence[tuple[str, bool]], tensors: int) -> Operator:
    number = item["opcode_index"]
    if number >= len(codes):
        raise FormatError(f"the file is damaged: operator code {number} does not exist")
    kind, is_custom = codes[number]
    name_and_options: tuple[str, dict[str, Any]] = item.get("options") or item.get("options_2") or ("", {})
    start, size = item["custom_offset"], item["custom_size"]
    custom = bytes(item.get("custom_options", b""))
    if start > _OUTSIDE:
        if size < 0 or start + size > len(data):
            raise FormatError("the file is damaged: options of an operator reach over its end", where=kind)
        custom = data[start : start + size]
    return Operator(
        kind,
        is_custom,
        _numbers(item.get("inputs"), tensors, f"{kind}: one of its inputs"),
        _numbers(item.get("outputs"), tensors, f"{kind}: one of its outputs"),
        name_and_options[1],
        custom,
        _numbers(item.get("intermediates"), tensors, f"{kind}: one of its inner tensors"),
    )


def _signature(item: dict[str, Any]) -> Signature:
    ends = ({int(e["tensor_index"]): e.get("name", "") for e in item.get(name, [])} for name in ("inputs", "outputs"))
    return Signature(item.get("signature_key", ""), int(item["subgraph_index"]), *ends)


def _sizes(array: NDArray[np.int32] | None) -> tuple[int, ...]:
    return () if array is None else tuple(array.tolist())


def _numbers(array: NDArray[np.int32] | None, count: int, what: str) -> tuple[int, ...]:
    """Numbers of tensors, checked."""
    found = _sizes(array)
    if any(not NOT_GIVEN <= number < count for number in found):
        raise FormatError(f"the file is damaged: {what} is a tensor that does not exist")
    return found
