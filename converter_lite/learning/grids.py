"""Fake quantization: grids whose steps and integers learn, with straight-through gradients.

Steps are learnt as logarithms of their ratio to the first ones, so a rate of learning means the same for every grid, and none can
become negative. Integers learn in one of two ways: straight through their rounding, or softly, as a mixture of the two integers
next to the float weight that is pulled towards one of them.

Sources: Esser et al., Learned Step Size Quantization, ICLR 2020 (gradients of steps); Bhalgat et al., LSQ+, CVPR workshops 2020
(zero points); Wei et al., QDrop, ICLR 2022 (:attr:`ActivationGrid.drop`); Nagel et al., Up or Down? Adaptive Rounding for
Post-Training Quantization, ICML 2020, section 3.3 (soft rounding).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from converter_lite.kernels.blocks import spread
from converter_lite.kernels.pairs import repair
from converter_lite.kernels.params import MIN_SCALE, QuantParams
from converter_lite.kernels.quantize import along_axis

EDGE = 0.4
"""Furthest that a weight starts from the integer that it is rounded to, in steps: at the edge of the interval the first gradient,
whose size is noise, would move it to the other integer."""

STRETCH = 0.1
"""How far the sigmoid of soft rounding reaches beyond 0 and 1, where it is cut off."""

LEANING = 0.1
"""Share of the way from an integer to the float weight at which soft rounding starts."""

SURE = 1e-3
"""Least distance from the ends of that sigmoid at which soft rounding starts."""


class _FakeQuantize(torch.autograd.Function):
    """``step * (clip(round(x / step + zero)) - zero)``; inputs within the grid pass their gradient on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
        ctx.save_for_backward(x, step, zero)
        ctx.bounds = low, high
        return (x / step).round_().add_(zero).clamp_(low, high).sub_(zero).mul_(step)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, step, zero = ctx.saved_tensors
        low, high = ctx.bounds
        exact = x / step
        q = exact.round().add_(zero)
        outside = (q < low) | (q > high)
        inner = gradient.masked_fill(outside, 0.0)
        if not (ctx.needs_input_grad[1] or ctx.needs_input_grad[2]):
            return inner, None, None, None, None
        residual = q.clamp_(low, high).sub_(zero).sub_(exact.masked_fill_(outside, 0.0))
        of_step = (gradient * residual).sum()
        of_zero = (inner.sum() - gradient.sum()) * step
        return inner, of_step, of_zero, None, None


class _Mixture(torch.autograd.Function):
    """Share of the upper of two integers: a sigmoid that reaches beyond 0 and 1, cut off (Nagel et al. 2020, formula 23)."""

    @staticmethod
    def forward(ctx: Any, share: Tensor) -> Tensor:
        reached = torch.sigmoid(share)
        ctx.save_for_backward(reached)
        return (reached * (1 + 2 * STRETCH)).sub_(STRETCH).clamp_(0, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (reached,) = ctx.saved_tensors
        slope, edge = (1 - reached).mul_(reached), STRETCH / (1 + 2 * STRETCH)
        # Where the sigmoid is cut off, it is no steeper than at the edges.
        torch.threshold_(slope, edge * (1 - edge), 0.0)
        return slope.mul_(1 + 2 * STRETCH).mul_(gradient)


class _RoundingRegularizer(torch.autograd.Function):
    """Sum of ``1 - |2 mixture - 1| ** sharpness`` (Nagel et al. 2020, formula 24)."""

    @staticmethod
    def forward(ctx: Any, mixture: Tensor, sharpness: float) -> Tensor:
        side = (mixture * 2).sub_(1)
        power = side.abs().pow_(sharpness - 1)
        ctx.save_for_backward(side, power)
        ctx.sharpness = sharpness
        return mixture.numel() - torch.dot(side.abs().flatten(), power.flatten())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        side, power = ctx.saved_tensors
        return torch.copysign(power, side).mul_(-2 * ctx.sharpness * gradient), None


def rounded(values: Tensor) -> Tensor:
    """Rounded values whose gradient is that of the unrounded ones."""
    return values + (values.round() - values).detach()


class ActivationGrid(nn.Module):
    """The grid of an activation.

    Args:
        params: Where it starts.
        learns: Whether its step, and a zero point within its range, may change.

    Attributes:
        drop: Share of the elements that training leaves unquantized, drawn anew each time.
    """

    def __init__(self, params: QuantParams, *, learns: bool = True) -> None:
        super().__init__()
        self.params = params
        self.drop = 0.0
        spec, zero = params.spec, int(params.zero_point)
        self.register_buffer("first", torch.tensor(float(params.scale)))
        self.growth = nn.Parameter(torch.zeros(()), requires_grad=learns)
        self.zero = nn.Parameter(torch.tensor(float(zero)), requires_grad=learns and not spec.symmetric)
        if zero in (spec.qmin, spec.qmax):
            self.zero.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """What a device sees of ``x``."""
        spec = self.params.spec
        zero = rounded(self.zero.clamp(spec.qmin, spec.qmax))
        seen = _FakeQuantize.apply(x, self.first * self.growth.exp(), zero, spec.qmin, spec.qmax)
        if self.training and self.drop:
            return torch.where(torch.rand_like(x) < self.drop, x, seen)
        return seen

    def learned(self) -> QuantParams:
        """The grid as it is now."""
        spec, step = self.params.spec, float((self.first * self.growth.exp()).detach())
        zero = np.clip(np.rint(float(self.zero.detach())), spec.qmin, spec.qmax)
        return replace(
            self.params,
            scale=np.maximum(np.float32(step), np.float32(MIN_SCALE)).reshape(()),
            zero_point=np.asarray(zero, np.int32),
        )


class WeightGrid(nn.Module):
    """A weight on its grid: steps per tensor, per channel or per block, and the unrounded integers.

    Args:
        weight: Float values.
        params: Where the grid starts.
        integers: Those chosen so far. The unrounded ones start at the point nearest to ``weight`` that is rounded to them.
        learns: Whether its steps may change.
    """

    def __init__(
        self, weight: NDArray[np.float32], params: QuantParams, integers: NDArray[np.int32], *, learns: bool = True
    ) -> None:
        super().__init__()
        self.params = params
        self._shape = weight.shape
        scale, zero = self._spread(params.scale), self._spread(params.zero_point).astype(np.float32)
        columns = params.input_scales if params.input_scales is not None else np.float32(1)
        chosen = integers.astype(np.float32) - zero
        exact = np.clip(weight / columns / scale, chosen - EDGE, chosen + EDGE)
        self.register_buffer("first", torch.from_numpy(np.array(params.scale)))
        self.register_buffer("columns", torch.tensor(columns))
        self.register_buffer("low", torch.from_numpy(np.asarray(params.spec.qmin - zero, np.float32)))
        self.register_buffer("high", torch.from_numpy(np.asarray(params.spec.qmax - zero, np.float32)))
        self.steps = nn.Parameter(torch.from_numpy(exact.astype(np.float32)))
        self.growth = nn.Parameter(torch.zeros(params.scale.shape), requires_grad=learns)
        self.share: nn.Parameter | None
        self.register_parameter("share", None)
        self._weight = torch.from_numpy(weight)
        self._below = self._span = self._mixed = self.steps.detach()
        self.keep_within()

    def forward(self) -> Tensor:
        """The weight that a device multiplies with; while it is soft, a mixture of two of them."""
        if self.share is not None:
            self._mixed = _Mixture.apply(self.share)
            return torch.addcmul(self._below, self._mixed, self._span) * self._step()
        steps = self._within(self.steps)
        return (rounded(steps) if self.steps.requires_grad else steps.round()) * self._step()

    def _step(self) -> Tensor:
        """What an integer counts, so that it broadcasts to the weight."""
        step = self.first * self.growth.exp()
        axis, block = self.params.spec.axis, self.params.spec.block
        if block and axis is not None:
            step = step.repeat_interleave(block, axis).narrow(axis, 0, self._shape[axis])
        elif axis is not None:
            step = step.reshape([-1 if i == axis % len(self._shape) else 1 for i in range(len(self._shape))])
        return step * self.columns

    def soften(self) -> nn.Parameter:
        """Let each integer be a mixture of itself and its neighbour on the side of the float weight.

        At first the mixture is the integer, moved by ``LEANING`` of its distance to the float weight: where the errors of a
        layer's integers cancel, they all become smaller and still cancel.

        Returns:
            What learns the mixture, until :meth:`harden`.
        """
        with torch.no_grad():
            distance = (self._weight / self._step() - self.steps.round()).clamp(-1, 1)
            lower = self.steps.round() - (distance < 0).float()
            self._below = self._within(lower)
            self._span = self._within(lower + 1) - self._below
            mixed = torch.where(distance < 0, 1 + LEANING * distance, LEANING * distance)
            reached = ((mixed + STRETCH) / (1 + 2 * STRETCH)).clamp(SURE, 1 - SURE)
            self.share = nn.Parameter(torch.logit(reached))
        return self.share

    def rounding_regularizer(self, sharpness: float) -> Tensor:
        """Sum over the weight of 1 for a mixture of equal parts and 0 for one of the integers alone, as it was computed last.

        Args:
            sharpness: The greater, the nearer to an integer a mixture still counts as 1.
        """
        mixed, self._mixed = self._mixed, self._mixed.detach()
        return _RoundingRegularizer.apply(mixed, sharpness)

    def harden(self) -> None:
        """Take the integer with the larger share."""
        assert self.share is not None
        with torch.no_grad():
            self.steps.copy_(self._below + self._span * _Mixture.apply(self.share).round())
            self.share = None
            self._below = self._span = self._mixed = self.steps.detach()
            self.keep_within()

    def keep_within(self) -> None:
        """Bring back unrounded integers that have left the grid, and those of pairs that would saturate a kernel."""
        with torch.no_grad():
            self.steps.copy_(self._within(self.steps))
            if self.params.pair_rules:
                rounded_steps = np.rint(self.steps.numpy()).astype(np.int32)
                fitting = repair(rounded_steps, self.steps.numpy, self.params.pair_rules)
                moved = torch.from_numpy(fitting != rounded_steps)
                self.steps.copy_(torch.where(moved, torch.from_numpy(fitting.astype(np.float32)), self.steps))

    def _within(self, steps: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(steps, self.low), self.high)

    def learned(self) -> tuple[QuantParams, NDArray[np.int32]]:
        """The grid and the integers as they are now."""
        self.keep_within()
        steps = np.maximum((self.first * self.growth.exp()).detach().numpy(), np.float32(MIN_SCALE))
        zero = self._spread(self.params.zero_point)
        integers = np.rint(self.steps.detach().numpy()).astype(np.int32) + zero
        return replace(self.params, scale=steps.astype(np.float32)), integers.astype(np.int32)

    def _spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Scales or zero points so that they broadcast to the weight."""
        axis, block = self.params.spec.axis, self.params.spec.block
        if block and axis is not None:
            return spread(values, self._shape[axis], axis, block)
        return along_axis(values, len(self._shape), axis)


class DynamicGrid(nn.Module):
    """Activations on the grid that a device finds for each of them while it runs: uint8.

    Args:
        row_zero_point: Zero point around which each row has a step of its own; ``None``: one grid for a sample.
    """

    def __init__(self, row_zero_point: int | None) -> None:
        super().__init__()
        self._row_zero_point = row_zero_point

    def forward(self, x: Tensor) -> Tensor:
        """What a device sees of ``x``."""
        with torch.no_grad():
            if self._row_zero_point is None:
                axes = tuple(range(1, x.dim())) or (0,)
                low, high = x.amin(axes, True).clamp(max=0), x.amax(axes, True).clamp(min=0)
                step = ((high - low) / 255).clamp(min=MIN_SCALE)
                zero = (-low / step).round()
            else:
                zero = torch.tensor(float(self._row_zero_point))
                above, below = x.amax(-1, True) / (255 - zero), x.amin(-1, True) / -zero
                step = torch.maximum(above, below).clamp(min=MIN_SCALE)
            seen = ((x / step).round() + zero).clamp(0, 255).sub(zero) * step
        return x + (seen - x).detach()
