"""Every layer in every variant: a network, its weights, what it is fed, and what Caffe computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as caffe
from tests.formats.caffe.networks import Blobs, layer, net
from tests.support import normal, positive

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One network.

    Attributes:
        text: Its description, with the input ``x``.
        expected: From the input to what Caffe gives for ``y``.
        weights: By layer.
        x: The input.
    """

    text: str
    expected: Callable[[Array], Array]
    weights: Mapping[str, Blobs] = field(default_factory=dict)
    x: Array = field(default_factory=lambda: normal(2, 3, 6, 7, seed=5))


W, B = normal(4, 3, 3, 3, seed=1), normal(4, seed=2)
CHANNELS = normal(3, seed=3)
MEAN, VARIANCE = normal(3, seed=6), positive(3, seed=7)


def one(kind: str, parameters: str, expected: Callable[[Array], Array], *blobs: Any, **options: Any) -> Case:
    """A network of one layer."""
    x = options.get("x", normal(2, 3, 6, 7, seed=5))
    text = net(layer(kind, parameters), *x.shape)
    return Case(text, expected, {kind.lower(): blobs} if blobs else {}, **options)


def conv(parameters: str, weight: Array = W, bias: Array | None = B, kind: str = "Convolution", **options: Any) -> Case:
    blobs = (weight,) if bias is None else (weight, bias)
    words = f"num_output: {len(weight)} {parameters}" + ("" if bias is not None else " bias_term: false")
    x = options.pop("x", normal(2, weight.shape[1] * options.get("group", 1), 6, 7, seed=5))
    text = f"convolution_param {{ {words} }}"
    return one(kind, text, lambda x: caffe.convolution(x, weight, bias, **options), *blobs, x=x)


CONVOLUTIONS = {
    "plain": conv("kernel_size: 3"),
    "without bias": conv("kernel_size: 3", bias=None),
    "pad, stride": conv("kernel_size: 3 pad: 1 stride: 2", pad=(1, 1), stride=(2, 2)),
    "sizes of two axes": conv(
        "kernel_h: 3 kernel_w: 2 pad_h: 2 pad_w: 1 stride_h: 1 stride_w: 2",
        normal(4, 3, 3, 2),
        pad=(2, 1),
        stride=(1, 2),
    ),
    "one pad": conv("kernel_size: 3 pad_w: 1", pad=(0, 1)),
    "lists": conv(
        "kernel_size: [3, 2] pad: 0 pad: 1 stride: 2 stride: 1",
        normal(4, 3, 3, 2),
        pad=(0, 1),
        stride=(2, 1),
    ),
    "dilation": conv("kernel_size: 3 dilation: 2 pad: 2", dilation=(2, 2), pad=(2, 2)),
    "groups": conv("kernel_size: 1 group: 2", normal(6, 2, 1, 1), normal(6), group=2),
    "depthwise": conv("kernel_size: 3 group: 3", normal(3, 1, 3, 3), CHANNELS, group=3),
    "DepthwiseConvolution": conv(
        "kernel_size: 3 group: 3", normal(3, 1, 3, 3), CHANNELS, "DepthwiseConvolution", group=3
    ),
    "ConvolutionDepthwise without a group": conv(
        "kernel_size: 3 pad: 1", normal(3, 1, 3, 3), None, "ConvolutionDepthwise", group=3, pad=(1, 1)
    ),
    "two bottoms with the same weights": Case(
        net(
            layer("Power", "power_param { scale: 2 }", tops="b")
            + layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", "x b", "p q")
            + layer("Concat", "", "p q")
        ),
        lambda x: np.concatenate([caffe.convolution(s * x, W, B) for s in (1, 2)], 1),
        {"convolution": (W, B)},
    ),
}


def deconv(parameters: str, weight: Array, bias: Array | None, **options: Any) -> Case:
    x, outputs = normal(1, len(weight), 3, 4, seed=8), weight.shape[1] * options.get("group", 1)
    words = f"num_output: {outputs} {parameters}" + ("" if bias is not None else " bias_term: false")
    blobs = (weight,) if bias is None else (weight, bias)
    text = f"convolution_param {{ {words} }}"
    return one("Deconvolution", text, lambda x: caffe.deconvolution(x, weight, bias, **options), *blobs, x=x)


DECONVOLUTIONS = {
    "deconvolution": deconv("kernel_size: 3", normal(3, 5, 3, 3), normal(5)),
    "pad, stride": deconv("kernel_size: 4 stride: 2 pad: 1", normal(3, 5, 4, 4), normal(5), stride=2, pad=1),
    "depthwise": deconv("kernel_size: 4 stride: 2 pad: 1 group: 3", normal(3, 1, 4, 4), None, stride=2, pad=1, group=3),
    "groups": deconv("kernel_size: 2 group: 2", normal(4, 3, 2, 2), normal(6), group=2),
    "dilation": deconv("kernel_size: 2 dilation: 2", normal(3, 2, 2, 2), normal(2), dilation=2),
}


def pool(parameters: str, method: str, *sizes: Any, rounds_up: bool = True, **options: Any) -> Case:
    text = f"pooling_param {{ pool: {method} {parameters} }}"
    return one(
        "Pooling",
        text,
        lambda x: caffe.pooling(x, method, *sizes, rounds_up=rounds_up),
        **options,
    )


POOLINGS = {
    f"{method} {name}": made
    for method in ("MAX", "AVE")
    for name, made in {
        "even": pool("kernel_size: 2 stride: 2", method, (2, 2), (2, 2), x=normal(1, 2, 6, 8)),
        "rounded up": pool("kernel_size: 3 stride: 2", method, (3, 3), (2, 2)),
        "rounded up, padded": pool("kernel_size: 3 stride: 2 pad: 1", method, (3, 3), (2, 2), (1, 1)),
        "last window clipped": pool(
            "kernel_size: 2 stride: 2 pad: 1",
            method,
            (2, 2),
            (2, 2),
            (1, 1),
            x=normal(1, 2, 7, 6),
        ),
        "much over the end": pool("kernel_size: 4 stride: 3 pad: 1", method, (4, 4), (3, 3), (1, 1)),
        "one axis over the end, one clipped": pool(
            "kernel_h: 4 kernel_w: 2 stride_h: 3 stride_w: 2 pad: 1",
            method,
            (4, 2),
            (3, 2),
            (1, 1),
            x=normal(1, 2, 6, 7),
        ),
        "window smaller than the stride": pool(
            "kernel_size: 1 stride: 3", method, (1, 1), (3, 3), x=normal(1, 2, 7, 10)
        ),
        "clipped, window smaller than the stride": pool(
            "kernel_size: 2 stride: 3 pad: 1",
            method,
            (2, 2),
            (3, 3),
            (1, 1),
            x=normal(1, 2, 8, 7),
        ),
        "sizes of two axes": pool("kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2", method, (2, 3), (1, 2)),
        "rounded down": pool("kernel_size: 3 stride: 2 round_mode: FLOOR", method, (3, 3), (2, 2), rounds_up=False),
        "rounded down, padded": pool(
            "kernel_size: 3 stride: 2 pad: 1 ceil_mode: false",
            method,
            (3, 3),
            (2, 2),
            (1, 1),
            rounds_up=False,
        ),
    }.items()
}
POOLINGS |= {
    "MAX of all": one("Pooling", "pooling_param { global_pooling: true }", lambda x: x.max(axis=(2, 3), keepdims=True)),
    "AVE of all": one(
        "Pooling", "pooling_param { pool: AVE global_pooling: true }", lambda x: x.mean(axis=(2, 3), keepdims=True)
    ),
    "pool by number": one(
        "Pooling", "pooling_param { pool: 1 kernel_size: 2 }", lambda x: caffe.pooling(x, "AVE", (2, 2))
    ),
}

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

TWICE = layer("Power", "power_param { scale: -2 }", tops="b")
THRICE = TWICE + layer("Power", "power_param { scale: 3 }", tops="c", name="third")


def several(
    text: str, parameters: str, kind: str, bottoms: str, expected: Callable[[Array], Array], **options: Any
) -> Case:
    return Case(net(text + layer(kind, parameters, bottoms)), expected, **options)


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

SHAPES = {
    "Reshape": one("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 7 } }", lambda x: x.reshape(2, 18, 7)),
    "Reshape of some axes": one(
        "Reshape",
        "reshape_param { shape { dim: 2 dim: -1 } axis: 2 num_axes: 1 }",
        lambda x: x.reshape(2, 3, 2, 3, 7),
    ),
    "Reshape that keeps one": one(
        "Reshape",
        "reshape_param { shape { dim: 0 dim: -1 } axis: -3 num_axes: 2 }",
        lambda x: x,
    ),
    "Reshape that adds one": one(
        "Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }", lambda x: x[..., None]
    ),
    "Flatten": one("Flatten", "", lambda x: x.reshape(2, -1)),
    "Flatten of some axes": one("Flatten", "flatten_param { axis: 1 end_axis: 2 }", lambda x: x.reshape(2, 18, 7)),
    "Permute": one(
        "Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", lambda x: x.transpose(0, 2, 3, 1)
    ),
    "Permute of the first axes": one("Permute", "permute_param { order: 2 }", lambda x: x.transpose(2, 0, 1, 3)),
    "Concat": several(TWICE, "", "Concat", "x b", lambda x: np.concatenate([x, -2 * x], 1)),
    "Concat of the last axis": several(
        TWICE, "concat_param { axis: -1 }", "Concat", "x b", lambda x: np.concatenate([x, -2 * x], 3)
    ),
    "Concat by its old name": several(
        TWICE,
        "concat_param { concat_dim: 0 }",
        "Concat",
        "x b",
        lambda x: np.concatenate([x, -2 * x], 0),
    ),
    "Slice": Case(
        net(layer("Slice", "", tops="a b c") + layer("Eltwise", "eltwise_param { operation: PROD }", "a c")),
        lambda x: x[:, :1] * x[:, 2:],
    ),
    "Slice at points": Case(
        net(
            layer("Slice", "slice_param { axis: 2 slice_point: 1 slice_point: 4 }", tops="a b c")
            + layer("Concat", "concat_param { axis: 2 }", "c b a")
        ),
        lambda x: np.concatenate([x[:, :, 4:], x[:, :, 1:4], x[:, :, :1]], 2),
    ),
    "Slice by its old name": Case(
        net(layer("Slice", "slice_param { slice_dim: 0 }", tops="a b") + layer("Eltwise", "", "a b")),
        lambda x: x[:1] + x[1:],
    ),
    "Crop": Case(
        net(
            layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p")
            + layer("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", "x p")
        ),
        lambda x: x[:, :, 1:5, 2:7],
    ),
    "Crop with one offset": Case(
        net(
            layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p")
            + layer("Crop", "crop_param { offset: 1 }", "x p")
        ),
        lambda x: x[:, :, 1:5, 1:6],
    ),
    "Crop from the start": Case(
        net(layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p") + layer("Crop", "", "x p")),
        lambda x: x[:, :, :4, :5],
    ),
    "Tile": one("Tile", "tile_param { tiles: 3 }", lambda x: np.tile(x, (1, 3, 1, 1))),
    "Tile of the first axis": one("Tile", "tile_param { axis: 0 tiles: 2 }", lambda x: np.tile(x, (2, 1, 1, 1))),
    "ShuffleChannel": one(
        "ShuffleChannel",
        "shuffle_channel_param { group: 2 }",
        lambda x: x[:, [0, 3, 1, 4, 2, 5]],
        x=normal(2, 6, 3, 4),
    ),
    "Split": Case(
        net(
            layer("Split", "", tops="a b")
            + layer("Power", "power_param { scale: 2 }", "a", "c")
            + layer("Eltwise", "", "b c")
        ),
        lambda x: 3 * x,
    ),
    "Dropout": one("Dropout", "dropout_param { dropout_ratio: 0.4 scale_train: true }", lambda x: x),
    "Dropout that scales here": Case(
        net(
            layer("Dropout", "", tops="x")
            + layer("Dropout", "dropout_param { dropout_ratio: 0.2 scale_train: false }", "x", "x", "second")
            + layer("ReLU")
        ),
        lambda x: np.float32(0.8) * np.maximum(x, 0),
    ),
    "Silence": Case(net(layer("Slice", "", tops="a y b") + layer("Silence", "", "a b", "")), lambda x: x[:, 1:2]),
    "Interp by a factor": one("Interp", "interp_param { zoom_factor: 2 }", lambda x: caffe.interp(x, 11, 13)),
    "Interp to a size": one("Interp", "interp_param { height: 9 width: 4 }", lambda x: caffe.interp(x, 9, 4)),
    "Interp that shrinks": one("Interp", "interp_param { shrink_factor: 2 }", lambda x: caffe.interp(x, 3, 4)),
    "Interp by both factors": one(
        "Interp", "interp_param { shrink_factor: 2 zoom_factor: 3 }", lambda x: caffe.interp(x, 7, 10)
    ),
    "Interp of the middle": one(
        "Interp",
        "interp_param { height: 5 width: 6 pad_beg: -1 pad_end: -2 }",
        lambda x: caffe.interp(x[:, :, 1:4, 1:5], 5, 6),
    ),
    "Interp to one place": one("Interp", "interp_param { height: 1 width: 1 }", lambda x: x[:, :, :1, :1]),
    "Interp to the size of a blob": Case(
        net(layer("Pooling", "pooling_param { kernel_size: 3 }", tops="p") + layer("Interp", "", "x p")),
        lambda x: caffe.interp(x, 4, 5),
    ),
    "Upsample": one("Upsample", "upsample_param { scale: 3 }", lambda x: x.repeat(3, axis=2).repeat(3, axis=3)),
}

CASES: dict[str, Case] = {
    f"{family}: {name}": case
    for family, cases in {
        "Convolution": CONVOLUTIONS,
        "Deconvolution": DECONVOLUTIONS,
        "Pooling": POOLINGS,
        "linear": LINEAR,
        "activation": ACTIVATIONS,
        "normalization": NORMALIZATIONS,
        "arithmetic": ARITHMETIC,
        "shape": SHAPES,
    }.items()
    for name, case in cases.items()
}
