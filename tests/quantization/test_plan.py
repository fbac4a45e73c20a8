from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import ConfigError
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantPlan, save_plans
from converter_lite.targets.devices import TARGETS
from tests.quantization.cases import CASES
from tests.support import build, full, normal, random_feed, run, samples_of, sqnr, written


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return CASES["Add"].model()


@pytest.fixture(scope="module")
def data(model: ir.Model) -> dict[str, Any]:
    return json.loads(save_plans({"ONNX": full(model).plan}))["ONNX"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_comes_back_from_its_json_text_as_it_was(model: ir.Model, target: str) -> None:
    plan = full(model, target).plan
    text = save_plans({"ONNX": plan})
    back = QuantPlan.from_json(json.loads(text)["ONNX"], where="plan.json")
    assert (back.target, back.nodes) == (plan.target, plan.nodes)
    for ours, theirs in ((plan.activations, back.activations), (plan.weights, back.weights)):
        assert list(ours) == list(theirs)
        for name, params in ours.items():
            assert theirs[name].spec == params.spec
            assert theirs[name].scale.tobytes() == params.scale.tobytes()
            assert theirs[name].zero_point.tobytes() == params.zero_point.tobytes()
    assert save_plans({"ONNX": back}) == text


@pytest.mark.parametrize("target", TARGETS)
def test_a_saved_plan_gives_the_same_model_again(model: ir.Model, target: str) -> None:
    first = full(model, target)
    plan = QuantPlan.from_json(json.loads(json.dumps(first.plan.to_json())), where="plan.json")
    second = full(model, target, plan=plan)
    feed = random_feed(model)
    np.testing.assert_array_equal(run(written(second), feed)["y"], run(written(first), feed)["y"])


def test_an_edited_plan_is_obeyed(model: ir.Model) -> None:
    plan = full(model).plan
    node = next(node for node in model.graph if node.op_type == "Add")
    plan.keep_float(node, "a person said so")
    plan.nodes["Conv_0"] = NodePlan("Conv", NodeMode.FLOAT, "a person said so")
    edited = full(model, plan=plan)
    assert edited.plan.float_reasons() == [("a person said so", 2)]
    assert edited.plan.quantized_nodes == [name for name in plan.nodes if name not in ("Conv_0", node.name)]
    samples = samples_of(model)
    assert sqnr(model, written(edited), samples) > 20


def _without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.pop(key)


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        *keys, last, value = path
        for key in keys:
            data = data[key]
        data[last] = value

    return change


MISTAKES = {
    "no target": (_without("target"), "target"),
    "no nodes": (_without("nodes"), "nodes"),
    "no weights": (_without("weights"), "weights"),
    "unknown field": (_set("tensors", {}), "tensors"),
    "unknown field of a node": (_set("nodes", "Conv_0", "modus", "integer"), "modus"),
    "unknown mode": (_set("nodes", "Conv_0", "mode", "int8"), "int8"),
    "float without a reason": (_set("nodes", "Conv_0", "mode", "float"), "reason"),
    "quantized with a reason": (_set("nodes", "Conv_0", "reason", "so"), "reason"),
    "node is a number": (_set("nodes", "Conv_0", 3), "int"),
    "nodes is a list": (_set("nodes", ["Conv_0"]), "items"),
    "unknown field of parameters": (_set("weights", "w1", "zeropoint", 0), "zeropoint"),
    "no scale": (_set("weights", "w1", {"bits": 8, "zero_point": 0}), "scale"),
    "scale zero": (_set("activations", "x", "scale", 0.0), "finite and positive"),
    "scale negative": (_set("activations", "x", "scale", -1.0), "finite and positive"),
    "scale is text": (_set("activations", "x", "scale", "small"), "small"),
    "bits": (_set("weights", "w1", "bits", 99), "bits"),
    "zero point outside of the grid": (_set("activations", "x", "zero_point", 300), "zero_point"),
    "zero point below the grid": (_set("activations", "x", "zero_point", -1), "zero_point"),
    "zero point too large for int32": (_set("activations", "x", "zero_point", 2**40), "int"),
    "shapes differ": (_set("weights", "w1", "zero_point", 0), "differ in shape"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_plan_is_named_with_its_file(data: dict[str, Any], mistake: str) -> None:
    change, named = MISTAKES[mistake]
    broken = copy.deepcopy(data)
    change(broken)
    with pytest.raises(ConfigError) as error:
        QuantPlan.from_json(broken, where="plan.json: ONNX")
    assert named in error.value.message
    assert error.value.where == "plan.json: ONNX"


@pytest.mark.parametrize("data", [[], {}, None, 3, "plan"])
def test_something_else_than_a_plan_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match="not a usable plan"):
        QuantPlan.from_json(data, where="plan.json")


def test_a_plan_for_another_model_is_refused_with_every_finding_and_the_nearest_names(model: ir.Model) -> None:
    plan = full(model).plan
    plan.nodes["Conv_00"] = plan.nodes.pop("Conv_0")
    plan.activations["xx"] = plan.activations.pop("x")
    plan.weights["w11"] = plan.weights.pop("w1")
    with pytest.raises(ConfigError) as error:
        full(model, plan=plan)
    problems = error.value.problems
    assert len(problems) == 3
    for problem, wrong, right in zip(problems, ("Conv_00", "xx", "w11"), ("Conv_0", "x", "w1"), strict=True):
        assert f"'{wrong}'" in problem
        assert right in problem.split(wrong, 1)[1]


@pytest.mark.parametrize("axis", [1, 7, -9])
def test_scales_that_do_not_fit_the_constant_are_refused(model: ir.Model, axis: int) -> None:
    plan = full(model).plan
    data = plan.to_json()
    data["weights"]["w1"]["axis"] = axis
    wrong = QuantPlan.from_json(data, where="plan.json")
    with pytest.raises(ConfigError, match="w1: 4 scales do not fit the constant along axis"):
        wrong.check(model)


def test_the_most_frequent_reason_comes_first() -> None:
    graph = "g (float[3] x) => (float[3] y) { a = Neg(x) b = Abs(a) y = Neg(b) }"
    plan = full(build(graph)).plan
    assert plan.quantized_nodes == []
    assert plan.float_reasons() == [
        ("CPU has no integer kernel for Neg", 2),
        ("CPU has no integer kernel for Abs", 1),
    ]


def test_a_float_node_needs_a_reason_and_a_quantized_one_has_none() -> None:
    with pytest.raises(ValueError, match="reason"):
        NodePlan("Conv", NodeMode.FLOAT)
    with pytest.raises(ValueError, match="reason"):
        NodePlan("Conv", NodeMode.INTEGER, "why not")


def test_a_node_that_the_plan_does_not_know_stays_float() -> None:
    model = build("g (float[2,3] x) => (float[2,4] y) { y = MatMul(x, w) }", w=normal(3, 4))
    assert QuantPlan("CPU").mode(model.graph.node(0)) is NodeMode.FLOAT
