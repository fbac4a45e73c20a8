"""What a network of the zoo is: how it is made, what it reads, and how it is exported. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import nn


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a network.

    Attributes:
        shape: Of a sample, with the batch.
        kind: ``picture``, ``wave``, ``noise``, ``tokens`` (int64 below ``high``), ``mask`` (ones, zeros at
            the end), ``ones`` (int64) or ``zeros``.
        high: Number of tokens.
        open: Axis -> name, where it is not fixed.
    """

    shape: tuple[int, ...]
    kind: str = "noise"
    high: int = 0
    open: Mapping[int, str] = field(default_factory=dict)

    def sample(self, rng: np.random.Generator) -> NDArray[np.float32] | NDArray[np.int64]:
        """A random value: pictures and sounds are smooth, with some noise."""
        if self.kind == "tokens":
            return rng.integers(0, self.high, self.shape, dtype=np.int64)
        if self.kind == "mask":
            mask = np.ones(self.shape, np.int64)
            mask[..., self.shape[-1] - int(rng.integers(0, self.shape[-1] // 2)) :] = 0
            return mask
        if self.kind == "ones":
            return np.ones(self.shape, np.int64)
        if self.kind == "zeros":
            return np.zeros(self.shape, np.float32)
        values = rng.standard_normal(self.shape).astype(np.float32)
        axes = {"picture": (-2, -1), "wave": (-1,)}.get(self.kind, ())
        return values if not axes else 0.3 * values + _smooth(rng, self.shape, axes)


def _smooth(rng: np.random.Generator, shape: tuple[int, ...], axes: tuple[int, ...]) -> NDArray[np.float32]:
    """Waves of random lengths and directions, a row of them for each channel."""
    total = np.zeros(shape)
    for _ in range(4):
        phase = rng.uniform(0, 2 * np.pi, (*shape[: axes[0]], *(1 for _ in axes)))
        for axis in axes:
            along = np.ones(len(shape), int).tolist()
            along[axis] = shape[axis]
            phase = phase + rng.uniform(0, 12) * np.linspace(0, 1, shape[axis]).reshape(along)
        total += 0.6 * np.sin(phase)
    return total.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Form:
    """How a network is exported.

    Attributes:
        opset: Operator set of ONNX.
        dynamo: With PyTorch's present exporter, or the older one, which traces.
        external: Weights lie in a file of their own.
        half: Weights and inputs are float16.
    """

    opset: int = 17
    dynamo: bool = False
    external: bool = False
    half: bool = False

    @property
    def title(self) -> str:
        """As the page says it."""
        words = ["dynamo" if self.dynamo else "trace", str(self.opset)]
        return " ".join([*words, *(["external"] if self.external else []), *(["float16"] if self.half else [])])


TRACE = Form()


@dataclass(frozen=True, slots=True)
class Network:
    """A row of the zoo."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Mapping[str, Input]
    form: Form = TRACE


def picture(size: int = 96, *, channels: int = 3, opened: str = "") -> dict[str, Input]:
    """One picture as the only input; ``opened``: nothing, ``batch``, or ``all`` for the size, too."""
    axes = {"": {}, "batch": {0: "batch"}, "all": {0: "batch", 2: "height", 3: "width"}}[opened]
    return {"image": Input((1, channels, size, size), "picture", open=axes)}
