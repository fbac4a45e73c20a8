"""What operators of TensorFlow Lite compute, in plain NumPy: the definitions that translations are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def borders(size: int, kernel: int, stride: int, dilation: int, padding: str) -> tuple[int, int, int]:
    """Elements before and behind an axis, and the size of the result."""
    reach = (kernel - 1) * dilation + 1
    if padding == "VALID":
        return 0, 0, -(-(size - reach + 1) // stride)
    out = -(-size // stride)
    total = max((out - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2, out


def windows(
    x: NDArray[np.generic],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str,
    fill: float = 0.0,
) -> NDArray[np.generic]:
    """``(batch, result sizes..., kernel..., channels)`` of ``(batch, sizes..., channels)``."""
    ends = [borders(*each, padding) for each in zip(x.shape[1:-1], kernel, strides, dilations, strict=True)]
    wide = np.pad(x, [(0, 0), *((before, behind) for before, behind, _ in ends), (0, 0)], constant_values=fill)
    sizes = [size for _, _, size in ends]
    found = np.empty((x.shape[0], *sizes, *kernel, x.shape[-1]), x.dtype)
    for place in product(*map(range, kernel)):
        parts = tuple(
            slice(at * d, at * d + (size - 1) * s + 1, s)
            for at, d, s, size in zip(place, dilations, strides, sizes, strict=True)
        )
        found[(slice(None), *[slice(None)] * len(sizes), *place)] = wide[(slice(None), *parts)]
    return found


def conv(
    x: Floats,
    weight: Floats,
    bias: Floats | float = 0.0,
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    padding: str = "VALID",
) -> Floats:
    """Weights: (outputs, height, width, inputs of a group)."""
    groups = x.shape[-1] // weight.shape[-1]
    parts = np.split(windows(x, weight.shape[1:-1], stride, dilation, padding), groups, axis=-1)
    each = [
        np.tensordot(part, filters, (range(-len(weight.shape) + 1, 0), range(1, len(weight.shape))))
        for part, filters in zip(parts, np.split(weight, groups), strict=True)
    ]
    return (np.concatenate(each, axis=-1) + bias).astype(np.float32)


def depthwise(
    x: Floats,
    weight: Floats,
    bias: Floats | float = 0.0,
    *,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    padding: str = "VALID",
) -> Floats:
    """Weights: (1, height, width, channels * multiplier), those of a channel beside one another."""
    channels = x.shape[-1]
    filters = weight[0].reshape(*weight.shape[1:3], channels, -1)
    seen = windows(x, weight.shape[1:3], stride, dilation, padding)
    made = np.einsum("nyxhwc,hwcm->nyxcm", seen, filters)
    return (made.reshape(*made.shape[:3], -1) + bias).astype(np.float32)


def conv_transpose(
    x: Floats, weight: Floats, out: Sequence[int], stride: Sequence[int], padding: str, bias: Floats | float = 0.0
) -> Floats:
    """What a convolution of a result of these sizes read, added up; weights: (outputs, sizes..., inputs)."""
    kernel = weight.shape[1:-1]
    ends = [borders(o, k, s, 1, padding) for o, k, s in zip(out, kernel, stride, strict=True)]
    reach = [s * (n - 1) + k for s, n, k in zip(stride, x.shape[1:-1], kernel, strict=True)]
    room = [max(r, before + o) for r, (before, _, _), o in zip(reach, ends, out, strict=True)]
    whole = np.zeros((x.shape[0], *room, weight.shape[0]), np.float64)
    for place in product(*map(range, x.shape[1:-1])):
        parts = tuple(slice(at * s, at * s + k) for at, s, k in zip(place, stride, kernel, strict=True))
        given = x[(slice(None), *place)]
        whole[(slice(None), *parts)] += np.moveaxis(np.tensordot(given, weight, (1, weight.ndim - 1)), 1, -1)
    cut = tuple(slice(before, before + o) for (before, _, _), o in zip(ends, out, strict=True))
    return (whole[(slice(None), *cut)] + bias).astype(np.float32)


def pool(
    x: Floats, kernel: Sequence[int], stride: Sequence[int], padding: str, reduce: Callable[..., NDArray[np.generic]]
) -> Floats:
    """``reduce`` gets what a window sees; what is beyond the border is NaN."""
    seen = windows(x, kernel, stride, [1] * len(kernel), padding, float("nan"))
    return reduce(seen, axis=tuple(range(3, 3 + len(kernel)))).astype(np.float32)


def coordinates(size: int, out: int, *, corners: bool, middles: bool) -> NDArray[np.float64]:
    """Where the elements of a resized axis lie in the old one."""
    places = np.arange(out)
    if corners and out > 1:
        return places * (size - 1) / (out - 1)
    scale = size / out
    return (places + 0.5) * scale - 0.5 if middles else places * scale


def bilinear(x: Floats, out: Sequence[int], *, corners: bool = False, middles: bool = False) -> Floats:
    """Between the nearest two elements of each axis."""
    for axis, size in ((1, out[0]), (2, out[1])):
        at = np.clip(coordinates(x.shape[axis], size, corners=corners, middles=middles), 0, x.shape[axis] - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x.astype(np.float32)


def nearest(x: Floats, out: Sequence[int], *, corners: bool = False, middles: bool = False) -> Floats:
    """Rounded down; to the nearest where corners meet. In float32, as it decides about what lies between two."""
    for axis, size in ((1, out[0]), (2, out[1])):
        is_aligned, half = corners and size > 1, np.float32(0.5)
        at = np.arange(size, dtype=np.float32) + (half if middles else np.float32(0))
        at = at * (np.float32(x.shape[axis] - is_aligned) / np.float32(size - is_aligned))
        at = np.floor(at + half if corners else at)
        x = np.take(x, np.clip(at.astype(int), 0, x.shape[axis] - 1), axis)
    return x


def sigmoid(x: NDArray[np.floating]) -> NDArray[np.floating]:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def softmax(x: NDArray[np.floating], beta: float = 1.0) -> Floats:
    """Along the last axis."""
    e = np.exp(beta * (x - x.max(-1, keepdims=True)))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def lstm(x: Floats, w: dict[str, Floats], **options: float) -> Floats:
    """``(batch, time, units)`` of ``(batch, time, columns)``, from a state of zero.

    Args:
        x: Steps.
        w: ``wi wf wc wo`` (units, columns), ``ri ...`` (units, outputs), ``bi ...``; ``pi pf po`` peepholes, ``proj``
            (outputs, units) and ``projb``, ``ni nf nc no`` coefficients of normalized gates, each if there.
        options: ``cell_clip`` and ``proj_clip``.
    """
    units, outputs = w["wf"].shape[0], w["rf"].shape[1]
    h, c, made = np.zeros((len(x), outputs)), np.zeros((len(x), units)), []

    def gate(name: str, step: Floats, seen: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        value = step @ w[f"w{name}"].T + h @ w[f"r{name}"].T
        if f"p{name}" in w and seen is not None:
            value = value + seen * w[f"p{name}"]
        if f"n{name}" in w:
            value = (value - value.mean(-1, keepdims=True)) / np.sqrt(value.var(-1, keepdims=True) + 1e-8)
            value = value * w[f"n{name}"]
        return np.asarray(value + w[f"b{name}"], np.float64)

    for t in range(x.shape[1]):
        step = x[:, t]
        forget = sigmoid(gate("f", step, c))
        into = sigmoid(gate("i", step, c)) if "wi" in w else 1 - forget
        c = forget * c + into * np.tanh(gate("c", step))
        if options.get("cell_clip"):
            c = np.clip(c, -options["cell_clip"], options["cell_clip"])
        h = sigmoid(gate("o", step, c)) * np.tanh(c)
        if "proj" in w:
            h = h @ w["proj"].T + w.get("projb", np.float32(0))
            if options.get("proj_clip"):
                h = np.clip(h, -options["proj_clip"], options["proj_clip"])
        made.append(h)
    return np.stack(made, 1).astype(np.float32)
