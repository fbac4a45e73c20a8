"""What steps of learning take, by what a network is made of: time becomes a number of steps, so that a clock decides nothing.

The figures are those of two cores without other work, for a teacher and a student together (decision 0029).
"""

from __future__ import annotations

WORK_PER_SECOND = 1e10
"""Multiplications of the float network for which there is a second."""

NODE_SECONDS = 1.5e-4
"""Of a node, however small."""

ELEMENT_SECONDS = 1.2e-8
"""Of an element of a tensor between nodes."""

WEIGHT_SECONDS = 1e-8
"""Of a weight whose integer stays."""

SOFT_SECONDS = 2e-8
"""Of a weight whose integer learns."""

STEP_SECONDS = 3e-3
"""Of a step besides: the optimizer."""

THERE = 0.4
"""Share of :func:`seconds` in which numbers are computed without gradients."""


def seconds(work: float, elements: float, nodes: float, weights: float = 0.0, soft: float = 0.0) -> float:
    """There and back through a part of a network, without the optimizer.

    Args:
        work: Multiplications.
        elements: Of the tensors between nodes.
        nodes: How many are computed.
        weights: Those whose integers stay, as often as they are read.
        soft: Those whose integers learn.
    """
    of_numbers = work / WORK_PER_SECOND + ELEMENT_SECONDS * elements
    return of_numbers + NODE_SECONDS * nodes + WEIGHT_SECONDS * weights + SOFT_SECONDS * soft
