"""The inputs of a convolution around chosen output positions, as rows of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a convolution.

    Attributes:
        kernel: Kernel size per spatial axis; so ``strides`` and ``dilations``.
        strides: Steps.
        dilations: Spacing of kernel elements.
        pads: Zeros at the beginnings, then at the ends, as in ONNX.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]


def conv_patches(x: NDArray[np.float32], window: Window, *, positions: int, seed: int) -> NDArray[np.float32]:
    """Input values around randomly chosen output positions, all of them if there are no more than ``positions``.

    Args:
        x: ``(N, C, *spatial)``.
        window: The window that the convolution moves over it.
        positions: Upper bound of chosen output positions.
        seed: Same seed, same positions.

    Returns:
        ``(chosen, C, kernel size)``, kernel elements in C order.
    """
    kernel, strides, dilations, pads = window.kernel, window.strides, window.dilations, window.pads
    spatial = len(kernel)
    padding = [(0, 0), (0, 0), *((pads[i], pads[spatial + i]) for i in range(spatial))]
    padded = np.pad(x, padding) if any(pads) else x
    outputs = [(padded.shape[2 + i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(spatial)]
    total = x.shape[0] * int(np.prod(outputs))
    chosen = choose(total, positions, seed)
    where = np.unravel_index(chosen, (x.shape[0], *outputs))
    offsets = np.unravel_index(np.arange(int(np.prod(kernel))), tuple(kernel))
    index = [where[1 + i][:, None] * strides[i] + offsets[i][None, :] * dilations[i] for i in range(spatial)]
    selection: Any = (where[0][:, None], slice(None), *index)
    patches = padded[selection]
    return np.ascontiguousarray(np.moveaxis(patches, 2, 1))


def choose(total: int, wanted: int, seed: int) -> NDArray[np.intp]:
    """Sorted positions out of ``total``, at most ``wanted``; the same for the same seed."""
    if total <= wanted:
        return np.arange(total)
    return np.sort(np.random.default_rng(seed).choice(total, size=wanted, replace=False))
