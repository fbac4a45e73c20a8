"""The order of channels between layers, chosen so that weights that kernels add up in pairs are not large together.

An alternative to larger steps (:mod:`converter_lite.kernels.pairs`) that costs nothing: the float model stays the same.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.kernels.matching import cost_of, match, pair_costs
from converter_lite.quantization.channels import Channels, free_channels, largest_weights, weight_columns
from converter_lite.quantization.weights import pair_rule

LEVELS = 127
"""Steps of the largest weight of a sum."""

IMPORTANCE = 1 << 10
"""Importance of the sum with the largest step; others have a share of it, as their squared step."""


def reorder_channels(model: ir.Model, *, per_channel: bool) -> int:
    """Reorder channels in the constants of ``model``, in place.

    The order follows from the model alone, not from which nodes compute in integers: scales of a plan are in this order, also
    after a person has edited it.

    Args:
        model: Optimized float graph.
        per_channel: Whether weights have one step for each output channel.

    Returns:
        Number of tensors (with all that have the same order) whose channels have another order now.
    """
    changed = 0
    for channels in free_channels(model.graph):
        layers = _layers(channels, per_channel=per_channel)
        if not layers or channels.count < 3:
            continue
        costs = pair_costs(layers)
        if not cost_of(np.arange(channels.count), costs):
            continue
        order = match(costs)
        if cost_of(order, costs) < cost_of(np.arange(channels.count), costs):
            channels.reorder(order)
            changed += 1
    return changed


def _layers(channels: Channels, *, per_channel: bool) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Layers that sum over the channels: weights in steps, and the importance of each sum."""
    found = []
    for node, place in channels.readers:
        if pair_rule(node) is None:
            continue
        largest = largest_weights(node, place)
        largest = np.maximum(largest if per_channel else np.full_like(largest, largest.max()), 1e-30)
        steps = weight_columns(node, place, channels.count) * (LEVELS / largest)[:, None, None]
        found.append((steps, np.maximum(np.rint(IMPORTANCE * (largest / largest.max()) ** 2), 1)))
    return found
