"""Rounding fitted to samples: what a layer reads, what it is fitted to, and what it gains."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.config.names import Rounding
from converter_lite.kernels.gptq import DAMPING, compensation, round_gptq
from converter_lite.kernels.params import QuantParams, QuantSpec, weight_params
from converter_lite.quantization import adaptive
from converter_lite.quantization import moments as moments_module
from converter_lite.quantization.adaptive import (
    FINE_CLIPS,
    NARROW_ROWS,
    NEAR,
    ROW_BYTES,
    ROWS,
    Layer,
    fit_grid,
    fit_rounding,
    input_rows,
    rows_per_sample,
)
from converter_lite.quantization.bias_correction import LayerFit, fit_layers
from converter_lite.quantization.moments import Moments, gather
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from converter_lite.targets.operands import output_channel_axis
from tests.support import Samples, build, clone, full, normal, run, samples_of, sqnr, written

X = "g (float[2,4,9,8] x) => (float[n,c,h,k] y)"
LAYERS: dict[str, tuple[str, tuple[int, ...]]] = {
    "Conv": (f"{X} {{ y = Conv(x, w) }}", (6, 4, 3, 3)),
    "Conv padded": (f"{X} {{ y = Conv<pads=[0,1,2,3], strides=[2,1]>(x, w) }}", (6, 4, 3, 3)),
    "Conv SAME_UPPER": (f'{X} {{ y = Conv<auto_pad="SAME_UPPER", strides=[2,3]>(x, w) }}', (6, 4, 2, 5)),
    "Conv SAME_LOWER": (f'{X} {{ y = Conv<auto_pad="SAME_LOWER", strides=[2,3]>(x, w) }}', (6, 4, 2, 5)),
    "Conv VALID": (f'{X} {{ y = Conv<auto_pad="VALID", dilations=[1,2]>(x, w) }}', (6, 4, 2, 2)),
    "Conv depthwise": (f"{X} {{ y = Conv<group=4, pads=[1,1,1,1]>(x, w) }}", (8, 1, 3, 3)),
    "Conv grouped": (f"{X} {{ y = Conv<group=2>(x, w) }}", (6, 2, 3, 3)),
    "Gemm": ("g (float[40,12] x) => (float[n,c] y) { y = Gemm(x, w) }", (12, 6)),
    "Gemm transB": ("g (float[40,12] x) => (float[n,c] y) { y = Gemm<transB=1>(x, w) }", (6, 12)),
    "MatMul": ("g (float[4,10,12] x) => (float[n,t,c] y) { y = MatMul(x, w) }", (12, 6)),
}


def layer(name: str, seed: int = 3) -> tuple[ir.Model, ir.Node, NDArray[np.float32]]:
    text, shape = LAYERS[name]
    weight = normal(*shape, seed=seed)
    model = build(text, w=weight)
    return model, model.graph[0], weight


def grid(node: ir.Node, weight: NDArray[np.float32], bits: int, *, per_channel: bool = True) -> QuantParams:
    value = node.inputs[1]
    assert value is not None
    axis = output_channel_axis(node, value) if per_channel else None
    return weight_params(weight, QuantSpec(bits=bits, signed=True, axis=axis))


def correlated(shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Values that neighbours share, as in pictures and features."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=shape)
    for axis in range(1, len(shape)):
        own = own + own.mean(axis=axis, keepdims=True) * 4
    return own.astype(np.float32)


def gathered(float_rows: list[NDArray[np.float32]], quantized_rows: list[NDArray[np.float32]]) -> Moments:
    return gather(zip(float_rows, quantized_rows, strict=True), float_rows[0].shape[2], 1)


def outputs(model: ir.Model, weight: NDArray[np.float32], x: NDArray[np.float32]) -> NDArray[np.float32]:
    changed = clone(model)
    changed.graph.initializers["w"].const_value = ir.Tensor(weight, name="w")
    return run(changed, {"x": x})["y"]


def input_of(model: ir.Model, seed: int) -> NDArray[np.float32]:
    shape = model.graph.inputs[0].shape
    assert shape is not None
    return correlated(tuple(shape.numpy()), seed)


@pytest.mark.parametrize("name", LAYERS)
def test_input_rows_times_the_weight_are_what_the_layer_gives(name: str) -> None:
    model, node, weight = layer(name)
    x = input_of(model, 1)
    rows = input_rows(node, x, weight.shape, 10**6, 0)
    expected = outputs(model, weight, x)
    if node.op_type == "Conv":
        expected = np.moveaxis(expected, 1, -1)
        matrix = weight.reshape(rows.shape[1], -1, rows.shape[2])
    else:
        matrix = (weight if "transB" in name else weight.T)[None]
    given = np.einsum("ngc,goc->ngo", rows, matrix).reshape(expected.shape)
    np.testing.assert_allclose(given, expected, atol=1e-4 * float(np.abs(expected).max()))


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("name", LAYERS)
def test_fitted_layers_are_closer_to_the_float_ones_than_rounded_ones(name: str, bits: int) -> None:
    fitted_error = rounded_error = 0.0
    for seed in range(5):  # one matrix alone may lose: columns are rounded one by one
        model, node, weight = layer(name, seed)
        params = grid(node, weight, bits)
        rows = [input_rows(node, input_of(model, i), weight.shape, 500, i) for i in range(12)]
        fitted = fit_rounding(Layer(node, weight, gathered(rows, rows), has_bias=False), params)
        assert fitted.shape == weight.shape
        assert fitted.dtype == np.int32
        assert fitted.min() >= params.spec.qmin
        assert fitted.max() <= params.spec.qmax
        unseen = input_of(model, 99)
        expected = outputs(model, weight, unseen)
        fitted_error += float(np.mean((outputs(model, params.dequantize(fitted), unseen) - expected) ** 2))
        rounded = params.dequantize(params.quantize(weight))
        rounded_error += float(np.mean((outputs(model, rounded, unseen) - expected) ** 2))
    assert fitted_error < 0.9 * rounded_error


@pytest.mark.parametrize("per_channel", [True, False])
def test_it_makes_up_for_the_errors_of_earlier_layers(per_channel: bool) -> None:
    model, node, weight = layer("Gemm")
    params = grid(node, weight, 8, per_channel=per_channel)
    exact = [input_of(model, seed) for seed in range(20)]
    given = [0.8 * x for x in exact]  # what an earlier layer made of it
    rows, wrong = ([input_rows(node, x, weight.shape, 500, 0) for x in xs] for xs in (exact, given))
    expected = outputs(model, weight, exact[0])

    def error(q: NDArray[np.int32]) -> float:
        return float(np.mean((outputs(model, params.dequantize(q), given[0]) - expected) ** 2))

    makes_up = fit_rounding(Layer(node, weight, gathered(rows, wrong), has_bias=False), params)
    does_not = fit_rounding(Layer(node, weight, gathered(wrong, wrong), has_bias=False), params)
    assert error(makes_up) < 0.6 * error(does_not)


def test_what_a_bias_takes_up_does_not_count() -> None:
    model, node, weight = layer("Gemm")
    params = grid(node, weight, 3)
    samples = [input_of(model, seed) for seed in range(10)]
    rows = [input_rows(node, x, weight.shape, 500, 0) for x in samples]
    shifted = [r + np.float32(50) for r in rows]
    near = fit_rounding(Layer(node, weight, gathered(rows, rows), has_bias=True), params)
    far = fit_rounding(Layer(node, weight, gathered(shifted, shifted), has_bias=True), params)
    assert np.mean(near != far) < 0.02  # only by the accuracy of float32
    without = fit_rounding(Layer(node, weight, gathered(shifted, shifted), has_bias=False), params)
    assert np.mean(near != without) > 0.05


@pytest.mark.parametrize("name", LAYERS)
def test_inputs_that_are_always_zero_do_no_harm(name: str) -> None:
    model, node, weight = layer(name)
    params = grid(node, weight, 4)
    rows = [input_rows(node, np.zeros_like(input_of(model, 0)), weight.shape, 500, 0)]
    fitted = fit_rounding(Layer(node, weight, gathered(rows, rows), has_bias=True), params)
    np.testing.assert_array_equal(fitted, params.quantize(weight))


def test_rows_are_bounded_in_number_and_in_bytes() -> None:
    conv, matmul = (layer(name)[1] for name in ("Conv", "MatMul"))
    small, wide = np.zeros((8, 4, 3, 3)), np.zeros((100_000, 1000), np.int8)
    assert rows_per_sample(conv, small, 1) == ROWS
    assert rows_per_sample(conv, small, 64) * 64 == ROWS
    assert rows_per_sample(matmul, wide, 64) * 64 * 100_000 * 4 <= ROW_BYTES
    assert rows_per_sample(conv, small, 10**6) == 1
    assert rows_per_sample(layer("Conv depthwise")[1], np.zeros((32, 1, 3, 3)), 1) == NARROW_ROWS < ROWS


def test_the_width_of_a_row_is_what_one_output_position_reads() -> None:
    """A kernel of one position does not make the row as wide as the whole weight (it did, and left a few rows per sample)."""
    pointwise, grouped = layer("Conv")[1], layer("Conv grouped")[1]
    fitting = ROW_BYTES // 4 // 8
    assert rows_per_sample(pointwise, np.zeros((8192, 8192, 1, 1), np.int8), 8) == min(ROWS, fitting * 8 // 8192) // 8
    assert rows_per_sample(pointwise, np.zeros((384, 384, 1, 1)), 8) * 8 == ROWS
    assert rows_per_sample(grouped, np.zeros((64, 8192, 1, 1), np.int8), 8) == min(ROWS, fitting * 8 // 16384) // 8


def fitting_problem(name: str, *, uneven: bool = False) -> tuple[ir.Node, NDArray[np.float32], QuantParams, Moments]:
    """A layer, its 4-bit grid and the moments of its inputs; where ``uneven``, some of a channel's elements are large."""
    model, node, weight = layer(name)
    if uneven:
        matrix = weight if is_turned(name) else weight.T
        matrix *= np.where(np.arange(matrix[0].size) % 3, 0.3, 1.5).reshape(matrix[:1].shape).astype(np.float32)
    rows = [input_rows(node, input_of(model, i), weight.shape, 500, i) for i in range(12)]
    return node, weight, grid(node, weight, 4), gathered(rows, rows)


@pytest.mark.parametrize("is_same", [True, False])
def test_wide_layers_are_fitted_as_others_are(is_same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of several samples are multiplied together, and the compensation is solved for the rows of the weight alone."""
    model, node, weight = layer("Conv")
    float_rows = [input_rows(node, input_of(model, i), weight.shape, 5 + i, i) for i in range(12)]
    rows = float_rows if is_same else [part + 0.1 * normal(*part.shape, seed=9) for part in float_rows]
    results = []
    for limit in (36, 35):
        monkeypatch.setattr(adaptive, "WIDE", limit)
        monkeypatch.setattr(moments_module, "WIDE", limit)
        moments = gathered(float_rows, rows)
        assert moments.count == sum(map(len, rows))
        goal, damped = adaptive._problem(Layer(node, weight, moments, has_bias=True))
        results.append((moments.quantized, moments.cross, moments.float_sum, goal, damped))
    for plain, wide in zip(*results, strict=True):
        assert plain is not None and wide is not None
        np.testing.assert_allclose(wide, plain, rtol=1e-5, atol=1e-6 * np.abs(plain).max())
    assert len(weight) < 36 == results[0][0].shape[-1]  # fewer rows than columns


def is_turned(name: str) -> bool:
    """Whether output channels are the first axis of the weight."""
    return name.startswith("Conv") or "transB" in name


def cost(params: QuantParams, integers: NDArray[np.int32], weight: NDArray[np.float32], name: str, m: Moments) -> float:
    """Mean squared error of what the layer gives, with damping."""
    error = (params.dequantize(integers) - weight).astype(np.float64)
    error = error if is_turned(name) else error.T
    moments, _ = m.means(centered=False)
    mean = np.diagonal(moments, axis1=1, axis2=2).mean(axis=1)[:, None, None]
    rows = error.reshape(len(moments), -1, moments.shape[1])
    return float(np.einsum("gri,gij,grj->", rows, moments + DAMPING * mean * np.eye(moments.shape[1]), rows))


def without_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with any number of samples."""
    for name in ("DAMPING_BY_SHORTAGE", "CONVOLUTION_BY_SHORTAGE"):
        monkeypatch.setattr(adaptive, name, 0.0)


@pytest.mark.parametrize("name", ["Conv depthwise", "Gemm", "Gemm transB"])
def test_fitted_grids_are_those_of_the_search_written_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortage(monkeypatch)
    node, weight, params, moments = fitting_problem(name)
    fitted, integers = fit_grid(Layer(node, weight, moments, has_bias=False), params)
    matrix = (weight if is_turned(name) else weight.T).reshape(len(params.scale), -1).astype(np.float64)
    given = (integers if is_turned(name) else integers.T).reshape(matrix.shape)
    hessians = moments.means(centered=False)[0]
    for channel, row in enumerate(matrix):
        hessian = hessians[channel * len(hessians) // len(matrix)]
        damped = hessian + DAMPING * np.mean(np.diag(hessian)) * np.eye(len(hessian))
        zero = float(params.zero_point[channel])
        tried = []
        steps = [float(params.scale[channel] * np.float32(share)) for share in FINE_CLIPS]
        while steps:
            step = steps.pop(0)
            arrays = (np.array(a).reshape(1, 1, 1) for a in (step, zero))
            compensated = compensation(damped[None], damping=0.0)
            q = round_gptq(row[None, None], compensated, *arrays, QuantSpec(4))[0][0, 0] - zero
            best_step = float(row @ damped @ q) / float(q @ damped @ q)
            best_step = best_step if abs(np.log(max(best_step, 1e-30) / step)) < NEAR else step
            errors = [float((q * s - row) @ damped @ (q * s - row)) for s in (step, best_step)]
            tried.append((*errors, step, best_step, q + zero))
            if len(tried) == len(FINE_CLIPS):
                steps.append(float(np.float32(min(tried, key=lambda found: found[1])[3])))
        best = min(tried, key=lambda found: found[0])
        assert fitted.scale[channel] == pytest.approx(best[2], rel=1e-5)
        np.testing.assert_array_equal(given[channel], best[4])


@pytest.mark.parametrize("name", LAYERS)
def test_fitted_steps_lose_less_than_covering_ones_and_input_scales_less_again(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_shortage(monkeypatch)
    node, weight, params, moments = fitting_problem(name, uneven=True)
    covering = cost(params, fit_rounding(Layer(node, weight, moments, has_bias=False), params), weight, name, moments)
    fitted = cost(*fit_grid(Layer(node, weight, moments, has_bias=False), params), weight, name, moments)
    scaled, integers = fit_grid(Layer(node, weight, moments, has_bias=False, input_scales=True), params)
    assert scaled.input_scales is not None
    assert scaled.input_scales.ndim == weight.ndim
    assert np.broadcast_shapes(scaled.input_scales.shape, weight.shape) == weight.shape
    assert cost(scaled, integers, weight, name, moments) < 0.8 * fitted
    assert fitted < covering


@pytest.mark.parametrize("input_scales", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_rounding_on_a_fitted_grid_gives_what_the_fit_of_the_grid_found(name: str, input_scales: bool) -> None:
    node, weight, params, moments = fitting_problem(name, uneven=True)
    fitted, integers = fit_grid(Layer(node, weight, moments, has_bias=True, input_scales=input_scales), params)
    np.testing.assert_array_equal(fit_rounding(Layer(node, weight, moments, has_bias=True), fitted), integers)


@pytest.mark.parametrize(("name", "is_convolution"), [("Conv", True), ("Gemm", False)])
def test_positions_of_a_picture_count_less_than_rows_of_a_matrix(
    name: str, is_convolution: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, weight, params, moments = fitting_problem(name)
    found = []
    for shortage in (0.0, 1e9):
        monkeypatch.setattr(adaptive, "CONVOLUTION_BY_SHORTAGE", shortage)
        found.append(fit_rounding(Layer(node, weight, moments, has_bias=False), params))
    assert np.array_equal(*found) != is_convolution
    if is_convolution:  # nothing is compensated that so few samples cannot show
        np.testing.assert_array_equal(found[1], params.quantize(weight))


# --- as a part of quantization ---

NET = """g (float[1,3,12,12] x) => (float[1,5] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a) d = Conv<group=8, pads=[1,1,1,1]>(r, w2, b2) r2 = Relu(d)
    t = ConvTranspose(r2, w3, b3) p = GlobalAveragePool(t) f = Flatten(p) y = Gemm<transB=1>(f, w4, b4) }"""


def net() -> tuple[ir.Model, Samples]:
    model = build(
        NET,
        w1=normal(8, 3, 3, 3, seed=1),
        b1=normal(8, seed=2),
        w2=normal(8, 1, 3, 3, seed=3),
        b2=normal(8, seed=4),
        w3=normal(8, 6, 1, 1, seed=5) * 0.3,
        b3=normal(6, seed=6),
        w4=normal(5, 6, seed=7),
        b4=normal(5, seed=8),
    )
    return model, Samples({"x": correlated((1, 3, 12, 12), seed)} for seed in range(24))


def weights(model: ir.Model, samples: Samples, **settings: Any) -> QuantizedModel:
    return quantize_weights(
        clone(model),
        WeightSettings(min_channel=0, **settings),
        target="CPU",
        samples=samples,
        context=RunContext(),
    )


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("bias_correction", [True, False])
def test_few_bits_lose_less_with_it(bits: int, bias_correction: bool) -> None:
    model, samples = net()
    unseen = [{"x": correlated((1, 3, 12, 12), seed)} for seed in range(100, 110)]
    settings = {"bits": bits, "bias_correction": bias_correction}
    fitted, rounded = (
        sqnr(model, written(weights(model, samples, rounding=how, **settings)), unseen)
        for how in (Rounding.ADAPTIVE, Rounding.NEAREST)
    )
    assert fitted > rounded + 1


def test_full_quantization_fits_every_layer_it_can_and_stays_close() -> None:
    model, samples = net()
    plain = full(model, samples=samples, bias_correction=True)
    fitted = full(model, samples=samples, bias_correction=True, rounding=Rounding.ADAPTIVE)
    changed = {name for name in plain.q_weights if np.any(plain.q_weights[name] != fitted.q_weights[name])}
    assert changed == {"w1", "w2", "w4"}
    assert set(fitted.q_weights) >= changed
    assert sqnr(model, written(fitted), samples) > 20


def test_the_float_weights_stay_and_biases_only_move_where_they_may() -> None:
    model, samples = net()
    quantized = weights(model, samples, bits=4, bias_correction=False, rounding=Rounding.ADAPTIVE)
    for name in ("w1", "b1", "w2", "b2", "w4", "b4"):
        np.testing.assert_array_equal(
            g.constant(quantized.model.graph.initializers[name]), g.constant(model.graph.initializers[name])
        )


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    model, samples = net()
    found = []
    for threads in (1, 3):
        quantized = full(model, samples=samples)
        fit_layers(quantized, samples, LayerFit(rounding=Rounding.ADAPTIVE), RunContext(threads=threads))
        found.append(quantized.q_weights)
    assert list(found[0]) == list(found[1])
    for name, q in found[0].items():
        np.testing.assert_array_equal(found[1][name], q)


def test_a_weight_that_two_layers_read_keeps_one_set_of_integers() -> None:
    model = build(
        "g (float[1,4,6,6] x) => (float[1,4,6,6] y) { a = Conv(x, w, b) r = Relu(a) y = Conv(r, w, b) }",
        w=normal(4, 4, 1, 1),
        b=normal(4, seed=2),
    )
    samples = samples_of(model, 4)
    fitted = weights(model, samples, bits=4, rounding=Rounding.ADAPTIVE)
    plain = weights(model, samples, bits=4)
    np.testing.assert_array_equal(fitted.q_weights["w"], plain.q_weights["w"])
    assert sqnr(model, written(fitted), samples) > 10


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("g (float[6,12] x) => (float[12,5] y) { y = Gemm<transA=1>(x, w) }", (6, 5)),
        ("g (float[6,12] x) => (float[12,5] y) { y = Gemm<transA=1, transB=1>(x, w) }", (5, 6)),
        ("g (float[3,4,12] x) => (float[3,4,5] y) { y = MatMul(x, w) }", (3, 12, 5)),
        ("g (float[4,12] x) => (float[3,4,5] y) { y = MatMul(x, w) }", (3, 12, 5)),
        ("g (float[12] x) => (float[5] y) { y = MatMul(x, w) }", (12, 5)),
        ("g (float[1,4,20] x) => (float[1,6,18] y) { y = Conv(x, w) }", (6, 4, 3)),
        ("g (float[1,2,6,6,6] x) => (float[1,3,5,5,5] y) { y = Conv(x, w) }", (3, 2, 2, 2, 2)),
    ],
)
def test_layers_of_every_shape_are_fitted_or_left(text: str, shape: tuple[int, ...]) -> None:
    model = build(text, w=normal(*shape))
    samples = samples_of(model, 16)
    settings = {"bits": 4, "bias_correction": False}
    fitted, rounded = (
        weights(model, samples, rounding=how, **settings) for how in (Rounding.ADAPTIVE, Rounding.NEAREST)
    )
    assert sqnr(model, written(fitted), samples) >= sqnr(model, written(rounded), samples)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e30])
def test_a_layer_that_reads_broken_values_is_rounded_to_nearest(bad: float) -> None:
    model, node, weight = layer("Gemm")
    params = grid(node, weight, 4)
    x = input_of(model, 0)
    x[3, 5] = bad
    rows = [input_rows(node, x, weight.shape, 500, 0)]
    np.testing.assert_array_equal(
        fit_rounding(Layer(node, weight, gathered(rows, rows), has_bias=False), params), params.quantize(weight)
    )


@pytest.mark.parametrize("name", ["Conv", "Conv grouped", "Gemm transB", "MatMul"])
def test_a_layer_whose_moments_take_too_much_memory_is_rounded_without_samples(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, node, weight = layer(name)
    elements = g.int_attribute(node, "group", 1) * adaptive.columns_of(node, weight) ** 2
    fitted = full(model, rounding=Rounding.ADAPTIVE)
    monkeypatch.setattr(adaptive, "MOST_MOMENTS", elements)
    np.testing.assert_array_equal(full(model, rounding=Rounding.ADAPTIVE).integers("w"), fitted.integers("w"))
    monkeypatch.setattr(adaptive, "MOST_MOMENTS", elements - 1)
    usual = full(model, rounding=Rounding.NEAREST)
    np.testing.assert_array_equal(full(model, rounding=Rounding.ADAPTIVE).integers("w"), usual.integers("w"))
    assert (usual.integers("w") != fitted.integers("w")).any()
