"""Equalization: the float model stays the same, ranges become alike."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import ArrayLike, NDArray

from converter_lite import graph as g
from converter_lite.kernels.tails import exceeded_by
from converter_lite.quantization import equalize as equalize_module
from converter_lite.quantization.equalize import (
    CAUTION,
    ENOUGH_SAMPLES,
    LARGEST_FACTOR,
    ROOM,
    UNSEEN,
    Grids,
    _sides,
    _store,
    equalize,
    find_pairs,
)
from converter_lite.runtime.context import RunContext
from tests.support import assert_same_outputs, build, clone, full, normal, run, samples_of, sqnr, written

SPREAD = np.geomspace(0.03, 30, 6).astype(np.float32)
"""Factors that bring the channels of the middle tensor out of balance."""

SYMMETRIC = Grids(per_channel=True, symmetric=True)


@dataclass(frozen=True)
class Net:
    """A layer that makes six uneven channels, what stands between, and a layer that reads them."""

    between: str
    constants: dict[str, ArrayLike] = field(default_factory=dict)
    first: str = "a = Conv<pads=[1,1,1,1]>(x, w, b)"
    behind: str = "y = Conv(m, v, c)"

    def model(self) -> ir.Model:
        constants = {
            "w": normal(6, 3, 3, 3, seed=1) * SPREAD.reshape(-1, 1, 1, 1),
            "b": normal(6, seed=2) * SPREAD,
            "v": normal(5, 6, 1, 1, seed=3) / SPREAD.reshape(1, -1, 1, 1),
            "c": normal(5, seed=4),
            **self.constants,
        }
        text = f"g (float[2,3,8,8] x) => (float[{'n,c' if 'Gemm(m' in self.behind or 'MatMul' in self.behind else 'n,c,h,k'}] y)"
        return build(f"{text} {{ {self.first} {self.between} {self.behind} }}", opset=14, **constants)


ROW = SPREAD.reshape(1, -1)
FLAT = "r = Relu(a) p = GlobalAveragePool(r) m = Flatten(p)"
NETS = {
    "Relu": Net("m = Relu(a)"),
    "nothing": Net("", behind="y = Conv(a, v, c)"),
    "Clip from below": Net("m = Clip(a, low)", {"low": np.float32(0)}),
    "Clip": Net("m = Clip(a, low, high)", {"low": np.float32(0), "high": np.float32(6)}),
    "averaged Clip": Net(
        "r = Clip(a, low, high) m = AveragePool<kernel_shape=[3,3]>(r)",
        {"low": np.float32(0), "high": np.float32(6)},
    ),
    "globally averaged Clip": Net(
        "r = Clip(a, low, high) p = GlobalAveragePool(r) m = Flatten(p)",
        {"low": np.float32(0), "high": np.float32(6), "v": normal(6, 5, seed=3) / ROW.T},
        behind="y = Gemm(m, v, c)",
    ),
    "LeakyRelu": Net("m = LeakyRelu<alpha=0.2>(a)"),
    "MaxPool": Net("r = Relu(a) m = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(r)"),
    "AveragePool": Net("m = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(a)"),
    "GlobalAveragePool": Net("r = Relu(a) m = GlobalAveragePool(r)"),
    "GlobalMaxPool": Net("m = GlobalMaxPool(a)"),
    "depthwise": Net(
        "m = Relu(a)",
        {"v": normal(12, 1, 3, 3, seed=3) / np.repeat(SPREAD, 2).reshape(-1, 1, 1, 1), "c": normal(12, seed=4)},
        behind="y = Conv<group=6>(m, v, c)",
    ),
    "grouped": Net(
        "m = Relu(a)",
        {
            "v": normal(4, 3, 1, 1, seed=3) / np.repeat(SPREAD.reshape(2, 1, 3, 1, 1), 2, 0).reshape(4, 3, 1, 1),
            "c": normal(4, seed=4),
        },
        behind="y = Conv<group=2>(m, v, c)",
    ),
    "grouped before": Net(
        "m = Relu(a)",
        {"w": normal(6, 1, 3, 3, seed=1) * SPREAD.reshape(-1, 1, 1, 1)},
        first="a = Conv<group=3>(x, w, b)",
    ),
    "without bias": Net("m = Relu(a)", first="a = Conv(x, w)"),
    "ConvTranspose": Net(
        "m = Relu(a)",
        {"w": normal(3, 6, 2, 2, seed=1) * SPREAD.reshape(1, -1, 1, 1)},
        first="a = ConvTranspose<strides=[2,2]>(x, w, b)",
    ),
    "Gemm behind": Net(FLAT, {"v": normal(6, 5, seed=3) / ROW.T}, behind="y = Gemm(m, v, c)"),
    "transposed Gemm behind": Net(FLAT, {"v": normal(5, 6, seed=3) / ROW}, behind="y = Gemm<transB=1>(m, v, c)"),
    "MatMul behind": Net(FLAT, {"v": normal(6, 5, seed=3) / ROW.T}, behind="y = MatMul(m, v)"),
    "Gemm before": Net(
        "m = Relu(a)",
        {"w": normal(192, 6, seed=1) * ROW, "v": normal(6, 5, seed=3) / ROW.T},
        first="f = Flatten(x) a = Gemm(f, w, b)",
        behind="y = Gemm(m, v, c)",
    ),
    "transposed Gemm before": Net(
        "m = Relu(a)",
        {"w": normal(6, 192, seed=1) * ROW.T, "v": normal(6, 5, seed=3) / ROW.T, "b": normal(1, 6, seed=2) * ROW},
        first="f = Flatten(x) a = Gemm<transB=1, alpha=0.5, beta=2.0>(f, w, b)",
        behind="y = Gemm(m, v, c)",
    ),
    "two readers": Net(
        "m = Relu(a) k = Conv(m, u, c)",
        {"u": normal(5, 6, 1, 1, seed=5)},
        behind="l = Conv(m, v, c) y = Add(k, l)",
    ),
}

LEFT_ALONE = {
    "an operator that is not homogeneous": Net("m = Sigmoid(a)"),
    "two clips": Net(
        "n = Clip(a, low, high) m = Clip(n, low, h2)",
        {"low": np.float32(0), "high": np.float32(6), "h2": np.float32(3)},
    ),
    "a clip away from zero": Net("m = Clip(a, low, high)", {"low": np.float32(-1), "high": np.float32(1)}),
    "a reader without weights": Net(
        "m = Relu(a)", behind="l = Conv(m, v, c) k = GlobalAveragePool(m) q = Conv(k, v, c) y = Add(l, q)"
    ),
    "a reshape that mixes channels": Net(
        "r = Relu(a) m = Reshape(r, s)",
        {"s": np.array([2, 384], np.int64), "v": normal(384, 5)},
        behind="y = Gemm(m, v, c)",
    ),
    "one bias value for all channels": Net(
        "m = Relu(a)",
        {"w": normal(192, 6, seed=1), "v": normal(6, 5, seed=3), "b": normal(1)},
        first="f = Flatten(x) a = Gemm(f, w, b)",
        behind="y = Gemm(m, v, c)",
    ),
    "a bias per sample": Net(
        "m = Relu(a)",
        {"w": normal(192, 6, seed=1), "v": normal(6, 5, seed=3), "b": normal(2, 6)},
        first="f = Flatten(x) a = Gemm(f, w, b)",
        behind="y = Gemm(m, v, c)",
    ),
    "a bias that two layers read": Net("m = Relu(a)", {"v": normal(6, 6, 1, 1)}, behind="y = Conv(m, v, b)"),
    "a weight that two layers read": Net(
        "m = Relu(a)",
        {"w": normal(6, 6, 1, 1)},
        first="e = Concat<axis=1>(x, x) a = Conv(e, w, b)",
        behind="y = Conv(m, w, b2)",
    ),
    "a weight that is computed": Net("m = Relu(a)", first="u = Mul(w, w) a = Conv(x, u, b)"),
    "a grouped ConvTranspose": Net(
        "m = Relu(a)",
        {"w": normal(6, 3, 2, 2)},
        first="e = Concat<axis=1>(x, x) a = ConvTranspose<group=2>(e, w, b)",
    ),
}


def constant(model: ir.Model, name: str) -> NDArray[np.float32]:
    array = g.constant(model.graph.initializers[name])
    assert array is not None
    return array


def equalized(
    model: ir.Model, *, per_channel: bool = True, count: int = 4
) -> tuple[ir.Model, dict[str, NDArray[np.float64]]]:
    changed = clone(model)
    feeds = samples_of(model, count)
    factors = equalize(
        changed,
        feeds,
        samples=ENOUGH_SAMPLES,
        grids=Grids(per_channel=per_channel, symmetric=True),
        context=RunContext(),
    )
    return changed, factors


def spread(values: NDArray[np.floating]) -> float:
    """Largest by smallest."""
    return float(values.max() / values.min())


def magnitude(array: NDArray[np.floating], axis: int) -> NDArray[np.floating]:
    """Largest absolute value per channel."""
    return np.abs(np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)).max(axis=1)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_the_float_model_stays_the_same(name: str, per_channel: bool) -> None:
    model = NETS[name].model()
    changed, factors = equalized(model, per_channel=per_channel)
    assert len(factors) == 1
    assert np.all(next(iter(factors.values())) > 0)
    assert_same_outputs(model, changed, *samples_of(model), rtol=1e-5)
    assert np.any(constant(changed, "w") != constant(model, "w"))
    assert np.any(constant(changed, "v") != constant(model, "v"))


@pytest.mark.parametrize("name", [name for name in NETS if "Clip" not in name or name == "Clip from below"])
def test_it_stays_the_same_on_data_beyond_the_samples(name: str) -> None:
    model = NETS[name].model()
    changed, _ = equalized(model, count=1)
    beyond = {name: array * 10 for name, array in samples_of(model, 6)[5].items()}
    assert_same_outputs(model, changed, beyond, rtol=1e-5)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_a_factor_cannot_pass_is_left_alone(name: str) -> None:
    net = LEFT_ALONE[name]
    model = Net(net.between, {"b2": normal(6), **net.constants}, net.first, net.behind).model()
    assert find_pairs(model) == []
    changed, factors = equalized(model)
    assert factors == {}
    np.testing.assert_array_equal(constant(changed, "w"), constant(model, "w"))


def test_a_tensor_that_is_an_output_is_left_alone() -> None:
    model = NETS["Relu"].model()
    model.graph.outputs.append(next(node for node in model.graph if node.op_type == "Relu").outputs[0])
    assert find_pairs(model) == []


@pytest.mark.parametrize("name", ["Relu", "LeakyRelu", "grouped", "ConvTranspose", "Gemm before", "two readers"])
def test_per_tensor_ranges_of_weights_become_alike(name: str) -> None:
    model = NETS[name].model()
    changed, _ = equalized(model, per_channel=False)
    axis = {"ConvTranspose": 1, "Gemm before": 1}.get(name, 0)
    before, after = (spread(magnitude(constant(m, "w"), axis)) for m in (model, changed))
    assert before > 100
    assert after < 10


def test_per_tensor_ranges_do_not_depend_on_how_channels_were_scaled_before() -> None:
    uneven = NETS["Relu"].model()
    even = Net(
        "m = Relu(a)",
        {"w": normal(6, 3, 3, 3, seed=1), "b": normal(6, seed=2), "v": normal(5, 6, 1, 1, seed=3)},
    ).model()
    first, second = (constant(equalized(m, per_channel=False)[0], "w") for m in (uneven, even))
    assert spread(magnitude(first, 0) / magnitude(second, 0)) < 1.01


def test_a_depthwise_layer_gets_channels_of_equal_range() -> None:
    model = NETS["depthwise"].model()
    changed, factors = equalized(model)
    assert list(factors) == ["m"]
    inner = next(node for node in changed.graph if node.op_type == "Relu").outputs[0]
    changed.graph.outputs.append(inner)
    arrays = [run(changed, feed)["m"] for feed in samples_of(model)]
    assert spread(magnitude(np.concatenate(arrays), 1)) < 1.02  # factors have few digits


@pytest.mark.parametrize("per_channel", [True, False])
def test_clipped_channels_keep_factor_1_and_others_are_only_stretched_up_to_the_bound(per_channel: bool) -> None:
    model = NETS["Clip"].model()
    changed, factors = equalized(model, per_channel=per_channel)
    for m in (model, changed):
        m.graph.outputs.append(next(node for node in m.graph if node.op_type == "Clip").outputs[0])
    before, after = (
        magnitude(np.concatenate([run(m, feed)["m"] for feed in samples_of(model)]), 1) for m in (model, changed)
    )
    clipped = before == 6
    assert 0 < clipped.sum() < 6
    np.testing.assert_array_equal(factors["m"][clipped], 1.0)
    assert np.all(factors["m"][~clipped] <= 1.0)
    assert factors["m"].min() < 0.5
    assert np.all(after <= 6 * (1 + 1e-5))


def test_the_largest_value_of_the_tensor_stays() -> None:
    model = NETS["Relu"].model()
    changed, factors = equalized(model)
    largest = []
    for m in (model, changed):
        m.graph.outputs.append(next(node for node in m.graph if node.op_type == "Relu").outputs[0])
        largest.append(max(run(m, feed)["m"].max() for feed in samples_of(model)))
    assert spread(factors["m"]) > 10
    np.testing.assert_allclose(largest[1], largest[0], rtol=0.02)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("name", ["Relu", "Clip", "depthwise"])
def test_dead_channels_do_no_harm(name: str, per_channel: bool) -> None:
    net = NETS[name]
    weight, bias = net.model().graph.initializers["w"], normal(6) * SPREAD
    array = constant(net.model(), "w").copy()
    assert weight.shape is not None
    array[1], bias[1] = 0.0, 0.0  # always zero
    array[4], bias[4] = 1e-3, -5.0  # cut off by the clamp
    model = Net(net.between, {**net.constants, "w": array, "b": bias}, net.first, net.behind).model()
    changed, factors = equalized(model, per_channel=per_channel)
    assert np.all(np.isfinite(factors["m"]))
    assert spread(factors["m"]) <= LARGEST_FACTOR**2
    assert_same_outputs(model, changed, *samples_of(model), rtol=1e-5)


def test_a_smaller_exponent_moves_less_of_the_spread_into_the_weights_behind() -> None:
    spreads = []
    for alpha in (0.3, 0.6, 0.9):
        model = NETS["Relu"].model()
        feeds, context = samples_of(model), RunContext()
        equalize(model, feeds, samples=ENOUGH_SAMPLES, grids=SYMMETRIC, alpha=alpha, context=context)
        model.graph.outputs.append(next(node for node in model.graph if node.op_type == "Relu").outputs[0])
        arrays = [run(model, feed)["m"] for feed in samples_of(model)]
        spreads.append(spread(magnitude(np.concatenate(arrays), 1)))
    assert spreads[0] > spreads[1] > spreads[2] > 1


def test_channels_are_stretched_less_where_few_samples_tell_their_ranges() -> None:
    model, spreads = NETS["depthwise"].model(), []
    for samples in (8, ENOUGH_SAMPLES, 100):
        changed = clone(model)
        feeds = samples_of(model, 8)
        (factor,) = equalize(changed, feeds, samples=samples, grids=SYMMETRIC, context=RunContext()).values()
        assert_same_outputs(model, changed, *feeds, rtol=1e-5)
        spreads.append(spread(factor))
    assert spreads[1] == spreads[2] > 10
    assert spreads[0] == pytest.approx(spreads[1] ** (1 - 0.75 * CAUTION), rel=0.1)


def test_grids_with_a_zero_point_keep_room_for_rare_large_values() -> None:
    """Two channels of the same largest value: one has it in every sample, one in few. The others are small."""
    count, sizes = 40, np.full((40, 6), 0.1, np.float32)
    sizes[:, 0], sizes[:, 1] = 1.0, np.linspace(0.1, 0.4, count)
    sizes[[7, 20, 33], 1] = 0.6, 0.8, 1.0
    text = (
        "g (float[1,6,1,1] x) => (float[1,6,1,1] y) { a = Conv<group=6>(x, w, b) m = Relu(a) y = Conv<group=6>(m, v) }"
    )
    ones = np.ones((6, 1, 1, 1), np.float32)
    feeds = [{"x": row.reshape(1, 6, 1, 1)} for row in sizes]
    found = {}
    for symmetric in (True, False):
        model = build(text, w=ones, b=np.zeros(6, np.float32), v=ones)
        grids = Grids(per_channel=True, symmetric=symmetric)
        found[symmetric] = equalize(model, feeds, samples=count, grids=grids, context=RunContext())["m"]
    np.testing.assert_allclose(found[True], [1, 1, 0.1, 0.1, 0.1, 0.1], rtol=0.01)
    expected = np.array([1.0, exceeded_by(UNSEEN, sizes[:, 1]), 0.1])
    assert expected[1] > 1.1
    np.testing.assert_allclose(found[False][:3] / found[False][1], (expected / expected[1]) ** (1 - ROOM), rtol=0.01)


@pytest.mark.parametrize("per_channel", [True, False])
def test_an_uneven_network_quantizes_better_with_it(per_channel: bool) -> None:
    model = NETS["depthwise"].model()
    samples = samples_of(model)
    without, given = (
        sqnr(model, written(full(model, samples=samples, per_channel=per_channel, equalization=on)), samples)
        for on in (False, True)
    )
    assert given > without + 6


@pytest.mark.parametrize("name", NETS)
def test_magnitudes_stay_those_of_the_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equalize_module, "BLOCK_VALUES", 20)
    model, rng = NETS[name].model(), np.random.default_rng(0)
    pair = find_pairs(model)[0]
    (sides,) = _sides([pair])
    total = np.ones(sides.before.of_outputs().size)
    for _ in range(20):
        factor = np.exp(rng.standard_normal(total.size))
        sides.apply(factor)
        total *= factor
    _store([pair], {pair.tensor.name or "": total})
    (again,) = _sides([pair])
    np.testing.assert_allclose(sides.before.of_outputs(), again.before.of_outputs(), rtol=1e-6)
    np.testing.assert_allclose(sides.input_magnitude(), again.input_magnitude(), rtol=1e-6)
