"""Convolutions and poolings in every variant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as caffe
from tests.formats.caffe.case import CHANNELS, B, Case, W, one
from tests.formats.caffe.networks import layer, net
from tests.support import normal

Array = NDArray[Any]


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
