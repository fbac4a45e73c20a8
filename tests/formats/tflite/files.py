"""Small TensorFlow Lite files, written table by table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from converter_lite.formats.tflite.enums import NUMPY_TYPES, TensorType
from converter_lite.formats.tflite.schema import IDENTIFIER, OPERATORS, SCHEMA

OPTIONS = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), "ReducerOptions"
    ),
    **dict.fromkeys(("CONV_3D", "CONV_3D_TRANSPOSE"), "Conv3DOptions"),
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "TRANSPOSE_CONV": "TransposeConvOptions",
    "FULLY_CONNECTED": "FullyConnectedOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTMOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "BIDIRECTIONAL_SEQUENCE_RNN": "BidirectionalSequenceRNNOptions",
    "LSTM": "LSTMOptions",
    "STABLEHLO_COMPOSITE": "StableHLOCompositeOptions",
}
"""Operator -> table of its options, where the name of the operator does not say it."""

FIRST_VERSIONS = {"BROADCAST_TO": 2}
"""Operator -> the oldest version that the runtime has, where that is not the first."""

KINDS = {
    np.dtype(dtype): kind
    for kind, dtype in NUMPY_TYPES.items()
    if kind is not TensorType.INT4  # four-bit integers are asked for by name
}
"""Type of an array -> that of its tensor."""


def options_of(kind: str) -> str:
    """Table of the options of an operator."""
    return OPTIONS.get(kind) or "".join(word.capitalize() for word in kind.split("_")) + "Options"


class Graph:
    """One subgraph that is being made."""

    def __init__(self, file: File, name: str) -> None:
        self.file = file
        self.name = name
        self.tensors: list[dict[str, Any]] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.operators: list[dict[str, Any]] = []

    def tensor(
        self,
        shape: Sequence[int],
        kind: TensorType = TensorType.FLOAT32,
        *,
        name: str = "",
        buffer: int = 0,
        quant: dict[str, Any] | None = None,
        open_shape: Sequence[int] | None = None,
        variable: bool = False,
        sparsity: dict[str, Any] | None = None,
    ) -> int:
        """A tensor; its number."""
        value: dict[str, Any] = {
            "shape": list(shape),
            "type": kind,
            "buffer": buffer,
            "name": name or f"{self.name}{len(self.tensors)}",
            "has_rank": True,
            "is_variable": variable,
        }
        value |= {} if quant is None else {"quantization": quant}
        value |= {} if open_shape is None else {"shape_signature": list(open_shape)}
        value |= {} if sparsity is None else {"sparsity": sparsity}
        self.tensors.append(value)
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], kind: TensorType = TensorType.FLOAT32, **rest: Any) -> int:
        """An input of the graph."""
        self.inputs.append(self.tensor(shape, kind, **rest))
        return self.inputs[-1]

    def constant(self, array: ArrayLike, *, kind: TensorType | None = None, **rest: Any) -> int:
        """A constant; four-bit integers are packed."""
        values: NDArray[Any] = np.asarray(array)
        kind = KINDS[values.dtype] if kind is None else kind
        data = packed(values) if kind is TensorType.INT4 else values.tobytes()
        return self.tensor(values.shape, kind, buffer=self.file.buffer(data), **rest)

    def op(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> Sequence[int]:
        """An operator; its outputs.

        Args:
            kind: Its name, ``CUSTOM`` for a custom one.
            inputs: Numbers of tensors, -1 for what is left out.
            outputs: Likewise.
            options: By name; ``custom_code`` and ``custom_options`` of a custom one, ``intermediates`` for inner tensors.
        """
        custom = options.pop("custom_code", None)
        own_options, inner = options.pop("custom_options", None), options.pop("intermediates", None)
        value: dict[str, Any] = {
            "opcode_index": self.file.code(kind, custom),
            "inputs": list(inputs),
            "outputs": list(outputs),
            "intermediates": inner,
            "custom_options": own_options,
        }
        if options:
            table = options_of(kind)
            place = "options_2" if table in SCHEMA.unions["BuiltinOptions2"] else "options"
            value[place] = (table, options)
        self.operators.append(value)
        return outputs

    def ends_with(self, *outputs: int) -> None:
        """Set the outputs of the graph."""
        self.outputs = list(outputs)


class File:
    """A file that is being made; its first graph is there."""

    def __init__(self, name: str = "t") -> None:
        self.buffers: list[dict[str, Any]] = [{}]
        self.codes: list[dict[str, Any]] = []
        self.graphs = [Graph(self, name)]
        self.signatures: list[dict[str, Any]] = []

    @property
    def main(self) -> Graph:
        """The first graph."""
        return self.graphs[0]

    def graph(self, name: str) -> Graph:
        """One more graph."""
        self.graphs.append(Graph(self, name))
        return self.graphs[-1]

    def buffer(self, data: bytes) -> int:
        """Data of a constant; the number of their buffer."""
        self.buffers.append({"data": data} if data else {})
        return len(self.buffers) - 1

    def code(self, kind: str, custom: str | None = None) -> int:
        """Number of an operator's code."""
        number = OPERATORS.index(kind)
        version = FIRST_VERSIONS.get(kind, 1)
        value: dict[str, Any] = {
            "deprecated_builtin_code": min(number, 127),
            "version": version,
            "builtin_code": number,
        }
        value |= {} if custom is None else {"custom_code": custom}
        if value not in self.codes:
            self.codes.append(value)
        return self.codes.index(value)

    def signature(self, name: str, graph: int) -> None:
        """A signature without names of its own."""
        self.signatures.append({"signature_key": name, "subgraph_index": graph})

    def bytes(self) -> bytes:
        """The file."""
        return SCHEMA.encode("Model", self.content())

    def content(self) -> dict[str, Any]:
        """The root table."""
        graphs = [
            {
                "tensors": graph.tensors,
                "inputs": graph.inputs,
                "outputs": graph.outputs,
                "operators": graph.operators,
                "name": graph.name,
            }
            for graph in self.graphs
        ]
        return {
            "version": 3,
            "operator_codes": self.codes,
            "subgraphs": graphs,
            "description": "made by a test",
            "buffers": self.buffers,
            "signature_defs": self.signatures,
        }


def quant(scale: ArrayLike, zero: ArrayLike = 0, axis: int = 0) -> dict[str, Any]:
    """Parameters of a tensor."""
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    zeros = np.broadcast_to(np.asarray(zero, np.int64), scales.shape)
    return {"scale": scales, "zero_point": zeros, "quantized_dimension": axis}


def packed(values: NDArray[Any]) -> bytes:
    """Integers of four bits, two in a byte, the first one in the lower half."""
    flat = np.append(values.reshape(-1), np.zeros(values.size % 2, values.dtype)).astype(np.uint8) & 0x0F
    return bytes(flat[::2] | flat[1::2] << 4)


def is_tflite(data: bytes) -> bool:
    """Whether bytes have the mark of such files."""
    return data[4:8] == IDENTIFIER
