"""The other half of :mod:`tests.formats.paddle.pir_cases`: layers, shapes, places, pictures, boxes, sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.paddle import references as ref
from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_cases import CUBE, PICTURE, TRUTH, Case, all_of, simple
from tests.formats.paddle.pir_models import Dtype, PirProgram

Array = NDArray[Any]

FILTERS, GROUPED, DEPTHWISE = random(6, 4, 3, 3, seed=20), random(6, 2, 3, 3, seed=21), random(4, 1, 3, 3, seed=22)
BACK, VOLUME = random(4, 5, 3, 3, seed=23), random(1, 2, 4, 5, 6, seed=24)


def convolution(rule: str, w: Array, want: Array, x: Array = PICTURE, **attributes: Any) -> Case:
    dims = w.ndim - 2
    usual = {"strides": [1] * dims, "paddings": [0] * dims, "padding_algorithm": "EXPLICIT", "dilations": [1] * dims}
    given = {**usual, "groups": 1, "data_format": "NCHW", **attributes}
    return Case(rule, lambda p, v: p.op(rule, v, p.parameter("w", w), **given), [x], [want])


def transposed(
    rule: str, w: Array, want: Array, size: Sequence[int] = (), x: Array = PICTURE, **attributes: Any
) -> Case:
    usual = {"strides": [1, 1], "paddings": [0, 0], "padding_algorithm": "EXPLICIT", "dilations": [1, 1]}
    given = {**usual, "groups": 1, "output_padding": [], "data_format": "NCHW", **attributes}
    return Case(rule, lambda p, v: p.op(rule, v, p.parameter("w", w), p.ints(*size), **given), [x], [want])


def pooled(kind: str, kernel: Sequence[int], want: Array, x: Array = PICTURE, **attributes: Any) -> Case:
    usual = {"strides": [1, 1], "paddings": [0, 0], "ceil_mode": False, "exclusive": True, "data_format": "NCHW"}
    flags = {"pooling_type": kind, "global_pooling": False, "adaptive": False, "padding_algorithm": "EXPLICIT"}
    given = {**usual, **flags, **attributes}
    return Case("pool2d", lambda p, v: p.op("pool2d", v, p.ints(*kernel), **given), [x], [want])


def halves(kernel: int, begin: int, count: tuple[int, int]) -> tuple[list[list[int]], list[list[int]]]:
    """Windows of stride 2 over a picture of 7 x 6."""
    return ref.windows(7, kernel, 2, begin, count[0]), ref.windows(6, kernel, 2, begin, count[1])


def uneven(size: int, count: int) -> list[list[int]]:
    return [list(range(i * size // count, -(-(i + 1) * size // count))) for i in range(count)]


def same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    whole = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return whole // 2, whole - whole // 2


LAST = np.moveaxis(PICTURE, 1, -1).copy()

CONVOLUTIONS = {
    "conv2d": convolution(
        "conv2d", FILTERS, ref.conv(PICTURE, FILTERS, stride=2, pad=1), strides=[2, 2], paddings=[1, 1]
    ),
    "conv2d with four paddings": convolution(
        "conv2d", FILTERS, ref.conv(PICTURE, FILTERS, pad=[(1, 2), (0, 1)]), paddings=[1, 2, 0, 1]
    ),
    "conv2d SAME": convolution(
        "conv2d",
        FILTERS,
        ref.conv(PICTURE, FILTERS, stride=2, pad=[same(7, 3, 2), same(6, 3, 2)]),
        strides=[2, 2],
        padding_algorithm="SAME",
    ),
    "conv2d VALID": convolution(
        "conv2d", FILTERS, ref.conv(PICTURE, FILTERS), paddings=[1, 1], padding_algorithm="VALID"
    ),
    "conv2d with holes": convolution("conv2d", FILTERS, ref.conv(PICTURE, FILTERS, dilation=2), dilations=[2, 2]),
    "conv2d in groups": convolution("conv2d", GROUPED, ref.conv(PICTURE, GROUPED, groups=2), groups=2),
    "conv2d with channels last": convolution(
        "conv2d", FILTERS, np.moveaxis(ref.conv(PICTURE, FILTERS), 1, -1), LAST, data_format="NHWC"
    ),
    "depthwise_conv2d": convolution("depthwise_conv2d", DEPTHWISE, ref.conv(PICTURE, DEPTHWISE, groups=4), groups=4),
    "conv3d": convolution(
        "conv3d", random(3, 2, 2, 2, 2), ref.conv(VOLUME, random(3, 2, 2, 2, 2), pad=1), VOLUME, paddings=[1, 1, 1]
    ),
    "conv2d_transpose": transposed(
        "conv2d_transpose", BACK, ref.conv_transpose(PICTURE, BACK, stride=2, pad=1), strides=[2, 2], paddings=[1, 1]
    ),
    "conv2d_transpose to a size": transposed(
        "conv2d_transpose",
        BACK,
        ref.conv_transpose(PICTURE, BACK, stride=2, extra=1),
        (16, 14),
        strides=[2, 2],
    ),
    "conv2d_transpose with padding behind": transposed(
        "conv2d_transpose",
        BACK,
        ref.conv_transpose(PICTURE, BACK, stride=2, pad=1, extra=1)[..., :, :],
        strides=[2, 2],
        paddings=[1, 1],
        output_padding=[1, 1],
    ),
    "conv2d_transpose SAME": transposed(
        "conv2d_transpose",
        BACK,
        ref.conv_transpose(PICTURE, BACK, stride=2)[..., 1:-1, 0:-1],
        strides=[2, 2],
        padding_algorithm="SAME",
    ),
    "depthwise_conv2d_transpose": transposed(
        "depthwise_conv2d_transpose",
        DEPTHWISE,
        ref.conv_transpose(PICTURE, DEPTHWISE, stride=2, groups=4),
        strides=[2, 2],
        groups=4,
    ),
    "conv2d_transpose_bias": Case(
        "conv2d_transpose_bias",
        lambda p, x: p.op(
            "conv2d_transpose_bias",
            *(x, p.parameter("w", BACK), p.parameter("b", random(5)), p.ints()),
            strides=[1, 1],
            paddings=[0, 0],
            output_padding=[],
            groups=1,
            dilations=[1, 1],
        ),
        [PICTURE],
        [ref.conv_transpose(PICTURE, BACK) + random(5).reshape(1, 5, 1, 1)],
    ),
    "conv3d_transpose": Case(
        "conv3d_transpose",
        lambda p, x: p.op(
            "conv3d_transpose",
            *(x, p.parameter("w", random(2, 3, 2, 2, 2))),
            strides=[2, 2, 2],
            paddings=[0, 0, 0],
            output_padding=[],
            output_size=[],
            groups=1,
            dilations=[1, 1, 1],
        ),
        [VOLUME],
        [ref.conv_transpose(VOLUME, random(2, 3, 2, 2, 2), stride=2)],
    ),
    "deformable_conv": Case(
        "deformable_conv",
        lambda p, x, o, m: p.op(
            "deformable_conv",
            *(x, o, p.parameter("w", FILTERS), m),
            strides=[1, 1],
            paddings=[0, 0],
            dilations=[1, 1],
            deformable_groups=1,
            groups=1,
        ),
        [PICTURE, random(2, 18, 5, 4, seed=25), random(2, 9, 5, 4, seed=26)],
        [ref.deformed(PICTURE, FILTERS, random(2, 18, 5, 4, seed=25), random(2, 9, 5, 4, seed=26))],
    ),
}

POOLED = {
    "pool2d": pooled("max", (3, 3), ref.pool(PICTURE, np.max, *halves(3, 1, (4, 3))), strides=[2, 2], paddings=[1, 1]),
    "pool2d of means": pooled(
        "avg", (3, 3), ref.pool(PICTURE, np.mean, *halves(3, 1, (4, 3))), strides=[2, 2], paddings=[1, 1]
    ),
    "pool2d of means with their margin": pooled(
        "avg",
        (3, 3),
        ref.pool(
            np.pad(PICTURE, [(0, 0), (0, 0), (1, 1), (1, 1)]),
            np.mean,
            ref.windows(9, 3, 2, 0, 4),
            ref.windows(8, 3, 2, 0, 3),
        ),
        strides=[2, 2],
        paddings=[1, 1],
        exclusive=False,
    ),
    "pool2d rounded up": pooled(
        "max", (2, 2), ref.pool(PICTURE, np.max, *halves(2, 0, (4, 3))), strides=[2, 2], ceil_mode=True
    ),
    "pool2d of everything": pooled("avg", (1, 1), PICTURE.mean(axis=(2, 3), keepdims=True), adaptive=True),
    "pool2d to a size": pooled("avg", (7, 3), ref.pool(PICTURE, np.mean, uneven(7, 7), uneven(6, 3)), adaptive=True),
    "pool2d to an uneven size": pooled(
        "avg", (3, 4), ref.pool(PICTURE, np.mean, uneven(7, 3), uneven(6, 4)), adaptive=True
    ),
    "pool2d of maxima to an uneven size": pooled(
        "max", (3, 4), ref.pool(PICTURE, np.max, uneven(7, 3), uneven(6, 4)), adaptive=True
    ),
    "pool2d with channels last": pooled(
        "max",
        (2, 2),
        np.moveaxis(ref.pool(PICTURE, np.max, ref.windows(7, 2, 2, 0, 3), ref.windows(6, 2, 2, 0, 3)), 1, -1),
        LAST,
        strides=[2, 2],
        data_format="NHWC",
    ),
    "pool3d": simple(
        "pool3d",
        [VOLUME],
        ref.pool(VOLUME, np.mean, *(ref.windows(s, 2, 2, 0, s // 2) for s in (4, 5, 6))),
        kernel_size=[2, 2, 2],
        strides=[2, 2, 2],
        paddings=[0, 0, 0],
        pooling_type="avg",
    ),
    "max_pool2d_with_index": Case(
        "max_pool2d_with_index",
        lambda p, x: all_of(
            p.op("max_pool2d_with_index", x, results=2, kernel_size=[2, 2], strides=[2, 2], paddings=[0, 0]), 2
        ),
        [np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)[..., ::-1].copy()],
        [
            np.array([[[[7.0, 5.0]], [[19.0, 17.0]]]]),
            np.array([[[[4, 6]], [[4, 6]]]], np.int32),
        ],
    ),
}

SCALE, SHIFT, MEAN, VARIANCE = (
    random(4, seed=27),
    random(4, seed=28),
    random(4, seed=29),
    np.abs(random(4, seed=30)) + 0.5,
)


def channels(array: Array) -> Array:
    return array.reshape(1, -1, 1, 1).astype(np.float64)


def normal(x: Array, axes: tuple[int, ...]) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + 1e-5)


def batch_norm(rule: str) -> Case:
    def build(p: PirProgram, x: int) -> int:
        arrays = {"mean": MEAN, "variance": VARIANCE, "scale": SCALE, "shift": SHIFT}
        numbers = [p.parameter(name, array) for name, array in arrays.items()]
        return p.op(rule, p.op("abs", x), *numbers, results=6, is_test=True, epsilon=1e-5, data_format="NCHW")

    folded = (np.abs(PICTURE) - channels(MEAN)) / np.sqrt(channels(VARIANCE) + 1e-5) * channels(SCALE) + channels(SHIFT)
    return Case(rule, build, [PICTURE], [folded])


GROUPS = normal(PICTURE.reshape(2, 2, 2, 7, 6), (2, 3, 4)).reshape(PICTURE.shape)
LONG = random(2, 3, 8, seed=31)

NORMALIZED = {
    "batch_norm_": batch_norm("batch_norm_"),
    "sync_batch_norm_": batch_norm("sync_batch_norm_"),
    "group_norm": Case(
        "group_norm",
        lambda p, x: p.op(
            "group_norm", x, p.parameter("s", SCALE), p.parameter("b", SHIFT), results=3, epsilon=1e-5, groups=2
        ),
        [PICTURE],
        [GROUPS * channels(SCALE) + channels(SHIFT)],
        [(-1, 4, -1, -1)],
    ),
    "group_norm alone": Case(
        "group_norm", lambda p, x: p.op("group_norm", x, 0, 0, results=3, epsilon=1e-5, groups=2), [PICTURE], [GROUPS]
    ),
    "instance_norm": Case(
        "instance_norm",
        lambda p, x: p.op(
            "instance_norm", x, p.parameter("s", SCALE), p.parameter("b", SHIFT), results=3, epsilon=1e-5
        ),
        [PICTURE],
        [normal(PICTURE, (2, 3)) * channels(SCALE) + channels(SHIFT)],
    ),
    "layer_norm": Case(
        "layer_norm",
        lambda p, x: p.op(
            "layer_norm",
            x,
            p.parameter("s", random(8)),
            p.parameter("b", random(8, seed=1)),
            results=3,
            epsilon=1e-5,
            begin_norm_axis=2,
        ),
        [LONG],
        [normal(LONG, (2,)) * random(8) + random(8, seed=1)],
    ),
    "layer_norm of two dimensions": Case(
        "layer_norm",
        lambda p, x: p.op("layer_norm", x, p.parameter("s", random(24)), 0, results=3, epsilon=1e-5, begin_norm_axis=1),
        [LONG],
        [normal(LONG, (1, 2)) * random(24).reshape(3, 8)],
    ),
    "rms_norm": Case(
        "rms_norm",
        lambda p, x: p.op("rms_norm", x, p.parameter("s", random(8)), results=2, normalized_shape=[8], epsilon=1e-5),
        [LONG],
        [LONG / np.sqrt((LONG.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * random(8)],
    ),
    "norm": Case(
        "norm",
        lambda p, x: p.op("norm", x, results=2, axis=1, epsilon=1e-10, is_test=True),
        [LONG],
        [LONG / np.sqrt((LONG.astype(np.float64) ** 2).sum(1, keepdims=True))],
    ),
    "lrn": Case(
        "lrn",
        lambda p, x: p.op("lrn", x, results=2, n=3, k=2.0, alpha=0.1, beta=0.75),
        [PICTURE],
        [
            PICTURE
            / (
                2
                + 0.1
                * sum(
                    np.pad(PICTURE.astype(np.float64) ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])[:, i : i + 4]
                    for i in range(3)
                )
            )
            ** 0.75
        ],
    ),
}

BLOCK, ROWS = random(2, 3, 4, 5, seed=32), random(5, 4, seed=33)


def sliced(
    p: PirProgram, x: int, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], drop: Sequence[int] = ()
) -> int:
    return p.op("slice", x, p.ints(*starts), p.ints(*ends), axes=list(axes), decrease_axis=list(drop))


def overwritten() -> Array:
    made = ROWS.copy()
    made[1:5:2, -2:] = 3
    return made


def with_rows() -> Array:
    made = ROWS.copy()
    made[1, 0:4] = random(4)
    return made


SHAPED = {
    "reshape": Case("reshape", lambda p, x: p.op("reshape", x, p.ints(0, -1, 5)), [BLOCK], [BLOCK.reshape(2, 12, 5)]),
    "flatten": simple("flatten", [BLOCK], BLOCK.reshape(2, 12, 5), start_axis=1, stop_axis=2),
    "flatten with open sizes": Case(
        "flatten",
        lambda p, x: p.op("flatten", x, start_axis=0, stop_axis=1),
        [BLOCK],
        [BLOCK.reshape(6, 4, 5)],
        [(-1, 3, -1, -1)],
    ),
    "squeeze": Case("squeeze", lambda p, x: p.op("squeeze", x, p.ints(1, 2)), [LONG[:, None]], [LONG]),
    "unsqueeze": Case("unsqueeze", lambda p, x: p.op("unsqueeze", x, p.ints(0, -1)), [LONG], [LONG[None, ..., None]]),
    "transpose": simple("transpose", [BLOCK], BLOCK.transpose(0, 2, 3, 1), perm=[0, 2, 3, 1]),
    "concat": Case(
        "concat",
        lambda p, x, y: p.op("concat", p.combine(x, y), p.full(1, "int32")),
        [CUBE, CUBE],
        [np.concatenate([CUBE, CUBE], 1)],
    ),
    "stack": Case(
        "stack",
        lambda p, x, y: p.op("stack", p.combine(x, y), axis=-1),
        [CUBE, CUBE * 2],
        [np.stack([CUBE, CUBE * 2], -1)],
    ),
    "split": Case(
        "split",
        lambda p, x: p.listed("split", x, p.ints(1, -1), p.full(2, "int32"), count=2),
        [BLOCK],
        [BLOCK[:, :, :1], BLOCK[:, :, 1:]],
    ),
    "split of an open size": Case(
        "split",
        lambda p, x: p.listed("split", x, p.ints(1, -1, 2), p.full(3, "int32"), count=3),
        [BLOCK],
        [BLOCK[..., :1], BLOCK[..., 1:3], BLOCK[..., 3:]],
        [(2, 3, 4, -1)],
    ),
    "split_with_num": Case(
        "split_with_num",
        lambda p, x: p.listed("split_with_num", x, p.full(2, "int32"), count=2, num=2),
        [BLOCK],
        np.split(BLOCK, 2, 2),
    ),
    "unbind": Case(
        "unbind", lambda p, x: p.listed("unbind", x, count=3, axis=1), [BLOCK], [BLOCK[:, i] for i in range(3)]
    ),
    "unstack": Case("unstack", lambda p, x: p.listed("unstack", x, count=2, axis=0, num=2), [BLOCK], list(BLOCK)),
    "slice": Case(
        "slice", lambda p, x: sliced(p, x, (1, -2), (3, 2**31 - 1), (1, 3)), [BLOCK], [BLOCK[:, 1:3, :, -2:]]
    ),
    "slice that drops": Case("slice", lambda p, x: sliced(p, x, (-1,), (0,), (2,), (2,)), [BLOCK], [BLOCK[:, :, -1]]),
    "slice of one element": Case(
        "slice",
        lambda p, x: sliced(p, x, (0, 1, 2), (1, 2, 3), (0, 1, 2), (0, 1, 2)),
        [CUBE],
        [np.asarray(CUBE[0, 1, 2])],
    ),
    "slice that is computed": Case(
        "slice",
        lambda p, x, start, end: p.op("slice", x, start, end, axes=[1], decrease_axis=[]),
        [BLOCK, np.array([1]), np.array([3])],
        [BLOCK[:, 1:3]],
    ),
    "strided_slice": Case(
        "strided_slice",
        lambda p, x: p.op("strided_slice", x, p.ints(0, 4), p.ints(9, 0), p.ints(2, -2), axes=[1, 3]),
        [BLOCK],
        [BLOCK[:, ::2, :, 4:0:-2]],
    ),
    "strided_slice to the front": Case(
        "strided_slice",
        lambda p, x: p.op("strided_slice", x, p.ints(9), p.ints(-1), p.ints(-1), axes=[2]),
        [BLOCK],
        [BLOCK[:, :, ::-1]],
    ),
    "crop": Case(
        "crop",
        lambda p, x: p.op("crop", x, p.ints(1, 2, 2, -1), p.ints(0, 1, 1, 1)),
        [BLOCK],
        [BLOCK[:1, 1:3, 1:3, 1:]],
    ),
    "expand": Case(
        "expand",
        lambda p, x: p.op("expand", x, p.ints(2, -1, 4)),
        [CUBE[0, :, :1]],
        [np.broadcast_to(CUBE[0, :, :1], (2, 3, 4))],
    ),
    "expand that is computed": Case(
        "expand",
        lambda p, x, n: p.op("expand", x, p.combine(n, p.full(-1, "int64", ()), p.full(4, "int64", ()))),
        [CUBE[0, :, :1], np.array(2)],
        [np.broadcast_to(CUBE[0, :, :1], (2, 3, 4))],
    ),
    "expand_as": simple(
        "expand_as", [CUBE[0, :, :1], CUBE], np.broadcast_to(CUBE[0, :, :1], (2, 3, 4)), target_shape=[2, 3, 4]
    ),
    "tile": Case("tile", lambda p, x: p.op("tile", x, p.ints(2, 1, 3)), [ROWS], [np.tile(ROWS, (2, 1, 3))]),
    "tile of the last": Case("tile", lambda p, x: p.op("tile", x, p.ints(3)), [ROWS], [np.tile(ROWS, 3)]),
    "tile that is computed": Case(
        "tile",
        lambda p, x, n: p.op("tile", x, p.combine(n, p.full(1, "int64", ()))),
        [ROWS, np.array(2)],
        [np.tile(ROWS, (2, 1))],
    ),
    "flip": simple("flip", [BLOCK], BLOCK[:, ::-1, :, ::-1], axis=[1, -1]),
    "reverse": Case("reverse", lambda p, x: p.op("reverse", x, p.ints(2)), [BLOCK], [BLOCK[:, :, ::-1]]),
    "roll": Case(
        "roll", lambda p, x: p.op("roll", x, p.ints(1, -2), axis=[1, 3]), [BLOCK], [np.roll(BLOCK, (1, -2), (1, 3))]
    ),
    "roll of all": Case("roll", lambda p, x: p.op("roll", x, p.ints(7), axis=[]), [CUBE], [np.roll(CUBE, 7)]),
    "tril": simple("tril", [ROWS], np.tril(ROWS, 1), diagonal=1),
    "triu": simple("triu", [ROWS], np.triu(ROWS, -1), diagonal=-1),
    "pad": Case(
        "pad",
        lambda p, x: p.op("pad", x, p.full(1.5), paddings=[1, 0, 0, 2]),
        [ROWS],
        [np.pad(ROWS, [(1, 0), (0, 2)], constant_values=1.5)],
    ),
    "pad3d": Case(
        "pad3d",
        lambda p, x: p.op("pad3d", x, p.ints(1, 2, 0, 1, 2, 0), mode="reflect", pad_value=0.0, data_format="NCDHW"),
        [VOLUME],
        [np.pad(VOLUME, [(0, 0), (0, 0), (2, 0), (0, 1), (1, 2)], mode="reflect")],
    ),
    "pad3d with channels last": Case(
        "pad3d",
        lambda p, x: p.op("pad3d", x, p.ints(1, 2, 0, 1, 2, 0), mode="constant", pad_value=0.5, data_format="NDHWC"),
        [VOLUME],
        [np.pad(VOLUME, [(0, 0), (2, 0), (0, 1), (1, 2), (0, 0)], constant_values=0.5)],
    ),
    "meshgrid": Case(
        "meshgrid",
        lambda p, x, y: p.add("0.split", p.add("1.meshgrid", [p.combine(x, y)], [VECTOR]), [VECTOR["D"][0]] * 2),
        [ROWS[0], ROWS[:, 0].copy()],
        np.meshgrid(ROWS[0], ROWS[:, 0], indexing="ij"),
    ),
    "broadcast_tensors": Case(
        "broadcast_tensors",
        lambda p, x, y: p.add(
            "0.split", p.add("1.broadcast_tensors", [p.combine(x, y)], [VECTOR]), [VECTOR["D"][0]] * 2
        ),
        [ROWS[:, :1].copy(), ROWS[:1]],
        np.broadcast_arrays(ROWS[:, :1], ROWS[:1]),
    ),
    "repeat_interleave": simple("repeat_interleave", [BLOCK], np.repeat(BLOCK, 2, 1), repeats=2, axis=1),
    "shape": simple("shape", [BLOCK], np.array([2, 3, 4, 5], np.int32)),
    "shape64": simple("shape64", [BLOCK], np.array([2, 3, 4, 5])),
    "numel": simple("numel", [BLOCK], np.array(120)),
    "set_value": Case(
        "set_value",
        lambda p, x: p.op(
            "set_value_", x, p.ints(1, -2), p.ints(5, 9), p.ints(2, 1), axes=[0, 1], shape=[1], values=[3.0]
        ),
        [ROWS],
        [overwritten()],
    ),
    "set_value_with_tensor": Case(
        "set_value_with_tensor",
        lambda p, x, v: p.op(
            "set_value_with_tensor_", x, v, p.ints(1, 0), p.ints(2, 4), p.ints(1, 1), axes=[0, 1], decrease_axes=[0]
        ),
        [ROWS, random(4)],
        [with_rows()],
    ),
    "unfold": Case(
        "unfold",
        lambda p, x: p.op("unfold", x, kernel_sizes=[2, 3], strides=[1, 1], paddings=[0, 0, 0, 0], dilations=[1, 1]),
        [PICTURE],
        [
            np.stack(
                [
                    PICTURE[:, c, i : i + 6, j : j + 4].reshape(2, -1)
                    for c in range(4)
                    for i in range(2)
                    for j in range(3)
                ],
                axis=1,
            )
        ],
    ),
}
VECTOR: dict[str, Any] = {"#": "0.t_vec", "D": [{"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [], "NCHW", [], 0]}] * 2}

INDEX, NEAR = np.array([3, 1]), np.array([[0, 3], [2, 2], [1, 0], [3, 3], [0, 1]])


def scattered(kind: str) -> Array:
    made = ROWS.copy()
    for place, row in enumerate(INDEX):
        made[row] = random(2, 4)[place] + (made[row] if kind == "add" else 0)
    return made


def put() -> Array:
    made = ROWS.copy()
    np.put_along_axis(made, NEAR[:, :1], 1.5, 1)
    return made


PICKED = {
    "embedding": Case(
        "embedding", lambda p, i: p.op("embedding", i, p.parameter("w", ROWS), padding_idx=-1), [NEAR], [ROWS[NEAR]]
    ),
    "embedding with padding": Case(
        "embedding",
        lambda p, i: p.op("embedding", i, p.parameter("w", ROWS), padding_idx=2),
        [NEAR],
        [np.where((NEAR == 2)[..., None], 0, ROWS[NEAR])],
    ),
    "gather": Case("gather", lambda p, x, i: p.op("gather", x, i, p.full(1, "int32")), [ROWS, INDEX], [ROWS[:, INDEX]]),
    "gather_nd": simple("gather_nd", [ROWS, NEAR[:3]], ROWS[NEAR[:3, 0], NEAR[:3, 1]]),
    "index_select": simple("index_select", [ROWS, INDEX], ROWS[:, INDEX], axis=1),
    "index_sample": simple("index_sample", [ROWS, NEAR], np.take_along_axis(ROWS, NEAR, 1)),
    "take_along_axis": simple("take_along_axis", [ROWS, NEAR], np.take_along_axis(ROWS, NEAR, 1), axis=1),
    "put_along_axis": simple(
        "put_along_axis",
        [ROWS, NEAR[:, :1], np.full((5, 1), 1.5, np.float32)],
        put(),
        axis=1,
        reduce="assign",
        include_self=True,
    ),
    "scatter": simple("scatter", [ROWS, INDEX, random(2, 4)], scattered("set"), overwrite=True),
    "scatter that adds": simple("scatter", [ROWS, INDEX, random(2, 4)], scattered("set"), overwrite=False),
    "scatter_nd_add": simple("scatter_nd_add", [ROWS, INDEX[:, None], random(2, 4)], scattered("add")),
    "index_add": simple("index_add", [ROWS, INDEX, random(2, 4)], scattered("add"), axis=0),
    "index_put": Case(
        "index_put",
        lambda p, x, i, v: p.op("index_put", x, p.combine(i), v, accumulate=False),
        [ROWS, INDEX, random(2, 4)],
        [scattered("set")],
    ),
    "index_put by a mask": Case(
        "index_put",
        lambda p, x, m: p.op("index_put", x, p.combine(m), p.full(7.0), accumulate=False),
        [ROWS[:3], TRUTH],
        [np.where(TRUTH, 7, ROWS[:3])],
    ),
    "masked_select": simple("masked_select", [ROWS[:3], TRUTH], ROWS[:3][TRUTH]),
    "nonzero": simple("nonzero", [TRUTH], np.stack(np.nonzero(TRUTH), 1)),
    "one_hot": Case(
        "one_hot", lambda p, i: p.op("one_hot", i, p.full(5, "int32")), [INDEX], [np.eye(5, dtype=np.float32)[INDEX]]
    ),
    "sequence_mask": Case(
        "sequence_mask",
        lambda p, n: p.op("sequence_mask", n, p.full(5, "int32"), out_dtype=Dtype("float32")),
        [np.array([3, 0, 5])],
        [(np.arange(5) < np.array([[3], [0], [5]])).astype(np.float32)],
    ),
    "sequence_mask to the longest": Case(
        "sequence_mask",
        lambda p, n: p.op("sequence_mask", n, p.full(-1, "int32"), out_dtype=Dtype("int64")),
        [np.array([3, 0, 4])],
        [(np.arange(4) < np.array([[3], [0], [4]])).astype(np.int64)],
    ),
}

MADE = {
    "arange": Case(
        "arange",
        lambda p, x: p.op("add", x, p.op("arange", p.full(0.5), p.full(2.5), p.full(0.5), dtype=Dtype("float32"))),
        [ROWS],
        [ROWS + np.arange(0.5, 2.5, 0.5, np.float32)],
    ),
    "arange that is computed": Case(
        "arange",
        lambda p, n: p.op("arange", p.full(1, "int64"), n, p.full(2, "int64"), dtype=Dtype("int64")),
        [np.array(8)],
        [np.arange(1, 8, 2)],
    ),
    "linspace": Case(
        "linspace",
        lambda p, x: p.op(
            "add", x, p.op("linspace", p.full(0.0), p.full(1.0), p.full(4, "int32"), dtype=Dtype("float32"))
        ),
        [ROWS],
        [ROWS + np.linspace(0, 1, 4)],
    ),
    "eye": Case(
        "eye",
        lambda p, x: p.op("add", x, p.op("eye", p.full(5, "int32"), p.full(4, "int32"), dtype=Dtype("float32"))),
        [ROWS],
        [ROWS + np.eye(5, 4)],
    ),
    "full_like": Case(
        "full_like",
        lambda p, x: p.op("full_like", x, p.full(2.5), dtype=Dtype("float32")),
        [ROWS],
        [np.full((5, 4), 2.5)],
        [(-1, 4)],
    ),
    "ones_like": simple("ones_like", [ROWS], np.ones((5, 4), np.int64), dtype=Dtype("int64")),
    "zeros_like": simple("zeros_like", [ROWS], np.zeros((5, 4)), dtype=Dtype("Undefined(ALL_DTYPE)")),
    "full_with_tensor": Case(
        "full_with_tensor",
        lambda p, n: p.op(
            "full_with_tensor",
            p.full(1.5),
            p.op("stack", p.combine(n, p.full(3, "int64", ())), axis=0),
            dtype=Dtype("float32"),
        ),
        [np.array(2)],
        [np.full((2, 3), 1.5, np.float32)],
    ),
    "full_batch_size_like": Case(
        "full_batch_size_like",
        lambda p, x: p.op(
            "full_batch_size_like",
            x,
            shape=[7, -1, 3],
            dtype=Dtype("float32"),
            value=2.0,
            input_dim_idx=0,
            output_dim_idx=1,
        ),
        [ROWS],
        [np.full((7, 5, 3), 2.0)],
    ),
}


def resized(kind: str, sizes: Sequence[int], x: Array, want: Array, **attributes: Any) -> Case:
    rule = f"{kind}_interp"
    usual = {"data_format": "NCHW", "interp_method": kind, "align_corners": False, "align_mode": 0, "scale": []}
    given = {**usual, **dict(zip(("out_w", "out_h", "out_d"), [*sizes][::-1], strict=False)), **attributes}
    return Case(rule, lambda p, v: p.op(rule, v, 0, 0, 0, **given), [x], [want])


STRIP = random(1, 2, 5, 6, seed=34)

PICTURES = {
    "nearest_interp": resized("nearest", (10, 12), STRIP, np.repeat(np.repeat(STRIP, 2, 2), 2, 3)),
    "nearest_interp of corners": resized(
        "nearest",
        (3, 4),
        random(1, 1, 5, 7),
        ref.resize(random(1, 1, 5, 7), (3, 4), "nearest", lambda i, a, b: round(ref.corners(i, a, b) + 1e-6)),
        align_corners=True,
    ),
    "nearest_interp by a factor": resized(
        "nearest", (-1, -1), STRIP, ref.resize(STRIP, (7, 9), "nearest", ref.plain), scale=[1.5, 1.5]
    ),
    "nearest_interp with channels last": resized(
        "nearest",
        (10, 12),
        np.moveaxis(STRIP, 1, -1).copy(),
        np.moveaxis(np.repeat(np.repeat(STRIP, 2, 2), 2, 3), 1, -1),
        data_format="NHWC",
    ),
    "nearest_interp to a size that is computed": Case(
        "nearest_interp",
        lambda p, x, n: p.op(
            "nearest_interp", x, n, 0, 0, out_h=-1, out_w=-1, scale=[], align_corners=False, align_mode=0
        ),
        [STRIP, np.array([10, 12], np.int32)],
        [np.repeat(np.repeat(STRIP, 2, 2), 2, 3)],
        [(-1, 2, -1, -1)],
    ),
    "nearest_interp to sizes that are computed": Case(
        "nearest_interp",
        lambda p, x, n: p.op(
            "nearest_interp",
            x,
            0,
            p.combine(n, p.full(12, "int64", ())),
            0,
            out_h=-1,
            out_w=-1,
            scale=[],
            align_corners=False,
        ),
        [STRIP, np.array(10)],
        [np.repeat(np.repeat(STRIP, 2, 2), 2, 3)],
    ),
    "bilinear_interp": resized("bilinear", (7, 4), STRIP, ref.resize(STRIP, (7, 4), "linear", ref.half_pixel)),
    "bilinear_interp of corners": resized(
        "bilinear", (7, 9), STRIP, ref.resize(STRIP, (7, 9), "linear", ref.corners), align_corners=True
    ),
    "bilinear_interp from the corner": resized(
        "bilinear", (7, 9), STRIP, ref.resize(STRIP, (7, 9), "linear", ref.plain), align_mode=1
    ),
    "bicubic_interp": resized("bicubic", (7, 9), STRIP, ref.resize(STRIP, (7, 9), "cubic", ref.half_pixel)),
    "linear_interp": resized("linear", (9,), STRIP[0], ref.resize(STRIP[0], (9,), "linear", ref.half_pixel)),
    "trilinear_interp": resized(
        "trilinear", (8, 7, 6), VOLUME, ref.resize(VOLUME, (8, 7, 6), "linear", ref.half_pixel)
    ),
    "pixel_shuffle": simple(
        "pixel_shuffle",
        [random(1, 8, 2, 3)],
        random(1, 8, 2, 3).reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
        upscale_factor=2,
        data_format="NCHW",
    ),
    "pixel_unshuffle": simple(
        "pixel_unshuffle",
        [random(1, 2, 4, 6)],
        random(1, 2, 4, 6).reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3),
        downscale_factor=2,
        data_format="NCHW",
    ),
    **{
        rule: simple(rule, [PICTURE], PICTURE.reshape(2, 2, 2, 7, 6).swapaxes(1, 2).reshape(2, 4, 7, 6), **{key: 2})
        for rule, key in (("channel_shuffle", "groups"), ("shuffle_channel", "group"))
    },
    "temporal_shift": Case(
        "temporal_shift",
        lambda p, x: p.op("temporal_shift", x, seg_num=2, shift_ratio=0.25, data_format="NCHW"),
        [PICTURE],
        [
            np.stack(
                [
                    np.stack([0 * PICTURE[0, 0], PICTURE[1, 1], *PICTURE[0, 2:]]),
                    np.stack([PICTURE[0, 0], 0 * PICTURE[1, 1], *PICTURE[1, 2:]]),
                ]
            )
        ],
    ),
    "grid_sample": simple(
        "grid_sample",
        [STRIP, np.clip(random(1, 3, 4, 2), -1.2, 1.2)],
        ref.sampled(
            STRIP[0],
            (np.clip(random(1, 3, 4, 2), -1.2, 1.2)[0, ..., 1] + 1) / 2 * 4,
            (np.clip(random(1, 3, 4, 2), -1.2, 1.2)[0, ..., 0] + 1) / 2 * 5,
        )[None],
        mode="bilinear",
        padding_mode="zeros",
        align_corners=True,
    ),
    "affine_grid": Case(
        "affine_grid",
        lambda p, t: p.op("affine_grid", t, p.ints(1, 2, 3, 4), align_corners=True),
        [random(1, 2, 3)],
        [
            (
                np.stack([*np.meshgrid(np.linspace(-1, 1, 4), np.linspace(-1, 1, 3)), np.ones((3, 4))], -1).reshape(
                    -1, 3
                )
                @ random(1, 2, 3)[0].T
            ).reshape(1, 3, 4, 2)
        ],
    ),
}

RNG = np.random.default_rng(35)
LOW = RNG.random((2, 12, 2)) * 20
BOXES = np.concatenate([LOW, LOW + RNG.random((2, 12, 2)) * 20 + 2], 2).astype(np.float32)
SCORES = RNG.random((2, 3, 12)).astype(np.float32)


def suppressed(boxes: Array, scores: Array, *, normalized: bool = True, **changed: Any) -> Case:
    settings: dict[str, Any] = {"score_threshold": 0.2, "nms_top_k": 100, "keep_top_k": 100, "nms_threshold": 0.3}
    settings |= {"background_label": -1, **changed}
    want = ref.multiclass_nms(boxes, scores, closed=0.0 if normalized else 1.0, **settings)

    def build(p: PirProgram, b: int, s: int) -> list[int]:
        return all_of(p.op("multiclass_nms3", b, s, 0, results=3, normalized=normalized, nms_eta=1.0, **settings), 3)

    return Case("multiclass_nms3", build, [boxes, scores], want)


def decayed(*, gaussian: bool) -> Case:
    def build(p: PirProgram, b: int, s: int) -> list[int]:
        numbers = {
            "score_threshold": 0.1,
            "nms_top_k": -1,
            "keep_top_k": 9,
            "post_threshold": 0.05,
            "gaussian_sigma": 2.0,
        }
        flags = {"use_gaussian": gaussian, "background_label": -1, "normalized": True}
        return all_of(p.op("matrix_nms", b, s, results=3, **numbers, **flags), 3)

    return Case(
        "matrix_nms", build, [BOXES[:1], SCORES[:1]], ref.matrix_nms(BOXES[:1], SCORES[:1], gaussian=gaussian, keep=9)
    )


def remaining() -> Array:
    kept: list[int] = []
    for place, box in enumerate(BOXES[0]):
        if all(ref.overlap(box, BOXES[0, other]) <= 0.3 for other in kept):
            kept.append(place)
    return np.array(kept)


HEAD, PICTURE_SIZE = random(1, 18, 3, 4, seed=36), np.array([[96, 128]], np.int32)
REGIONS = np.array([[0.5, 1, 9, 10], [2, 2, 7, 9.5]], np.float32)
PRIORS, TARGETS = BOXES[0, :5], random(2, 5, 4, seed=37)
VARIANCES = np.array([0.1, 0.1, 0.2, 0.2], np.float32)


def decoded() -> Array:
    sides, moved = PRIORS[:, 2:] - PRIORS[:, :2], TARGETS * VARIANCES
    center = moved[..., :2] * sides + (PRIORS[:, :2] + PRIORS[:, 2:]) / 2
    half = np.exp(moved[..., 2:]) * sides / 2
    return np.concatenate([center - half, center + half], -1)


def priors() -> list[Array]:
    """3 x 3 places of a picture of 12 x 12; sides 4 x 4, 4 x 2 and 2 x 4 around √2, and √(4·8)."""
    sides = [(4, 4), (4 * 2**0.5, 4 / 2**0.5), (4 / 2**0.5, 4 * 2**0.5), (32**0.5, 32**0.5)]
    made = np.zeros((3, 3, 4, 4))
    for row, column, place in np.ndindex(3, 3, 4):
        middle, half = np.array([column + 0.5, row + 0.5]) * 4, np.array(sides[place]) / 2
        made[row, column, place] = np.concatenate([middle - half, middle + half]) / 12
    return [np.clip(made, 0, 1), np.broadcast_to(VARIANCES, made.shape)]


DETECTED = {
    "multiclass_nms3": suppressed(BOXES, SCORES),
    "multiclass_nms3 of the best": suppressed(BOXES, SCORES, keep_top_k=5),
    "multiclass_nms3 of few candidates": suppressed(BOXES, SCORES, nms_top_k=3),
    "multiclass_nms3 with a background": suppressed(BOXES, SCORES, background_label=1),
    "multiclass_nms3 of pixels": suppressed(np.round(BOXES), SCORES, normalized=False),
    "matrix_nms": decayed(gaussian=False),
    "matrix_nms by a Gaussian": decayed(gaussian=True),
    "nms": simple("nms", [BOXES[0]], remaining(), threshold=0.3),
    "yolo_box": simple(
        "yolo_box",
        [HEAD, PICTURE_SIZE],
        *ref.yolo_boxes(HEAD, (96, 128), (10, 13, 16, 30), 4, 0.3),
        results=2,
        anchors=[10, 13, 16, 30],
        class_num=4,
        conf_thresh=0.3,
        downsample_ratio=32,
        clip_bbox=True,
        scale_x_y=1.0,
        iou_aware=False,
    ),
    "prior_box": Case(
        "prior_box",
        lambda p, x, i: all_of(
            p.op(
                "prior_box",
                x,
                i,
                results=2,
                min_sizes=[4.0],
                max_sizes=[8.0],
                aspect_ratios=[2.0],
                variances=VARIANCES.tolist(),
                flip=True,
                clip=True,
            ),
            2,
        ),
        [random(1, 2, 3, 3), random(1, 3, 12, 12)],
        priors(),
    ),
    "box_coder": Case(
        "box_coder",
        lambda p, b, t: p.op(
            "box_coder",
            b,
            0,
            t,
            code_type="decode_center_size",
            box_normalized=True,
            axis=0,
            variance=VARIANCES.tolist(),
        ),
        [PRIORS, TARGETS],
        [decoded()],
    ),
    "roi_align": Case(
        "roi_align",
        lambda p, x, b, n: p.op(
            "roi_align", x, b, n, pooled_height=2, pooled_width=2, spatial_scale=0.5, sampling_ratio=2, aligned=True
        ),
        [PICTURE[:1], REGIONS, np.array([2], np.int32)],
        [ref.roi_align(PICTURE[:1], REGIONS, 2, 0.5, 2, 0.5)],
    ),
}

STEPS, STATE, CELL = random(5, 2, 3, seed=38), random(2, 4, seed=39), random(2, 4, seed=40)


def weights(gates: int, inputs: int = 3, seed: int = 41) -> list[Array]:
    shapes = ((gates * 4, inputs), (gates * 4, 4), (gates * 4,), (gates * 4,))
    return [random(*shape, seed=seed + place) * np.float32(0.5) for place, shape in enumerate(shapes)]


def recurrent(
    mode: str,
    arrays: Sequence[Array],
    states: Sequence[Array],
    want: Sequence[Array],
    *,
    layers: int = 1,
    both: bool = False,
) -> Case:
    """All matrices of all layers and directions first, then all biases."""

    def build(p: PirProgram, x: int, *given: int) -> list[int]:
        listed = p.combine(*(p.parameter(f"w{place}", array) for place, array in enumerate(arrays)))
        state = p.parameter("state__non_persistable", np.zeros(0, np.uint8), kept=False)
        kind = {"#": "0.t_vec", "D": VECTOR["D"][:1] * len(given)}
        numbers = {
            "dropout_prob": 0.0,
            "is_bidirec": both,
            "hidden_size": 4,
            "num_layers": layers,
            "mode": mode,
            "is_test": True,
        }
        results = [VECTOR["D"][0], VECTOR["D"][0], kind, VECTOR["D"][0]]
        made = p.add("1.rnn", [x, p.combine(*given), listed, 0, state], results, **numbers)
        return [made[0], *p.add("0.split", [made[2]], [VECTOR["D"][0]] * len(given))]

    return Case("rnn", build, [STEPS, *states], want)


def one_layer() -> list[Array]:
    found, state, cell = ref.lstm(STEPS, weights(4), STATE, CELL)
    return [found, state[None], cell[None]]


def two_layers() -> list[Array]:
    first, *one = ref.lstm(STEPS, weights(4), STATE, CELL)
    second, *other = ref.lstm(first, weights(4, 4, 51), CELL, STATE)
    return [second, *(np.stack(pair) for pair in zip(one, other, strict=True))]


def both_ways() -> list[Array]:
    there, *one = ref.lstm(STEPS, weights(4), STATE, CELL)
    back, *other = ref.lstm(STEPS[::-1], weights(4, 3, 51), CELL, STATE)
    return [np.concatenate([there, back[::-1]], -1), *(np.stack(pair) for pair in zip(one, other, strict=True))]


def plain(function: Any) -> list[Array]:
    state, found = STATE.astype(np.float64), []
    inner, again, *biases = weights(1)
    for step in STEPS:
        state = function(step @ inner.T + state @ again.T + sum(biases))
        found.append(state)
    return [np.stack(found), state[None]]


def ordered(*sets: Sequence[Array]) -> list[Array]:
    return [array for given in sets for array in given[:2]] + [array for given in sets for array in given[2:]]


STATES = [np.stack([STATE, CELL]), np.stack([CELL, STATE])]

RECURRENT = {
    "rnn": recurrent("LSTM", weights(4), [STATE[None], CELL[None]], one_layer()),
    "rnn of two layers": recurrent("LSTM", ordered(weights(4), weights(4, 4, 51)), STATES, two_layers(), layers=2),
    "rnn both ways": recurrent("LSTM", ordered(weights(4), weights(4, 3, 51)), STATES, both_ways(), both=True),
    "rnn GRU": recurrent(
        "GRU", weights(3), [STATE[None]], [a if a.ndim == 3 else a[None] for a in ref.gru(STEPS, weights(3), STATE)]
    ),
    "rnn RNN_TANH": recurrent("RNN_TANH", weights(1), [STATE[None]], plain(np.tanh)),
    "rnn RNN_RELU": recurrent("RNN_RELU", weights(1), [STATE[None]], plain(lambda x: np.maximum(x, 0))),
}

CASES_OF_LAYERS: Mapping[str, Case] = {
    **CONVOLUTIONS,
    **POOLED,
    **NORMALIZED,
    **SHAPED,
    **PICKED,
    **MADE,
    **PICTURES,
    **DETECTED,
    **RECURRENT,
}
"""Name -> case; those with the same first words are variants of one operation."""
