"""Small graphs for tests of ``.nb`` files."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.exporter.build import build as build_nb
from converter_lite.formats.paddle.exporter.sparsify import sparsify
from converter_lite.formats.paddle.nb.serialize import serialize
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
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


def pruned(*shape: int, zeros: float = 0.75, seed: int = 3) -> np.ndarray:
    """Random weights of which a share is zero."""
    kept = np.random.default_rng(seed).random(shape) >= zeros
    return random(*shape, seed=seed) * kept.astype(np.float32)


def pruned_in_pairs(rows: int, columns: int, *, seed: int = 3) -> np.ndarray:
    """Random 1x1 filters where zeros stand in the same columns of two neighbouring rows."""
    kept = np.repeat(pruned(-(-rows // 2), columns, seed=seed) != 0, 2, axis=0)[:rows]
    return (random(rows, columns, seed=seed + 1) * kept)[:, :, None, None]


def sparse_network() -> ir.Model:
    """1x1 convolutions with zeros anywhere, with zeros in pairs of rows, and with none; a 3x3 one with zeros."""
    return build(
        """g (float[1,8,6,5] x) => (float[1,6] y) {
            a = Conv(x, w1, b1)
            b = Relu(a)
            c = Conv<pads=[1,1,1,1]>(b, w2)
            d = Conv(c, w3, b3)
            e = Conv(d, w4)
            f = GlobalAveragePool(e)
            y = Flatten(f)
        }""",
        w1=pruned(12, 8, 1, 1),
        b1=random(12),
        w2=pruned(8, 12, 3, 3),
        w3=pruned_in_pairs(11, 8),
        b3=random(11, seed=4),
        w4=random(6, 11, 1, 1, seed=5),
    )


def sparse_file() -> bytes:
    """:func:`sparse_network` with its sparse convolutions."""
    file = build_nb(QuantizedModel(sparse_network(), QuantPlan("arm")), options=NbOptions())
    sparsify(file, 0.6)
    return serialize(file)
