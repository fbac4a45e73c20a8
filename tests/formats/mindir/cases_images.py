"""Cases of operators on images: convolutions, pooling, normalizations, other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe import layers as images
from tests.formats.mindir.cases import IN, SLOPES, Case, X, f32, one
from tests.formats.mindir.files import Weight
from tests.support import normal, positive

Array = NDArray[Any]

W = normal(4, 3, 3, 3, seed=1)
BIAS = normal(4, seed=2)


def padded(x: Array, top: int, bottom: int, left: int, right: int, value: float = 0.0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def conv_own(
    mode: str = "valid", pad: int | tuple[int, ...] = 0, stride: Any = 1, dilation: int = 1, **more: Any
) -> Any:
    strides = stride if isinstance(stride, tuple) else (stride, stride)
    return {
        "kernel_size": (3, 3),
        "mode": 1,
        "out_channel": 4,
        "pad_mode": mode,
        "pad": pad if isinstance(pad, tuple) else (pad,) * 4,
        "stride": (1, 1, *strides),
        "dilation": (1, 1, dilation, dilation),
        "group": 1,
        "format": "NCHW",
        **more,
    }


def conv(own: Any, expected: Callable[[Array], Array], *, weight: Array = W, feed: tuple[Array, ...] = (X,)) -> Case:
    return Case("Conv2D", (IN, Weight(weight)), expected, own=own, feed=feed)


DEEP = normal(6, 2, 3, 3, seed=4)
FOUR = normal(2, 4, 5, 6, seed=8)
CUBE, CUBES = normal(1, 2, 3, 4, 5, seed=3), normal(3, 2, 1, 1, 1, seed=6)
BACK = normal(4, 3, 3, 3, seed=9)


def back(mode: str, size: tuple[int, int], expected: Callable[[Array], Array], **options: Any) -> Case:
    own = {key: value for key, value in conv_own(mode, **options).items() if key != "out_channel"}
    return Case("Conv2DTranspose", (IN, Weight(BACK), (2, 3, *size)), expected, own=own, feed=(FOUR,))


CONVOLUTION: dict[str, Case] = {
    "Conv2D": conv(conv_own(), lambda x: images.convolution(x, W)),
    "Conv2D, pads": conv(conv_own("pad", (1, 2, 0, 1)), lambda x: images.convolution(padded(x, 1, 2, 0, 1), W)),
    "Conv2D, same": conv(
        conv_own("same", stride=2), lambda x: images.convolution(padded(x, 0, 1, 1, 1), W, stride=(2, 2))
    ),
    "Conv2D, same with a dilation": conv(
        conv_own("same", dilation=2), lambda x: images.convolution(padded(x, 2, 2, 2, 2), W, dilation=(2, 2))
    ),
    "Conv2D, strides": conv(
        conv_own("pad", 1, stride=(2, 1)), lambda x: images.convolution(x, W, pad=(1, 1), stride=(2, 1))
    ),
    "Conv2D in groups": conv(
        conv_own(group=2), lambda x: images.convolution(x, DEEP, group=2), weight=DEEP, feed=(FOUR,)
    ),
    "Conv3D": Case(
        "Conv3D",
        (IN, Weight(CUBES)),
        lambda x: np.einsum("ncdhw,oc->nodhw", x, CUBES[:, :, 0, 0, 0]),
        own={
            "kernel_size": (1, 1, 1),
            "mode": 1,
            "out_channel": 3,
            "pad_mode": "pad",
            "pad": (0,) * 6,
            "pad_list": (0,) * 6,
            "stride": (1, 1, 1),
            "strides": (1,) * 5,
            "dilation": (1, 1, 1),
            "dilations": (1,) * 5,
            "group": 1,
            "groups": 1,
            "offset_x": 0,
            "format": "NCDHW",
        },
        feed=(CUBE,),
    ),
    "Conv2DExt": Case(
        "Conv2DExt",
        (IN, Weight(W), Weight(BIAS), (2, 2), (1, 1), (1, 1), 1),
        lambda x: images.convolution(x, W, BIAS, pad=(1, 1), stride=(2, 2)),
    ),
    "Conv1DExt": Case(
        "Conv1DExt",
        (IN, Weight(W[:, :, 0].copy()), None, 2, 1, 1, 1),
        lambda x: images.convolution(x[:, :, None], W[:, :, :1], pad=(0, 1), stride=(1, 2))[:, :, 0],
        feed=(X[:, :, 0].copy(),),
    ),
    "Conv3DExt": Case(
        "Conv3DExt",
        (IN, Weight(CUBES), None, 1, 0, 1, 1),
        lambda x: np.einsum("ncdhw,oc->nodhw", x, CUBES[:, :, 0, 0, 0]),
        feed=(CUBE,),
    ),
    "Conv2DPadding": Case(
        "Conv2DPadding", (IN, Weight(W), None, 1, 1, 1, 1), lambda x: images.convolution(x, W, pad=(1, 1))
    ),
    "Conv1DPadding": Case(
        "Conv1DPadding",
        (IN, Weight(W[:, :, 0].copy()), None, 1, 2, 1, 1),
        lambda x: images.convolution(x[:, :, None], W[:, :, :1])[:, :, 0],
        feed=(X[:, :, 0].copy(),),
    ),
    "Conv3DPadding": Case(
        "Conv3DPadding",
        (IN, Weight(CUBES), None, 1, 1, 1, 1),
        lambda x: np.einsum("ncdhw,oc->nodhw", x, CUBES[:, :, 0, 0, 0]),
        feed=(CUBE,),
    ),
    "Convolution": Case(
        "Convolution",
        (IN, Weight(W), Weight(BIAS), (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
        lambda x: images.convolution(x, W, BIAS, pad=(1, 1)),
    ),
    "ConvolutionStr": Case(
        "ConvolutionStr",
        (IN, Weight(W), None, (2, 2), 2, (1, 1), False, (0, 0), 1),
        lambda x: images.convolution(x, W, stride=(2, 2)),
    ),
    "Conv2DTranspose": back("pad", (9, 11), lambda x: images.deconvolution(x, BACK, pad=1, stride=2), pad=1, stride=2),
    "Conv2DTranspose, valid": back("valid", (11, 13), lambda x: images.deconvolution(x, BACK, stride=2), stride=2),
    "Conv2DTranspose, same": back(
        "same", (10, 12), lambda x: images.deconvolution(x, BACK, stride=2)[:, :, :10, :12], stride=2
    ),
    "Conv2DTranspose to a larger size": back(
        "pad",
        (10, 12),
        lambda x: images.deconvolution(x, BACK, stride=2)[:, :, 1:, 1:],
        pad=1,
        stride=2,
    ),
}
CONVOLUTION["Conv2DBackpropInput"] = Case(
    "Conv2DBackpropInput",
    CONVOLUTION["Conv2DTranspose"].arguments,
    CONVOLUTION["Conv2DTranspose"].expected,
    own=CONVOLUTION["Conv2DTranspose"].own,
    feed=(FOUR,),
    version=1,
)


def window(mode: str, *, size: tuple[int, ...] = (3, 3), stride: int = 2, **more: Any) -> Any:
    return {
        "kernel_size": (1, 1, *size),
        "strides": (1, 1, *(stride,) * len(size)),
        "pad_mode": mode,
        "format": "NCHW",
        **more,
    }


def largest(x: Array, stride: int = 2, pad: int = 0, *, rounds_up: bool = False) -> Array:
    return images.pooling(x, "MAX", (3, 3), (stride, stride), (pad, pad), rounds_up=rounds_up)


def mean(x: Array, kernel: int = 3, stride: int = 2) -> Array:
    return images.pooling(x, "AVE", (kernel, kernel), (stride, stride), rounds_up=False)


def shares(size: int, parts: int) -> Array:
    """As adaptive pooling is defined."""
    rows = np.zeros((parts, size))
    for i in range(parts):
        rows[i, i * size // parts : -(-(i + 1) * size // parts)] = 1
    return rows / rows.sum(axis=1, keepdims=True)


FLAT: dict[str, Any] = {"pad_list": (0, 0, 1, 1, 1, 1), "ceil_mode": 0}
LINE = normal(2, 3, 8, seed=4)

POOLING: dict[str, Case] = {
    "MaxPool": one("MaxPool", largest, own=window("VALID")),
    "MaxPool, same": one("MaxPool", lambda x: largest(padded(x, 0, 1, 1, 1, -9.0)), own=window("SAME")),
    "AvgPool": one("AvgPool", mean, (1, 1, 3, 3), (1, 1, 2, 2), 2, 0),
    "AvgPool, same": one(
        "AvgPool",
        f32(lambda x: mean(padded(x, 0, 1, 1, 1)) / mean(padded(np.ones_like(x), 0, 1, 1, 1))),
        (1, 1, 3, 3),
        (1, 1, 2, 2),
        1,
        0,
    ),
    "AvgPool in an old file": one("AvgPool", mean, own=window("VALID"), version=1),
    "MaxPool3D": one(
        "MaxPool3D",
        lambda x: largest(x[:, :, 0], pad=1)[:, :, None],
        own=window("PAD", size=(1, 3, 3), format="NCDHW", **FLAT) | {"strides": (1, 1, 1, 2, 2)},
        feed=(X[:, :, None].copy(),),
    ),
    "AvgPool3D": one(
        "AvgPool3D",
        f32(lambda x: mean(padded(x[:, :, 0], 1, 1, 1, 1))[:, :, None]),
        own=window("PAD", size=(1, 3, 3), format="NCDHW", **FLAT)
        | {"strides": (1, 1, 1, 2, 2), "count_include_pad": True, "divisor_override": 0, "data_format": "NCDHW"},
        feed=(X[:, :, None].copy(),),
    ),
    "MaxPoolWithIndices": one(
        "MaxPoolWithIndices", lambda x: (largest(x, pad=1),), (3, 3), (2, 2), (1, 1), (1, 1), False, 35
    ),
    "MaxPoolWithMask": one(
        "MaxPoolWithMask", lambda x: (largest(x, stride=3),), (3, 3), None, (0, 0), (1, 1), False, 35
    ),
    "MaxPoolWithArgmaxV2": one(
        "MaxPoolWithArgmaxV2",
        lambda x: (largest(x, pad=1),),
        own={
            "kernel_size": (1, 1, 3, 3),
            "strides": (1, 1, 2, 2),
            "pads": (1, 1, 1, 1),
            "dilation": (1, 1, 1, 1),
            "ceil_mode": False,
        },
    ),
    "MaxPool3DWithArgmax": one(
        "MaxPool3DWithArgmax",
        lambda x: (largest(x[:, :, 0], pad=1)[:, :, None],),
        own={
            "ksize": (1, 3, 3),
            "strides": (1, 2, 2),
            "pads": (0, 1, 1),
            "dilation": (1, 1, 1),
            "ceil_mode": True,
            "format": "NCDHW",
            "argmax_type": "int64",
        },
        feed=(normal(1, 2, 1, 5, 7, seed=2),),
    ),
    "AvgPool2D": one("AvgPool2D", mean, (3, 3), (2, 2), (0, 0), False, True, None),
    "AvgPool1D": one(
        "AvgPool1D", f32(lambda x: x.reshape(2, 3, 4, 2).mean(axis=3)), 2, 2, 0, False, True, feed=(LINE,)
    ),
    "AdaptiveAvgPool2D": one(
        "AdaptiveAvgPool2D", f32(lambda x: x.mean(axis=(2, 3), keepdims=True)), own={"output_size": (1, 1)}
    ),
    "AdaptiveAvgPool2D to a part": one(
        "AdaptiveAvgPool2D", f32(lambda x: x.reshape(2, 3, 3, 2, 7).mean(axis=3)), own={"output_size": (3, -1)}
    ),
    "AdaptiveAvgPool2D to any size": one(
        "AdaptiveAvgPool2D", f32(lambda x: shares(6, 4) @ x @ shares(7, 3).T), own={"output_size": (4, 3)}
    ),
    "AdaptiveAvgPool2DExt": one("AdaptiveAvgPool2DExt", f32(lambda x: x.mean(axis=(2, 3), keepdims=True)), (1, 1)),
    "AdaptiveAvgPool1D": one("AdaptiveAvgPool1D", f32(lambda x: x @ shares(8, 3).T), 3, feed=(LINE,)),
    "AdaptiveMaxPool2D": one(
        "AdaptiveMaxPool2D", lambda x: (x.reshape(2, 3, 2, 3, 1, 7).max(axis=(3, 5)),), own={"output_size": (2, 1)}
    ),
}

MEAN, VARIANCE, SCALE = normal(3, seed=6), positive(3, seed=7), normal(3, seed=12)
GAMMA, BETA = normal(7, seed=1), normal(7, seed=2)


def across(vector: Array) -> Array:
    return vector.reshape(3, 1, 1)


def batch_norm(x: Array, scale: Array | float = 1.0, bias: Array | float = 0.0) -> Array:
    return (x - across(MEAN)) / np.sqrt(across(VARIANCE) + 1e-5) * scale + bias


def whitened(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + epsilon)


STATISTICS = Weight(MEAN), Weight(VARIANCE)
OLD_NORM = {"is_training": False, "epsilon": 1e-5, "momentum": 0.1, "format": "NCHW"}
SIX = normal(2, 4, 5, 5, seed=3)
PER_CHANNEL = normal(4, seed=4), normal(4, seed=5)

NORMALIZATION: dict[str, Case] = {
    "BatchNorm": one(
        "BatchNorm",
        lambda x: (f32(lambda x: batch_norm(x, across(SCALE), across(SLOPES)))(x), SCALE, SLOPES, MEAN, VARIANCE),
        Weight(SCALE),
        Weight(SLOPES),
        *STATISTICS,
        False,
        1e-5,
        0.1,
        0,
    ),
    "BatchNorm in an old file": one(
        "BatchNorm",
        lambda x: (f32(lambda x: batch_norm(x, across(SCALE), across(SLOPES)))(x), SCALE, SLOPES, MEAN, VARIANCE),
        Weight(SCALE),
        Weight(SLOPES),
        *STATISTICS,
        own=OLD_NORM,
        version=1,
    ),
    "BatchNormExt": one(
        "BatchNormExt", lambda x: (f32(batch_norm)(x), MEAN, MEAN), None, None, *STATISTICS, False, 0.1, 1e-5
    ),
    "LayerNorm": one(
        "LayerNorm",
        lambda x: (f32(lambda x: whitened(x, (3,), 1e-5) * GAMMA + BETA)(x), x[..., :1], x[..., :1]),
        Weight(GAMMA),
        Weight(BETA),
        -1,
        -1,
        1e-5,
    ),
    "LayerNorm in an old file": one(
        "LayerNorm",
        lambda x: (f32(lambda x: whitened(x, (3,), 1e-7) * GAMMA + BETA)(x), x[..., :1], x[..., :1]),
        Weight(GAMMA),
        Weight(BETA),
        own={"begin_norm_axis": 3, "begin_params_axis": 3, "epsilon": 1e-7},
        version=1,
    ),
    "LayerNormV3": one(
        "LayerNormV3",
        lambda x: (f32(lambda x: whitened(x, (3,), 1e-5) * GAMMA + BETA)(x), x[..., :1], x[..., :1]),
        Weight(GAMMA),
        Weight(BETA),
        3,
        -1,
        1e-5,
    ),
    "LayerNormExt": one(
        "LayerNormExt",
        lambda x: (f32(lambda x: whitened(x, (2, 3), 1e-5))(x), x[..., :1, :1], x[..., :1, :1]),
        (6, 7),
        None,
        None,
        1e-5,
    ),
    "RmsNorm": one(
        "RmsNorm",
        lambda x: (f32(lambda x: x / np.sqrt((x**2).mean(axis=3, keepdims=True) + 1e-6) * GAMMA)(x), x[..., :1]),
        Weight(GAMMA),
        1e-6,
    ),
    "GroupNorm": one(
        "GroupNorm",
        lambda x: (
            f32(
                lambda x: (
                    whitened(x.reshape(2, 2, 50), (2,), 1e-5).reshape(x.shape) * PER_CHANNEL[0].reshape(4, 1, 1)
                    + PER_CHANNEL[1].reshape(4, 1, 1)
                )
            )(x),
            x[:, :2, 0, 0],
            x[:, :2, 0, 0],
        ),
        2,
        *map(Weight, PER_CHANNEL),
        1e-5,
        feed=(SIX,),
    ),
    "GroupNorm without weights": one(
        "GroupNorm",
        lambda x: (f32(lambda x: whitened(x.reshape(2, 4, 25), (2,), 1e-5).reshape(x.shape))(x), x[:, :, 0, 0]),
        4,
        None,
        None,
        1e-5,
        feed=(SIX,),
    ),
    "L2Normalize": one(
        "L2Normalize",
        f32(lambda x: x / np.sqrt(np.maximum((x**2).sum(axis=1, keepdims=True), 1e-4))),
        own={"axis": (1,), "epsilon": 1e-4},
    ),
    "LRN": one(
        "LRN",
        f32(lambda x: images.lrn_across(x, 5, 0.5, 0.75, 1.5)),
        own={"depth_radius": 2, "bias": 1.5, "alpha": 0.1, "beta": 0.75, "norm_region": "ACROSS_CHANNELS"},
    ),
}


def repeated(x: Array, height: int, width: int) -> Array:
    rows, columns = (np.arange(new) * old // new for new, old in zip((height, width), x.shape[2:], strict=True))
    return x[:, :, rows][:, :, :, columns]


def on_corners(x: Array, height: int, width: int) -> Array:
    """Nearest neighbours with corners on corners."""
    rows, columns = (
        np.floor(np.arange(new) * (old - 1) / (new - 1) + 0.5).astype(int)
        for new, old in zip((height, width), x.shape[2:], strict=True)
    )
    return x[:, :, rows][:, :, :, columns]


def bilinear(x: Array, height: int, width: int, *, centres: bool) -> Array:
    def matrix(old: int, new: int) -> Array:
        rows = np.zeros((new, old))
        for i in range(new):
            place = (i + 0.5) * old / new - 0.5 if centres else i * old / new
            place = min(max(place, 0), old - 1)
            low = int(place)
            rows[i, low] += 1 - (place - low)
            rows[i, min(low + 1, old - 1)] += place - low
        return rows

    return matrix(x.shape[2], height) @ x @ matrix(x.shape[3], width).T


SIZE = (9, 14)
GRID = np.tanh(normal(2, 4, 5, 2, seed=3))


def sampled(x: Array, grid: Array) -> Array:
    """Bilinear with zeros outside, places from the outer edges of the image."""
    height, width = x.shape[2:]
    result = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:3]))
    for n, i, j in np.ndindex(grid.shape[:3]):
        column, row = ((grid[n, i, j] + 1) * (width, height) - 1) / 2
        for r in (int(np.floor(row)), int(np.floor(row)) + 1):
            for c in (int(np.floor(column)), int(np.floor(column)) + 1):
                if 0 <= r < height and 0 <= c < width:
                    result[n, :, i, j] += x[n, :, r, c] * (1 - abs(row - r)) * (1 - abs(column - c))
    return result


RESIZING: dict[str, Case] = {
    "ResizeBilinearV2": one("ResizeBilinearV2", f32(lambda x: bilinear(x, *SIZE, centres=False)), SIZE, False, False),
    "ResizeBilinearV2 on centres": one(
        "ResizeBilinearV2", f32(lambda x: bilinear(x, *SIZE, centres=True)), SIZE, False, True
    ),
    "ResizeBilinearV2 on corners": one("ResizeBilinearV2", f32(lambda x: images.interp(x, *SIZE)), SIZE, True, False),
    "ResizeBilinear in an old file": one(
        "ResizeBilinear",
        f32(lambda x: images.interp(x, *SIZE)),
        own={"size": SIZE, "align_corners": True, "half_pixel_centers": False},
        version=1,
    ),
    "ResizeNearestNeighbor": one("ResizeNearestNeighbor", lambda x: repeated(x, *SIZE), SIZE, False, False),
    "ResizeNearestNeighbor on corners": one("ResizeNearestNeighbor", lambda x: on_corners(x, *SIZE), SIZE, True, False),
    "ResizeNearestNeighborV2": one("ResizeNearestNeighborV2", lambda x: repeated(x, 12, 14), (12, 14), False, True),
    "UpsampleNearest2D": one("UpsampleNearest2D", lambda x: repeated(x, 12, 14), None, (2.0, 2.0)),
    "UpsampleNearest2D to a size": one("UpsampleNearest2D", lambda x: repeated(x, *SIZE), SIZE, None),
    "UpsampleBilinear2D": one("UpsampleBilinear2D", f32(lambda x: bilinear(x, *SIZE, centres=True)), SIZE, None, False),
    "GridSampler2D": Case("GridSampler2D", (IN, IN, 0, 0, False), f32(sampled), feed=(X, GRID)),
    "DepthToSpace": one(
        "DepthToSpace",
        lambda x: x.reshape(1, 2, 2, 2, 3, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 6, 6),
        own={"block_size": 2},
        feed=(normal(1, 8, 3, 3, seed=3),),
    ),
    "SpaceToDepth": one(
        "SpaceToDepth",
        lambda x: x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
        own={"block_size": 2},
        feed=(normal(1, 2, 4, 6, seed=3),),
    ),
    "PixelShuffle": one(
        "PixelShuffle",
        lambda x: x.reshape(1, 2, 2, 2, 3, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 6, 6),
        2,
        feed=(normal(1, 8, 3, 3, seed=3),),
    ),
}
