"""Small whole networks, as MindSpore writes them."""

from __future__ import annotations

import numpy as np

from tests.formats.mindir.cases_images import conv_own
from tests.formats.mindir.files import Described, Name, Program, Weight
from tests.support import normal, positive


def convolutional() -> bytes:
    """Convolutions with batch normalization and ReLU6, one of them depthwise; mean, and a dense layer to five classes."""
    made = Program()
    value, channels = made.input("x", "float32", (1, 3, 16, 16)), 3
    for index, (count, group) in enumerate(((8, 1), (8, 8), (12, 1))):
        own = conv_own("pad", 1, stride=2 if index == 0 else 1, group=group, out_channel=count)
        weight = normal(count, channels // group, 3, 3, seed=index) * np.float32(0.5)
        value = made.node("Conv2D", value, Weight(weight), own=own, scope=f"Default/conv{index}-Conv2d/Conv2D-op0")
        statistics = [Weight(positive(count, seed=index)) for _ in range(4)]
        shapes = tuple(Described("float32", shape) for shape in ((1, count, 8, 8), *((count,),) * 4))
        normalized = made.node("BatchNorm", value, *statistics, False, 1e-5, 0.1, 0, declared=shapes)
        value, channels = made.node("ReLU6", made.node("TupleGetItem", normalized, 0)), count
    pooled = made.node("ReduceMean", value, (2, 3), False)
    return made.file(dense(made, pooled, 12, 5, "fc"))


def dense(made: Program, value: Name, inputs: int, outputs: int, name: str) -> Name:
    """A dense layer of matrices."""
    weight = made.load(made.weight(f"{name}.weight", normal(outputs, inputs, seed=outputs) * np.float32(0.3)))
    bias = made.load(made.weight(f"{name}.bias", normal(outputs, seed=inputs)))
    product = made.node("MatMul", value, weight, False, True, scope=f"Default/{name}-Dense/MatMul-op0")
    return made.node("BiasAdd", product, bias, 0, scope=f"Default/{name}-Dense/BiasAdd-op0")


def recurrent(hidden: int = 6) -> bytes:
    """An LSTM whose weights are put together in the program, and a dense layer on its last step."""
    made = Program()
    x = made.input("x", "float32", (2, 5, 4))
    turned = made.node("Transpose", x, (1, 0, 2))
    state = np.zeros((1, 2, hidden), np.float32)
    flat = []
    for name, shape in (("weight_ih_l0", (4 * hidden, 4)), ("weight_hh_l0", (4 * hidden, hidden))):
        weight = made.load(made.weight(f"lstm.{name}", normal(*shape, seed=len(name))))
        flat.append(made.node("Reshape", weight, (-1, 1, 1)))
    biases = [made.load(made.weight(f"lstm.bias_{side}h_l0", normal(4 * hidden, seed=4))) for side in "ih"]
    flat.append(made.node("Reshape", made.node("Add", *biases), (-1, 1, 1)))
    weights = made.node("Concat", made.node("MakeTuple", *flat), 0)
    own = {"input_size": 4, "hidden_size": hidden, "num_layers": 1, "has_bias": True, "bidirectional": False}
    result = made.node("LSTM", turned, state, state, weights, own=own)
    steps = made.node("Transpose", made.node("TupleGetItem", result, 0), (1, 0, 2))
    last = made.node("StridedSlice", steps, (0, -1, 0), (0, 0, 0), (1, 1, 1), 5, 5, 0, 0, 2)
    return made.file(made.node("MakeTuple", dense(made, last, hidden, 3, "fc"), made.node("TupleGetItem", result, 1)))


def transformer(width: int = 8, heads: int = 2, length: int = 6) -> bytes:
    """One layer of an encoder on embedded words, with a mask."""
    made = Program()
    words, mask = made.input("ids", "int32", (1, length)), made.input("mask", "float32", (1, length))
    table = made.load(made.weight("embedding", normal(20, width, seed=1)))
    value = made.node("Gather", table, words, 0, 0)
    each = width // heads

    def projected(source: Name, name: str) -> Name:
        flat = made.node("Reshape", source, (-1, width))
        return made.node("Reshape", dense(made, flat, width, width, name), (1, length, heads, each))

    query, key, values = (made.node("Transpose", projected(value, name), (0, 2, 1, 3)) for name in "qkv")
    scores = made.node("BatchMatMul", query, key, False, True)
    scaled = made.node("Div", scores, np.asarray(each**0.5, np.float32))
    hidden = made.node("Sub", np.asarray(1, np.float32), made.node("ExpandDims", made.node("ExpandDims", mask, 1), 1))
    masked = made.node("Add", scaled, made.node("Muls", hidden, -10000.0))
    read = made.node("BatchMatMul", made.node("Softmax", masked, (-1,)), values, False, False)
    joined = made.node("Reshape", made.node("Transpose", read, (0, 2, 1, 3)), (length, width))
    out = made.node("Reshape", dense(made, joined, width, width, "o"), (1, length, width))
    shapes = tuple(Described("float32", (1, length, size)) for size in (width, 1, 1))
    scale, shift = Weight(positive(width, seed=3)), Weight(normal(width, seed=4))
    sum_ = made.node("Add", value, out)
    normalized = made.node("LayerNorm", sum_, scale, shift, -1, -1, 1e-5, declared=shapes)
    return made.file(made.node("GeLU", made.node("TupleGetItem", normalized, 0)))
