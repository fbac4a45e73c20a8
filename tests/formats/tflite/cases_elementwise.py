"""Cases of operators that work element by element."""

from __future__ import annotations

from collections.abc import Iterator
from math import erf

import numpy as np

from tests.formats.tflite.case import Case, Fed, i32, normal, positive, scalar, single, whole
from tests.formats.tflite.reference import sigmoid, softmax

X, Y = normal(2, 3, 4), normal(3, 1, seed=1)


def unary() -> Iterator[Case]:
    erfs = np.vectorize(erf)
    cubic = np.sqrt(2 / np.pi) * (X + 0.044715 * X**3)
    for kind, expected in {
        "ABS": np.abs(X),
        "CEIL": np.ceil(X),
        "COS": np.cos(X),
        "EXP": np.exp(X),
        "FLOOR": np.floor(X),
        "NEG": -X,
        "SIGN": np.sign(X),
        "SIN": np.sin(X),
        "SQUARE": X * X,
        "LOGISTIC": sigmoid(X),
        "TANH": np.tanh(X),
        "RELU": np.maximum(X, 0),
        "RELU_N1_TO_1": np.clip(X, -1, 1),
        "RELU_0_TO_1": np.clip(X, 0, 1),
        "ELU": np.where(X > 0, X, np.expm1(X)),
        "HARD_SWISH": X * np.clip(X + 3, 0, 6) / 6,
        "LOG_SOFTMAX": np.log(softmax(X)),
        "ZEROS_LIKE": np.zeros_like(X),
    }.items():
        yield single("", kind, [Fed(X)], expected.astype(np.float32))
    yield single("", "RELU6", [Fed(4 * X)], np.clip(4 * X, 0, 6))
    yield single("", "LOG", [Fed(positive(2, 3))], np.log(positive(2, 3)))
    yield single("", "SQRT", [Fed(positive(2, 3))], np.sqrt(positive(2, 3)))
    yield single("", "RSQRT", [Fed(positive(2, 3))], 1 / np.sqrt(positive(2, 3)))
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4], np.float32)
    yield single("of halves", "ROUND", [Fed(halves)], np.rint(halves))
    yield single("", "LEAKY_RELU", [Fed(X)], np.where(X > 0, X, X * np.float32(0.2)), alpha=0.2)
    exact, tanh = X * (1 + erfs(X / np.sqrt(2))) / 2, X * (1 + np.tanh(cubic)) / 2
    yield single("exact", "GELU", [Fed(X)], exact.astype(np.float32))
    yield single("by tanh", "GELU", [Fed(X)], tanh.astype(np.float32), approximate=True)
    yield single("", "SOFTMAX", [Fed(X)], softmax(X), beta=1.0)
    yield single("of sharper numbers", "SOFTMAX", [Fed(X)], softmax(X, 2.5), beta=2.5)
    yield single("of truth", "LOGICAL_NOT", [Fed(X > 0)], ~(X > 0))
    slopes = normal(1, 1, 4, seed=3)
    yield single("shared axes", "PRELU", [Fed(X), slopes], np.where(X > 0, X, X * slopes))
    picture = normal(1, 3, 5, 4)
    yield single("of a picture", "PRELU", [Fed(picture), slopes], np.where(picture > 0, picture, picture * slopes))


def binary() -> Iterator[Case]:
    for kind, expected in {
        "ADD": X + Y,
        "SUB": X - Y,
        "MUL": X * Y,
        "DIV": X / Y,
        "MAXIMUM": np.maximum(X, Y),
        "MINIMUM": np.minimum(X, Y),
        "SQUARED_DIFFERENCE": (X - Y) ** 2,
        "FLOOR_DIV": np.floor(X / Y),
        "FLOOR_MOD": np.mod(X, Y),
        "EQUAL": X == Y,
        "NOT_EQUAL": X != Y,
        "GREATER": X > Y,
        "GREATER_EQUAL": X >= Y,
        "LESS": X < Y,
        "LESS_EQUAL": X <= Y,
    }.items():
        yield single("", kind, [Fed(X), Fed(Y)], expected)
        yield single("constant", kind, [Fed(X), Y], expected)
    for number, function in (
        (1, lambda v: np.maximum(v, 0)),
        (2, lambda v: np.clip(v, -1, 1)),
        (3, lambda v: np.clip(v, 0, 6)),
    ):
        yield single(f"activation {number}", "ADD", [Fed(3 * X), Fed(Y)], function(3 * X + Y), activation=number)
    yield single("", "POW", [Fed(positive(2, 3)), Fed(normal(3))], positive(2, 3) ** normal(3))
    y, x = normal(3, 4, seed=5), normal(4, seed=6)
    y[0, 0], x[1] = 0, 0
    yield single("", "ATAN2", [Fed(y), Fed(np.broadcast_to(x, (3, 4)).copy())], np.arctan2(y, x))
    a, b = whole(-9, 9, 4, 5), np.array([2, -3, 4, -5, 1], np.int32)
    yield single("of whole numbers", "FLOOR_DIV", [Fed(a), Fed(b)], np.floor_divide(a, b))
    yield single("of whole numbers", "FLOOR_MOD", [Fed(a), Fed(b)], np.mod(a, b))
    yield single("of whole numbers", "DIV", [Fed(a), Fed(b)], np.trunc(a / b).astype(np.int32))
    yield single("of long numbers", "ADD", [Fed(a.astype(np.int64)), Fed(b.astype(np.int64))], a.astype(np.int64) + b)
    yield single("", "BITWISE_XOR", [Fed(a), Fed(b)], a ^ b)
    for kind, truth in (("LOGICAL_AND", (X > 0) & (Y > 0)), ("LOGICAL_OR", (X > 0) | (Y > 0))):
        yield single("", kind, [Fed(X > 0), Fed(Y > 0)], truth)
    yield single("of three", "ADD_N", [Fed(X), Fed(2 * X), Fed(-X)], 2 * X)


def others() -> Iterator[Case]:
    other = normal(2, 3, 4, seed=9)
    yield single("", "SELECT", [Fed(X > 0), Fed(X), Fed(other)], np.where(X > 0, X, other))
    rows = np.array([True, False])
    expected = np.where(rows[:, None, None], X, other)
    yield single("of rows", "SELECT", [Fed(rows), Fed(X), Fed(other)], expected)
    yield single("broadcast", "SELECT_V2", [Fed(Y > 0), Fed(X), Fed(other[:, :1])], np.where(Y > 0, X, other[:, :1]))
    numbers = np.array([-1.7, 1.7, 0.0], np.float32)
    yield single("to whole numbers", "CAST", [Fed(numbers)], numbers.astype(np.int32), in_data_type=0, out_data_type=2)
    yield single("to truth", "CAST", [Fed(numbers)], numbers.astype(bool), in_data_type=0, out_data_type=6)
    yield single("from truth", "CAST", [Fed(X > 0)], (X > 0).astype(np.float32), in_data_type=6, out_data_type=0)
    yield single("", "BUCKETIZE", [Fed(X)], np.digitize(X, [-1, 0, 0.5]).astype(np.int32), boundaries=[-1, 0, 0.5])
    scale = np.float32(4.0) / np.float32(255)
    zero = np.floor(1.5 / scale + 0.5)
    low, high = -zero * scale, (255 - zero) * scale
    grid = np.floor((np.clip(X, low, high) - low) / scale + np.float32(0.5)) * scale + low
    yield single("", "FAKE_QUANT", [Fed(X)], grid.astype(np.float32), min=-1.5, max=2.5, num_bits=8)
    length = np.sqrt((X * X).sum(-1, keepdims=True))
    yield single("", "L2_NORMALIZATION", [Fed(X)], X / length)
    picture = positive(1, 2, 3, 5)
    sums = np.stack([(picture[..., max(0, c - 1) : c + 2] ** 2).sum(-1) for c in range(5)], -1)
    yield single(
        "",
        "LOCAL_RESPONSE_NORMALIZATION",
        [Fed(picture)],
        (picture / (1.5 + 0.3 * sums) ** 0.7).astype(np.float32),
        radius=1,
        bias=1.5,
        alpha=0.3,
        beta=0.7,
    )
    yield single("", "RANK", [Fed(X)], scalar(3))
    yield single("", "SHAPE", [Fed(X)], i32(2, 3, 4), out_type=2)
    yield single("in long numbers", "SHAPE", [Fed(X)], np.array([2, 3, 4]), out_type=4)


CASES = [*unary(), *binary(), *others()]
