"""Channels in another order: the same numbers, and fewer pairs that could saturate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.context import CalibrationContext
from converter_lite.kernels.pairs import PAIR_LIMIT, count_violations
from converter_lite.kernels.params import QuantSpec, weight_params
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.quantization import reorder
from converter_lite.quantization.channels import free_channels, weight_columns
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.reorder import LEVELS, reorder_channels
from converter_lite.quantization.settings import DynamicSettings, FullSettings
from converter_lite.runtime.context import RunContext
from converter_lite.targets.devices import target_spec
from converter_lite.targets.operands import output_channel_axis, pair_rule, weight_of
from tests.support import assert_same_outputs, build, clone, full, normal, random_feed, samples_of, sqnr, written


def heavy(*shape: int, seed: int) -> NDArray[np.float32]:
    """Weights of which many are as large as the largest, so that neighbours are large together."""
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(shape) < 0.5, 1.0, -1.0)
    return (signs * rng.choice([0.02, 0.5, 0.8], p=[0.3, 0.3, 0.4], size=shape)).astype(np.float32)


def violations(model: ir.Model) -> int:
    """Pairs that saturate with weights that are rounded to the nearest of 127 steps."""
    found = 0
    for node in model.graph:
        weight, rule = weight_of(node), pair_rule(node)
        array = g.constant(weight)
        if weight is None or rule is None or array is None:
            continue
        spec = QuantSpec(8, symmetric=True, narrow_range=True, axis=output_channel_axis(node, weight))
        values = array.astype(np.float32)
        found += count_violations(weight_params(values, spec).quantize(values), (rule,))
    return found


def build_case(text: str, shapes: dict[str, tuple[int, ...]], seed: int, *, opset: int = 20) -> ir.Model:
    constants = {name: heavy(*shape, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())}
    constants |= {name: np.array(value, np.float32) for name, value in {"low": -1, "high": 2}.items() if name in shapes}
    return build(text, opset=opset, ir_version=9, **constants)


Case = tuple[str, dict[str, tuple[int, ...]]]

FREE: dict[str, Case] = {
    "Conv-Relu-Conv": (
        """g (float[1,3,6,6] x) => (float[1,5,4,4] y) {
            a = Conv<pads = [1,1,1,1]>(x, w1, b1) r = Relu(a) y = Conv(r, w2, b2) }""",
        {"w1": (9, 3, 3, 3), "b1": (9,), "w2": (5, 9, 3, 3), "b2": (5,)},
    ),
    "depthwise layer between": (
        """g (float[1,3,6,6] x) => (float[1,5,2,2] y) {
            a = Conv(x, w1, b1) r = Clip(a, low, high) d = Conv<group = 8>(r, wd, bd) y = Conv(d, w2) }""",
        {
            "w1": (8, 3, 3, 3),
            "b1": (8,),
            "wd": (8, 1, 3, 3),
            "bd": (8,),
            "w2": (5, 8, 1, 1),
            "low": (),
            "high": (),
        },
    ),
    "residual": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1, b1) r = Relu(a) c = Conv<pads = [1,1,1,1]>(r, w2, b2) d = Relu(c)
            e = Conv(d, w3) s = Add(e, r) t = Relu(s) y = Conv(t, w4) }""",
        {
            "w1": (8, 3, 1, 1),
            "b1": (8,),
            "w2": (6, 8, 3, 3),
            "b2": (6,),
            "w3": (8, 6, 1, 1),
            "w4": (5, 8, 1, 1),
        },
    ),
    "Concat": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1) r = Relu(a) b = Conv<pads = [1,1,1,1]>(x, w2, b2) m = MaxPool<kernel_shape = [1,1]>(b)
            c = Concat<axis = 1>(r, x, m) s = Sigmoid(c) y = Conv(s, w3) }""",
        {"w1": (6, 3, 1, 1), "w2": (7, 3, 3, 3), "b2": (7,), "w3": (5, 16, 1, 1)},
    ),
    "a factor and a slope for each channel": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1) m = Mul(a, f) n = Add(o, m) p = PRelu(n, slope) q = Mul(p, one) y = Conv(q, w2) }""",
        {"w1": (8, 3, 1, 1), "f": (8, 1, 1), "o": (1, 8, 1, 1), "slope": (8, 1, 1), "one": (1,), "w2": (5, 8, 1, 1)},
    ),
    "squeeze and excitation": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1) p = GlobalAveragePool(a) q = Conv(p, w2) r = Relu(q) s = Conv(r, w3) t = HardSigmoid(s)
            m = Mul(a, t) y = Conv(m, w4) }""",
        {"w1": (8, 3, 1, 1), "w2": (6, 8, 1, 1), "w3": (8, 6, 1, 1), "w4": (5, 8, 1, 1)},
    ),
    "Gemm behind a pool": (
        """g (float[2,3,6,6] x) => (float[2,5] y) {
            a = Conv(x, w1, b1) p = GlobalAveragePool(a) f = Flatten(p) h = Gemm<transB = 1>(f, w2, b2) r = Relu(h)
            y = Gemm(r, w3) }""",
        {"w1": (8, 3, 3, 3), "b1": (8,), "w2": (7, 8), "b2": (7,), "w3": (7, 5)},
    ),
    "MatMul, bias and Gelu": (
        """g (float[2,4,6] x) => (float[2,4,5] y) {
            a = MatMul(x, w1) b = Add(b1, a) c = Gelu(b) d = MatMul(c, w2) y = Add(d, b2) }""",
        {"w1": (6, 12), "b1": (12,), "w2": (12, 5), "b2": (5,)},
    ),
    "two readers": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y, float[1,4,6,6] z) {
            a = Conv(x, w1) r = Relu(a) y = Conv(r, w2) z = Conv<pads = [1,1,1,1]>(r, w3) }""",
        {"w1": (8, 3, 1, 1), "w2": (5, 8, 1, 1), "w3": (4, 8, 3, 3)},
    ),
}
"""Graphs in which an order of channels is free."""

TWO: dict[str, tuple[int, ...]] = {"w1": (8, 3, 1, 1), "w2": (5, 8, 1, 1)}

FIXED: dict[str, Case] = {
    "an output": (
        "g (float[1,3,6,6] x) => (float[1,5,6,6] y, float[1,8,6,6] r) { a = Conv(x, w1) r = Relu(a) y = Conv(r, w2) }",
        TWO,
    ),
    "an output behind a depthwise layer": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y, float[1,8,6,6] d) {
            a = Conv(x, w1) d = Conv<group = 8>(a, wd) y = Conv(a, w2) }""",
        {**TWO, "wd": (8, 1, 1, 1)},
    ),
    "Split": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y, float[1,4,6,6] z) {
            a = Conv(x, w1) z, o = Split<axis = 1, num_outputs = 2>(a) y = Conv(a, w2) }""",
        TWO,
    ),
    "Transpose": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y, float[1,6,6,8] z) {
            a = Conv(x, w1) z = Transpose<perm = [0,2,3,1]>(a) y = Conv(a, w2) }""",
        TWO,
    ),
    "Reshape": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1) z = Flatten(a) s = Softmax<axis = 1>(z) m = ReduceMax<keepdims = 0>(s) c = Conv(a, w2)
            y = Add(c, m) }""",
        TWO,
    ),
    "Softmax over channels": (
        "g (float[1,3,6,6] x) => (float[1,5,6,6] y) { a = Conv(x, w1) s = Softmax<axis = 1>(a) y = Conv(s, w2) }",
        TWO,
    ),
    "groups": (
        "g (float[1,3,6,6] x) => (float[1,4,6,6] y) { a = Conv(x, w1) y = Conv<group = 2>(a, w2) }",
        {"w1": (8, 3, 1, 1), "w2": (4, 4, 1, 1)},
    ),
    "a multiplier": (
        "g (float[1,3,6,6] x) => (float[1,5,6,6] y) { a = Conv(x, w1) d = Conv<group = 8>(a, wd) y = Conv(d, w2) }",
        {"w1": (8, 3, 1, 1), "wd": (16, 1, 1, 1), "w2": (5, 16, 1, 1)},
    ),
    "a weight of two nodes": (
        """g (float[1,8,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1) r = Relu(a) b = Conv(r, w1) s = Relu(b) y = Conv(s, w2) }""",
        {"w1": (8, 8, 1, 1), "w2": (5, 8, 1, 1)},
    ),
    "a bias of two nodes": (
        """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
            a = Conv(x, w1, b1) t = Conv(x, w3, b1) s = ReduceMean<keepdims = 1>(t) r = Relu(a) c = Conv(r, w2)
            y = Add(c, s) }""",
        {**TWO, "b1": (8,), "w3": (8, 3, 1, 1)},
    ),
    "a picture is added": (
        """g (float[1,3,6,6] x, float[1,8,6,6] p) => (float[1,5,6,6] y) {
            a = Conv(x, w1) s = Add(a, p) y = Conv(s, w2) }""",
        TWO,
    ),
}
"""Graphs in which no order is."""


@pytest.mark.parametrize("case", FREE)
@pytest.mark.parametrize("per_channel", [True, False])
def test_the_float_model_computes_the_same(case: str, per_channel: bool) -> None:
    model = build_case(*FREE[case], seed=3)
    before = clone(model)
    assert reorder_channels(model, per_channel=per_channel) > 0
    assert [v.name for v in model.graph.outputs] == [v.name for v in before.graph.outputs]
    assert_same_outputs(before, model, random_feed(model, seed=1), random_feed(model, seed=2), rtol=1e-5)


def test_statistics_of_normalizations_follow() -> None:
    """Biases and statistics are the channels' numbers here, on layers of their own and behind a Concat."""
    text = """g (float[1,3,6,6] x) => (float[1,5,6,6] y) {
        a = Conv(x, w1, b1) p = Relu(a) b = Conv(x, w2, b2) q = Relu(b) c = Concat<axis = 1>(p, q)
        d = Conv<group = 15>(c, wd, bd) r = Relu(d) y = Conv(r, w3) }"""
    shapes = {"w1": (8, 3, 1, 1), "w2": (7, 3, 1, 1), "wd": (15, 1, 1, 1), "w3": (5, 15, 1, 1)}
    biases = {"b1": np.arange(8), "b2": np.arange(7), "bd": np.arange(15)}
    weights = {name: heavy(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    model = build(text, **weights, **{name: values.astype(np.float32) for name, values in biases.items()})
    layers = [node for node in model.graph if node.op_type == "Conv" and len(node.inputs) > 2]
    for node, values in zip(layers, biases.values(), strict=True):
        node.outputs[0].meta[BATCHNORM] = (values.astype(np.float64), -values.astype(np.float64))
    assert reorder_channels(model, per_channel=True) == 2
    for node, values in zip(layers, biases.values(), strict=True):
        mean, spread = node.outputs[0].meta[BATCHNORM]
        np.testing.assert_array_equal(mean, g.constant(node.inputs[2]))
        np.testing.assert_array_equal(spread, -mean)
        assert np.any(mean != values)


@pytest.mark.parametrize("case", FREE)
def test_fewer_pairs_could_saturate(case: str) -> None:
    found = []
    for seed in range(0, 60, 10):
        model = build_case(*FREE[case], seed=seed)
        before = violations(model)
        reorder_channels(model, per_channel=True)
        found.append((before, violations(model)))
    first, last = np.sum(found, axis=0)
    assert last < first


def test_a_layer_with_too_many_large_weights_looks_for_neighbours_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "g (float[1,4,6] x) => (float[1,4,5] y) { a = MatMul(x, w1) b = Relu(a) y = MatMul(b, w2) }"
    weight = normal(32, 5, seed=2)
    model = build(text, opset=20, ir_version=9, w1=normal(6, 32, seed=1), w2=weight)
    large = np.count_nonzero(np.abs(weight) * LEVELS / np.abs(weight).max(axis=0) > PAIR_LIMIT // 2)
    monkeypatch.setattr(reorder, "MOST_WORK", 8 * large)
    before = clone(model)
    assert reorder_channels(model, per_channel=True) == 1
    assert_same_outputs(before, model, random_feed(model), rtol=1e-5)
    assert violations(model) < violations(before)
    now, then = (constants_of(m)["w1"].T for m in (model, before))
    came_from = np.array([int(np.flatnonzero((then == column).all(axis=1))[0]) for column in now])
    assert (came_from // 8 == np.arange(32) // 8).all()
    assert (came_from != np.arange(32)).any()


@pytest.mark.parametrize("case", FIXED)
def test_what_something_else_reads_keeps_its_order(case: str) -> None:
    model = build_case(*FIXED[case], seed=5)
    before = clone(model)
    assert reorder_channels(model, per_channel=True) == 0
    for name, value in model.graph.initializers.items():
        np.testing.assert_array_equal(g.constant(value), g.constant(before.graph.initializers[name]))


@pytest.mark.parametrize("node", ["Conv_0", "Relu_1", "Conv_2"])
@pytest.mark.parametrize("portable", [True, False])
def test_scales_of_an_edited_plan_belong_to_their_channels(node: str, portable: bool) -> None:
    model = build_case(*FREE["Conv-Relu-Conv"], seed=5)
    weight = model.graph.initializers["w1"]
    array = g.constant(weight)
    assert array is not None
    spread = np.geomspace(0.02, 2, 9).reshape(9, 1, 1, 1)
    weight.const_value = ir.Tensor((array * spread).astype(np.float32), name="w1")
    plan = full(model, equalization=True).plan
    edited = next(n for n in model.graph if n.name == node)
    plan.keep_float(edited, "a person said so")
    target = replace(target_spec("CPU"), pairs_saturate=portable)
    again = quantize_full(
        clone(model),
        target,
        FullSettings(bias_correction=False),
        samples=samples_of(model),
        plan=plan,
        context=CalibrationContext(),
    )
    assert sqnr(model, written(again), samples_of(model)) > 25


def test_weights_that_fit_keep_their_order() -> None:
    model = build_case(*FREE["Conv-Relu-Conv"], seed=5)
    weight = model.graph.initializers["w2"]
    array = np.full((5, 9, 3, 3), 0.5, np.float32)
    array[:, 0] = 1.0
    array[:, 1::2] = -0.5
    weight.const_value = ir.Tensor(array, name="w2")
    assert reorder_channels(model, per_channel=True) == 0


def test_the_second_time_nothing_is_better() -> None:
    for case in FREE.values():
        model = build_case(*case, seed=7)
        reorder_channels(model, per_channel=True)
        once = violations(model)
        reorder_channels(model, per_channel=True)
        assert violations(model) <= once * 1.1 + 2


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.sampled_from(sorted(FREE)), st.integers(0, 2**20))
def test_any_order_of_free_channels_computes_the_same(case: str, seed: int) -> None:
    model = build_case(*FREE[case], seed=1)
    before, rng = clone(model), np.random.default_rng(seed)
    found = free_channels(model.graph)
    assert found
    for channels in found:
        channels.reorder(rng.permutation(channels.count))
    assert_same_outputs(before, model, random_feed(model), rtol=1e-5)


STEPS: dict[str, Callable[[int], str]] = {
    "Relu": lambda i: f"t{i + 1} = Relu(t{i})",
    "depthwise": lambda i: f"t{i + 1} = Conv<group = 6, pads = [1,1,1,1]>(t{i}, d{i}, v{i})",
    "pointwise": lambda i: f"t{i + 1} = Conv(t{i}, p{i}, v{i})",
    "residual": lambda i: f"u{i} = Conv(t{i}, p{i}, v{i}) t{i + 1} = Add(u{i}, t{i})",
    "both": lambda i: f"u{i} = Conv(t{i}, p{i}) w{i} = Concat<axis = 1>(u{i}, t{i}) t{i + 1} = Conv(w{i}, q{i})",
    "gate": lambda i: f"g{i} = GlobalAveragePool(t{i}) h{i} = Conv(g{i}, p{i}) t{i + 1} = Mul(h{i}, t{i})",
    "offset": lambda i: f"t{i + 1} = Sub(t{i}, o{i})",
    "turned": lambda i: f"k{i} = Transpose<perm = [0,1,3,2]>(t{i}) t{i + 1} = Relu(k{i})",
    "Softmax": lambda i: f"t{i + 1} = Softmax<axis = 1>(t{i})",
}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6), st.sets(st.integers(0, 6)), st.integers(0, 2**20)
)
def test_networks_of_random_steps_compute_the_same(steps: list[str], shown: set[int], seed: int) -> None:
    outputs = sorted(index for index in shown if 0 < index <= len(steps))
    more = "".join(f", float[1,6,4,4] t{index}" for index in outputs)
    lines = " ".join(STEPS[step](i) for i, step in enumerate(steps))
    text = f"""g (float[1,3,4,4] x) => (float[1,5,4,4] y{more}) {{
        t0 = Conv(x, first) {lines} y = Conv(t{len(steps)}, last) }}"""
    shapes: dict[str, tuple[int, ...]] = {"first": (6, 3, 1, 1), "last": (5, 6, 1, 1)}
    for i in range(len(steps)):
        every = {"d": (6, 1, 3, 3), "v": (6,), "p": (6, 6, 1, 1), "q": (6, 12, 1, 1), "o": (6, 1, 1)}
        shapes |= {
            f"{name}{i}": shape for name, shape in every.items() if f"{name}{i})" in text or f"{name}{i}," in text
        }
    model = build_case(text, shapes, seed)
    before, rng = clone(model), np.random.default_rng(seed)
    reorder_channels(model, per_channel=True)
    assert_same_outputs(before, model, random_feed(model), rtol=1e-5)
    for channels in free_channels(model.graph):
        channels.reorder(rng.permutation(channels.count))
    assert_same_outputs(before, model, random_feed(model), rtol=1e-5)


def test_columns_of_a_layer_are_those_of_its_input() -> None:
    model = build_case(*FREE["Conv-Relu-Conv"], seed=1)
    (channels,) = free_channels(model.graph)
    ((node, place),) = channels.readers
    weight = normal(5, 9, 3, 3)
    place.constant.const_value = ir.Tensor(weight, name=place.constant.name)
    columns = weight_columns(node, place, channels.count)
    assert columns.shape == (5, 9, 9)
    np.testing.assert_array_equal(columns[2, 4], weight[2, :, 1, 1].astype(np.float64))


def test_a_given_plan_of_dynamic_weights_finds_the_same_order() -> None:
    model = build_case(*FREE["MatMul, bias and Gelu"], seed=3)
    first = quantize_dynamic(clone(model), DynamicSettings(), target="CPU", context=RunContext())
    assert not np.array_equal(constants_of(first.model)["w1"], constants_of(model)["w1"])
    for settings_ in (DynamicSettings(), DynamicSettings(portable=False)):
        second = quantize_dynamic(clone(model), settings_, target="CPU", plan=first.plan, context=RunContext())
        for name, array in constants_of(first.model).items():
            np.testing.assert_array_equal(constants_of(second.model)[name], array)


def constants_of(model: ir.Model) -> dict[str, NDArray[np.generic]]:
    arrays = {name: g.constant(value) for name, value in model.graph.initializers.items()}
    return {name: array for name, array in arrays.items() if array is not None}
