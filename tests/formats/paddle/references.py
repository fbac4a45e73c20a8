"""Operators in NumPy, written from their definitions, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


erf = np.vectorize(math.erf)


def windows(size: int, kernel: int, stride: int, begin: int, count: int, dilation: int = 1) -> list[list[int]]:
    """For each of ``count`` windows the places in it that lie inside."""
    starts = range(-begin, -begin + stride * count, stride)
    return [[p for p in range(s, s + dilation * kernel, dilation) if 0 <= p < size] for s in starts]


def conv(
    x: Array, w: Array, *, stride: int = 1, pad: Sequence[tuple[int, int]] | int = 0, dilation: int = 1, groups: int = 1
) -> Array:
    """A convolution over any number of dimensions; ``pad`` before and behind each."""
    dims = x.ndim - 2
    margins = [(pad, pad)] * dims if isinstance(pad, int) else list(pad)
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *margins])
    sizes = [(x.shape[2 + d] - dilation * (w.shape[2 + d] - 1) - 1) // stride + 1 for d in range(dims)]
    made = np.zeros((x.shape[0], w.shape[0], *sizes))
    per_group = w.shape[0] // groups
    for place in itertools.product(*map(range, w.shape[2:])):
        part = x[
            (..., *(slice(p * dilation, p * dilation + stride * n, stride) for p, n in zip(place, sizes, strict=True)))
        ]
        part = part[(..., *(slice(0, n) for n in sizes))]
        for group in range(groups):
            rows = slice(group * per_group, (group + 1) * per_group)
            channels = slice(group * w.shape[1], (group + 1) * w.shape[1])
            made[:, rows] += np.einsum("nc...,oc->no...", part[:, channels], w[(rows, slice(None), *place)])
    return made


def conv_transpose(x: Array, w: Array, *, stride: int = 1, pad: int = 0, extra: int = 0, groups: int = 1) -> Array:
    """Each element spreads the filter; ``extra`` lines are added at the end."""
    dims, per_group = x.ndim - 2, x.shape[1] // groups
    sizes = [(x.shape[2 + d] - 1) * stride + w.shape[2 + d] + extra for d in range(dims)]
    made = np.zeros((x.shape[0], w.shape[1] * groups, *sizes))
    for place in itertools.product(*map(range, w.shape[2:])):
        target = tuple(slice(p, p + stride * n, stride) for p, n in zip(place, x.shape[2:], strict=True))
        for group in range(groups):
            rows = slice(group * w.shape[1], (group + 1) * w.shape[1])
            channels = slice(group * per_group, (group + 1) * per_group)
            spread = np.einsum("nc...,co->no...", x[:, channels].astype(np.float64), w[(channels, slice(None), *place)])
            made[(slice(None), rows, *target)] += spread
    return made[(..., *(slice(pad, size - pad) for size in sizes))]


def pool(x: Array, of: Callable[..., Array], *axes: list[list[int]]) -> Array:
    """``of`` (np.max, np.mean) over the product of windows along the last axes."""
    shape = [len(axis) for axis in axes]
    made = np.zeros((*x.shape[: x.ndim - len(axes)], *shape))
    for place in itertools.product(*map(range, shape)):
        chosen = x.astype(np.float64)
        for number, index in enumerate(place):
            axis = x.ndim - len(axes) + number
            chosen = np.take(chosen, axes[number][index], axis=axis)
        made[(..., *place)] = of(chosen, axis=tuple(range(x.ndim - len(axes), x.ndim)))
    return made


def resize(x: Array, sizes: Sequence[int], kind: str, place: Callable[[int, int, int], float]) -> Array:
    """Along the last axes; ``place(index, size before, size behind)`` is where a new element lies among the old ones."""
    for number, size in enumerate(sizes):
        axis = x.ndim - len(sizes) + number
        x = np.stack([_sampled(x, axis, kind, place(i, x.shape[axis], size)) for i in range(size)], axis=axis)
    return x


def _sampled(x: Array, axis: int, kind: str, place: float) -> Array:
    size, base = x.shape[axis], math.floor(place)
    rest = place - base

    def at(index: int) -> Array:
        return np.take(x, min(max(index, 0), size - 1), axis=axis).astype(np.float64)

    if kind == "nearest":
        return at(base)
    if kind == "linear":
        place = min(max(place, 0), size - 1)
        base, rest = math.floor(place), place - math.floor(place)
        return at(base) * (1 - rest) + at(base + 1) * rest
    a = -0.75
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (rest, 1 - rest)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (1 + rest, 2 - rest)]
    return far[0] * at(base - 1) + near[0] * at(base) + near[1] * at(base + 1) + far[1] * at(base + 2)


def half_pixel(index: int, before: int, behind: int) -> float:
    return (index + 0.5) * before / behind - 0.5


def corners(index: int, before: int, behind: int) -> float:
    return index * (before - 1) / max(behind - 1, 1)


def plain(index: int, before: int, behind: int) -> float:
    return index * before / behind


def sampled(x: Array, row: Array, column: Array) -> Array:
    """Linear interpolation of planes (channels, rows, columns) at places; 0 outside."""
    made = np.zeros((x.shape[0], *row.shape))
    top, left = np.floor(row).astype(int), np.floor(column).astype(int)
    for down, across in itertools.product((0, 1), repeat=2):
        r, c = top + down, left + across
        weight = (1 - np.abs(row - r)) * (1 - np.abs(column - c))
        inside = (r >= 0) & (r < x.shape[1]) & (c >= 0) & (c < x.shape[2])
        made += np.where(inside, weight, 0) * x[:, np.clip(r, 0, x.shape[1] - 1), np.clip(c, 0, x.shape[2] - 1)]
    return made


def deformed(x: Array, w: Array, offset: Array, mask: Array) -> Array:
    """A deformable convolution without padding, stride 1, one group of offsets."""
    height, width = (x.shape[2 + d] - w.shape[2 + d] + 1 for d in range(2))
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    made = np.zeros((x.shape[0], w.shape[0], height, width))
    for picture in range(x.shape[0]):
        for place, (down, across) in enumerate(itertools.product(range(w.shape[2]), range(w.shape[3]))):
            moved = offset[picture, 2 * place : 2 * place + 2]
            values = sampled(x[picture], rows + down + moved[0], columns + across + moved[1]) * mask[picture, place]
            made[picture] += np.einsum("chw,oc->ohw", values, w[:, :, down, across])
    return made


def lstm(x: Array, weights: Sequence[Array], state: Array, cell: Array) -> tuple[Array, Array, Array]:
    """One layer forward, gates i, f, g, o; x is (steps, batch, features)."""
    inner, recurrent, *biases = (array.astype(np.float64) for array in weights)
    found = []
    for step in x:
        sums = step @ inner.T + state @ recurrent.T + sum(biases)
        i, f, g, o = np.split(sums, 4, axis=-1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        found.append(state)
    return np.stack(found), state, cell


def gru(x: Array, weights: Sequence[Array], state: Array) -> tuple[Array, Array]:
    """One layer forward, gates r, z, n, the reset behind the product."""
    inner, recurrent, *biases = (array.astype(np.float64) for array in weights)
    found = []
    for step in x:
        one = np.split(step @ inner.T + biases[0], 3, axis=-1)
        other = np.split(state @ recurrent.T + biases[1], 3, axis=-1)
        r, z = sigmoid(one[0] + other[0]), sigmoid(one[1] + other[1])
        state = (1 - z) * np.tanh(one[2] + r * other[2]) + z * state
        found.append(state)
    return np.stack(found), state


def overlap(one: Array, other: Array, closed: float = 0.0) -> float:
    """Shared area of two boxes over that of both."""
    if one[0] > other[2] or one[2] < other[0] or one[1] > other[3] or one[3] < other[1]:
        return 0.0
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]) + closed
    areas = [float(np.prod(box[2:] - box[:2] + closed)) for box in (one, other)]
    return float(np.prod(sides) / (sum(areas) - np.prod(sides)))


def multiclass_nms(boxes: Array, scores: Array, **settings: Any) -> tuple[Array, Array, Array]:
    """Rows of class, score and corners; places; number for each picture."""
    rows, places, counts = [], [], []
    for picture in range(len(boxes)):
        kept: list[tuple[float, int, int]] = []
        for label in range(scores.shape[1]):
            if label == settings.get("background_label", -1):
                continue
            order = np.argsort(-scores[picture, label], kind="stable")
            order = order[scores[picture, label][order] > settings["score_threshold"]][: settings["nms_top_k"]]
            chosen: list[int] = []
            for box in order:
                shared = (overlap(boxes[picture, box], boxes[picture, c], settings.get("closed", 0.0)) for c in chosen)
                if all(value <= settings["nms_threshold"] for value in shared):
                    chosen.append(int(box))
            kept += [(float(scores[picture, label, box]), label, box) for box in chosen]
        best = sorted(range(len(kept)), key=lambda place: -kept[place][0])[: settings["keep_top_k"]]
        for place in sorted(best):
            score, label, box = kept[place]
            rows.append([label, score, *boxes[picture, box]])
            places.append([picture * boxes.shape[1] + box])
        counts.append(len(best))
    return np.array(rows), np.array(places, np.int32), np.array(counts, np.int32)


def matrix_nms(
    boxes: Array, scores: Array, *, gaussian: bool, keep: int, threshold: float = 0.1, most: int | None = None
) -> tuple[Array, Array, Array]:
    """One picture; the ``most`` best of each class are candidates, scores above ``threshold`` before and above 0.05 behind."""
    rows = []
    for label, of_class in enumerate(scores[0]):
        order = [int(p) for p in np.argsort(-of_class, kind="stable") if of_class[p] > threshold][:most]
        table = [[overlap(boxes[0, a], boxes[0, b]) for b in order[:i]] for i, a in enumerate(order)]
        largest = [max(line, default=0.0) for line in table]
        for i, box in enumerate(order):
            pairs = [(largest[j], shared) for j, shared in enumerate(table[i])]
            left = [math.exp((m * m - s * s) * 2) if gaussian else (1 - s) / (1 - m) for m, s in pairs]
            score = float(of_class[box]) * min(left, default=1.0)
            if score > 0.05:
                rows.append((score, label, box))
    rows = sorted(rows, key=lambda row: -row[0])[:keep]
    made = np.array([[label, score, *boxes[0, box]] for score, label, box in rows]).reshape(-1, 6)
    return made, np.array([box for _, _, box in rows], np.int32).reshape(-1, 1), np.array([len(rows)], np.int32)


def roi_align(x: Array, boxes: Array, size: int, scale: float, ratio: int, offset: float) -> Array:
    """``size`` x ``size`` means of ``ratio`` x ``ratio`` samples each; places outside the plane count as its border."""
    made = np.zeros((len(boxes), x.shape[1], size, size))
    for number, box in enumerate(boxes * scale - offset):
        sides = box[2:] - box[:2]
        sides = np.maximum(sides, 1.0) if not offset else sides
        steps = (np.arange(size * ratio) + 0.5) / (size * ratio)
        rows, columns = np.meshgrid(box[1] + steps * sides[1], box[0] + steps * sides[0], indexing="ij")
        rows, columns = (np.clip(p, 0, n - 1) for p, n in ((rows, x.shape[2]), (columns, x.shape[3])))
        values = sampled(x[0], rows, columns).reshape(x.shape[1], size, ratio, size, ratio)
        made[number] = values.mean(axis=(2, 4))
    return made


def yolo_boxes(
    x: Array, picture: Sequence[int], anchors: Sequence[int], classes: int, threshold: float
) -> tuple[Array, Array]:
    """Corners inside the picture (height, width) and scores of a head with stride 32."""
    count, (height, width) = len(anchors) // 2, x.shape[2:]
    grid = x.reshape(len(x), count, 5 + classes, height, width).astype(np.float64)
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    sides = np.asarray(anchors, np.float64).reshape(count, 2)[None, :, :, None, None]
    center = np.stack([(sigmoid(grid[:, :, 0]) + columns) / width, (sigmoid(grid[:, :, 1]) + rows) / height], 2)
    spread = np.exp(grid[:, :, 2:4]) * sides / np.array([32 * width, 32 * height]).reshape(1, 1, 2, 1, 1)
    whole = np.array(picture[::-1]).reshape(1, 1, 2, 1, 1)
    low, high = np.maximum((center - spread / 2) * whole, 0), np.minimum((center + spread / 2) * whole, whole - 1)
    certainty = sigmoid(grid[:, :, 4:5])
    passes = certainty >= threshold
    found = (np.concatenate([low, high], 2) * passes, sigmoid(grid[:, :, 5:]) * certainty * passes)
    boxes, scores = (np.moveaxis(array, 2, -1).reshape(len(x), count * height * width, -1) for array in found)
    return boxes, scores
