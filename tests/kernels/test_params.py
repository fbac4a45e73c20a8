from __future__ import annotations

import numpy as np
import pytest

from converter_lite.errors import CalibrationError
from converter_lite.kernels.params import MIN_RANGE, QuantParams, QuantSpec, params_from_range, weight_params
from tests.support import normal


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        (QuantSpec(8, signed=True), (-128, 127)),
        (QuantSpec(8, signed=False), (0, 255)),
        (QuantSpec(8, signed=True, symmetric=True, narrow_range=True), (-127, 127)),
        (QuantSpec(1, signed=True), (-1, 0)),
        (QuantSpec(1, signed=True, narrow_range=True), (-1, 0)),
        (QuantSpec(16, signed=True), (-32768, 32767)),
        (QuantSpec(32, signed=True), (-(2**31), 2**31 - 1)),
    ],
)
def test_the_limits_of_a_grid_follow_from_its_width_and_sign(spec: QuantSpec, limits: tuple[int, int]) -> None:
    assert (spec.qmin, spec.qmax) == limits


@pytest.mark.parametrize("bits", [0, -1, 17, 31, 33])
def test_widths_that_no_grid_has_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="bits must be"):
        QuantSpec(bits)


def test_an_unsigned_grid_has_no_narrow_range() -> None:
    with pytest.raises(ValueError, match="signed"):
        QuantSpec(8, signed=False, narrow_range=True)


def test_a_range_on_one_side_of_zero_is_widened_to_hold_zero() -> None:
    params = params_from_range(2.0, 3.0, QuantSpec(8, signed=False))
    assert params.zero_point == 0
    assert params.scale == np.float32(3 / 255)
    params = params_from_range(-3.0, -2.0, QuantSpec(8, signed=False))
    assert params.zero_point == 255


def test_a_symmetric_grid_covers_the_larger_side_with_zero_in_the_middle() -> None:
    params = params_from_range(-1.0, 0.5, QuantSpec(8, symmetric=True, narrow_range=True))
    assert (params.scale, params.zero_point) == (np.float32(1 / 127), 0)
    params = params_from_range(-1.0, 0.5, QuantSpec(8, signed=False, symmetric=True))
    assert (params.scale, params.zero_point) == (np.float32(1 / 127), 128)


def test_an_empty_range_is_widened_instead_of_giving_scale_zero() -> None:
    params = params_from_range(0.0, 0.0, QuantSpec(8, signed=False))
    assert params.scale == np.float32(MIN_RANGE / 255)
    np.testing.assert_array_equal(params.fake_quantize(np.zeros(3, np.float32)), 0)


def test_a_signal_that_nearly_vanishes_keeps_its_range_and_a_channel_of_a_weight_does_not() -> None:
    """Networks that nobody trained give less and less from layer to layer; a channel of a weight that small is dead."""
    assert params_from_range(0.0, 255e-20, QuantSpec(8, signed=False)).scale == np.float32(1e-20)
    (scale,) = params_from_range(np.zeros(1), np.array([255e-20]), QuantSpec(8, signed=False, axis=0)).scale
    assert scale == np.float32(MIN_RANGE / 255)


@pytest.mark.parametrize("bounds", [(np.nan, 1.0), (0.0, np.inf), (-np.inf, 0.0)])
def test_a_range_that_is_not_finite_is_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(CalibrationError, match="not finite"):
        params_from_range(*bounds, QuantSpec())


def test_an_empty_weight_is_refused() -> None:
    with pytest.raises(CalibrationError, match="empty"):
        weight_params(np.zeros((0, 3), np.float32), QuantSpec())


def test_a_dead_channel_gets_a_usable_scale_and_does_not_change_the_others() -> None:
    weight = normal(3, 4)
    spec = QuantSpec(8, symmetric=True, axis=0)
    alive = weight_params(weight, spec)
    weight[1] = 0.0
    params = weight_params(weight, spec)
    assert np.all(params.scale > 0)
    assert np.all(params.quantize(weight)[1] == 0)
    np.testing.assert_array_equal(params.scale[[0, 2]], alive.scale[[0, 2]])


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_cannot_be_used_is_refused(scale: float) -> None:
    with pytest.raises(CalibrationError, match="finite and positive"):
        QuantParams(np.array(scale, np.float32), np.array(0, np.int32), QuantSpec())


def test_scale_and_zero_point_have_one_shape_and_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        QuantParams(np.ones(3, np.float32), np.array(0, np.int32), QuantSpec(axis=0))
    params = weight_params(normal(3, 4), QuantSpec(axis=0))
    with pytest.raises(ValueError, match="read-only"):
        params.scale[0] = 2.0


def test_the_real_range_is_what_the_ends_of_the_grid_mean() -> None:
    params = params_from_range(-1.0, 3.0, QuantSpec(8, signed=False))
    low, high = params.real_range
    assert low == params.dequantize(np.array(0))
    assert high == params.dequantize(np.array(255))


def test_one_step_for_a_weight_with_few_large_elements_is_that_of_least_error() -> None:
    weight = normal(400, 400)
    weight[3, 5] = 20.0
    covering = weight_params(weight, QuantSpec(8, symmetric=True))
    clipped = covering.clipped(weight)
    errors = [np.square(p.fake_quantize(weight) - weight).sum() for p in (covering, clipped)]
    assert errors[1] < 0.9 * errors[0]
    steps = [
        QuantParams(covering.scale * np.float32(1 - i / 32), covering.zero_point, covering.spec) for i in range(21)
    ]
    assert errors[1] <= 1.02 * min(np.square(p.fake_quantize(weight) - weight).sum() for p in steps)


@pytest.mark.parametrize("weight", [np.linspace(-1, 1, 100, dtype=np.float32), np.zeros(4, np.float32)])
def test_a_weight_without_large_elements_keeps_the_step_that_covers_it(weight: np.ndarray) -> None:
    covering = weight_params(weight, QuantSpec(8, symmetric=True))
    assert covering.clipped(weight).scale == covering.scale
