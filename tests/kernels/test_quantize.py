from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from converter_lite.kernels.params import QuantParams, QuantSpec, params_from_range, weight_params
from converter_lite.kernels.quantize import quantize, round_half_away
from converter_lite.quantization.qdq.materialize import storage_type
from tests.support import build_proto, normal, run

SPECS = st.builds(
    lambda bits, signed, symmetric, narrow: QuantSpec(bits, signed, symmetric, narrow and signed),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
    st.booleans(),
).filter(lambda spec: spec.qmax > 0 and spec.qmax > spec.qmin and not (spec.symmetric and spec.bits < 2))
ARRAYS = hnp.arrays(
    np.float32, hnp.array_shapes(max_dims=3), elements=st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
)


@settings(derandomize=True, deadline=None)
@given(ARRAYS, SPECS)
def test_a_value_inside_the_range_comes_back_within_half_a_step(values: NDArray[np.float32], spec: QuantSpec) -> None:
    params = params_from_range(values.min(), values.max(), spec)
    low, high = params.real_range
    inside = np.clip(values, low, high)
    error = np.abs(params.fake_quantize(inside).astype(np.float64) - inside)
    ulp = 4 * np.spacing(np.abs(inside).max(initial=1e-30))
    assert error.max() <= params.scale / 2 * (1 + 1e-4) + ulp


@settings(derandomize=True, deadline=None)
@given(ARRAYS, SPECS, st.floats(1e-3, 1e3))
def test_integers_stay_on_the_grid_whatever_the_value(
    values: NDArray[np.float32], spec: QuantSpec, bound: float
) -> None:
    q = params_from_range(-bound, bound, spec).quantize(values)
    assert q.dtype == np.int32
    assert q.min() >= spec.qmin
    assert q.max() <= spec.qmax


@settings(derandomize=True, deadline=None)
@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30), SPECS)
def test_zero_is_exact_in_every_range(a: float, b: float, spec: QuantSpec) -> None:
    params = params_from_range(min(a, b), max(a, b), spec)
    assert spec.qmin <= params.zero_point <= spec.qmax
    assert params.fake_quantize(np.zeros(1, np.float32))[0] == 0.0


@settings(derandomize=True, deadline=None)
@given(st.integers(2, 16), st.integers(0, 2), st.integers(0, 2**31))
def test_every_channel_is_quantized_as_it_would_be_alone(bits: int, axis: int, seed: int) -> None:
    weight = normal(3, 4, 5, seed=seed)
    params = weight_params(weight, QuantSpec(bits, symmetric=True, axis=axis))
    q = params.quantize(weight)
    for channel in range(weight.shape[axis]):
        part = np.take(weight, channel, axis)
        alone = weight_params(part, QuantSpec(bits, symmetric=True))
        assert params.scale[channel] == alone.scale
        np.testing.assert_array_equal(np.take(q, channel, axis), alone.quantize(part))


def test_rounding_is_away_from_zero_for_device_runtimes() -> None:
    values = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4, -0.6])
    np.testing.assert_array_equal(round_half_away(values), [-3, -2, -1, 1, 2, 3, 0, -1])


def test_a_bias_beyond_its_32_bits_keeps_its_sign() -> None:
    spec = QuantSpec(bits=32, signed=True, symmetric=True)
    params = QuantParams(np.array(1e-9, np.float32), np.zeros((), np.int32), spec)
    largest, least, inside = params.quantize(np.array([3.0, -3.0, 1.0], np.float32))
    assert largest > 2.14e9 and least == -(2**31) and inside == 1_000_000_000


def test_ties_go_to_the_even_integer_before_the_zero_point_is_added() -> None:
    q = quantize(np.array([0.5, 1.5], np.float32), np.float32(1), np.int32(1), qmin=-8, qmax=7)
    np.testing.assert_array_equal(q, [1, 3])


GRIDS = [
    QuantSpec(8, signed=True),
    QuantSpec(8, signed=False),
    QuantSpec(16, signed=True),
    QuantSpec(16, signed=False),
    QuantSpec(4, signed=True),
    QuantSpec(4, signed=False),
    QuantSpec(8, signed=True, symmetric=True, axis=0),
    QuantSpec(8, signed=False, axis=1),
    QuantSpec(4, signed=True, axis=2),
]


@pytest.mark.parametrize("spec", GRIDS, ids=lambda s: f"{'int' if s.signed else 'uint'}{s.bits}-axis{s.axis}")
def test_quantize_and_dequantize_equal_onnxruntime_bit_for_bit(spec: QuantSpec) -> None:
    values = normal(4, 5, 300, seed=3) * 3
    # ties, and values far outside
    values.reshape(-1)[:64] = np.arange(-32, 32) * np.float32(0.5) * np.float32(0.0625)
    values.reshape(-1)[64:68] = [1e6, -1e6, 0.0, -0.0]
    params = params_from_range(-2.0, 1.5, QuantSpec(spec.bits, spec.signed, spec.symmetric))
    scale, zero_point = params.scale, params.zero_point
    if spec.axis is not None:
        count = values.shape[spec.axis]
        scale = np.linspace(0.01, 0.7, count, dtype=np.float32)
        zero_point = np.zeros(count, np.int32) if spec.symmetric else np.full(count, (spec.qmin + spec.qmax) // 2)
        zero_point = zero_point.astype(np.int32)
    elif spec.bits == 8:
        scale = np.array(0.0625, np.float32)  # makes the ties exact
    params = QuantParams(scale, zero_point, spec)
    dtype = storage_type(spec)
    axis = 1 if spec.axis is None else spec.axis
    kind = dtype.name.lower()
    proto = build_proto(
        f"""g (float[4,5,300] x) => ({kind}[4,5,300] q, float[4,5,300] y) {{
            q = QuantizeLinear<axis={axis}>(x, s, z) y = DequantizeLinear<axis={axis}>(q, s, z) }}""",
        opset=21,
        ir_version=10,
        s=params.scale,
    )
    model = ir.from_proto(proto)
    stored = ir.Tensor(params.zero_point.astype(dtype.numpy()), dtype=dtype, name="z")
    zero = next(value for node in model.graph for value in node.inputs if value is not None and value.name == "z")
    zero.const_value, zero.dtype, zero.shape = stored, dtype, ir.Shape(params.zero_point.shape)
    model.graph.register_initializer(zero)
    if spec.bits == 4:  # NumPy has no 4-bit type: compare through the dequantized values
        model.graph.outputs.pop(0)
    given_back = run(model, {"x": values})
    q = params.quantize(values)
    if spec.bits != 4:
        np.testing.assert_array_equal(given_back["q"].astype(np.int32), q)
    np.testing.assert_array_equal(given_back["y"], params.dequantize(q))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_large_arrays_are_quantized_in_slices_to_the_same_integers(
    axis: int | None, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).normal(size=(rows, 12, 3)).astype(np.float32) * 9
    channels = () if axis is None else (values.shape[axis],)
    scale = np.random.default_rng(1).uniform(0.01, 0.2, channels).astype(np.float32)
    zero_point = np.random.default_rng(2).integers(-5, 5, channels, np.int32)
    whole = quantize(values, scale, zero_point, qmin=-128, qmax=127, axis=axis)
    monkeypatch.setattr("converter_lite.kernels.quantize.SLICED_FROM", 5 * values[0].nbytes)
    sliced = quantize(values, scale, zero_point, qmin=-128, qmax=127, axis=axis)
    np.testing.assert_array_equal(sliced, whole)
    assert sliced.dtype == whole.dtype == np.int32
