"""Steps of an optimizer that bring a quantized network, or a block of it, nearer to its teacher."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from converter_lite.learning.grids import WeightGrid
from converter_lite.learning.network import Network

SHARE_TRAVEL = 6.0
"""Way that the mixture of a soft integer can go in all steps (argument of its sigmoid)."""

FASTEST = 0.01
"""Most of such a way in a step: gradients of few samples are more noise than direction."""

GROWTH_TRAVEL = 0.1
"""The same for the relative change of a step of a grid."""

ZERO_TRAVEL = 2.0
"""The same for a zero point, in units of the grid."""

BIAS_TRAVEL = 0.2
"""The same for a bias, in units of the root mean square of its layer's results."""

WARM_SHARE, COLD_RATE = 0.05, 0.02
"""Share of the steps in which rates rise; share of them that is left at the end."""

FREE_SHARE = 0.2
"""Share of the steps in which soft integers are not pulled anywhere (Nagel et al. 2020)."""

SHARPEST = (20.0, 2.0)
"""First and last sharpness of :meth:`~converter_lite.learning.grids.WeightGrid.rounding_regularizer` (Nagel et al. 2020)."""

PULL = (1.0, 100.0)
"""First and last weight of the mean regularizer, relative to the loss."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A tensor to come near to, and how much its error counts."""

    name: str
    weight: float = 1.0


Batch = Mapping[str, Tensor]
"""Tensors by name."""


def distance(found: Tensor, wanted: Tensor) -> Tensor:
    """Squared error over squared signal, of values that are finite in the teacher."""
    wanted = wanted.float()
    finite = torch.isfinite(wanted)
    wanted, found = torch.where(finite, wanted, 0.0), torch.where(finite, found.float(), 0.0)
    return (found - wanted).square().sum() / wanted.square().sum().clamp(min=1e-12)


def loss_of(found: Batch, wanted: Batch, goals: Iterable[Goal]) -> Tensor:
    """Weighted sum of the distances of some tensors."""
    parts = [goal.weight * distance(found[goal.name], wanted[goal.name]) for goal in goals]
    return torch.stack(parts).sum()


class Optimizer:
    """Adam over what may learn in a network, with rates that let each kind go a certain way, however many steps there are.

    Args:
        student: The network.
        total: Steps that will be taken: rates rise at first and fall to the end.
        sizes: initializer name -> root mean square of what the layer with this bias gives.
        share: Of the ways that parameters of grids and biases can go.
        only: Names of initializers and tensors that learn; ``None``: all. Integers learn where they are soft.

    Attributes:
        learns: Whether there is anything that may learn; no step can be taken otherwise.
    """

    def __init__(
        self,
        student: Network,
        total: int,
        sizes: Mapping[str, float],
        share: float = 1.0,
        only: Collection[str] | None = None,
    ) -> None:
        self._taken = 0
        groups: dict[nn.Parameter, float] = {}
        for name, weight in student.weights.items():
            if only is None or name in only:
                groups[weight.growth] = share * GROWTH_TRAVEL
                if weight.share is not None:
                    groups[weight.share] = SHARE_TRAVEL
        for name, grid in student.activations.items():
            if only is None or name in only:
                groups |= {grid.growth: share * GROWTH_TRAVEL, grid.zero: share * ZERO_TRAVEL}
        for name, bias in student.biases.items():
            if only is None or name in only:
                groups[bias] = share * BIAS_TRAVEL * sizes.get(name, 1.0)
        self._total = max(total, 1)
        pace = min(1 / self._total, FASTEST)
        rates = {parameter: pace * travel for parameter, travel in groups.items() if parameter.requires_grad}
        settings = [{"params": [p], "lr": rate, "first": rate} for p, rate in rates.items()]
        self.learns = bool(settings)
        if settings:
            self._adam = torch.optim.Adam(settings, betas=(0.9, 0.99))

    def step(self, loss: Callable[[], Iterable[Tensor]]) -> float:
        """One step down the mean of some losses, computed one after another; their mean.

        Nothing moves where a loss or a gradient is not finite.
        """
        done = self._taken / self._total
        warm = min(done / WARM_SHARE + 0.1, 1.0)
        share = warm * (COLD_RATE + (1 - COLD_RATE) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
        for group in self._adam.param_groups:
            group["lr"] = group["first"] * share
        self._adam.zero_grad()
        values = []
        for part in loss():
            if part.requires_grad:  # not where nothing but whole numbers is read behind a block
                part.backward()
            values.append(float(part.detach()))
        gradients = [p.grad for group in self._adam.param_groups for p in group["params"] if p.grad is not None]
        if all(map(math.isfinite, values)) and all(bool(found.isfinite().all()) for found in gradients):
            self._adam.step()
        self._taken += 1
        return sum(values) / max(len(values), 1)


def rounding_regularizer(grids: Sequence[WeightGrid], done: float) -> Tensor | float:
    """What soft integers add to a loss of 1, so that they leave mixtures: nothing at first, and everything in the end.

    Args:
        grids: Soft ones.
        done: Share of the steps that are taken.
    """
    if done < FREE_SHARE or not grids:
        return 0.0
    late = (done - FREE_SHARE) / (1 - FREE_SHARE)
    sharpness = SHARPEST[1] + (SHARPEST[0] - SHARPEST[1]) * 0.5 * (1 + math.cos(math.pi * late))
    pull = PULL[0] * (PULL[1] / PULL[0]) ** late
    parts = [grid.rounding_regularizer(sharpness) for grid in grids]
    return pull * torch.stack(parts).sum() / sum(grid.steps.numel() for grid in grids)


def sizes_of_results(teacher: Network, sample: Batch, biases: dict[str, str]) -> dict[str, float]:
    """Root mean square of the tensor that each bias is added to; ``biases``: initializer name -> tensor name."""
    with torch.no_grad():
        found = teacher.evaluate(sample, list(dict.fromkeys(biases.values())))
    return {bias: float(found[tensor].square().mean().sqrt()) for bias, tensor in biases.items()}


def batches(count: int, size: int, generator: torch.Generator) -> Iterable[Sequence[int]]:
    """Numbers of samples in a random order, ``size`` at a time, for ever."""
    left: list[int] = []
    while True:
        while len(left) < size:
            left += torch.randperm(count, generator=generator).tolist()
        yield left[:size]
        left = left[size:]
