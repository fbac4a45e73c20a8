"""Small graphs for tests of ``.nb`` files."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tests.support import build


def random(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def small_network() -> ir.Model:
    """Convolution, depthwise convolution, residual sum, pooling, fully connected layer: every kind of weight."""
    return build(
        """g (float[1,3,12,12] x) => (float[1,5] y) {
            a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w1, b1)
            b = Clip(a, zero, six)
            c = Conv<pads=[1,1,1,1], group=8>(b, w2, b2)
            d = Relu(c)
            e = Conv(d, w3)
            f = Add(e, b)
            h = GlobalAveragePool(f)
            i = Flatten(h)
            j = Gemm(i, w4, b4)
            y = Softmax(j)
        }""",
        w1=random(8, 3, 3, 3),
        b1=random(8),
        w2=random(8, 1, 3, 3, seed=4),
        b2=random(8, seed=5),
        w3=random(8, 8, 1, 1, seed=6),
        w4=random(8, 5, seed=7),
        b4=random(5, seed=8),
        zero=np.float32(0),
        six=np.float32(6),
    )
