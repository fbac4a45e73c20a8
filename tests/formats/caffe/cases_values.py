"""Layers that compute with values, in every variant: products, activations, normalizations, arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as caffe
from tests.formats.caffe.case import CHANNELS, MEAN, THRICE, TWICE, VARIANCE, B, Case, one, several
from tests.formats.caffe.networks import layer, net
from tests.support import normal, positive

Array = NDArray[Any]


FLAT = normal(5, 126, seed=4)

LINEAR = {
    "InnerProduct": one(
        "InnerProduct",
        "inner_product_param { num_output: 5 }",
        lambda x: x.reshape(2, -1) @ FLAT.T + B[:1].repeat(5),
        FLAT,
        B[:1].repeat(5),
    ),
    "without bias": one(
        "InnerProduct",
        "inner_product_param { num_output: 5 bias_term: false }",
        lambda x: x.reshape(2, -1) @ FLAT.T,
        FLAT,
    ),
    "transposed": one(
        "InnerProduct",
        "inner_product_param { num_output: 5 bias_term: false transpose: true }",
        lambda x: x.reshape(2, -1) @ FLAT.T,
        np.ascontiguousarray(FLAT.T),
    ),
    "of a matrix": one(
        "InnerProduct",
        "inner_product_param { num_output: 4 }",
        lambda x: x @ FLAT[:4, :6].T + B,
        FLAT[:4, :6],
        B,
        x=normal(3, 6),
    ),
    "axis 2": one(
        "InnerProduct",
        "inner_product_param { num_output: 4 axis: 2 }",
        lambda x: x.reshape(2, 3, 42) @ FLAT[:4, :42].T + B,
        FLAT[:4, :42],
        B,
    ),
    "axis from the back": one(
        "InnerProduct",
        "inner_product_param { num_output: 4 axis: -1 bias_term: false }",
        lambda x: x @ FLAT[:4, :7].T,
        FLAT[:4, :7],
    ),
    "Embed": one(
        "Embed",
        "embed_param { num_output: 4 input_dim: 5 }",
        lambda x: FLAT[:5, :4][x.astype(int)] + B,
        FLAT[:5, :4],
        B,
        x=np.array([[0, 4, 2], [1, 1, 3]], np.float32),
    ),
    "Embed without bias": one(
        "Embed",
        "embed_param { num_output: 4 input_dim: 5 bias_term: false }",
        lambda x: FLAT[:5, :4][x.astype(int)],
        FLAT[:5, :4],
        x=np.array([0, 4, 2], np.float32),
    ),
}


def of_positive(kind: str, parameters: str, expected: Callable[[Array], Array], **options: Any) -> Case:
    return one(kind, parameters, expected, x=positive(2, 3, 4, 5), **options)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


SLOPES = positive(3, seed=9) - 1

ACTIVATIONS = {
    "ReLU": one("ReLU", "", lambda x: np.maximum(x, 0)),
    "leaky": one("ReLU", "relu_param { negative_slope: 0.1 }", lambda x: np.where(x > 0, x, 0.1 * x)),
    "ReLU6": one("ReLU6", "", lambda x: np.clip(x, 0, 6), x=normal(2, 3, 4) * 6),
    "Clip": one("Clip", "clip_param { min: -0.5 max: 0.75 }", lambda x: np.clip(x, -0.5, 0.75)),
    "PReLU": one("PReLU", "", lambda x: np.where(x > 0, x, caffe.along(SLOPES, 4) * x), SLOPES),
    "PReLU of a matrix": one("PReLU", "", lambda x: np.where(x > 0, x, SLOPES * x), SLOPES, x=normal(4, 3)),
    "PReLU with one slope": one(
        "PReLU",
        "prelu_param { channel_shared: true }",
        lambda x: np.where(x > 0, x, x * np.float32(0.3)),
        np.float32(0.3),
    ),
    "ELU": one("ELU", "elu_param { alpha: 0.7 }", lambda x: np.where(x > 0, x, np.float32(0.7) * np.expm1(x))),
    "Sigmoid": one("Sigmoid", "", sigmoid),
    "TanH": one("TanH", "", np.tanh),
    "AbsVal": one("AbsVal", "", np.abs),
    "BNLL": one("BNLL", "", lambda x: np.log1p(np.exp(x.astype(np.float64)))),
    "Mish": one("Mish", "", lambda x: x * np.tanh(np.log1p(np.exp(x.astype(np.float64))))),
    "Swish": one("Swish", "", lambda x: x * sigmoid(x)),
    "Swish with beta": one("Swish", "swish_param { beta: 1.5 }", lambda x: x * sigmoid(1.5 * x)),
    "Power as a sum": one("Power", "power_param { scale: 0.5 shift: -2 }", lambda x: 0.5 * x - 2),
    "Power as a product": one("Power", "power_param { scale: -0.25 }", lambda x: -0.25 * x),
    "Power as a shift": one("Power", "power_param { shift: 1.5 }", lambda x: x + 1.5),
    "Power that does nothing": one("Power", "", lambda x: x),
    "square": one("Power", "power_param { power: 2 scale: 3 shift: 1 }", lambda x: (3 * x + 1) ** 2),
    "root": of_positive("Power", "power_param { power: 0.5 shift: 1 }", lambda x: np.sqrt(x + 1)),
    "inverse": of_positive("Power", "power_param { power: -1 }", lambda x: 1 / x),
    "cube": one("Power", "power_param { power: 3 }", lambda x: x**3),
    "Exp": one("Exp", "", np.exp),
    "Exp with scale and shift": one("Exp", "exp_param { scale: 0.5 shift: 1 }", lambda x: np.exp(0.5 * x + 1)),
    "Exp to a base": one("Exp", "exp_param { base: 2 scale: 3 shift: -1 }", lambda x: 2.0 ** (3 * x - 1)),
    "Log": of_positive("Log", "", np.log),
    "Log to a base": of_positive("Log", "log_param { base: 10 scale: 2 shift: 1 }", lambda x: np.log10(2 * x + 1)),
    "Threshold": one("Threshold", "threshold_param { threshold: 0.25 }", lambda x: x > 0.25),
    "Softmax": one("Softmax", "", lambda x: caffe.softmax(x, 1)),
    "Softmax of the last axis": one("Softmax", "softmax_param { axis: -1 }", lambda x: caffe.softmax(x, 3)),
}


def normalized(x: Array, mean: Array, variance: Array, eps: float = 1e-5) -> Array:
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape).astype(np.float64) + eps)


SCALE = np.float32(0.0625)

NORMALIZATIONS = {
    "BatchNorm": one(
        "BatchNorm", "", lambda x: normalized(x, MEAN / SCALE, VARIANCE / SCALE), MEAN, VARIANCE, np.array([SCALE])
    ),
    "BatchNorm with eps": one(
        "BatchNorm",
        "batch_norm_param { use_global_stats: true eps: 0.01 }",
        lambda x: normalized(x, MEAN, VARIANCE, 0.01),
        MEAN,
        VARIANCE,
        np.ones(1),
    ),
    "BatchNorm that has seen nothing": one("BatchNorm", "", lambda x: x / np.sqrt(1e-5), MEAN, VARIANCE, np.zeros(1)),
    "BatchNorm of a matrix": one(
        "BatchNorm", "", lambda x: normalized(x, MEAN, VARIANCE), MEAN, VARIANCE, np.ones(1), x=normal(4, 3)
    ),
    "BatchNorm of NVIDIA": one(
        "BatchNorm",
        "batch_norm_param { scale_bias: true }",
        lambda x: normalized(x, MEAN, VARIANCE) * caffe.along(SLOPES, 4) + caffe.along(CHANNELS, 4),
        MEAN,
        VARIANCE,
        np.ones(1),
        SLOPES,
        CHANNELS,
    ),
    "BatchNorm and Scale": Case(
        net(layer("BatchNorm") + layer("Scale", "scale_param { bias_term: true }", "y", "y")),
        lambda x: normalized(x, MEAN, VARIANCE) * caffe.along(SLOPES, 4) + caffe.along(CHANNELS, 4),
        {"batchnorm": (MEAN, VARIANCE, np.ones(1)), "scale": (SLOPES, CHANNELS)},
    ),
    "BatchNorm and a Scale along two axes": Case(
        net(layer("BatchNorm") + layer("Scale", "scale_param { num_axes: 2 }", "y", "y")),
        lambda x: normalized(x, MEAN, VARIANCE) * FLAT[0, :18].reshape(3, 6, 1),
        {"batchnorm": (MEAN, VARIANCE, np.ones(1)), "scale": (FLAT[0, :18].reshape(3, 6),)},
    ),
    "BatchNorm that two layers read, and Scale": Case(
        net(layer("BatchNorm", tops="n") + layer("Scale", "", "n", "s") + layer("Eltwise", "", "n s", "y")),
        lambda x: normalized(x, MEAN, VARIANCE) * (1 + caffe.along(SLOPES, 4)),
        {"batchnorm": (MEAN, VARIANCE, np.ones(1)), "scale": (SLOPES,)},
    ),
    "BatchNorm under two names, and Scale": Case(
        net(
            layer("BatchNorm", tops="n")
            + layer("Split", "", "n", "a b")
            + layer("Scale", "", "a", "s")
            + layer("Eltwise", "", "b s", "y")
        ),
        lambda x: normalized(x, MEAN, VARIANCE) * (1 + caffe.along(SLOPES, 4)),
        {"batchnorm": (MEAN, VARIANCE, np.ones(1)), "scale": (SLOPES,)},
    ),
    "Scale": one("Scale", "", lambda x: x * caffe.along(SLOPES, 4), SLOPES),
    "Scale with bias": one(
        "Scale",
        "scale_param { bias_term: true }",
        lambda x: x * caffe.along(SLOPES, 4) + caffe.along(CHANNELS, 4),
        SLOPES,
        CHANNELS,
    ),
    "Scale along two axes": one(
        "Scale",
        "scale_param { axis: 1 num_axes: 2 }",
        lambda x: x * FLAT[0, :18].reshape(3, 6, 1),
        FLAT[0, :18].reshape(3, 6),
    ),
    "Scale along all axes": one(
        "Scale",
        "scale_param { axis: -2 num_axes: -1 bias_term: true }",
        lambda x: x * FLAT[0, :42].reshape(6, 7) + FLAT[1, :42].reshape(6, 7),
        FLAT[0, :42].reshape(6, 7),
        FLAT[1, :42].reshape(6, 7),
    ),
    "Scale by one number": one("Scale", "scale_param { num_axes: 0 }", lambda x: x * np.float32(1.7), np.float32(1.7)),
    "Scale by a blob": Case(
        net(
            layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", tops="p")
            + layer("Flatten", "", "p", "f")
            + layer("Scale", "scale_param { axis: 0 bias_term: true }", "x f", "y"),
            2,
            3,
            6,
            7,
        ),
        lambda x: x * x.mean(axis=(2, 3), keepdims=True) + FLAT[0, :6].reshape(2, 3, 1, 1),
        {"scale": (FLAT[0, :6].reshape(2, 3),)},
    ),
    "Bias": one("Bias", "", lambda x: x + caffe.along(CHANNELS, 4), CHANNELS),
    "Bias along the last axis": one("Bias", "bias_param { axis: 3 }", lambda x: x + FLAT[0, :7], FLAT[0, :7]),
    "Bias by a blob": Case(
        net(layer("Power", "power_param { scale: 3 }", tops="b") + layer("Bias", "bias_param { axis: 0 }", "x b", "y")),
        lambda x: 4 * x,
    ),
    "LRN": one(
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 2 }",
        lambda x: caffe.lrn_across(x, 3, 0.5, 0.6, 2),
        x=normal(2, 7, 4, 5),
    ),
    "LRN as in AlexNet": one(
        "LRN", "lrn_param { alpha: 0.0001 }", lambda x: caffe.lrn_across(x, 5, 1e-4, 0.75, 1), x=normal(2, 7, 4, 5) * 30
    ),
    "LRN within channels": one(
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 5 norm_region: WITHIN_CHANNEL }",
        lambda x: caffe.lrn_within(x, 3, 0.5, 0.6),
    ),
    "MVN": one(
        "MVN",
        "",
        lambda x: (x - x.mean(axis=(2, 3), keepdims=True)) / (x.std(axis=(2, 3), keepdims=True) + 1e-9),
    ),
    "MVN across channels": one(
        "MVN",
        "mvn_param { across_channels: true eps: 0.5 }",
        lambda x: (x - x.mean(axis=(1, 2, 3), keepdims=True)) / (x.std(axis=(1, 2, 3), keepdims=True) + 0.5),
    ),
    "MVN of the mean": one(
        "MVN", "mvn_param { normalize_variance: false }", lambda x: x - x.mean(axis=(2, 3), keepdims=True)
    ),
    "Normalize": one(
        "Normalize",
        "norm_param { across_spatial: false channel_shared: false eps: 0.01 }",
        lambda x: caffe.along(SLOPES, 4) * x / np.sqrt((x.astype(np.float64) ** 2).sum(axis=1, keepdims=True) + 0.01),
        SLOPES,
    ),
    "Normalize over all": one(
        "Normalize",
        "",
        lambda x: np.float32(20) * x / np.sqrt((x.astype(np.float64) ** 2).sum(axis=(1, 2, 3), keepdims=True) + 1e-10),
        np.float32(20),
        x=normal(1, 3, 6, 7),
    ),
}

ARITHMETIC = {
    "Eltwise": several(TWICE, "", "Eltwise", "x b", lambda x: -x),
    "sum of three": several(THRICE, "", "Eltwise", "x b c", lambda x: 2 * x),
    "sum with coefficients": several(
        THRICE, "eltwise_param { coeff: 0.5 coeff: -1 coeff: 1 }", "Eltwise", "x b c", lambda x: 5.5 * x
    ),
    "difference": several(TWICE, "eltwise_param { operation: SUM coeff: [1, -1] }", "Eltwise", "x b", lambda x: 3 * x),
    "product": several(THRICE, "eltwise_param { operation: PROD }", "Eltwise", "x b c", lambda x: -6 * x**3),
    "maximum": several(
        THRICE, "eltwise_param { operation: MAX }", "Eltwise", "x b c", lambda x: np.maximum(-2 * x, 3 * x)
    ),
    "Axpy": Case(
        net(
            layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", tops="p")
            + TWICE
            + layer("Axpy", "", "p x b")
        ),
        lambda x: x.mean(axis=(2, 3), keepdims=True) * x - 2 * x,
    ),
    "Axpy with flat factors": Case(
        net(
            layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", tops="p")
            + layer("Flatten", "", "p", "f")
            + layer("Axpy", "", "f x x")
        ),
        lambda x: (1 + x.mean(axis=(2, 3), keepdims=True)) * x,
    ),
    **{
        f"Reduction {operation} from axis {axis}": one(
            "Reduction",
            f"reduction_param {{ operation: {operation} axis: {axis} coeff: {coeff} }}",
            lambda x, work=work, axis=axis, coeff=coeff: coeff * work(x.reshape(*x.shape[:axis], -1)),
        )
        for operation, work in {
            "SUM": lambda x: x.sum(axis=-1),
            "ASUM": lambda x: np.abs(x).sum(axis=-1),
            "SUMSQ": lambda x: (x * x).sum(axis=-1),
            "MEAN": lambda x: x.mean(axis=-1),
        }.items()
        for axis, coeff in ((1, 1), (2, 0.5), (0, 1))
    },
    "ArgMax": one("ArgMax", "", lambda x: caffe.arg_max(x.reshape(2, 1, -1, 1), 2, 1)[1]),
    "the three largest": one(
        "ArgMax",
        "argmax_param { top_k: 3 out_max_val: true }",
        lambda x: np.concatenate(caffe.arg_max(x.reshape(2, 1, -1, 1), 2, 3)[::-1], 1),
    ),
    "ArgMax of an axis": one(
        "ArgMax",
        "argmax_param { axis: 1 }",
        lambda x: caffe.arg_max(x, 1, 1)[1],
        x=np.round(normal(2, 5, 4, 3)),
    ),
    "values of an axis": one(
        "ArgMax",
        "argmax_param { axis: -1 top_k: 2 out_max_val: true }",
        lambda x: caffe.arg_max(x, 3, 2)[0],
    ),
    "places of an axis among equals": one(
        "ArgMax",
        "argmax_param { axis: 2 top_k: 4 }",
        lambda x: caffe.arg_max(x, 2, 4)[1],
        x=np.round(normal(2, 3, 6, 2)),
    ),
    "the largest of a matrix": one(
        "ArgMax",
        "argmax_param { out_max_val: true }",
        lambda x: np.concatenate(caffe.arg_max(x[:, None], 2, 1)[::-1], 1),
        x=normal(4, 9),
    ),
}
