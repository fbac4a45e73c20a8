"""Remedies for activations of matrix products that are hard to quantize, and the noise that is left with each.

The noise of a product relative to its signal follows from steps and weights alone: rounding errors are taken as independent and
uniform. :mod:`converter_lite.quantization.smooth` observes the tensors and applies what is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.rounding import coarse
from converter_lite.quantization.upstream import Upstream, find_upstream
from converter_lite.targets.operands import weight_of

ALPHAS = (0.5, 0.65, 0.8)
"""Exponents that are tried."""

NOISE_LIMIT = 6e-4
"""Noise of a product, as a share of its signal's variance, that is accepted. Half of it makes MiniLM slower and no better."""

ROWS_FROM = 8e-4
"""Noise from which scales per row are considered, which cost about eight times as much time as factors."""

APART = 16
"""Most columns apart. MiniLM, cosine on 16 texts that nothing was fitted to: 0.9888 with none, 0.9973 with 8, 0.9976 with 16 and
32; they take 2 to 8 % of the time."""

APART_SHARE = 1 / 16
"""The same, as a share of a tensor's columns."""

WORTH = 0.5
"""A costlier remedy must lower the noise to this share."""

ROW_ZERO_POINTS = (1, 4, 8, 16, 32, 64, 96, 128)
"""Zero points tried for rows with scales of their own: 128 for symmetric values, small ones behind Gelu and Relu."""

OUTPUT_ROWS = 512
"""Rows that are enough to know the variance of a product."""

LEVELS = 255

WEIGHT_STEPS = 127

SMALLEST_SHARE = 1e-5
"""Least share of the tensor's largest value that a channel's counts as, so that dead channels get no huge factor."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Smoothing:
    """What was done to one tensor.

    Attributes:
        tensor: Its name.
        alpha: Exponent of the factors; 0 = no factors.
        row_zero_point: Zero point of rows with scales of their own, ``None`` = one scale.
        apart: Columns whose products stay float.
        noise_before, noise: Estimated noise of the products, share of their signal's variance, without and with it.
    """

    tensor: str
    alpha: float
    row_zero_point: int | None
    apart: tuple[int, ...]
    noise_before: float
    noise: float

    def __str__(self) -> str:
        factors = f", factors with alpha {self.alpha:g}" if self.alpha else ""
        rows = "" if self.row_zero_point is None else ", a scale per row"
        apart = f", columns apart: {', '.join(map(str, self.apart))}" if self.apart else ""
        return f"{self.tensor}: noise {self.noise_before:.2g} -> {self.noise:.2g}{factors}{rows}{apart}"


@dataclass(frozen=True, slots=True)
class Remedy:
    """A remedy: exponent of factors, zero point of rows, number of columns apart."""

    alpha: float = 0.0
    row_zero_point: int | None = None
    apart: int = 0


class Observed(Protocol):
    """A tensor whose values were seen, for :func:`choose`; ``low``: the smallest one of each column."""

    value: ir.Value
    low: Vector

    def largest(self, count: int) -> tuple[int, ...]:
        """Columns that may be apart."""


@dataclass(slots=True)
class Products:
    """A tensor and the products that read it. Shapes: low, high, energy ``(columns,)``; weight ``(columns, all outputs)``."""

    value: ir.Value
    readers: list[ir.Node]
    weight: NDArray[np.float32]
    low: Vector
    high: Vector
    energy: Vector
    rows: int = 0
    output_rows: int = 0
    output_sum: Vector = field(default_factory=lambda: np.zeros(1))
    output_energy: Vector = field(default_factory=lambda: np.zeros(1))
    row_energies: list[Vector] = field(default_factory=list)

    @classmethod
    def of(cls, value: ir.Value, readers: list[ir.Node]) -> Products:
        """Before any values were seen."""
        weight = np.concatenate([matrix(node) for node in readers], axis=1)
        return cls(value, readers, weight, *np.zeros((3, len(weight))))

    def see(self, x: NDArray[np.float32]) -> None:
        """Add the values of one sample."""
        rows = x.reshape(-1, len(self.low))
        self.low, self.high = np.minimum(self.low, rows.min(axis=0)), np.maximum(self.high, rows.max(axis=0))
        self.energy = self.energy + np.einsum("ij,ij->j", rows, rows)
        self.rows += len(rows)
        if self.output_rows < OUTPUT_ROWS:
            with np.errstate(invalid="ignore", over="ignore"):  # calibration names values that are not finite
                product = rows @ self.weight
            self.output_rows += len(rows)
            self.output_sum = self.output_sum + product.sum(axis=0)
            self.output_energy = self.output_energy + np.einsum("ij,ij->j", product, product)
            self.row_energies.append(np.einsum("ij,ij->i", product, product) / product.shape[1])

    @property
    def peak(self) -> Vector:
        """Largest absolute value per column."""
        return np.maximum(self.high, -self.low)

    @property
    def signal(self) -> float:
        """Mean variance of the products' outputs."""
        variance = self.output_energy / self.output_rows - np.square(self.output_sum / self.output_rows)
        return float(max(variance.mean(), 1e-30))

    @property
    def usual_signal(self) -> float:
        """That of half of the rows, if it is less: a few rows that are far larger than the others say nothing about these."""
        return max(min(self.signal, float(np.median(np.concatenate(self.row_energies)))), 1e-30)

    def factors(self, alpha: float) -> Vector:
        """Factors per column that the tensor is divided by; their geometric mean is 1."""
        peak = self.peak
        if alpha == 0.0:
            return np.ones_like(peak)
        activation = np.maximum(peak, SMALLEST_SHARE * peak.max())
        weight = np.abs(self.weight).max(axis=1).astype(np.float64)
        weight = np.maximum(weight, max(SMALLEST_SHARE * weight.max(), 1e-30))
        logarithm = alpha * np.log(activation) - (1 - alpha) * np.log(weight)
        return coarse(np.exp(logarithm - logarithm.mean()))

    def largest(self, count: int) -> tuple[int, ...]:
        """The columns with the largest absolute values, in order of their numbers."""
        return tuple(sorted(np.argsort(-self.peak, kind="stable")[:count].tolist()))

    @property
    def is_free(self) -> bool:
        """Whether the tensor can be divided without an operator."""
        return self.upstream(np.ones(len(self.low), np.float32)) is not None

    def upstream(self, factors: NDArray[np.float32]) -> Upstream | None:
        """How to divide the tensor without an operator, where it has no other readers and that is possible."""
        is_shared = any(use.node not in self.readers for use in self.value.uses())
        return None if is_shared else find_upstream(self.value, factors)


@dataclass(slots=True)
class RunTimeSteps:
    """Squared grid steps, chosen at run time, of one tensor divided by given factors, over samples."""

    factors: Vector
    count: int = 0
    whole: float = 0.0
    by_zero_point: Vector = field(default_factory=lambda: np.zeros(len(ROW_ZERO_POINTS)))

    def see(self, x: NDArray[np.float32]) -> None:
        """Add the values of one sample."""
        rows = x.reshape(-1, len(self.factors)) * (1.0 / self.factors).astype(np.float32)
        low, high = rows.min(axis=1).astype(np.float64), rows.max(axis=1).astype(np.float64)
        span = max(float(high.max()), 0.0) - min(float(low.min()), 0.0)
        self.count += len(rows)
        self.whole += len(rows) * (span / LEVELS) ** 2
        for i, zero_point in enumerate(ROW_ZERO_POINTS):
            step = np.maximum(high / (LEVELS - zero_point), -low / zero_point)
            self.by_zero_point[i] += float(np.square(np.maximum(step, 0.0)).sum())

    def squared(self, zero_point: int | None) -> float:
        """Mean squared step of the whole tensor, or of its rows around a zero point."""
        if zero_point is not None:
            return float(self.by_zero_point[ROW_ZERO_POINTS.index(zero_point)]) / self.count
        return self.whole / self.count


@dataclass(frozen=True, slots=True)
class Remedies:
    """What may be done about activations that are hard to quantize.

    Attributes:
        alphas: Exponents of factors to choose from; with none there are no factors.
        rows: Rows may have scales of their own.
        apart: Columns may stay float.
    """

    alphas: Sequence[float] = ALPHAS
    rows: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class StaticNoise:
    """Noise of a tensor's products with one range for all samples, by remedy."""

    item: Products

    def __call__(self, form: Remedy) -> float:
        """See :func:`noise_of_products`; relative to the usual signal."""
        factors, apart = self.item.factors(form.alpha), list(self.item.largest(form.apart))
        inverse = (1.0 / factors).astype(np.float32)
        inverse[apart] = 0.0
        low, high = (
            (limit.astype(np.float32) * inverse).astype(np.float64) for limit in (self.item.low, self.item.high)
        )
        step = (float(high.max()) - float(low.min())) / LEVELS
        return noise_of_products(self.item, factors, step**2, apart) / self.item.usual_signal


@dataclass(frozen=True, slots=True)
class DynamicNoise:
    """The same with a range for each sample, or each row."""

    item: Products
    by_alpha: dict[float, RunTimeSteps]

    def __call__(self, form: Remedy) -> float:
        """See :func:`noise_of_products`; relative to the signal."""
        steps = self.by_alpha[form.alpha]
        return noise_of_products(self.item, steps.factors, steps.squared(form.row_zero_point)) / self.item.signal


def choose(
    item: Observed,
    noise_of: Callable[[Remedy], float],
    remedies: Remedies,
    *,
    is_free: bool,
    limit: float = NOISE_LIMIT,
) -> Smoothing | None:
    """The cheapest remedy (:func:`_groups`) if the noise is above a limit, else the least noisy; ``None`` for none.

    Factors that cost nothing are taken wherever they help.
    """
    before = noise_of(Remedy())
    if before <= limit and not is_free:
        return None
    best, least = Remedy(), before
    columns = min(APART, int(APART_SHARE * len(item.low))) if remedies.apart else 0
    for forms, worth in _groups(remedies, columns, is_free=is_free):
        noises = [noise_of(form) for form in forms]
        index = int(np.argmin(noises)) if noises else -1
        if noises and noises[index] <= least * worth:
            best, least = forms[index], noises[index]
        if least <= ROWS_FROM:
            break
    if least >= before:
        return None
    return Smoothing(item.value.name or "", best.alpha, best.row_zero_point, item.largest(best.apart), before, least)


def _groups(remedies: Remedies, columns: int, *, is_free: bool) -> Iterator[tuple[list[Remedy], float]]:
    """Remedies of about one cost, the cheapest first, and to which share they must lower the noise; ``columns`` may be apart."""
    yield [Remedy(alpha) for alpha in remedies.alphas], 1.0 if is_free else WORTH
    yield [Remedy(apart=columns)] if columns else [], WORTH
    zero_points = ROW_ZERO_POINTS if remedies.rows else ()
    by_row = [Remedy(0.0, zero_point) for zero_point in zero_points]
    both = [Remedy(alpha, zero_point) for alpha in remedies.alphas for zero_point in zero_points]
    for forms in [by_row + both] if is_free else [by_row, both]:
        yield forms, WORTH


def noise_of_products(item: Products, factors: Vector, squared_step: float, apart: Sequence[int] = ()) -> float:
    """Variance of the products' rounding errors (of activations and weights).

    Args:
        item: The tensor.
        factors: It is divided by them.
        squared_step: Mean squared step of its grid.
        apart: Columns that are not on it.
    """
    weight, energies = factors[:, None] * item.weight, item.energy / np.square(factors)
    weight[list(apart)], energies[list(apart)] = 0.0, 0.0
    activation = squared_step / 12 * float(np.square(weight).sum(axis=0).mean())
    weight_step = np.abs(weight).max(axis=0) / WEIGHT_STEPS
    energy = float(energies.sum()) / item.rows
    return activation + float(np.square(weight_step).mean()) / 12 * energy


def matrix(node: ir.Node) -> NDArray[np.float32]:
    """The weight as ``(columns of the input, outputs)``."""
    matrix = g.floats(weight_of(node))
    return matrix.T if is_transposed(node) else matrix


def is_transposed(node: ir.Node) -> bool:
    """Whether a product's weight is stored as ``(outputs, columns)``."""
    return node.op_type == "Gemm" and bool(g.int_attribute(node, "transB", 0))
