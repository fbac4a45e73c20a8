"""Small networks, whole."""

from __future__ import annotations

import numpy as np

from converter_lite.formats.tflite.enums import TensorType
from tests.formats.tflite.case import i32, normal, whole
from tests.formats.tflite.cases_matrices import TANH, layer, weights
from tests.formats.tflite.files import File, quant
from tests.formats.tflite.test_constants import blocks, sparse_matrix
from tests.formats.tflite.test_structure import loop

SAME = {"padding": 0, "stride_h": 1, "stride_w": 1}
INT8 = TensorType.INT8


def convolutional(*, integers: bool = False) -> bytes:
    """conv3x3, relu6 - depthwise - add - average - dense - softmax, in floats or in integers."""
    file = File("net")
    main = file.main

    def tensor(name: str, *shape: int, grid: tuple[float, int] = (0.04, -3)) -> int:
        kind = INT8 if integers else TensorType.FLOAT32
        return main.tensor(shape, kind, name=name, quant=quant(*grid) if integers else None)

    def parameters(name: str, axis: int, *shape: int) -> list[int]:
        count = shape[axis]
        if not integers:
            return [main.constant(normal(*shape) * 0.3, name=name), main.constant(normal(count), name=f"{name}_bias")]
        scale = np.linspace(0.002, 0.004, count, dtype=np.float32)
        w = main.constant(whole(-127, 128, *shape, dtype=np.int8), name=name, quant=quant(scale, axis=axis))
        b = main.constant(whole(-3000, 3000, count), name=f"{name}_bias", quant=quant(scale * np.float32(0.04)))
        return [w, b]

    x = tensor("image", 1, 8, 8, 3)
    main.inputs = [x]
    (a,) = main.op("CONV_2D", [x, *parameters("first", 0, 8, 3, 3, 3)], [tensor("a", 1, 8, 8, 8)], activation=3, **SAME)
    inputs = [a, *parameters("second", 3, 1, 3, 3, 8)]
    (b,) = main.op("DEPTHWISE_CONV_2D", inputs, [tensor("b", 1, 8, 8, 8)], depth_multiplier=1, activation=1, **SAME)
    (c,) = main.op("ADD", [a, b], [tensor("c", 1, 8, 8, 8)])
    window = {"filter_h": 8, "filter_w": 8, "padding": 1, "stride_h": 8, "stride_w": 8}
    (d,) = main.op("AVERAGE_POOL_2D", [c], [tensor("d", 1, 1, 1, 8)], **window)
    (e,) = main.op("RESHAPE", [d, main.constant(i32(-1, 8))], [tensor("e", 1, 8)])
    (f,) = main.op("FULLY_CONNECTED", [e, *parameters("last", 0, 5, 8)], [tensor("f", 1, 5)])
    main.ends_with(*main.op("SOFTMAX", [f], [tensor("scores", 1, 5, grid=(1 / 256, -128))], beta=1.0))
    return file.bytes()


def recurrent(*, sparse: bool = True) -> bytes:
    """An LSTM with its states, and a layer behind it, whose weights may be sparse."""
    file = File("rnn")
    main = file.main
    x = main.input((1, 4, 3), name="x", open_shape=(-1, 4, 3))
    operands = [-1 if array is None else main.constant(array) for array in layer(weights(8, 3))]  # type: ignore[arg-type]
    states = [main.tensor((1, 8), variable=True) for _ in range(2)]
    h = main.tensor((1, 4, 8), name="h")
    main.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *operands, *states], [h], activation=TANH, cell_clip=10.0)
    if sparse:
        values, sparsity = blocks(sparse_matrix())
        w = main.tensor((6, 8), buffer=file.buffer(values.tobytes()), sparsity=sparsity, name="w")
    else:
        w = main.constant(sparse_matrix(), name="w")
    main.ends_with(*main.op("FULLY_CONNECTED", [h, w, -1], [main.tensor((1, 4, 6), name="y")], keep_num_dims=True))
    return file.bytes()


def narrow() -> bytes:
    """Weights of four bits, and half floats."""
    file = File("narrow")
    main = file.main
    x = main.input((2, 6), name="x")
    w = main.constant(whole(-8, 8, 4, 6, dtype=np.int8), kind=TensorType.INT4, quant=quant(0.1), name="w")
    (y,) = main.op("FULLY_CONNECTED", [x, w, -1], [main.tensor((2, 4), name="y")])
    (b,) = main.op("DEQUANTIZE", [main.constant(normal(4).astype(np.float16), name="b")], [main.tensor((4,))])
    main.ends_with(*main.op("ADD", [y, b], [main.tensor((2, 4), name="z")]))
    return file.bytes()


def seeds() -> list[bytes]:
    """Files that are read, for damaging them."""
    return [convolutional(), convolutional(integers=True), recurrent(), narrow(), loop(4).bytes()]
