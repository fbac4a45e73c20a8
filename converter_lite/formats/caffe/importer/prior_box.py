"""SSD's PriorBox: boxes that depend on sizes alone, computed here.

Source: ``prior_box_layer.cpp`` of weiliu89/caffe, branch ssd.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step
from converter_lite.formats.caffe.text import Message

SAME_RATIO = 1e-6
"""Ratios that differ by less are one."""

Boxes = NDArray[np.float32]


def _prior_box(step: Step) -> None:
    """``(1, 2, places * boxes * 4)``: corners of the boxes of each place, and their variances."""
    shape, parameters = step.shape(), step.parameters
    if len(shape) != 4:
        raise ModelError(f"'{step.layer.bottoms[0]}' has {len(shape)} dimensions, and not 4")
    sizes = _box_sizes(parameters)
    image = _pair(parameters, "img_size", ("img_h", "img_w"), whole=True) or _image(step)
    steps = _pair(parameters, "step", ("step_h", "step_w")) or [
        float(np.float32(of) / np.float32(places)) for of, places in zip(image, shape[2:], strict=True)
    ]
    step.importer.take(8 * shape[2] * shape[3] * len(sizes))
    boxes = _boxes(shape[2:], steps, image, sizes, offset=parameters.number("offset", 0.5))
    if parameters.flag("clip", False):
        boxes = np.clip(boxes, 0, 1)
    variances = np.broadcast_to(_variances(parameters), boxes.shape)
    step.bind(step.constant("boxes", np.stack([boxes.reshape(-1), variances.reshape(-1)])[None]))


def _box_sizes(parameters: Message) -> list[tuple[np.float32, np.float32]]:
    """Height and width of the boxes of a place, in pixels. Caffe cuts sizes to whole numbers."""
    smallest, largest = parameters.numbers("min_size"), parameters.numbers("max_size")
    ratios = _ratios(parameters)
    if not smallest or min(smallest) < 1 or not max(smallest) < 1 << 15:
        raise ModelError(f"min_size {smallest}")
    if largest and (
        len(largest) != len(smallest) or any(not s < m < 1 << 15 for s, m in zip(smallest, largest, strict=True))
    ):
        raise ModelError(f"max_size {largest} for min_size {smallest}")
    sizes: list[tuple[np.float32, np.float32]] = []
    for index, size in enumerate(smallest):
        side = np.float32(int(size))
        sizes.append((side, side))
        if largest:
            between = np.float32(np.sqrt(np.float64(int(size) * int(largest[index]))))
            sizes.append((between, between))
        for ratio in ratios:
            root = np.sqrt(np.float32(ratio))
            sizes.append((side / root, side * root))
    return sizes


def _ratios(parameters: Message) -> list[float]:
    """Ratios of width and height besides 1, with their inverses."""
    found = [1.0]
    for ratio in parameters.numbers("aspect_ratio"):
        if not 0 < ratio < 1e6:
            raise ModelError(f"aspect_ratio {ratio:g}")
        if all(abs(ratio - known) >= SAME_RATIO for known in found):
            found.append(ratio)
            if parameters.flag("flip", True):
                found.append(float(np.float32(1.0 / ratio)))
    return [ratio for ratio in found if abs(ratio - 1.0) >= SAME_RATIO]


def _pair(parameters: Message, both: str, each: tuple[str, str], *, whole: bool = False) -> list[float]:
    """Numbers for height and width, from one field or from two; none without them."""
    names = each if any(map(parameters.has, each)) else (both, both) if parameters.has(both) else ()
    found = [float(parameters.size(name)) if whole else parameters.number(name) for name in names]
    if any(not 0 < number < 1 << 24 for number in found) or (names == each and parameters.has(both)):
        raise ModelError(f"{', '.join(each)} or {both} are above 0, and one of the two")
    return found


def _image(step: Step) -> list[float]:
    shape = step.shape(1)
    if len(shape) != 4:
        raise ModelError(f"'{step.layer.bottoms[1]}' has {len(shape)} dimensions, and not 4")
    return [float(size) for size in shape[2:]]


def _boxes(
    places: tuple[int, ...],
    steps: list[float],
    image: list[float],
    sizes: list[tuple[np.float32, np.float32]],
    *,
    offset: float,
) -> Boxes:
    """Corners ``(rows, columns, sizes, 4)`` as xmin, ymin, xmax, ymax, in parts of the image."""
    boxes = np.empty((*places, len(sizes), 4), np.float32)
    for axis in range(2):
        centres = ((np.arange(places[axis]) + np.float32(offset)) * np.float32(steps[axis])).astype(np.float32)
        centres = centres.reshape(-1, 1, 1) if axis == 0 else centres.reshape(1, -1, 1)
        half = np.array([size[axis] for size in sizes], np.float64) / 2
        boxes[..., 1 - axis] = (centres - half) / image[axis]
        boxes[..., 3 - axis] = (centres + half) / image[axis]
    return boxes


def _variances(parameters: Message) -> Boxes:
    given = parameters.numbers("variance") or [0.1]
    if len(given) not in (1, 4) or min(given) <= 0:
        raise ModelError(f"variance {given}: one or four, above 0")
    return np.array(given, np.float32)


KINDS: dict[str, Kind] = {
    "PriorBox": Kind(
        _prior_box,
        "a constant",
        "prior_box_param",
        "min_size max_size aspect_ratio flip clip variance img_size img_h img_w step step_h step_w offset",
        bottoms=(1, 2),
    ),
}
