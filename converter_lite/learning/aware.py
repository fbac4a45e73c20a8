"""Quantization-aware training: a quantized network as a module that any loop of PyTorch trains, and back.

Source: Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018
(fake quantization); Bengio et al., Estimating or Propagating Gradients Through Stochastic Neurons, 2013 (straight-through
gradients).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from converter_lite import graph as g
from converter_lite.errors import DataError
from converter_lite.learning.grids import ActivationGrid, WeightGrid
from converter_lite.learning.network import Network
from converter_lite.learning.readback import learned
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.targets.operands import bias_of, weight_of

REPAIRED_EVERY = 8
"""Changes of the weights after which they are brought back onto their grids."""

INTEGER_RATE, ZERO_RATE, BIAS_RATE = 5.0, 20.0, 2.0
"""Multiples of the learning rate for unrounded integers and zero points, which count steps of a grid, and for biases, which are
counted in their own root mean square, or where they are all zero in that of what their layer makes of inputs around 1."""


class QuantAware(Network):
    """A quantized network that learns from labels, or from any other loss.

    Args:
        quantized: Where it starts.

    Attributes:
        origin: What was asked for, as long as the module is to be written into a file; set by who made it.
    """

    def __init__(self, quantized: QuantizedModel) -> None:
        super().__init__(quantized.model, quantized)
        self.origin: object = None
        self.register_buffer("_changes", torch.zeros((), dtype=torch.int64))
        self._seen = self._state_of_weights()

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The outputs for inputs in the order of :attr:`inputs`, as a device with this plan computes them."""
        if self.training and self._state_of_weights() != self._seen:
            # Only here: the gradients of passes since the last change, which read the weights again, may still be wanted.
            self._changes += 1
            if self._changes % REPAIRED_EVERY == 0:
                self.keep_within()
            self._seen = self._state_of_weights()
        return super().forward(*inputs)

    def _size(self, name: str, bias: Tensor) -> float:
        """What a bias is counted in."""
        own = float(bias.detach().square().mean().sqrt())
        if own > 0 or self.quantized is None:
            return own
        nodes = [node for node in self.quantized.model.graph if (v := bias_of(node)) is not None and v.name == name]
        weights = [array for node in nodes if (array := g.constant(weight_of(node))) is not None]
        return max((float(np.sqrt(np.square(array).sum() / bias.numel())) for array in weights), default=1.0)

    def _state_of_weights(self) -> int:
        """Another number after each step of an optimizer, or after a state was loaded."""
        return sum(grid.steps._version for grid in self.weights.values())

    def parameter_groups(self, rate: float) -> list[dict[str, Any]]:
        """The parameters for an optimizer such as Adam, each kind with a rate that suits its unit.

        Args:
            rate: Learning rate of the relative change of steps.
        """
        grids = [module for module in self.modules() if isinstance(module, WeightGrid | ActivationGrid)]
        kinds = (
            ([grid.growth for grid in grids], rate),
            ([grid.steps for grid in grids if isinstance(grid, WeightGrid)], rate * INTEGER_RATE),
            ([grid.zero for grid in grids if isinstance(grid, ActivationGrid)], rate * ZERO_RATE),
            *(([bias], rate * BIAS_RATE * self._size(name, bias)) for name, bias in self.biases.items()),
        )
        groups = [{"params": [part for part in parts if part.requires_grad], "lr": own} for parts, own in kinds]
        return [group for group in groups if group["params"]]


def converted(module: QuantAware) -> tuple[ir.Model, QuantPlan]:
    """The graph, and the plan with the grids that were learnt. Integers of weights follow from both."""
    finished = trained(module)
    return finished.model, finished.plan


def trained(module: QuantAware) -> QuantizedModel:
    """What the module has learnt, with weights that have the values of their integers.

    A graph and a plan are then enough to write the network: rounding to nearest gives the integers again.
    """
    finished = learned(module)
    for name, params in finished.plan.weights.items():
        value = finished.model.graph.initializers.get(name)
        if value is not None and name in module.weights:
            value.const_value = ir.Tensor(params.dequantize(finished.integers(name)), name=name)
    return finished


def same_start(module: QuantAware, start: QuantizedModel) -> QuantizedModel:
    """What the module has learnt, if ``start`` is where it started.

    Raises:
        DataError: The model, the configuration or the samples have changed since.
    """
    assert module.quantized is not None
    if fingerprint(start) != fingerprint(module.quantized):
        raise DataError(
            "the module was made of another model, configuration or calibration data",
            hint="keep them as they are until the module is written",
        )
    return trained(module)


def fingerprint(quantized: QuantizedModel) -> str:
    """A hash of graph, plan and integers: states of a module fit only where it is the same."""
    digest = hashlib.sha256(json.dumps(quantized.plan.to_json(), sort_keys=True).encode())
    for node in quantized.model.graph:
        digest.update(ir.to_proto(node).SerializeToString(deterministic=True))
    for name, value in sorted(quantized.model.graph.initializers.items()):
        digest.update(f"{name} ".encode() + (value.const_value.tobytes() if value.const_value is not None else b""))
    for name in sorted(quantized.q_weights):
        digest.update(f"{name} ".encode() + quantized.integers(name).tobytes())
    return digest.hexdigest()


def augmented(pictures: Tensor, axis: int, kind: str, generator: torch.Generator) -> Tensor:
    """Pictures moved by up to an eighth of their size, the border repeated, and mirrored at random.

    Args:
        pictures: A batch.
        axis: Of the colours, 1 or 3.
        kind: ``all``, ``crop`` (never mirrored) or ``none``.
        generator: Draws.
    """
    if kind == "none":
        return pictures
    front = pictures.movedim(axis, 1)
    height, width = front.shape[2:]
    borders = max(height // 8, 1), max(width // 8, 1)
    made = torch.nn.functional.pad(front, (borders[1], borders[1], borders[0], borders[0]), mode="replicate")
    draws = torch.rand((len(front), 3), generator=generator)
    results = []
    for picture, (down, right, mirror) in zip(made, draws.tolist(), strict=True):
        top, left = int(down * (2 * borders[0] + 1)), int(right * (2 * borders[1] + 1))
        part = picture[:, top : top + height, left : left + width]
        results.append(part.flip(2) if kind == "all" and mirror < 0.5 else part)
    return torch.stack(results).movedim(1, axis).contiguous()
