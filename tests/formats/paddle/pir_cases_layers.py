"""Convolutions, pooling, normalizations and recurrent networks: see :mod:`tests.formats.paddle.pir_cases`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.paddle import references as ref
from tests.formats.paddle.inference_models import random
from tests.formats.paddle.pir_cases import LONG, PICTURE, VOLUME, Case, all_of, simple
from tests.formats.paddle.pir_models import VECTOR, PirProgram

Array = NDArray[Any]

FILTERS, GROUPED, DEPTHWISE = random(6, 4, 3, 3, seed=20), random(6, 2, 3, 3, seed=21), random(4, 1, 3, 3, seed=22)
BACK = random(4, 5, 3, 3, seed=23)


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

UNPOOLED = np.zeros((1, 2, 2, 4), np.float32)
UNPOOLED[0, :, 1, 1::2] = [[5, 7], [17, 19]]


def unpooled(p: PirProgram, x: int) -> int:
    maxima = p.op("max_pool2d_with_index", x, results=2, kernel_size=[2, 2], strides=[2, 2], paddings=[0, 0])
    return p.op("unpool", maxima, maxima + 1, p.ints(2, 4), ksize=[2, 2], strides=[2, 2], padding=[0, 0])


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
    "unpool": Case("unpool", unpooled, [np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)], [UNPOOLED]),
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

CASES_OF_LAYERS: Mapping[str, Case] = {**CONVOLUTIONS, **POOLED, **NORMALIZED, **RECURRENT}
