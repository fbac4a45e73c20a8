"""Networks that settings are crossed with; each has a form that some runtime, at some setting, once got wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support import normal

Array = NDArray[Any]

PICTURES = """
g (float[1,3,16,16] x) => (float[1,10] y) {
    [first] a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Clip(a, zero, infinity)
    [second] c = Conv<pads=[1,1,1,1], group=24>(b, w2, b2)
    d = Clip(c, zero, six)
    [third] e = Conv(d, w3, b3)
    f = Clip(e, minus, infinity)
    h = Add(f, b)
    [fourth] i = Conv(h, w4, b4)
    j = Clip(i, half, two)
    p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(j)
    q = Flatten(p)
    [last] y = Gemm(q, w5, b5)
}
"""
TOKENS = """
g (float[1,12,32] x) => (float[1,12,16] y) {
    n = LayerNormalization<epsilon=0.00001>(x, scale, offset)
    [query] q = MatMul(n, wq)
    [key] k = MatMul(n, wk)
    s = Add(q, k)
    t = Tanh(s)
    r = Add(t, x)
    m = LayerNormalization<epsilon=0.00001>(r, scale, offset)
    [last] o = MatMul(m, wo)
    y = Add(o, bo)
}
"""
SPIKES = """
g (float[1,12,32] x) => (float[1,12,16] y) {
    h = MatMul(x, wh)
    s = Mul(h, spread)
    t = Add(s, offset)
    e = Relu(t)
    [last] o = MatMul(e, wo)
    y = Add(o, bo)
}
"""
"""In one row of a hundred, three columns of ``e`` are far larger than all others."""
FILTERS = """
g (float[1,3,16,16] x) => (float[1,8,13,13] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Relu(a)
    t = MaxPool<kernel_shape=[4,4], strides=[4,4]>(b)
    f = Reshape(t, single)
    c = Conv<group=24>(b, f)
    n = ReduceL2(c, rows_and_columns)
    s = Add(n, one)
    d = Div(c, s)
    [last] y = Conv(d, w2, b2)
}
"""
"""A picture correlated with itself, as trackers do, and set off against its norm."""
UNEVEN = """
g (float[1,3,16,16] x) => (float[1,8,16,16] y) {
    [first] a = Conv(x, w1, b1)
    b = HardSwish(a)
    [single] c = Conv<pads=[1,1,1,1], group=24>(b, w2, b2)
    [mixed] m = Conv(c, w3, b3)
    d = HardSwish(m)
    e = Mul(d, scale)
    f = Add(e, shift)
    [groups] h = Conv<pads=[1,1,1,1], group=3>(f, w4, b4)
    i = HardSwish(h)
    j = Add(i, b)
    [last] y = Conv(j, w5, b5)
}
"""
"""Channels of very different size behind functions that no factor passes."""
MOVED = """
g (float[1,3,16,16] x) => (float[1,256,24] y) {
    [first] a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    r = Reshape(a, rows)
    t = Transpose<perm=[0,2,1]>(r)
    m = Softmax(t)
    s = Add(m, t)
    [last] p = MatMul(s, w2)
    y = Add(p, b2)
}
"""
"""Integers that are moved before a layer in float reads them, at an operator set from which onnxruntime loads them otherwise."""
EXPERTS = """
g (float[1,12,32] x) => (float[1,12,2000] y) {
    [route] r = MatMul(x, wr)
    s = Sigmoid(r)
    [experts] y = MatMul(s, we)
}
"""
"""A weight of few rows and many columns, whose scales would take more space than its integers save."""
SOUND = """
g (float[1,2000] x) => (float[1,8,57] y) {
    samples = Unsqueeze(x, last_axis)
    frames = STFT<onesided=1>(samples, step, window)
    squares = Mul(frames, frames)
    power = ReduceSum<keepdims=0>(squares, last_axis)
    [bands] b = MatMul(power, bands)
    s = Add(b, least)
    loudness = Log(s)
    turned = Transpose<perm=[0,2,1]>(loudness)
    c = Conv<pads=[1,1]>(turned, w1, b1)
    d = Relu(c)
    [last] y = Conv(d, w2, b2)
}
"""
"""A spectrum of sound, whose transform devices compute as a convolution."""


def _filters(length: int, step: int) -> dict[str, np.ndarray]:
    """Constants of a spectrum whose frames have a length and a step."""
    return {
        "last_axis": np.array([-1]),
        "step": np.array(step),
        "window": np.hanning(length).astype(np.float32),
        "bands": np.abs(normal(length // 2 + 1, 16, seed=1)),
        "least": np.array(1e-2, np.float32),
        "w1": uneven(24, 16, 3, seed=2),
        "b1": normal(24, seed=3),
        "w2": uneven(8, 24, 1, seed=4),
        "b2": normal(8, seed=5),
    }


PADDED = """
g (float[1,3,24,24] x) => (float[1,8,576] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)
    b = Relu(a)
    c = Pad(b, channels)
    d = Conv<pads=[1,1,1,1]>(c, w2, b2)
    e = Relu(d)
    g = Gather<axis=1>(x, first_channel)
    p = Greater(g, half)
    f = Where(p, e, rows)
    q = Less(g, two)
    h = Where(q, f, minus)
    i = Reshape(h, series)
    j = Pad<mode="reflect">(i, around)
    [last] y = Conv(j, w3, b3)
}
"""
"""Channels of zeros, a series that is reflected, and choices between tensors and constants that are broadcast."""


def uneven(*shape: int, seed: int) -> Array:
    """Weights whose output channels differ by ten: what one step per layer costs shows."""
    spread = np.geomspace(0.3, 3, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return (normal(*shape, seed=seed) * spread / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


SIZES = np.geomspace(0.5, 10, 24).astype(np.float32)
"""Of channels."""
BOUNDS = {"minus": -1, "zero": 0, "half": 0.5, "two": 2, "six": 6, "infinity": np.inf}


MODELS: dict[str, tuple[str, int, tuple[int, ...], dict[str, Array]]] = {
    "pictures": (
        PICTURES,
        13,
        (1, 3, 16, 16),
        {
            "w1": uneven(24, 3, 3, 3, seed=1),
            "b1": normal(24, seed=2),
            "w2": uneven(24, 1, 3, 3, seed=3),
            "b2": normal(24, seed=4),
            "w3": uneven(24, 24, 1, 1, seed=5),
            "b3": normal(24, seed=6),
            "w4": uneven(8, 24, 1, 1, seed=7),
            "b4": normal(8, seed=8),
            "w5": normal(512, 10, seed=9) / 8,
            "b5": normal(10, seed=10),
            **{name: np.array(bound, np.float32) for name, bound in BOUNDS.items()},
        },
    ),
    "tokens": (
        TOKENS,
        17,
        (1, 12, 32),
        {
            "wq": normal(32, 32, seed=1) / 6,
            "wk": normal(32, 32, seed=2) / 6,
            "wo": normal(32, 16, seed=3) / 6,
            "scale": np.geomspace(0.1, 4, 32).astype(np.float32),
            "offset": normal(32, seed=4),
            "bo": normal(16),
        },
    ),
    "filters": (
        FILTERS,
        18,
        (1, 3, 16, 16),
        {
            "w1": uneven(24, 3, 3, 3, seed=1),
            "b1": normal(24, seed=2),
            "single": np.array([24, 1, 4, 4]),
            "rows_and_columns": np.array([2, 3]),
            "one": np.array(1, np.float32),
            "w2": uneven(8, 24, 1, 1, seed=3),
            "b2": normal(8, seed=4),
        },
    ),
    "padded": (
        PADDED,
        18,
        (1, 3, 24, 24),
        {
            "w1": uneven(12, 3, 3, 3, seed=1),
            "b1": normal(12, seed=2),
            "channels": np.array([0, 2, 0, 0, 0, 2, 0, 0]),
            "w2": uneven(16, 16, 3, 3, seed=3),
            "b2": normal(16, seed=4),
            "first_channel": np.array([0]),
            "half": np.array(0.5, np.float32),
            "two": np.array(2, np.float32),
            "rows": normal(24, seed=5),
            "minus": np.array(-1, np.float32),
            "series": np.array([1, 16, 576]),
            "around": np.array([0, 0, 2, 0, 0, 2]),
            "w3": uneven(8, 16, 5, seed=6),
            "b3": normal(8, seed=7),
        },
    ),
    "uneven": (
        UNEVEN,
        14,
        (1, 3, 16, 16),
        {
            "w1": normal(24, 3, 1, 1, seed=1) * SIZES[:, None, None, None],
            "b1": normal(24, seed=2) * SIZES,
            "w2": normal(24, 1, 3, 3, seed=3),
            "b2": normal(24, seed=4) * SIZES,
            "w3": normal(24, 24, 1, 1, seed=5) * SIZES[:, None, None, None] / SIZES[:, None, None] / 5,
            "b3": normal(24, seed=6),
            "scale": np.array([0.25], np.float32),
            "shift": np.array([0.5], np.float32),
            "w4": (normal(24, 8, 3, 3, seed=7).reshape(3, 8, 8, 9) / SIZES.reshape(3, 1, 8, 1)).reshape(24, 8, 3, 3),
            "b4": normal(24, seed=8),
            "w5": normal(8, 24, 1, 1, seed=9) / SIZES[:, None, None],
            "b5": normal(8, seed=10),
        },
    ),
    "experts": (EXPERTS, 17, (1, 12, 32), {"wr": normal(32, 4, seed=1) / 6, "we": normal(4, 2000, seed=2)}),
    "sound": (SOUND, 17, (1, 2000), _filters(200, 32)),
    "long frames": (
        SOUND.replace("[1,2000]", "[1,4000]").replace("[1,8,57]", "[1,8,28]"),
        17,
        (1, 4000),
        _filters(512, 128),
    ),
    "moved": (
        MOVED,
        21,
        (1, 3, 16, 16),
        {
            "w1": normal(16, 3, 3, 3, seed=1) / 3,
            "b1": normal(16, seed=2),
            "rows": np.array([1, 16, 256]),
            "w2": normal(16, 24, seed=3) / 4,
            "b2": normal(24, seed=4),
        },
    ),
    "spikes": (
        SPIKES,
        17,
        (1, 12, 32),
        {
            "wh": normal(32, 256, seed=1) / 6,
            "spread": np.where(np.arange(256) % 100 == 7, 150, 1).astype(np.float32),
            "offset": np.where(np.arange(256) % 100 == 7, -350, 0).astype(np.float32),
            "wo": normal(256, 16, seed=2) / 16,
            "bo": normal(16, seed=3),
        },
    ),
}
