"""Rounding with error compensation: each weight is rounded in turn, and the weights not yet rounded make up for its error.

Source: Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, ICLR 2023
(Cholesky form, columns in order of decreasing curvature); Frantar and Alistarh, Optimal Brain Compression, NeurIPS 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DAMPING = 0.01
"""Share of the mean curvature added to the diagonal, so that channels that hardly vary do not take arbitrary weights."""


def round_gptq(
    weight: NDArray[np.float64],
    hessian: NDArray[np.float64],
    scale: NDArray[np.float64],
    zero_point: NDArray[np.float64],
    *,
    qmin: int,
    qmax: int,
    damping: float = DAMPING,
) -> NDArray[np.int32]:
    """Integers that minimize ``|| (dequantized - weight) @ x ||`` over inputs with the given second moments.

    Shapes:
        weight: ``(groups, rows, columns)``; hessian: ``(groups, columns, columns)``, the mean of ``x x^T`` (covariance where a
        bias takes the mean); scale, zero_point: broadcast to ``(groups, rows, 1)``.

    Returns:
        int32 of the shape of ``weight``.
    """
    columns = weight.shape[2]
    curvature = np.diagonal(hessian, axis1=1, axis2=2)
    order = np.argsort(-curvature, axis=1, kind="stable")
    w = np.take_along_axis(weight, order[:, None, :], axis=2).astype(np.float64)
    h = np.take_along_axis(np.take_along_axis(hessian, order[:, :, None], axis=1), order[:, None, :], axis=2)
    upper = _inverse_cholesky(h, damping)
    scale = np.broadcast_to(scale, (*weight.shape[:2], 1))[..., 0]
    zero = np.broadcast_to(zero_point, (*weight.shape[:2], 1))[..., 0]
    q = np.empty_like(w)
    for j in range(columns):
        column = np.clip(np.rint(w[:, :, j] / scale + zero), qmin, qmax)
        q[:, :, j] = column
        error = (w[:, :, j] - (column - zero) * scale) / upper[:, j, j][:, None]
        if j + 1 < columns:
            w[:, :, j + 1 :] -= error[:, :, None] * upper[:, None, j, j + 1 :]
    result = np.empty_like(q)
    np.put_along_axis(result, np.broadcast_to(order[:, None, :], q.shape).copy(), q, axis=2)
    return result.astype(np.int32)


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
