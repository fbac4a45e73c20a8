"""Rounding with error compensation: each weight is rounded in turn, and the weights not yet rounded make up for its error.

Source: Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, ICLR 2023
(Cholesky form, columns in order of decreasing curvature); Frantar and Alistarh, Optimal Brain Compression, NeurIPS 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.pairs import PAIR_LIMIT, Indices
from converter_lite.kernels.params import QuantSpec

BLOCK = 64
"""Columns whose updates of later columns are gathered into one matrix product."""

DAMPING = 0.01
"""Share of the mean curvature added to the diagonal, so that channels that hardly vary do not get arbitrary weights."""


@dataclass(frozen=True)
class Compensation:
    """How later columns compensate the errors of earlier ones.

    Attributes:
        order: ``(groups, columns)``, columns in the order in which they are rounded.
        factor: ``(groups, columns, columns)``, upper triangles that times their transpose are the second moments in that order.
    """

    order: NDArray[np.intp]
    factor: NDArray[np.float64]

    @cached_property
    def upper(self) -> NDArray[np.float64]:
        """Cholesky factor of the inverse second moments, ``(groups, columns, columns)``."""
        return _inverse_of_upper(self.factor)

    @property
    def variances(self) -> NDArray[np.float64]:
        """What remains of a column's variance once later ones compensate it, ``(groups, columns)`` in the weight's order."""
        left = np.empty(self.order.shape)
        inverse = 1 / np.diagonal(self.factor, axis1=1, axis2=2)
        np.put_along_axis(left, self.order, 1 / inverse**2, axis=1)
        return left


def compensation(hessian: NDArray[np.float64], damping: float = DAMPING) -> Compensation:
    """The compensation of :func:`round_gptq`, the same for all grids of a layer.

    Shapes:
        hessian: ``(groups, columns, columns)``, the mean of ``x x^T`` over inputs (covariance if a bias absorbs the mean).
    """
    order = np.argsort(-np.diagonal(hessian, axis1=1, axis2=2), axis=1, kind="stable")
    h = hessian[np.arange(len(order))[:, None, None], order[:, :, None], order[:, None, :]]
    return Compensation(order, _factor(h, damping))


def round_gptq(
    weight: NDArray[np.float64],
    compensated: Compensation,
    scale: NDArray[np.float64],
    zero_point: NDArray[np.float64],
    spec: QuantSpec,
    pairs: Sequence[Indices] = (),
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Integers that minimize ``|| (dequantized - weight) @ x ||`` over the inputs that a compensation was made for.

    Shapes:
        weight: ``(groups, rows, columns)``; scale, zero_point: broadcast to ``(groups, rows, 1)``, or of the weight's shape;
        pairs: columns that must not saturate a kernel together (:mod:`converter_lite.kernels.pairs`; zero points are 0 then).

    Returns:
        int32 of the shape of ``weight``; the mean squared error of each row's product with the inputs, ``(groups, rows)``.
    """
    groups, rows, columns = weight.shape
    order, upper = compensated.order, compensated.upper
    earlier = _earlier_partners(order, pairs)
    w = _by_column(weight, order)
    scales, zeros = (_grid_by_column(values, weight.shape, order) for values in (scale, zero_point))
    q, loss = np.zeros_like(w), np.zeros((groups, rows))
    for start in range(0, columns, BLOCK):
        end = min(start + BLOCK, columns)
        errors = np.empty((groups, end - start, rows))
        for j in range(start, end):
            done = errors[:, : j - start]
            left = w[:, j] - (upper[:, None, start:j, j] @ done)[:, 0]
            column = np.clip(np.rint(left / scales[:, j] + zeros[:, j]), spec.qmin, spec.qmax)
            for partner in earlier:
                column = _beside(column, q, partner[:, j])
            q[:, j] = column
            errors[:, j - start] = (left - (column - zeros[:, j]) * scales[:, j]) / upper[:, j, j, None]
        w[:, end:] -= np.swapaxes(upper[:, start:end, end:], 1, 2) @ errors
        loss += np.einsum("gcr,gcr->gr", errors, errors)
    result = np.empty(w.shape, np.int32)
    np.put_along_axis(result, order[:, :, None], q.astype(np.int32), axis=1)
    return np.ascontiguousarray(np.swapaxes(result, 1, 2)), loss


def _by_column(values: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """``(groups, columns, rows)``, columns in the order in which they are rounded: what is computed together lies together."""
    return np.take_along_axis(np.swapaxes(values, 1, 2), order[:, :, None], axis=1).astype(np.float64, copy=False)


def _grid_by_column(
    values: NDArray[np.float64], shape: tuple[int, ...], order: NDArray[np.intp]
) -> NDArray[np.float64]:
    """A scale or zero point for each element in that order."""
    groups, rows, columns = shape
    if values.shape == shape:
        return _by_column(values, order)
    return np.broadcast_to(np.swapaxes(np.broadcast_to(values, (groups, rows, 1)), 1, 2), (groups, columns, rows))


def _earlier_partners(order: NDArray[np.intp], pairs: Sequence[Indices]) -> list[NDArray[np.intp]]:
    """Per order of the sums and side of a pair ``(groups, columns)``: position of the partner that is rounded earlier, or -1."""
    places = np.argsort(order, axis=1)
    found = []
    for first, second in ((p[:, a], p[:, 1 - a]) for p in pairs for a in (0, 1)):
        partner = np.full(order.shape, -1)
        np.put_along_axis(partner, places[:, first], places[:, second], axis=1)
        found.append(np.where(partner < np.arange(order.shape[1]), partner, -1))
    return found


def _beside(column: NDArray[np.float64], q: NDArray[np.float64], partner: NDArray[np.intp]) -> NDArray[np.float64]:
    """A column clipped to what its partners, columns ``partner`` of ``q`` (one per group), leave of the limit of a pair."""
    known = np.take_along_axis(q, np.maximum(partner, 0)[:, None, None], axis=1)[:, 0]
    known = np.where(partner[:, None] >= 0, known, 0.0)
    return np.clip(column, -PAIR_LIMIT - np.minimum(known, 0), PAIR_LIMIT - np.maximum(known, 0))


def _factor(hessian: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    """Upper triangle that times its transpose is the damped matrix; with more damping where it is not positive definite.

    It is the lower Cholesky factor of the matrix with rows and columns in reverse; its inverse is the upper Cholesky factor of
    the inverse.
    """
    mean = np.maximum(np.diagonal(hessian, axis1=1, axis2=2).mean(axis=1), 1e-12)
    while True:
        damped = hessian.copy()
        np.einsum("gcc->gc", damped)[...] += damping * mean[:, None]
        try:
            lower: NDArray[Any] = np.linalg.cholesky(damped[:, ::-1, ::-1])
            return lower[:, ::-1, ::-1]
        except np.linalg.LinAlgError:
            damping = 10 * max(damping, 1e-6)


def _inverse_of_upper(upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of triangles ``(..., size, size)``, by halves: a sixth of the work of a matrix of no known form."""
    size = upper.shape[-1]
    if size <= BLOCK:
        return np.triu(np.linalg.inv(upper))
    half = size // 2
    inverse = np.zeros_like(upper, order="C")
    first = inverse[..., :half, :half] = _inverse_of_upper(upper[..., :half, :half])
    last = inverse[..., half:, half:] = _inverse_of_upper(upper[..., half:, half:])
    inverse[..., :half, half:] = -(first @ upper[..., :half, half:]) @ last
    return inverse
