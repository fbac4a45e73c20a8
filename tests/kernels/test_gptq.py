"""Rounding with error compensation against the method written out slowly, and against rounding to nearest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.kernels.gptq import DAMPING, compensation, round_gptq
from converter_lite.kernels.pairs import PAIR_LIMIT, Indices, repair_rows
from converter_lite.kernels.params import QuantSpec

Matrix = NDArray[np.float64]


def plain(
    weight: Matrix, hessian: Matrix, scale: Matrix, zero: Matrix, *, limits: tuple[int, int], damping: float
) -> Matrix:
    """Optimal brain quantization of one matrix, row by row, with a new inverse for every element.

    Columns are taken in order of decreasing curvature. Rounding column ``p`` by an error ``e`` moves each column ``r`` that
    is left by ``-e * inv[p, r] / inv[p, p]``, with the inverse of the hessian of the columns from ``p`` on.
    """
    damped = hessian + damping * np.mean(np.diag(hessian)) * np.eye(len(hessian))
    order = list(np.argsort(-np.diag(hessian), kind="stable"))
    result = np.zeros_like(weight)
    for row in range(len(weight)):
        w = weight[row].copy()
        for step, p in enumerate(order):
            left = order[step:]
            inverse = np.linalg.inv(damped[np.ix_(left, left)])
            q = np.clip(np.rint(w[p] / scale[row] + zero[row]), *limits)
            result[row, p] = q
            error = w[p] - (q - zero[row]) * scale[row]
            w[left] -= error * inverse[0] / inverse[0, 0]
    return result


def layer(seed: int, groups: int, rows: int, columns: int, *, bits: int, samples: int = 64) -> dict[str, Matrix]:
    """Weights, second moments of correlated inputs, and a grid per row."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(groups, columns, columns)) * rng.uniform(0.2, 2, size=(groups, 1, columns))
    x = rng.normal(size=(groups, samples, columns)) @ mixing
    weight = rng.normal(size=(groups, rows, columns))
    low, high = weight.min(axis=2, keepdims=True), weight.max(axis=2, keepdims=True)
    scale = (high - low) / (2**bits - 1)
    return {
        "weight": weight,
        "hessian": np.swapaxes(x, 1, 2) @ x / samples,
        "scale": scale,
        "zero_point": np.rint(-low / scale) - 2 ** (bits - 1),
    }


def rounded(
    case: dict[str, Matrix], spec: QuantSpec, *, damping: float = DAMPING, pairs: Sequence[Indices] = ()
) -> NDArray[np.int32]:
    compensated = compensation(case["hessian"], damping)
    return round_gptq(case["weight"], compensated, case["scale"], case["zero_point"], spec, pairs)[0]


def loss(case: dict[str, Matrix], q: NDArray[np.int32]) -> float:
    """Mean squared error of what the layer gives."""
    error = case["weight"] - (q - case["zero_point"]) * case["scale"]
    return float(np.einsum("gri,gij,grj->", error, case["hessian"], error))


def nearest(case: dict[str, Matrix], bits: int) -> NDArray[np.int32]:
    spec = QuantSpec(bits)
    return np.clip(np.rint(case["weight"] / case["scale"] + case["zero_point"]), spec.qmin, spec.qmax).astype(np.int32)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("damping", [0.01, 0.5])
def test_it_equals_the_method_written_out(bits: int, damping: float) -> None:
    case = layer(bits, 3, 5, 7, bits=bits)
    given = rounded(case, QuantSpec(bits), damping=damping)
    assert given.dtype == np.int32
    differs = 0
    for i in range(3):
        scale, zero = case["scale"][i, :, 0], case["zero_point"][i, :, 0]
        low_high = (QuantSpec(bits).qmin, QuantSpec(bits).qmax)
        expected = plain(case["weight"][i], case["hessian"][i], scale, zero, limits=low_high, damping=damping)
        np.testing.assert_array_equal(given[i], expected)
        differs += int(np.sum(expected != nearest(case, bits)[i]))
    assert differs > 0


def test_it_says_the_error_of_each_row() -> None:
    case = layer(4, 2, 6, 150, bits=4, samples=400)
    q, found = round_gptq(
        case["weight"], compensation(case["hessian"], 0.0), case["scale"], case["zero_point"], QuantSpec(4)
    )
    error = case["weight"] - (q - case["zero_point"]) * case["scale"]
    np.testing.assert_allclose(found, np.einsum("gri,gij,grj->gr", error, case["hessian"], error), rtol=1e-9)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_it_is_better_than_rounding_to_nearest_on_average_over_seeds(bits: int) -> None:
    cases = [layer(seed, 2, 6, 24, bits=bits) for seed in range(20)]
    ratios = [loss(c, rounded(c, QuantSpec(bits))) / loss(c, nearest(c, bits)) for c in cases]
    assert np.mean(ratios) < 0.7
    assert max(ratios) < 1.0


def test_inputs_that_are_not_correlated_are_rounded_to_nearest() -> None:
    case = layer(1, 1, 6, 9, bits=4)
    case["hessian"] = np.diag(np.arange(1.0, 10.0))[None]
    np.testing.assert_array_equal(rounded(case, QuantSpec(4)), nearest(case, 4))


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_channels_that_never_vary_keep_their_nearest_integers(rank: int) -> None:
    case = layer(2, 1, 6, 8, bits=4)
    live = case["hessian"][:, :rank, :rank].copy()
    case["hessian"] = np.zeros((1, 8, 8))
    case["hessian"][:, :rank, :rank] = live
    q = rounded(case, QuantSpec(4))
    np.testing.assert_array_equal(q[:, :, rank:], nearest(case, 4)[:, :, rank:])


def test_a_matrix_that_is_not_positive_definite_gets_more_damping() -> None:
    case = layer(3, 1, 4, 6, bits=4)
    case["hessian"] = -case["hessian"] + np.eye(6)
    q = rounded(case, QuantSpec(4))
    assert q.min() >= -8
    assert q.max() <= 7


def test_integers_stay_on_the_grid_where_compensation_would_leave_it() -> None:
    case = layer(4, 1, 8, 16, bits=2)
    case["weight"] *= 5
    q = rounded(case, QuantSpec(2))
    assert (q.min(), q.max()) == (-2, 1)


def test_one_scale_serves_all_rows_and_the_weight_is_not_changed() -> None:
    case = layer(5, 2, 4, 6, bits=4)
    case["scale"], case["zero_point"] = np.array(0.3), np.array(0.0)
    before = case["weight"].copy()
    one = rounded(case, QuantSpec(4))
    case["scale"], case["zero_point"] = np.full((2, 4, 1), 0.3), np.zeros((2, 4, 1))
    np.testing.assert_array_equal(one, rounded(case, QuantSpec(4)))
    np.testing.assert_array_equal(case["weight"], before)


def violating(weight: NDArray[np.int32], columns: list[NDArray[np.intp]]) -> int:
    """Pairs of one sign beyond the limit."""
    a, b = (np.concatenate([weight[..., c[:, side]] for c in columns], -1) for side in (0, 1))
    return int(np.count_nonzero((np.sign(a) == np.sign(b)) & (np.abs(a) + np.abs(b) > PAIR_LIMIT)))


@pytest.mark.parametrize("columns", [12, 13, 150])
def test_no_pair_saturates_a_kernel(columns: int) -> None:
    case = layer(6, 2, 4, columns, bits=8)
    case["scale"], case["zero_point"] = np.abs(case["weight"]).max(axis=2, keepdims=True) / 200, np.zeros((2, 4, 1))
    apart = np.arange(columns // 3 * 3).reshape(-1, 3)[:, :2]
    orders = [np.arange(columns // 2 * 2).reshape(-1, 2), apart]
    grid = QuantSpec(narrow_range=True)
    assert violating(rounded(case, grid), orders) > 0
    q = rounded(case, grid, pairs=orders)
    assert violating(q, orders) == 0
    assert np.abs(q).max() <= 127


def test_pairs_that_fit_change_nothing() -> None:
    case = layer(7, 2, 4, 10, bits=4)
    orders = [np.arange(10).reshape(-1, 2)]
    np.testing.assert_array_equal(rounded(case, QuantSpec(4), pairs=orders), rounded(case, QuantSpec(4)))


def test_what_a_pair_has_to_give_up_is_made_up_for() -> None:
    case = layer(8, 1, 6, 24, bits=8)
    case["scale"], case["zero_point"] = np.abs(case["weight"]).max(axis=2, keepdims=True) / 127, np.zeros((1, 6, 1))
    orders = [np.arange(24).reshape(-1, 2)]
    clipped = nearest(case, 8)
    repair_rows(clipped[0], (case["weight"] / case["scale"])[0], orders)
    q = rounded(case, QuantSpec(narrow_range=True), pairs=orders)
    assert loss(case, q) < loss(case, clipped)
