"""Resize and GridSample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite import graph as g
from converter_lite.kernels.interpolation import ROUNDINGS, TRANSFORMS, Filter, nearest, source_positions
from converter_lite.learning.operators.common import Inputs, given, integers

_PLAIN_LINEAR = ("half_pixel", "pytorch_half_pixel", "align_corners")
"""Coordinate modes in which PyTorch interpolates height and width itself."""

_WAYS = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest", "cubic": "bicubic", "bicubic": "bicubic"}
"""Modes of GridSample, of all operator sets."""


def resize(node: ir.Node, inputs: Inputs) -> Tensor:
    """Resize, without regions."""
    x = inputs[0]
    mode, place = (
        g.text_attribute(node, "mode", "nearest"),
        g.text_attribute(node, "coordinate_transformation_mode", "half_pixel"),
    )
    rounding = g.text_attribute(node, "nearest_mode", "round_prefer_floor")
    target, factors = _target(node, inputs)
    antialias, excludes = (bool(g.int_attribute(node, name, 0)) for name in ("antialias", "exclude_outside"))
    if place not in TRANSFORMS or mode not in ("nearest", "linear", "cubic") or rounding not in ROUNDINGS:
        raise ValueError(f"mode {mode} with {place} coordinates")
    interpolation = Filter(mode, g.float_attribute(node, "cubic_coeff_a", -0.75), antialias, excludes)
    exact = all(size * factor == to for size, factor, to in zip(x.shape, factors, target, strict=True))
    if exact and target[:2] == list(x.shape[:2]) and x.dim() in (3, 4, 5):
        if mode == "nearest" and _copies_blocks(place, rounding, x.shape[2:], target[2:]):
            return F.interpolate(x, target[2:], mode="nearest")
        if mode == "linear" and not antialias and x.dim() == 4 and place in _PLAIN_LINEAR and min(target[2:]) > 1:
            return F.interpolate(x, target[2:], mode="bilinear", align_corners=place == "align_corners")
    for axis, (size, to, factor) in enumerate(zip(x.shape, target, factors, strict=True)):
        if size == to and factor == 1.0:
            continue
        positions = source_positions(place, size, to, factor)
        if mode == "nearest":
            x = x.index_select(axis, torch.tensor(nearest(positions, rounding, size)))
        else:
            matrix = interpolation.weights(positions, size, factor)
            x = (x.movedim(axis, -1) @ torch.from_numpy(matrix).to(x.dtype).T).movedim(-1, axis)
    return x


def _target(node: ir.Node, inputs: Inputs) -> tuple[list[int], list[float]]:
    """Size of every axis of the result, and its factor."""
    shape, sizes, scales = list(inputs[0].shape), integers(inputs, 3), given(inputs, 2)
    axes = g.ints_attribute(node, "axes", tuple(range(len(shape))))
    target, factors = list(shape), [1.0] * len(shape)
    if sizes:
        if g.text_attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
            raise ValueError("it keeps the ratio of the sizes")
        for axis, size in zip(axes, sizes, strict=True):
            target[axis], factors[axis] = size, size / shape[axis]
    elif scales is not None:
        for axis, scale in zip(axes, scales.reshape(-1).tolist(), strict=True):
            # Multiplied as onnxruntime does: 6 times float32(5 / 6) is 5 there.
            target[axis], factors[axis] = int(np.float32(shape[axis]) * np.float32(scale)), scale
    return target, factors


def _copies_blocks(place: str, rounding: str, sizes: Sequence[int], target: Sequence[int]) -> bool:
    """Whether every element becomes a block of equal ones."""
    copies = (place == "half_pixel" and rounding.startswith("round")) or (place == "asymmetric" and rounding == "floor")
    return copies and all(to % size == 0 for size, to in zip(sizes, target, strict=True))


def grid_sample(node: ir.Node, inputs: Inputs) -> Tensor:
    """GridSample."""
    x, grid = inputs
    way, outside = g.text_attribute(node, "mode", "linear"), g.text_attribute(node, "padding_mode", "zeros")
    corners = bool(g.int_attribute(node, "align_corners", 0))
    return F.grid_sample(x, grid, mode=_WAYS[way], padding_mode=outside, align_corners=corners)
