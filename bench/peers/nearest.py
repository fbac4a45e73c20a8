"""Weights rounded to nearest, each channel between its extremes: what weight quantization without any further means gives.

Not a tool of others but the yardstick of ours. The file holds the rounded weights as floats, so that its size says nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from bench.peers.command_line import PeerArguments, peer_parser
from bench.peers.folding import fold_constants

PLACES = {"Conv": (1,), "ConvTranspose": (1,), "Gemm": (1,), "MatMul": (1,), "Gather": (0,)} | dict.fromkeys(
    ("LSTM", "GRU", "RNN"), (1, 2)
)
"""Operator -> inputs that are its weights."""

FEW_CHANNELS = 16
"""Most output channels of convolutions that stay float, as is the default of ``min_quant_weight_channel``."""


def main() -> None:
    """Round as the command line says."""
    parser = peer_parser(__doc__)
    parser.add_argument("--bits", type=int, required=True)
    arguments = parser.parse_args(namespace=PeerArguments())
    with tempfile.TemporaryDirectory() as folder:
        whole, prepared = Path(folder) / "whole.onnx", Path(folder) / "prepared.onnx"
        onnx.save(onnx.load(arguments.model), whole)  # with the weights that the model has beside it
        fold_constants(whole, prepared)
        model = onnx.load(prepared)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, axis in _weights(model.graph, constants).items():
        array = numpy_helper.to_array(constants[name])
        rounded = nearest(array.astype(np.float32), arguments.bits, axis).astype(array.dtype)
        constants[name].CopyFrom(numpy_helper.from_array(rounded, name))
    onnx.save(model, arguments.output)


def nearest(weight: NDArray[np.float32], bits: int, axis: int) -> NDArray[np.float32]:
    """Each entry of an axis on a grid of ``2**bits`` steps that reaches from its least to its largest number, and holds zero."""
    axes = tuple(a for a in range(weight.ndim) if a != axis)
    low = np.minimum(weight.min(axis=axes, keepdims=True), 0)
    high = np.maximum(weight.max(axis=axes, keepdims=True), 0)
    scale = np.where(high > low, (high - low) / (2**bits - 1), 1)
    zero = np.rint(-low / scale)
    steps = np.clip(np.rint(weight / scale) + zero, 0, 2**bits - 1) - zero
    return np.asarray(steps * scale, np.float32)


def _weights(graph: onnx.GraphProto, constants: dict[str, onnx.TensorProto]) -> dict[str, int]:
    """Name of a weight -> axis of its channels. Weights of float16 models are read through a Cast."""
    casts = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cast"}
    read = (
        (node, casts.get(node.input[place], node.input[place]))
        for node in graph.node
        for place in PLACES.get(node.op_type, ())
    )
    return {name: axis for node, name in read if name in constants for axis in _axis(node, constants[name])}


def _axis(node: onnx.NodeProto, weight: onnx.TensorProto) -> Iterator[int]:
    """The axis of channels; none for what stays float."""
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    is_filter = node.op_type in ("Conv", "ConvTranspose")
    place = {
        "Conv": 0,
        "ConvTranspose": 1,
        "Gemm": 0 if flags.get("transB") else 1,
        "MatMul": len(weight.dims) - 1,
        "Gather": 0,
    }.get(node.op_type, 1)
    is_float = weight.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    if is_float and len(weight.dims) > 1 and not (is_filter and weight.dims[place] <= FEW_CHANNELS):
        yield place


if __name__ == "__main__":
    main()
