"""The order of channels between layers, chosen so that no two weights that kernels add up as a pair are both large.

An alternative to larger steps (:mod:`converter_lite.kernels.pairs`) that costs nothing: the float model stays the same.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.execution.ordered import map_ordered
from converter_lite.kernels.matching import cost_of, match, pair_costs
from converter_lite.quantization.channels import Channels, free_channels, largest_weights, weight_columns
from converter_lite.targets.operands import pair_rule

LEVELS = 127
"""Steps of the largest weight of a sum."""


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
    costs, given = pair_costs(layers), np.arange(channels.count)
    before = cost_of(given, costs)
    order = match(costs) if before else given
    return order if cost_of(order, costs) < before else None


def _layers(channels: Channels, *, per_channel: bool) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
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
