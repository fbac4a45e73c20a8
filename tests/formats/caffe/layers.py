"""What Caffe's layers compute, in NumPy: from the definition of each layer, element by element where that says it best.

Source: the layers' documentation and ``*_layer.cpp`` of BVLC/caffe (forward_cpu), weiliu89/caffe for SSD. Sums are in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    pad: Sequence[int] = (0, 0),
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    group: int = 1,
) -> Array:
    """``(N, C, H, W)`` with ``(O, C / group, kH, kW)``; sizes rounded down."""
    images, channels, height, width = x.shape
    outputs, depth, *kernel = weight.shape
    sizes = [
        (size + 2 * p - (d * (k - 1) + 1)) // s + 1
        for size, p, d, k, s in zip((height, width), pad, dilation, kernel, stride, strict=True)
    ]
    padded = np.zeros((images, channels, height + 2 * pad[0], width + 2 * pad[1]))
    padded[:, :, pad[0] : pad[0] + height, pad[1] : pad[1] + width] = x
    y = np.zeros((images, outputs, *sizes))
    for o in range(outputs):
        first = o // (outputs // group) * depth
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                rows = slice(i * dilation[0], i * dilation[0] + (sizes[0] - 1) * stride[0] + 1, stride[0])
                columns = slice(j * dilation[1], j * dilation[1] + (sizes[1] - 1) * stride[1] + 1, stride[1])
                part = padded[:, first : first + depth, rows, columns]
                y[:, o] += np.tensordot(part, weight[o, :, i, j].astype(np.float64), axes=(1, 0))
    return y if bias is None else y + bias[:, None, None]


def deconvolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    pad: int = 0,
    stride: int = 1,
    dilation: int = 1,
    group: int = 1,
) -> Array:
    """``(N, C, H, W)`` with ``(C, O / group, k, k)``: every element spreads the kernel."""
    images, channels, height, width = x.shape
    _, each, kernel, _ = weight.shape
    sizes = [stride * (size - 1) + dilation * (kernel - 1) + 1 for size in (height, width)]
    y = np.zeros((images, each * group, *sizes))
    for c in range(channels):
        first = c // (channels // group) * each
        for i in range(height):
            for j in range(width):
                rows = slice(i * stride, i * stride + dilation * (kernel - 1) + 1, dilation)
                columns = slice(j * stride, j * stride + dilation * (kernel - 1) + 1, dilation)
                y[:, first : first + each, rows, columns] += x[:, c, i, j][:, None, None, None] * weight[c].astype(
                    np.float64
                )
    y = y[:, :, pad : sizes[0] - pad or None, pad : sizes[1] - pad or None]
    return y if bias is None else y + bias[:, None, None]


def pooling(
    x: Array,
    method: str,
    kernel: Sequence[int],
    stride: Sequence[int] = (1, 1),
    pad: Sequence[int] = (0, 0),
    *,
    rounds_up: bool = True,
) -> Array:
    """As the loops of pooling_layer.cpp."""
    size = x.shape[2:]
    rounded = math.ceil if rounds_up else math.floor
    pooled = [rounded((n + 2 * p - k) / s) + 1 for n, p, k, s in zip(size, pad, kernel, stride, strict=True)]
    if any(pad):
        pooled = [
            count - 1 if (count - 1) * s >= n + p else count
            for count, s, n, p in zip(pooled, stride, size, pad, strict=True)
        ]
    y = np.empty((*x.shape[:2], *pooled))
    for ph in range(pooled[0]):
        for pw in range(pooled[1]):
            starts = [place * s - p for place, s, p in zip((ph, pw), stride, pad, strict=True)]
            ends = [min(start + k, n + p) for start, k, n, p in zip(starts, kernel, size, pad, strict=True)]
            area = math.prod(end - start for start, end in zip(starts, ends, strict=True))
            (top, left), (bottom, right) = (
                [max(s, 0) for s in starts],
                [min(e, n) for e, n in zip(ends, size, strict=True)],
            )
            window = x[:, :, top:bottom, left:right].astype(np.float64)
            y[:, :, ph, pw] = window.max(axis=(2, 3)) if method == "MAX" else window.sum(axis=(2, 3)) / area
    return y


def lrn_across(x: Array, size: int, alpha: float, beta: float, k: float) -> Array:
    """Each channel with its neighbours."""
    scale, half = np.full(x.shape, k, np.float64), size // 2
    for c in range(x.shape[1]):
        near = x[:, max(c - half, 0) : c + half + 1].astype(np.float64)
        scale[:, c] += alpha / size * (near**2).sum(axis=1)
    return x * scale**-beta


def lrn_within(x: Array, size: int, alpha: float, beta: float) -> Array:
    """Each place with its neighbours; the average counts the padding."""
    mean = pooling(x.astype(np.float64) ** 2, "AVE", (size, size), pad=((size - 1) // 2,) * 2)
    return x * (1 + alpha * mean) ** -beta


def along(vector: Array, rank: int, axis: int = 1) -> Array:
    """A vector that broadcasts along one axis."""
    return vector.reshape(vector.shape + (1,) * (rank - axis - vector.ndim))


def interp(x: Array, height: int, width: int) -> Array:
    """Bilinear with corners on corners, as caffe_cpu_interp2."""
    scales = [(a - 1) / (b - 1) if b > 1 else 0.0 for a, b in zip(x.shape[2:], (height, width), strict=True)]
    y = np.empty((*x.shape[:2], height, width))
    for i in range(height):
        for j in range(width):
            place = scales[0] * i, scales[1] * j
            top, left = int(place[0]), int(place[1])
            below, right = top + (top < x.shape[2] - 1), left + (left < x.shape[3] - 1)
            u, v = place[0] - top, place[1] - left
            y[:, :, i, j] = (1 - u) * ((1 - v) * x[:, :, top, left] + v * x[:, :, top, right]) + u * (
                (1 - v) * x[:, :, below, left] + v * x[:, :, below, right]
            )
    return y


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def arg_max(x: Array, axis: int, count: int) -> tuple[Array, Array]:
    """The largest numbers and their places, sorted as pairs from the largest on: of equal numbers the last place comes first."""
    rows = np.moveaxis(x, axis, -1)
    values, places = np.empty((*rows.shape[:-1], count)), np.empty((*rows.shape[:-1], count))
    for index in np.ndindex(rows.shape[:-1]):
        pairs = sorted(zip(rows[index].tolist(), range(rows.shape[-1]), strict=True), reverse=True)[:count]
        values[index], places[index] = [value for value, _ in pairs], [place for _, place in pairs]
    return np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis)


def prior_box(
    places: Sequence[int],
    image: Sequence[int],
    *,
    smallest: Sequence[float],
    largest: Sequence[float] = (),
    ratios: Sequence[float] = (),
    flip: bool = True,
    clip: bool = False,
    variance: Sequence[float] = (0.1,),
    step: Sequence[float] = (),
    offset: float = 0.5,
) -> Array:
    """As the loops of prior_box_layer.cpp; height before width."""
    known = [1.0]
    for ratio in ratios:
        if all(abs(ratio - other) >= 1e-6 for other in known):
            known += [ratio, 1 / ratio] if flip else [ratio]
    steps = step or [of / count for of, count in zip(image, places, strict=True)]
    boxes: list[float] = []
    for h in range(places[0]):
        for w in range(places[1]):
            y, x = (h + offset) * steps[0], (w + offset) * steps[1]
            for index, size in enumerate(smallest):
                pairs = [(int(size), int(size))]
                if largest:
                    pairs.append((math.sqrt(int(size) * int(largest[index])),) * 2)
                pairs += [(int(size) / math.sqrt(r), int(size) * math.sqrt(r)) for r in known if abs(r - 1) >= 1e-6]
                for high, wide in pairs:
                    boxes += [(x - wide / 2) / image[1], (y - high / 2) / image[0]]
                    boxes += [(x + wide / 2) / image[1], (y + high / 2) / image[0]]
    numbers = np.clip(boxes, 0, 1) if clip else np.array(boxes)
    return np.stack([numbers, np.resize(np.array(variance), numbers.size)])[None]


def decode(offsets: Array, prior: Array, variance: Array, code: str, *, encoded: bool) -> Array:
    """One box of four corners."""
    d = offsets * (1 if encoded else variance)
    size = np.array([prior[2] - prior[0], prior[3] - prior[1]])
    if code == "CORNER":
        return prior + d
    if code == "CORNER_SIZE":
        return prior + d * np.tile(size, 2)
    centre, extent = (prior[:2] + prior[2:]) / 2 + d[:2] * size, size * np.exp(d[2:])
    return np.concatenate([centre - extent / 2, centre + extent / 2])


def overlap(a: Array, b: Array) -> float:
    """Intersection over union; boxes that end before they begin are empty."""
    width, height = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if width <= 0 or height <= 0:
        return 0.0
    areas = [0.0 if np.any(box[2:] < box[:2]) else float(np.prod(box[2:] - box[:2])) for box in (a, b)]
    return float(width * height / (sum(areas) - width * height))


def detection_output(
    loc: Array,
    conf: Array,
    priors: Array,
    *,
    classes: int,
    code: str = "CORNER",
    shared: bool = True,
    background: int = 0,
    encoded: bool = False,
    threshold: float = -math.inf,
    nms: float = 0.3,
    top_k: int = -1,
    keep: int = -1,
    clip: bool = False,
) -> Array:
    """As the loops of detection_output_layer.cpp and bbox_util.cpp."""
    images, count = loc.shape[0], priors.size // 8
    prior, variance = priors.astype(np.float64).reshape(2, count, 4)
    offsets = loc.astype(np.float64).reshape(images, count, 1 if shared else classes, 4)
    scores = conf.reshape(images, count, classes)
    rows = []
    for image in range(images):
        found: list[tuple[int, int, Array]] = []
        for label in range(classes):
            if label == background:
                continue
            boxes = [
                decode(offsets[image, p, 0 if shared else label], prior[p], variance[p], code, encoded=encoded)
                for p in range(count)
            ]
            boxes = [np.clip(box, 0, 1) if clip else box for box in boxes]
            order = sorted(range(count), key=lambda p: (-scores[image, p, label], p))
            order = [p for p in order if scores[image, p, label] > threshold][: None if top_k < 0 else top_k]
            kept: list[int] = []
            for p in order:
                if all(overlap(boxes[p], boxes[q]) <= nms for q in kept):
                    kept.append(p)
            found += [(label, p, boxes[p]) for p in kept]
        if -1 < keep < len(found):
            best = sorted(found, key=lambda item: -scores[image, item[1], item[0]])[:keep]
            found = sorted(best, key=lambda item: item[0])
        rows += [[image, label, scores[image, p, label], *box] for label, p, box in found]
    if not rows:
        rows = [[image, *[-1] * 6] for image in range(images)]
    return np.array(rows, np.float64)[None, None]
