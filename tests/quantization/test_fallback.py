from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.calibration.context import CalibrationContext
from converter_lite.log import NORMAL, Log
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.fallback import Trial, candidates, fall_back, prices, ranked, sensitivities
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.quantizer import Quantizer, Resources
from converter_lite.quantization.score import Score, Scorer
from converter_lite.quantization.settings import DynamicSettings, FullSettings, Goal, WeightSettings
from converter_lite.runtime.context import RunContext
from converter_lite.targets.devices import target_spec
from tests.support import build, normal, samples_of, written

NET = """g (float[1,3,8,8] x) => (float[1,6,8,8] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)  r = Relu(a)
    c = Conv<pads=[1,1,1,1]>(r, w2, b2)  s = Relu(c)
    y = Conv(s, w3, b3) }"""


def net() -> ir.Model:
    """Three convolutions, the second with one weight that ruins the grid of its layer (and nothing else: a Relu follows)."""
    w2 = normal(5, 4, 3, 3, seed=3) * 0.2
    w2[0] = -20.0
    return build(
        NET,
        w1=normal(4, 3, 3, 3, seed=1) * 0.3,
        b1=normal(4, seed=2),
        w2=w2,
        b2=normal(5, seed=4),
        w3=normal(6, 5, 1, 1, seed=5),
        b3=normal(6, seed=6),
    )


def run(settings: Any, goal: Goal | None, *, log: Log | None = None, plan: QuantPlan | None = None) -> QuantizedModel:
    model = net()
    choice = Choice(settings, target_spec("CPU"), goal)
    return Quantizer(model, choice, Resources(samples_of(model), CalibrationContext(log=log or Log()))).run(plan)


FULL = FullSettings(per_channel=False, bias_correction=False, equalization=False)
CONVOLUTIONS = ("Conv_0", "Conv_2", "Conv_4")


def score_of(quantized: QuantizedModel) -> Score:
    return Scorer(net(), samples_of(net()), RunContext())(written(quantized))


def test_the_layer_that_ruins_the_output_is_left_in_float_and_no_other() -> None:
    plain = run(FULL, None)
    names = [node.name for node in plain.model.graph if node.op_type == "Conv"]
    assert score_of(plain).cosine < 0.9999
    quantized = run(FULL, Goal(cosine=0.9999))
    assert [quantized.plan.nodes[str(name)].mode for name in names] == [
        NodeMode.INTEGER,
        NodeMode.FLOAT,
        NodeMode.INTEGER,
    ]
    assert score_of(quantized).cosine >= 0.9999


def test_a_goal_that_holds_changes_nothing() -> None:
    assert run(FULL, Goal(cosine=0.5)).plan.to_json() == run(FULL, None).plan.to_json()


def test_a_goal_for_the_largest_error_is_reached() -> None:
    error = score_of(run(FULL, None)).error
    assert score_of(run(FULL, Goal(error=error / 4))).error <= error / 4


def test_the_printed_line_reproduces_the_result() -> None:
    stream = StringIO()
    fallen_back = run(FULL, Goal(cosine=0.9999), log=Log(NORMAL, stream))
    line = next(line for line in stream.getvalue().splitlines() if "skip_quant_node=" in line)
    names = frozenset(line.split("skip_quant_node=")[1].split(","))
    again = run(FullSettings(per_channel=False, bias_correction=False, equalization=False, skip=names), None)
    reasons = {fallen_back.plan.nodes[name].reason for name in names}
    assert reasons == {"left in float to reach cosine 0.9999"}
    for name in names:
        assert again.plan.nodes[name].reason == "named in skip_quant_node"
        fallen_back.plan.nodes[name] = again.plan.nodes[name]
    assert again.plan.to_json() == fallen_back.plan.to_json()


def test_names_of_skip_quant_node_stay_float_and_stand_in_the_printed_line() -> None:
    first = next(str(n.name) for n in net().graph)
    settings = FullSettings(per_channel=False, bias_correction=False, equalization=False, skip=frozenset({first}))
    stream = StringIO()
    quantized = run(settings, Goal(cosine=0.9999), log=Log(NORMAL, stream))
    assert quantized.plan.nodes[first].mode is NodeMode.FLOAT
    assert f"skip_quant_node={first}," in stream.getvalue()


def test_weight_quantization_gives_16_bits_to_what_costs_most() -> None:
    settings = WeightSettings(bits=4, per_channel=False, bias_correction=False, min_channel=0)
    plan = run(settings, Goal(cosine=0.99)).plan
    assert plan.weights["w2"].spec.bits == 16
    assert {plan.weights["w1"].spec.bits, plan.weights["w3"].spec.bits} <= {4, 16}


def test_dynamic_quantization_leaves_products_in_float() -> None:
    w2 = normal(32, 32, seed=2)
    w2[3, 5] = 200.0
    model = build(
        "g (float[4,24] x) => (float[4,8] y) { a = MatMul(x, w1) r = Relu(a) b = MatMul(r, w2) t = Tanh(b) y = MatMul(t, w3) }",
        w1=normal(24, 32, seed=1) * 0.2,
        w2=w2,
        w3=normal(32, 8, seed=3),
    )
    settings = DynamicSettings(weight_per_channel=False, smoothing=False, portable=False)
    choice = Choice(settings, target_spec("CPU"), Goal(cosine=0.999))
    plan = Quantizer(model, choice, Resources(samples_of(model), CalibrationContext())).run().plan
    modes = [decision.mode for decision in plan.nodes.values() if decision.op_type == "MatMul"]
    assert modes == [NodeMode.DYNAMIC, NodeMode.FLOAT, NodeMode.DYNAMIC]


def test_a_given_plan_is_followed_with_a_warning() -> None:
    log = Log()
    plan = run(FULL, None).plan
    assert run(FULL, Goal(cosine=0.999999), plan=plan, log=log).plan.nodes == plan.nodes
    assert any("target_cosine" in warning for warning in log.warnings)


def test_what_cannot_be_reached_is_reported_and_the_best_is_kept() -> None:
    log = Log()
    quantized = run(FULL, Goal(cosine=0.99999999, max_nodes=1), log=log)
    assert any("do not reach cosine" in warning and "at most 1 node" in warning for warning in log.warnings)
    assert score_of(quantized).cosine > score_of(run(FULL, None)).cosine


def test_followers_are_no_candidates() -> None:
    operators = {n.name: n.op_type for n in net().graph}
    assert {operators[name] for name in candidates(run(FULL, None))} == {"Conv"}


def test_layers_that_stay_float_beside_those_of_the_goal_are_counted_in_the_report() -> None:
    stream = StringIO()
    quantizer = Quantizer(
        net(),
        Choice(FULL, target_spec("CPU")),
        Resources(samples_of(net()), CalibrationContext(log=Log(NORMAL, stream))),
    )
    first = quantizer.quantize(quantizer.choice)
    fewer = quantizer.quantize(Choice(replace(FULL, skip=frozenset(CONVOLUTIONS[:2])), target_spec("CPU")))
    quantizer._report(Goal(cosine=0.9), Trial(CONVOLUTIONS[:1], fewer, Score(1.0, 0.0, 0.0)), first)
    assert "1 node in float (and 1 more that stay in float with them)" in stream.getvalue()


# -- the search by itself, on networks that only have a number of nodes left out --------------------------------------


def dummy() -> QuantizedModel:
    return QuantizedModel(net(), QuantPlan("CPU"))


def searched(cosine_of: Callable[[int], float], goal: Goal, count: int = 20) -> tuple[Trial, list[int]]:
    tried: list[int] = []
    made: dict[int, int] = {}

    def quantize(skip: frozenset[str]) -> QuantizedModel:
        tried.append(len(skip))
        quantized = dummy()
        made[id(quantized)] = len(skip)
        keep.append(quantized)
        return quantized

    keep: list[QuantizedModel] = []

    def score(quantized: QuantizedModel) -> Score:
        return Score(cosine_of(made[id(quantized)]), 0.0, 0.0)

    order = [f"n{i}" for i in range(count)]
    first = Trial((), dummy(), Score(cosine_of(0), 0.0, 0.0))
    return fall_back(first, order, goal, quantize=quantize, score=score, log=Log()), tried


@pytest.mark.parametrize("needed", range(1, 21))
def test_the_fewest_nodes_are_found(needed: int) -> None:
    trial, tried = searched(lambda k: 0.9 if k < needed else 0.99, Goal(cosine=0.95))
    assert trial.skip == tuple(f"n{i}" for i in range(needed))
    assert len(tried) == len(set(tried)) <= 10


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_the_limit_holds(limit: int) -> None:
    trial, tried = searched(lambda k: 0.5 + k / 1000, Goal(cosine=0.99, max_nodes=limit))
    assert len(trial.skip) == limit == max(tried)


def test_the_best_is_kept_though_later_trials_are_worse() -> None:
    trial, _ = searched(lambda k: {0: 0.5, 1: 0.6, 2: 0.9}.get(k, 0.7), Goal(cosine=0.99))
    assert len(trial.skip) == 2


def test_nodes_that_help_nobody_are_not_left_out() -> None:
    assert ranked({"a": 0.0, "b": 0.1, "c": 0.3}, {"a": 1.0, "b": 1.0, "c": 1.0}) == ["c", "b"]
    assert ranked({"a": 0.2, "b": 0.3}, {"a": 1.0, "b": 2.0}) == ["a", "b"]


def test_work_makes_a_node_dearer() -> None:
    price = prices(net(), [str(n.name) for n in net().graph if n.op_type == "Conv"])
    values = list(price.values())
    assert values[1] > values[0] > values[2]


def test_both_measurements_count_alike() -> None:
    scores = {"a": (0.5, 0.5), "b": (0.25, 1.0)}
    shares = sensitivities(
        ["a", "b"],
        alone=lambda name: Score(0.0, 0.0, scores[name][0]),
        without=lambda name: Score(0.0, 0.0, scores[name][1]),
        everything=Score(0.0, 0.0, 1.0),
        log=Log(),
    )
    assert shares == {"a": 0.5, "b": 0.125}


def test_a_shortfall_is_the_worse_of_both_errors() -> None:
    goal = Goal(cosine=0.99, error=0.1)
    assert goal.shortfall(Score(0.98, 0.05, 0.0)) == pytest.approx(2.0)
    assert goal.shortfall(Score(0.999, 0.4, 0.0)) == pytest.approx(4.0)
    assert goal.shortfall(Score(0.999, 0.05, 0.0, 0.3)) == pytest.approx(3.0)
    assert str(goal) == "cosine 0.99 and largest error 0.1"


def test_a_score_says_how_far_its_mean_may_be_from_that_of_other_samples() -> None:
    model = build("g (float[1,2] x) => (float[1,2] y) { y = Identity(x) }")
    feeds = [{"x": np.array([[1.0, 0.0]], np.float32)} for _ in range(4)]
    angles = np.array([0.0, 0.1, 0.2, 0.5])
    turned = [[np.array([[np.cos(angle), np.sin(angle)]])] for angle in angles]
    for count in (4, 1):
        score = Scorer(model, feeds[:count], RunContext()).of(lambda sample: turned[sample])
        assert score.cosine == pytest.approx(np.cos(angles[:count]).mean())
        assert score.doubt == pytest.approx(np.cos(angles).std(ddof=1) / 2 if count > 1 else 0.0)
    assert score.rare_error == score.error


def test_scores_do_not_depend_on_threads_and_notice_what_is_not_finite() -> None:
    model = net()
    feeds = samples_of(model)
    quantized = written(run(FULL, None))
    scores = {Scorer(model, feeds, RunContext(threads=threads))(quantized) for threads in (1, 3)}
    assert len(scores) == 1
    broken = net()
    broken.graph.initializers["b3"].const_value = ir.Tensor(np.full(6, np.nan, np.float32), name="b3")
    assert Scorer(model, feeds, RunContext())(broken) == Score(-1.0, np.inf, np.inf, np.inf)
