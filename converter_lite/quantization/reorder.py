"""The order of channels between layers, chosen so that no two weights that kernels add up as a pair are both large.

An alternative to larger steps (:mod:`converter_lite.kernels.pairs`) that costs nothing: the float model stays the same.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.execution.ordered import map_ordered
from converter_lite.kernels.matching import cost_of, match, pair_costs
from converter_lite.kernels.pairs import PAIR_LIMIT
from converter_lite.quantization.channels import Channels, free_channels, largest_weights, weight_columns
from converter_lite.targets.operands import pair_rule

LEVELS = 127
"""Steps of the largest weight of a sum."""

MOST_WORK = 1 << 29
"""Large weights of a layer times channels that each of them is compared with: half a second. Where they are more, neighbours are
looked for in parts of the channels. That costs little where it happens first: with evenly spread weights, 3,072 channels and 768
sums, squared errors are 2 % lower with the best order of all channels; with normal ones, which are few enough, 43 %."""

Layers = list[tuple[NDArray[np.float64], NDArray[np.float64]]]


def reorder_channels(model: ir.Model, *, per_channel: bool, threads: int = 1) -> int:
    """Reorder channels in the constants of ``model``, in place.

    The order depends on the model alone, not on which nodes compute in integers: scales in a plan are in this order, even after
    the user has edited it.

    Args:
        model: Optimized float graph.
        per_channel: Whether weights have one step for each output channel.
        threads: Worker threads.

    Returns:
        Number of groups of tensors with the same order whose channels were reordered.
    """
    free = [channels for channels in free_channels(model.graph) if channels.count > 2]
    orders = list(map_ordered(lambda channels: _order(channels, per_channel=per_channel), free, threads))
    for channels, order in zip(free, orders, strict=True):
        if order is not None:
            channels.reorder(order)
    return sum(order is not None for order in orders)


def _order(channels: Channels, *, per_channel: bool) -> NDArray[np.intp] | None:
    """The order in which channels cost least, ``None`` if they stay as they are."""
    layers = _layers(channels, per_channel=per_channel)
    if not layers:
        return None
    order = np.concatenate([start + _match(layers, start, end) for start, end in _parts(layers, channels.count)])
    return order if np.any(order != np.arange(channels.count)) else None


def _match(layers: Layers, start: int, end: int) -> NDArray[np.intp]:
    """The order of some channels, counted from the first of them."""
    costs, given = (
        pair_costs((steps[:, :, start:end], importance) for steps, importance in layers),
        np.arange(end - start),
    )
    return match(costs) if cost_of(given, costs) else given


def _parts(layers: Layers, count: int) -> list[tuple[int, int]]:
    """Ranges of channels that look for neighbours among themselves, so that the work of a layer stays bounded."""
    large = max(int(np.count_nonzero(np.abs(steps) > PAIR_LIMIT // 2)) for steps, _ in layers)
    size = max(2 * (MOST_WORK // (2 * max(large, 1))), 2)
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def _layers(channels: Channels, *, per_channel: bool) -> Layers:
    """Layers that sum over the channels: weights in steps, and the importance of each sum."""
    found = []
    for node, place in channels.readers:
        if pair_rule(node) is None:
            continue
        largest = largest_weights(node, place)
        largest = np.maximum(largest if per_channel else np.full_like(largest, largest.max()), 1e-30)
        steps = weight_columns(node, place, channels.count) * (LEVELS / largest)[:, None, None]
        found.append((steps, np.square(largest / largest.max())))
    return found
