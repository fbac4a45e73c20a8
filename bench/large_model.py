"""A transformer-like ONNX model of any size, its weights in a file beside it: ``python -m bench.large_model FOLDER GIGABYTES``.

Weights are random numbers, written one tensor at a time, so that making it takes no memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

WIDTH = 2048
VOCABULARY = 8192
PARAMETERS_PER_LAYER = 12 * WIDTH * WIDTH
DATA = "large.onnx.data"


def make_large_model(folder: Path, gigabytes: float) -> Path:
    """Write ``large.onnx`` and its data; inputs ``tokens`` (int64, batch x length), output ``hidden``.

    Args:
        folder: Made if missing.
        gigabytes: 10**9 bytes of weights, rounded up to whole layers.
    """
    layers = int(np.ceil((gigabytes * 1e9 / 4 - VOCABULARY * WIDTH) / PARAMETERS_PER_LAYER))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "large.onnx"
    with (folder / DATA).open("wb") as stream:
        maker = _Maker(stream)
        maker.transformer(max(layers, 1))
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])
    hidden = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "length", WIDTH])
    graph = helper.make_graph(maker.nodes, "large", [tokens], [hidden], maker.tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class _Maker:
    def __init__(self, stream: BinaryIO) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self._stream = stream
        self._rng = np.random.default_rng(0)

    def transformer(self, layers: int) -> None:
        embedding = self._weight("embedding", (VOCABULARY, WIDTH), 1.0)
        x = self._node("Gather", [embedding, "tokens"], "embedded")
        for i in range(layers):
            x = self._layer(x, f"layer{i}")
        self.nodes[-1].output[0] = "hidden"

    def _layer(self, x: str, name: str) -> str:
        normed = self._norm(x, f"{name}.norm1")
        q, k, v = (self._linear(normed, f"{name}.{part}", WIDTH, WIDTH) for part in "qkv")
        turned = self._node("Transpose", [k], f"{name}.kt", perm=[0, 2, 1])
        scores = self._node("MatMul", [q, turned], f"{name}.scores")
        scaled = self._node("Mul", [scores, self._small(f"{name}.scale", WIDTH**-0.5)], f"{name}.scaled")
        weights = self._node("Softmax", [scaled], f"{name}.softmax", axis=-1)
        mixed = self._node("MatMul", [weights, v], f"{name}.mixed")
        x = self._node("Add", [x, self._linear(mixed, f"{name}.out", WIDTH, WIDTH)], f"{name}.sum1")
        inner = self._linear(self._norm(x, f"{name}.norm2"), f"{name}.up", WIDTH, 4 * WIDTH)
        active = self._node("Relu", [inner], f"{name}.relu")
        return self._node("Add", [x, self._linear(active, f"{name}.down", 4 * WIDTH, WIDTH)], f"{name}.sum2")

    def _norm(self, x: str, name: str) -> str:
        scale = self._array(f"{name}.scale", np.ones(WIDTH, np.float32))
        bias = self._array(f"{name}.bias", np.zeros(WIDTH, np.float32))
        return self._node("LayerNormalization", [x, scale, bias], name, axis=-1)

    def _linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        weight = self._weight(f"{name}.weight", (inputs, outputs), inputs**-0.5)
        product = self._node("MatMul", [x, weight], f"{name}.product")
        bias = self._array(f"{name}.bias", self._rng.normal(0, 0.02, outputs).astype(np.float32))
        return self._node("Add", [product, bias], name)

    def _node(self, op_type: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op_type, inputs, [output], output, **attributes))
        return output

    def _small(self, name: str, value: float) -> str:
        self.tensors.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name

    def _weight(self, name: str, shape: tuple[int, int], deviation: float) -> str:
        return self._array(name, self._rng.standard_normal(shape, np.float32) * np.float32(deviation))

    def _array(self, name: str, array: NDArray[np.float32]) -> str:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", DATA), ("offset", self._stream.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self._stream.write(array.tobytes())
        self.tensors.append(tensor)
        return name


def main(arguments: list[str]) -> Iterator[str]:
    """The command line."""
    folder, gigabytes = arguments
    yield str(make_large_model(Path(folder), float(gigabytes)))


if __name__ == "__main__":
    print(*main(sys.argv[1:]))
