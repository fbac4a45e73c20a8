from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.config import config_from_mapping
from converter_lite.config.names import Rounding
from converter_lite.errors import CalibrationError, ConfigError
from converter_lite.formats.mindspore_lite.policy import MsStorage
from converter_lite.log import Log
from converter_lite.quantization.choice import choose
from converter_lite.quantization.mixed_bits import Step, Trials, interpolated, relative_error, search, split, steps
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.score import Scorer
from converter_lite.quantization.sequential import SequentialRun
from converter_lite.quantization.settings import MixedBits, WeightSettings
from converter_lite.quantization.storage import ONNX_STORAGE, WIDTHS, Storage
from converter_lite.quantization.weight_only import decide_weights, quantize_weights
from converter_lite.quantization.weight_uses import TOO_SMALL, grid, weight_uses
from converter_lite.quantization.width_losses import measure_losses
from converter_lite.runtime.context import RunContext
from converter_lite.targets.operands import compensated_integers, weight_of
from tests.support import Feed, Samples, build, clone, normal, run, samples_of, written

NET = """g (float[1,24] x) => (float[1,40] y) {
    a = MatMul(x, w1)  r = Relu(a)
    b = MatMul(r, w2)  t = Relu(b)
    c = MatMul(t, tiny)  d = Mul(b, c)
    y = Gemm(d, w3, bias) }"""


def net() -> ir.Model:
    return build(
        NET,
        w1=normal(24, 64, seed=1) * 0.2,
        w2=normal(64, 48, seed=2) * 0.2,
        tiny=normal(48, 1, seed=3),
        w3=normal(48, 40, seed=4) * 0.2,
        bias=normal(40, seed=5),
    )


def mixed(
    bits: MixedBits,
    *,
    samples: Samples | None = None,
    storage: Storage = ONNX_STORAGE,
    threads: int = 1,
    log: Log | None = None,
) -> QuantizedModel:
    model = net()
    rounding = Rounding.NEAREST if samples is None else Rounding.ADAPTIVE
    settings = WeightSettings(mixed=bits, min_channel=0, rounding=rounding, storage=storage)
    return quantize_weights(
        model,
        settings,
        target="CPU",
        samples=samples,
        tuning=samples_of(model),
        context=RunContext(threads=threads, log=log or Log()),
    )


def widths(quantized: QuantizedModel) -> dict[str, int]:
    return {name: params.spec.bits for name, params in quantized.plan.weights.items()}


@pytest.mark.parametrize("tolerance", [1e-6, 0.002, 0.02, 0.3])
def test_each_weight_gets_the_smallest_width_within_the_error(tolerance: float) -> None:
    quantized = mixed(MixedBits(init_scale=tolerance))
    plan = decide_weights(net(), WeightSettings(min_channel=0), target="CPU")
    for use in weight_uses(net(), plan):
        if use.name not in quantized.plan.weights:
            continue
        errors = {b: relative_error(use.array, grid(use, b, per_channel=True).fake_quantize(use.array)) for b in WIDTHS}
        fitting = [bits for bits in WIDTHS if errors[bits] <= tolerance]
        assert quantized.plan.weights[use.name].spec.bits == (fitting[0] if fitting else 16)


def test_a_weight_that_does_not_get_smaller_stays_float_with_the_reason() -> None:
    quantized = mixed(MixedBits(init_scale=1e-6))
    node = next(n for n in quantized.model.graph if any(v is not None and v.name == "tiny" for v in n.inputs))
    assert quantized.plan.nodes[str(node.name)].reason == TOO_SMALL
    assert "tiny" not in quantized.plan.weights
    assert set(widths(quantized).values()) == {16}


def test_relative_error_is_the_mean_over_the_first_axis() -> None:
    weight = np.array([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]], np.float32)
    dequantized = np.array([[3.0, 3.0], [0.0, 1.0], [0.0, 0.0]], np.float32)
    assert relative_error(weight, dequantized) == pytest.approx((1 / 5 + 1 / 2 + 0) / 3)


@pytest.mark.parametrize("goal", [0.9, 0.99, 0.9999])
def test_the_search_keeps_its_goal_on_samples_that_nothing_is_fitted_to(goal: float) -> None:
    model = net()
    samples = samples_of(model, 60)
    quantized = mixed(MixedBits(search=True, target_cosine=goal), samples=samples)
    others = samples_of(model, 40, dynamic=2)[30:]
    scorer = Scorer(model, others, RunContext())
    assert scorer(written(quantized)).cosine >= goal - 0.2 * (1 - goal)


def test_weights_of_8_bits_and_more_are_not_fitted_to_samples() -> None:
    quantized = mixed(MixedBits(search=True, target_cosine=0.99), samples=samples_of(net(), 60))
    found = set()
    for node in quantized.model.graph:
        weight = weight_of(node)
        params = quantized.plan.weights.get(weight.name or "") if weight is not None else None
        if weight is None or params is None or weight.name is None:
            continue
        values = g.constant(weight)
        assert values is not None
        plain = compensated_integers(node, values, params) if node.op_type == "Gemm" else params.quantize(values)
        is_plain = np.array_equal(quantized.integers(weight.name), plain)
        assert is_plain == (params.spec.bits >= 8)
        found.add(is_plain)
    assert found == {True, False}


def test_a_lower_goal_gives_smaller_widths() -> None:
    samples = samples_of(net(), 60)
    sums = [
        sum(widths(mixed(MixedBits(search=True, target_cosine=goal), samples=samples)).values())
        for goal in (0.9, 0.995, 0.99999)
    ]
    assert sums[0] < sums[1] < sums[2]


def test_the_search_gives_the_same_with_any_number_of_threads_and_needs_no_data() -> None:
    plans = [mixed(MixedBits(search=True), threads=threads).plan.to_json() for threads in (1, 3)]
    assert plans[0] == plans[1]


def test_a_goal_out_of_reach_gives_the_largest_widths_and_a_warning() -> None:
    log = Log()
    quantized = mixed(MixedBits(search=True, target_cosine=1 - 1e-13), log=log)
    assert set(widths(quantized).values()) == {16}
    assert any("no widths keep" in warning for warning in log.warnings)


def test_one_tensor_read_along_two_axes_gets_one_scale_and_one_width() -> None:
    model = build(
        "g (float[1,32] x) => (float[1,32] y) { a = Gemm(x, w) y = Gemm<transB=1>(a, w) }", w=normal(32, 32, seed=1)
    )
    settings = WeightSettings(mixed=MixedBits(init_scale=0.3), min_channel=0)
    plan = quantize_weights(model, settings, target="CPU", context=RunContext()).plan
    assert plan.weights["w"].spec.axis is None
    assert plan.weights["w"].spec.bits == 4


def test_a_broken_weight_is_named() -> None:
    model = net()
    values = normal(24, 64)
    values[0, 0] = np.nan
    model.graph.initializers["w1"].const_value = ir.Tensor(values, name="w1")
    with pytest.raises(CalibrationError, match="w1"):
        decide_weights(model, WeightSettings(mixed=MixedBits(), min_channel=0), target="CPU")


def test_steps_stand_in_order_of_loss_per_byte_and_of_width() -> None:
    plan = decide_weights(net(), WeightSettings(min_channel=0), target="CPU")
    uses = weight_uses(net(), plan)
    losses = {use.name: {8: 1e-5 * (i + 1), 4: 1e-2 / (i + 1)} for i, use in enumerate(uses)}
    ordered = steps(uses, losses, per_channel=True)
    ratios = [step.loss / step.saved for step in ordered]
    for name in {step.name for step in ordered}:
        assert [step.bits for step in ordered if step.name == name] == [8, 4][: sum(s.name == name for s in ordered)]
    assert ratios == sorted(ratios)


@pytest.mark.parametrize("last_good", range(13))
def test_the_search_finds_the_last_state_that_holds_however_wrong_the_forecast(last_good: int) -> None:
    ordered = [Step(f"w{i}", 8, 1e-4 * 2**i, 100) for i in range(12)]
    tried: list[int] = []

    def cosine(widths: dict[str, int]) -> float:
        tried.append(sum(bits == 8 for bits in widths.values()))
        return 0.999 if tried[-1] <= last_good else 0.5

    names = [step.name for step in ordered]
    mixed_bits = MixedBits(search=True, target_cosine=0.99)
    found = search(ordered, Trials(mixed_bits, cosine, names, 1300, Log()))
    assert sum(bits == 8 for bits in found.values()) == last_good
    assert len(tried) <= 14


def test_a_step_that_costs_too_much_is_passed_over() -> None:
    losses = {"a": 0.001, "b": 0.05, "c": 0.002, "d": 0.1, "e": 0.003}
    ordered = [Step(name, 8, loss, 100) for name, loss in losses.items()]

    def cosine(widths: dict[str, int]) -> float:
        return 1 - sum(losses[name] for name, bits in widths.items() if bits == 8)

    mixed_bits = MixedBits(search=True, target_cosine=0.99)
    found = search(ordered, Trials(mixed_bits, cosine, list(losses), 1000, Log()))
    assert [name for name, bits in found.items() if bits == 8] == ["a", "c", "e"]


def test_a_width_is_not_passed_over() -> None:
    ordered = [Step("a", 8, 0.5, 100), Step("a", 4, 0.001, 100), Step("b", 8, 0.002, 100)]

    def cosine(widths: dict[str, int]) -> float:
        return 0.5 if widths["a"] < 16 else 0.999

    mixed_bits = MixedBits(search=True, target_cosine=0.99)
    found = search(ordered, Trials(mixed_bits, cosine, ["a", "b"], 1000, Log()))
    assert found == {"a": 16, "b": 8}


def test_steps_that_save_little_are_not_worth_a_network() -> None:
    ordered = [Step("a", 8, 0.001, 300), Step("b", 8, 0.05, 100), Step("c", 8, 0.002, 20)]
    tried: list[dict[str, int]] = []

    def cosine(widths: dict[str, int]) -> float:
        tried.append(widths)
        return 0.5 if widths["b"] == 8 else 0.999

    found = search(ordered, Trials(MixedBits(search=True, target_cosine=0.99), cosine, ["a", "b", "c"], 1000, Log()))
    assert found == {"a": 8, "b": 16, "c": 16}
    assert len(tried) == 2


def test_networks_of_nearly_the_size_of_one_that_missed_are_not_tried() -> None:
    """Steps of a tenth of a percent around one that costs too much: their networks differ by how their rounding falls out."""
    ordered = [
        Step("a", 8, 0.001, 300),
        *(Step(f"s{i}", 8, 1e-6, 1) for i in range(10)),
        Step("b", 8, 0.005, 100),
        *(Step(f"t{i}", 8, 1e-6, 1) for i in range(10)),
    ]
    sizes: list[int] = []

    def cosine(widths: dict[str, int]) -> float:
        sizes.append(sum(step.saved for step in ordered if widths[step.name] == 8))
        return 0.5 if widths["b"] == 8 else 0.999

    names = [step.name for step in ordered]
    search(ordered, Trials(MixedBits(search=True, target_cosine=0.99), cosine, names, 1000, Log()))
    assert sizes == [420, 0, 310]


def test_beside_a_network_that_uses_the_goal_up_the_next_one_is_tried_alone() -> None:
    """Half the way to the smallest network would cost far too much, and a network more to come back."""
    ordered = [Step(f"w{i}", 8, 0.0009, 100) for i in range(40)]
    tried: list[int] = []

    def cosine(widths: dict[str, int]) -> float:
        tried.append(sum(bits == 8 for bits in widths.values()))
        return 1 - 0.0009 * tried[-1]

    names = [step.name for step in ordered]
    search(ordered, Trials(MixedBits(search=True, target_cosine=0.99), cosine, names, 10_000, Log()))
    assert tried == [11, 14]


def test_the_search_stops_at_its_bound() -> None:
    ordered = [Step(f"w{i}", 8, 1e-4, 100) for i in range(500)]
    tried = []

    def cosine(widths: dict[str, int]) -> float:
        tried.append(widths)
        return 0.997 - len(tried) / 1000

    names = [step.name for step in ordered]
    search(ordered, Trials(MixedBits(search=True, max_iterations=2), cosine, names, 100_000, Log()))
    assert len(tried) == 2


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, (1, 1)), (3, (2, 1)), (30, (20, 10)), (60, (32, 28)), (100, (48, 48))]
)
def test_samples_are_split_into_fitted_ones_and_judges(count: int, sizes: tuple[int, int]) -> None:
    fitted, judges = split(samples_of(net(), count))
    assert (len(fitted), len(judges)) == sizes
    assert count == 1 or not {id(feed) for feed in fitted} & {id(feed) for feed in judges}


def test_losses_grow_as_widths_shrink_and_the_model_stays_as_it_is() -> None:
    model = net()
    before = ir.to_proto(clone(model)).SerializeToString(deterministic=True)
    uses = weight_uses(model, decide_weights(model, WeightSettings(min_channel=0), target="CPU"))
    grids = {use: {bits: grid(use, bits, per_channel=True) for bits in (4, 8)} for use in uses}
    feeds = samples_of(model, 8)
    scorer = Scorer(model, feeds, RunContext())
    losses = measure_losses(model, grids, feeds, scorer=scorer, context=RunContext())
    assert all(found[4] > found[8] >= 0 for found in losses.values())
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("kept", [0, 1 << 20])
def test_losses_are_those_of_whole_networks(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A residual connection passes by the layers, so more than a layer's input has to be held."""
    monkeypatch.setattr("converter_lite.quantization.sequential.KEPT_BYTES", kept)
    model = build(
        """g (float[1,32] x) => (float[1,32] y, float[1,32] z) {
        [a] a = MatMul(x, w) b = Relu(a) [c] c = MatMul(b, v) y = Add(c, x) [z] z = MatMul(y, u) }""",
        w=normal(32, 32, seed=1),
        v=normal(32, 32, seed=2),
        u=normal(32, 32, seed=3),
    )
    uses = weight_uses(model, decide_weights(model, WeightSettings(min_channel=0), target="CPU"))
    grids = {use: {bits: grid(use, bits, per_channel=True) for bits in (4, 8)} for use in uses}
    feeds, context = samples_of(model, 6), RunContext(threads=2)
    scorer = Scorer(model, feeds, context)
    found = measure_losses(model, grids, feeds, scorer=scorer, context=context)
    monkeypatch.setattr(SequentialRun, "behind", lambda _, whole: partial(_outputs, whole, feeds))
    for name, expected in measure_losses(model, grids, feeds, scorer=scorer, context=context).items():
        assert found[name] == pytest.approx(expected, rel=1e-2)


def _outputs(model: ir.Model, feeds: Sequence[Feed], sample: int) -> list[NDArray[Any]]:
    found = run(model, feeds[sample])
    return [found["y"], found["z"]]


@pytest.mark.parametrize(
    ("keys", "has_samples", "expected"),
    [
        ({}, False, (False, None)),
        ({}, True, (True, 0.99)),
        ({"init_scale": "0.02"}, True, (False, None)),
        ({"auto_tune": "true"}, False, (True, 0.995)),
        ({"auto_tune": "true", "init_scale": "0.1"}, True, (True, 0.995)),
    ],
)
def test_widths_are_searched_where_asked_or_where_data_allow(
    keys: dict[str, str], has_samples: bool, expected: tuple[bool, float | None]
) -> None:
    config = config_from_mapping(
        {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "0"}, "mixed_bit_weight_quant_param": keys},
        external_data=has_samples,
    )
    choice = choose(config, net(), frozenset(), has_samples=has_samples)
    assert choice is not None
    assert isinstance(choice.settings, WeightSettings)
    assert choice.settings.mixed is not None
    assert choice.settings.mixed.search == expected[0] == choice.is_gated
    assert expected[1] in (None, choice.settings.mixed.target_cosine)


def test_a_goal_replaces_the_cosine_of_the_search_and_an_error_is_refused() -> None:
    sections = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "0", "target_cosine": "0.97"}}
    choice = choose(config_from_mapping(sections, external_data=True), net(), frozenset(), has_samples=True)
    assert choice is not None
    assert choice.goal is None
    assert isinstance(choice.settings, WeightSettings)
    assert choice.settings.mixed is not None
    assert choice.settings.mixed.target_cosine == 0.97
    sections["common_quant_param"]["target_error"] = "0.1"
    with pytest.raises(ConfigError, match="not for a largest error"):
        choose(config_from_mapping(sections, external_data=True), net(), frozenset(), has_samples=True)


def test_every_node_of_a_weight_quantization_keeps_its_mode() -> None:
    modes = {node.mode for node in mixed(MixedBits()).plan.nodes.values()}
    assert modes == {NodeMode.WEIGHT, NodeMode.FLOAT}


def test_losses_between_measured_widths_are_interpolated_in_decibels() -> None:
    filled = interpolated({"w": {4: 1e-2, 8: 1e-6}, "exact": {4: 1e-3, 8: 0.0}}, (4, 5, 6, 7, 8, 16))
    assert filled["w"] == pytest.approx({4: 1e-2, 5: 1e-3, 6: 1e-4, 7: 1e-5, 8: 1e-6})
    assert (filled["exact"][4], filled["exact"][8]) == (1e-3, 0.0)
    assert 0 < filled["exact"][7] < filled["exact"][6] < 1e-3


def test_nothing_is_interpolated_where_every_width_is_measured() -> None:
    losses = {"w": {4: 0.5, 8: 0.25}}
    assert interpolated(losses, WIDTHS) == losses


def test_a_kind_of_file_with_more_widths_gets_more_of_them() -> None:
    samples = samples_of(net(), 60)
    found = [
        mixed(MixedBits(search=True, target_cosine=0.999), samples=samples, storage=storage)
        for storage in (ONNX_STORAGE, MsStorage())
    ]
    assert set(widths(found[0]).values()) <= set(WIDTHS)
    assert set(widths(found[1]).values()) & {5, 6, 7}
