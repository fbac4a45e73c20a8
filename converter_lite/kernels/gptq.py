"""Rounding with error compensation: each weight is rounded in turn, and the weights not yet rounded make up for its error.

Source: Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, ICLR 2023
(Cholesky form, columns in order of decreasing curvature); Frantar and Alistarh, Optimal Brain Compression, NeurIPS 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.pairs import PAIR_LIMIT, Indices
from converter_lite.kernels.params import QuantSpec

BLOCK = 64
"""Columns whose updates of later columns are gathered into one matrix product."""

DAMPING = 0.01
"""Share of the mean curvature added to the diagonal, so that channels that hardly vary do not get arbitrary weights."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """How later columns compensate the errors of earlier ones.

    Attributes:
        order: ``(groups, columns)``, columns in the order in which they are rounded.
        upper: ``(groups, columns, columns)``, Cholesky factor of the inverse second moments in that order.
    """

    order: NDArray[np.intp]
    upper: NDArray[np.float64]

    @property
    def variances(self) -> NDArray[np.float64]:
        """What remains of a column's variance once later ones compensate it, ``(groups, columns)`` in the weight's order."""
        left = np.empty(self.order.shape)
        np.put_along_axis(left, self.order, 1 / np.diagonal(self.upper, axis1=1, axis2=2) ** 2, axis=1)
        return left


def compensation(hessian: NDArray[np.float64], damping: float = DAMPING) -> Compensation:
    """The compensation of :func:`round_gptq`, the same for all grids of a layer.

    Shapes:
        hessian: ``(groups, columns, columns)``, the mean of ``x x^T`` over inputs (covariance if a bias absorbs the mean).
    """
    order = np.argsort(-np.diagonal(hessian, axis1=1, axis2=2), axis=1, kind="stable")
    h = np.take_along_axis(np.take_along_axis(hessian, order[:, :, None], axis=1), order[:, None, :], axis=2)
    return Compensation(order, _inverse_cholesky(h, damping))


def round_gptq(
    weight: NDArray[np.float64],
    compensated: Compensation,
    scale: NDArray[np.float64],
    zero_point: NDArray[np.float64],
    spec: QuantSpec,
    pairs: Sequence[Indices] = (),
) -> NDArray[np.int32]:
    """Integers that minimize ``|| (dequantized - weight) @ x ||`` over the inputs that a compensation was made for.

    Shapes:
        weight: ``(groups, rows, columns)``; scale, zero_point: broadcast to ``(groups, rows, 1)``, or of the weight's shape;
        pairs: columns that must not saturate a kernel together (:mod:`converter_lite.kernels.pairs`; zero points are 0 then).

    Returns:
        int32 of the shape of ``weight``.
    """
    columns, order, upper = weight.shape[2], compensated.order, compensated.upper
    earlier = _earlier_partners(order, pairs)
    w = np.take_along_axis(weight, order[:, None, :], axis=2).astype(np.float64)
    scales, zeros = (_by_column(values, weight.shape, order) for values in (scale, zero_point))
    q = np.zeros_like(w)
    for start in range(0, columns, BLOCK):
        end = min(start + BLOCK, columns)
        errors = np.empty((*w.shape[:2], end - start))
        for j in range(start, end):
            scale, zero = scales[..., j], zeros[..., j]
            column = np.clip(np.rint(w[:, :, j] / scale + zero), spec.qmin, spec.qmax)
            for partner in earlier:
                column = _beside(column, q, partner[:, j])
            q[:, :, j] = column
            error = (w[:, :, j] - (column - zero) * scale) / upper[:, j, j][:, None]
            errors[:, :, j - start] = error
            w[:, :, j + 1 : end] -= error[:, :, None] * upper[:, None, j, j + 1 : end]
        w[:, :, end:] -= errors @ upper[:, start:end, end:]
    result = np.empty_like(q)
    np.put_along_axis(result, np.broadcast_to(order[:, None, :], q.shape).copy(), q, axis=2)
    return result.astype(np.int32)


def _by_column(values: NDArray[np.float64], shape: tuple[int, ...], order: NDArray[np.intp]) -> NDArray[np.float64]:
    """A value for each element, columns in the order in which they are rounded."""
    if values.shape != shape:
        return np.broadcast_to(np.broadcast_to(values, (*shape[:2], 1)), shape)
    return np.take_along_axis(values, order[:, None, :], axis=2)


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
    known = np.take_along_axis(q, np.maximum(partner, 0)[:, None, None], axis=2)[:, :, 0]
    known = np.where(partner[:, None] >= 0, known, 0.0)
    return np.clip(column, -PAIR_LIMIT - np.minimum(known, 0), PAIR_LIMIT - np.maximum(known, 0))


def _inverse_cholesky(hessian: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    """Upper Cholesky factor of the inverse of the damped matrix; more damping where it is not positive definite."""
    identity = np.eye(hessian.shape[1])
    mean = np.maximum(np.diagonal(hessian, axis1=1, axis2=2).mean(axis=1), 1e-12)[:, None, None]
    while True:
        try:
            inverse = np.linalg.inv(hessian + damping * mean * identity)
            lower = np.linalg.cholesky((inverse + np.swapaxes(inverse, 1, 2)) / 2)
        except np.linalg.LinAlgError:
            damping = 10 * max(damping, 1e-6)
            continue
        return np.swapaxes(lower, 1, 2)
