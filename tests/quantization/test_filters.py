"""Tensors that convolutions read and no layer makes are divided by factors per channel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import ConfigError
from converter_lite.quantization import filters
from converter_lite.quantization.equalize import ENOUGH_SAMPLES
from converter_lite.quantization.filters import Filtered, smooth_filters
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.remedies import Remedies, Remedy
from converter_lite.runtime.context import RunContext
from converter_lite.targets.devices import CPU
from tests.support import (
    Samples,
    assert_same_outputs,
    build,
    clone,
    full,
    normal,
    operators,
    run,
    samples_of,
    sqnr,
    written,
)

CHANNELS = 12
UNEVEN = np.geomspace(1, 200, CHANNELS).astype(np.float32).reshape(1, -1, 1, 1)

GROUPS = {
    "single channels": (", group=12", (CHANNELS, 1, 3, 3)),
    "groups": (", group=3", (6, CHANNELS // 3, 3, 3)),
    "all channels": ("", (8, CHANNELS, 3, 3)),
}


def network(kind: str, *, spread: np.ndarray = UNEVEN, between: str = "h = HardSwish(a)") -> ir.Model:
    """Channels of very different size behind a function that no factor passes."""
    group, shape = GROUPS[kind]
    read_together = shape[1]
    by_group = spread.reshape(-1, read_together).repeat(shape[0] * read_together // CHANNELS, axis=0)
    return build(
        f"""g (float[B,{CHANNELS},8,8] x) => (float[B,m,8,8] y, float[B,{CHANNELS},8,8] z) {{
            a = Mul(x, size) {between}
            [read] y = Conv<pads=[1,1,1,1]{group}>(h, w2, b2) z = Tanh(a) }}""",
        opset=14,
        size=spread,
        w3=normal(CHANNELS, CHANNELS, 1, 1, seed=5) * spread.reshape(-1, 1, 1, 1),
        w2=normal(*shape, seed=3) / by_group[:, :, None, None],
        b2=normal(shape[0], seed=4),
        scale=np.float32(0.25),
        shift=np.array([0.5], np.float32),
    )


def smoothed(model: ir.Model, feeds: Samples) -> tuple[ir.Model, QuantPlan]:
    changed, plan = clone(model), QuantPlan("CPU")
    plan.quantize(next(node for node in changed.graph if node.name == "read"), NodeMode.INTEGER)
    smooth_filters(
        changed, plan, feeds, target=replace(CPU, costs=None), remedies=Remedies((0.5, 0.6)), context=RunContext()
    )
    return changed, plan


@pytest.mark.parametrize("kind", GROUPS)
def test_the_float_model_computes_the_same(kind: str) -> None:
    model = network(kind)
    changed, plan = smoothed(model, samples_of(model))
    assert plan.smoothing.keys() == {"h"}
    assert operators(changed)["Mul"] == operators(model)["Mul"] + 1
    assert_same_outputs(model, changed, *samples_of(model, 2), rtol=1e-5)


def test_channels_of_a_convolution_of_single_channels_become_alike() -> None:
    model = network("single channels")
    _, plan = smoothed(model, samples_of(model, ENOUGH_SAMPLES))
    h = clone(model)
    h.graph.outputs.append(next(node.outputs[0] for node in h.graph if node.outputs[0].name == "h"))
    values = [np.abs(run(h, feed)["h"]).max(axis=(0, 2, 3)) for feed in samples_of(model, ENOUGH_SAMPLES)]
    seen = np.max(values, axis=0)
    np.testing.assert_allclose(plan.smoothing["h"], seen / seen.max(), rtol=0.02)  # factors have few digits


@pytest.mark.parametrize(
    "between",
    [
        "e = HardSwish(a) h = Mul(e, scale)",
        "e = HardSwish(a) m = Mul(e, scale) h = Add(m, shift)",
        "e = HardSwish(a) m = Mul(scale, e) h = Add(shift, m)",
    ],
)
@pytest.mark.parametrize("kind", GROUPS)
def test_constants_that_the_tensor_is_computed_with_are_divided(kind: str, between: str) -> None:
    model = network(kind, between=between)
    changed, plan = smoothed(model, samples_of(model))
    assert plan.smoothing
    assert operators(changed) == operators(model)
    assert changed.graph.initializers["scale"].shape == (CHANNELS, 1, 1)
    assert_same_outputs(model, changed, *samples_of(model, 2), rtol=1e-5)


def test_constants_whose_result_others_read_stay() -> None:
    model = network("all channels", between="h = Mul(a, scale) k = Neg(h) a2 = Relu(k)")
    model.graph.outputs.append(next(node.outputs[0] for node in model.graph if node.outputs[0].name == "a2"))
    changed, _ = smoothed(model, samples_of(model))
    assert operators(changed)["Mul"] == operators(model)["Mul"] + 1
    assert_same_outputs(model, changed, *samples_of(model, 2), rtol=1e-5)


def test_even_channels_are_left_alone() -> None:
    model = network("all channels", spread=np.ones_like(UNEVEN))
    assert not smoothed(model, samples_of(model))[1].smoothing


@pytest.mark.parametrize("skip", ["", "Conv_1", "Relu_2"])
def test_what_equalization_divides_is_left_alone(skip: str) -> None:
    model = network("all channels", between="k = Conv(a, w3) h = Relu(k)")
    quantized = full(model, equalization=True, skip=frozenset({skip}))
    assert "h" not in quantized.plan.smoothing


def test_where_times_are_known_factors_must_be_free() -> None:
    for between, expected in (("h = HardSwish(a)", set()), ("e = HardSwish(a) h = Mul(e, scale)", {"h"})):
        model = network("all channels", between=between)
        assert full(model, equalization=True, by_costs=True).plan.smoothing.keys() == expected


@pytest.mark.parametrize("kind", ["groups", "all channels"])
def test_full_quantization_is_more_accurate(kind: str) -> None:
    model = network(kind)
    model.graph.outputs.pop()
    feeds = samples_of(model, 8)
    gains = [sqnr(model, written(full(model, samples=feeds, equalization=on)), feeds) for on in (False, True)]
    assert gains[1] > gains[0] + 20


def item(model: ir.Model, feeds: Samples) -> Filtered:
    plan = QuantPlan("CPU")
    plan.quantize(next(node for node in model.graph if node.name == "read"), NodeMode.INTEGER)
    ((value, readers),) = filters._find_readers(model, plan).items()
    seen = filters._see(model, [value], feeds, RunContext())
    return Filtered.of(value, readers, seen, symmetric=True)


@pytest.mark.parametrize("kind", GROUPS)
def test_the_estimated_noise_is_about_what_is_measured(kind: str) -> None:
    """Of a convolution of one place. Channels that go together add up to more than the estimate takes for their signal."""
    model = network(kind)
    weight = model.graph.initializers["w2"]
    weight.const_value = ir.Tensor(weight.const_value.numpy()[:, :, 1:2, 1:2].copy(), name="w2")  # type: ignore[union-attr]
    weight.shape = ir.Shape(weight.const_value.shape)  # type: ignore[arg-type]
    read = next(node for node in model.graph if node.name == "read")
    read.attributes["pads"] = ir.AttrInt64s("pads", [0, 0, 0, 0])
    feeds = samples_of(model, 16)
    h, w = clone(model), weight.const_value.numpy().astype(np.float64)  # type: ignore[union-attr]
    h.graph.outputs.append(next(node.outputs[0] for node in h.graph if node.outputs[0].name == "h"))
    x = np.concatenate([run(h, feed)["h"] for feed in feeds]).astype(np.float64)
    step = 2 * np.abs(x).max() / 255
    rounded = np.round(x / step) * step
    steps = np.abs(w).max(axis=(1, 2, 3), keepdims=True) / 127
    groups = CHANNELS // w.shape[1]

    def convolve(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        parts = zip(np.split(values, groups, axis=1), np.split(weights[:, :, 0, 0], groups), strict=True)
        return np.concatenate([np.einsum("nchw,oc->nohw", part, kernel) for part, kernel in parts], axis=1)

    exact, given = convolve(x, w), convolve(rounded, np.round(w / steps) * steps)
    shares = np.square(given - exact).mean(axis=(0, 2, 3)) / np.square(exact).mean(axis=(0, 2, 3))
    assert 0.7 < item(model, feeds).noise(Remedy()) / np.minimum(shares, 1).mean() < 3


def test_what_is_not_finite_is_left_to_calibration() -> None:
    model = network("all channels")
    feeds = samples_of(model)
    feeds[0]["x"][0, 0, 0, 0] = np.inf
    assert not smoothed(model, feeds)[1].smoothing


def test_a_saved_plan_gives_the_same_model() -> None:
    model, feeds = network("groups"), samples_of(network("groups"), 8)
    first = full(model, samples=feeds, equalization=True)
    assert first.plan.smoothing
    plan = QuantPlan.from_json(first.plan.to_json(), where="plan")
    again = full(model, samples=feeds, plan=plan, equalization=True)
    assert ir.to_proto(written(again)).SerializeToString() == ir.to_proto(written(first)).SerializeToString()


def test_factors_of_a_plan_must_fit() -> None:
    model = network("groups")
    plan = full(model, samples=samples_of(model), equalization=True).plan
    plan.smoothing["h"] = plan.smoothing["h"][:-1]
    with pytest.raises(ConfigError, match=f"{CHANNELS - 1} smoothing factors for {CHANNELS} channels of h"):
        full(model, plan=plan, equalization=True)


@pytest.mark.parametrize("axes", [1, 3])
def test_signals_and_volumes_are_smoothed_as_well(axes: int) -> None:
    sizes, ones = ",".join(["6"] * axes), [1] * axes
    model = build(
        f"""g (float[B,{CHANNELS},{sizes}] x) => (float[B,8,{sizes}] y) {{
            a = Mul(x, size) h = HardSwish(a) [read] y = Conv(h, w, b) }}""",
        opset=14,
        size=UNEVEN.reshape(1, -1, *ones),
        w=normal(8, CHANNELS, *ones) / UNEVEN.reshape(1, -1, *ones),
        b=normal(8, seed=1),
    )
    changed, plan = smoothed(model, samples_of(model))
    assert plan.smoothing.keys() == {"h"}
    assert_same_outputs(model, changed, *samples_of(model, 2), rtol=1e-5)


def test_a_tensor_of_unknown_rank_is_left_alone() -> None:
    model = network("all channels")
    next(node.outputs[0] for node in model.graph if node.outputs[0].name == "h").shape = None
    assert not smoothed(model, samples_of(model))[1].smoothing
