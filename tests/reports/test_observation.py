"""Running the float and the quantized graph side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.quantization.qdq.materialize import materialize
from converter_lite.reports import observation
from converter_lite.reports.observation import Observer, Pair, dequantized, grouped, observable, shapes
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.reports.models import SAMPLE, conv_relu
from tests.support import build, normal


def values(pair: Pair, origin: NDArray[Any], written: NDArray[Any]) -> tuple[list[float], list[float]]:
    return origin.ravel().tolist(), dequantized(pair, written).ravel().tolist()


def test_integers_of_the_quantized_graph_come_back_as_real_values() -> None:
    quantized = conv_relu()
    pair = Pair("x", "x_quantized", quantized.plan.activations["x"])
    observer = Observer(quantized.model, materialize(quantized), [[pair]], engine=DEFAULT_ENGINE)
    with ThreadPoolExecutor(1) as pool:
        origin, real = observer.measure(SAMPLE, values, pool)[pair]
    assert origin == [np.float32(v) for v in (-1.0, 0.0, 0.6, 2.0)]
    assert real == [-1.0, 0.0, 0.5, 2.0]


def test_an_observable_copy_holds_nothing_that_the_tensors_do_not_need() -> None:
    model = build("g (float[2] x) => (float[2] y) { h = Add(x, a)  y = Mul(h, b) }", a=normal(2), b=normal(2))
    copy = observable(model, ["h", "h"])
    assert [value.name for value in copy.graph.outputs] == ["h"]
    assert [node.op_type for node in copy.graph] == ["Add"]
    assert list(copy.graph.initializers) == ["a"]
    assert [value.name for value in model.graph.outputs] == ["y"]


def test_shapes_are_those_of_the_sample_where_the_graph_leaves_them_open() -> None:
    model = build("g (float[N,3] x) => (float[N,2] y) { y = MatMul(x, w) }", w=normal(3, 2))
    found = shapes(model, ["y", "x", "y"], {"x": normal(5, 3)}, engine=DEFAULT_ENGINE)
    assert found == {"y": (5, 2), "x": (5, 3)}
    assert shapes(model, [], {"x": normal(5, 3)}, engine=DEFAULT_ENGINE) == {}


def test_groups_keep_the_order_and_their_limit_but_never_lose_a_large_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "GROUP_BYTES", 40)
    sizes = {"a": (5,), "b": (5,), "c": (1,), "huge": (10, 10), "d": ()}
    groups = grouped([Pair(name, name) for name in sizes], sizes)
    assert [[pair.origin for pair in group] for group in groups] == [["a", "b"], ["c"], ["huge"], ["d"]]


def test_what_only_a_branch_that_is_left_out_reads_is_left_out_too() -> None:
    graph = """g (float[1,8] x, bool c) => (float[1,8] y) {
        r = Relu(x) t = Neg(r)
        y = If (c) <
            then_branch = a () => (float[1,8] m) { m = Exp(t) },
            else_branch = b () => (float[1,8] k) { k = Identity(t) }
        > }"""
    assert [node.op_type for node in observable(build(graph, opset=17), ["r"]).graph] == ["Relu"]
