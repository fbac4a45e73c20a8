from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.graph import constant
from converter_lite.passes.half import SMALLEST, store_constants_as_float16
from tests.support import (
    assert_same_outputs,
    build,
    clone,
    full,
    normal,
    operators,
    random_feed,
    samples_of,
    sqnr,
    written,
)


def test_large_constants_take_half_the_space_and_compute_the_same() -> None:
    model = build("g (float[2,16] x) => (float[2,20] y) { y = Gemm(x, w, b) }", w=normal(16, 20), b=normal(20))
    before = clone(model)
    assert store_constants_as_float16(model) == 1
    assert store_constants_as_float16(model) == 0
    assert model.graph.initializers["w_float16"].dtype is ir.DataType.FLOAT16
    assert set(model.graph.initializers) == {"w_float16", "b"}
    assert_same_outputs(before, model, random_feed(before), rtol=2e-3)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


@pytest.mark.parametrize("size", [SMALLEST - 1, SMALLEST])
def test_small_constants_stay(size: int) -> None:
    model = build(f"g (float[{size}] x) => (float[{size}] y) {{ y = Add(x, w) }}", w=normal(size))
    assert store_constants_as_float16(model) == (size == SMALLEST)


@pytest.mark.parametrize("value", [70000.0, -70000.0, np.inf, 3e38])
def test_values_beyond_the_range_of_float16_stay(value: float) -> None:
    weight = normal(8, 8)
    weight[3, 3] = value
    model = build("g (float[1,8] x) => (float[1,8] y) { y = MatMul(x, w) }", w=weight)
    assert store_constants_as_float16(model) == 0


def test_where_no_number_may_change_only_those_of_float16_are_stored_so() -> None:
    text = "g (float[1,16] x) => (float[1,16] y) { a = MatMul(x, narrow) y = MatMul(a, wide) }"
    narrow = normal(16, 16).astype(np.float16).astype(np.float32)
    model = build(text, narrow=narrow, wide=normal(16, 16))
    before = clone(model)
    assert store_constants_as_float16(model, exactly=True) == 1
    assert set(model.graph.initializers) == {"narrow_float16", "wide"}
    np.testing.assert_array_equal(constant(model.graph.initializers["narrow_float16"]), narrow)
    assert_same_outputs(before, model, random_feed(before), rtol=1e-4)


@pytest.mark.parametrize("value", [1e-9, 65520.0, np.nan])
def test_numbers_that_float16_does_not_hold_stay_where_none_may_change(value: float) -> None:
    weight = np.full((8, 8), value, np.float32)
    model = build("g (float[1,8] x) => (float[1,8] y) { y = MatMul(x, w) }", w=weight)
    assert store_constants_as_float16(model, exactly=True) == 0


def test_a_cast_that_takes_more_than_it_saves_is_not_added() -> None:
    name = "a_name_that_somebody_took_from_the_scopes_of_a_program" * 2
    for size, count in ((128, 0), (512, 1)):
        model = build(
            f"g (float[{size}] x) => (float[{size}] y) {{ y = Add(x, {name}) }}", **{name: np.ones(size, "f4")}
        )
        before = len(ir.to_proto(model).SerializeToString())
        assert store_constants_as_float16(model, exactly=True) == count
        assert len(ir.to_proto(model).SerializeToString()) <= before


def test_a_constant_that_several_nodes_read_is_converted_once() -> None:
    model = build("g (float[8,8] x) => (float[8,8] y) { a = MatMul(x, w) y = MatMul(a, w) }", w=normal(8, 8))
    before = clone(model)
    assert store_constants_as_float16(model) == 1
    assert operators(model)["Cast"] == 1
    assert_same_outputs(before, model, random_feed(before), rtol=5e-3)


def test_a_constant_that_is_an_output_stays() -> None:
    model = build("g (float[8,8] x) => (float[8,8] y) { y = MatMul(x, w) }", w=normal(8, 8))
    model.graph.outputs.append(model.graph.initializers["w"])
    assert store_constants_as_float16(model) == 0


def test_a_constant_that_a_branch_reads_before_the_main_graph_does() -> None:
    model = build(
        """g (float[8,8] x, bool flag) => (float[8,8] y) {
            c = If (flag) <
                then_branch = yes () => (float[8,8] p) { p = MatMul(x, w) },
                else_branch = no () => (float[8,8] q) { q = Identity(x) }
            >
            y = MatMul(c, w) }""",
        opset=16,
        w=normal(8, 8),
    )
    before = clone(model)
    assert store_constants_as_float16(model) == 1
    onnx.checker.check_model(ir.to_proto(model))
    for flag in (True, False):
        feed = {**random_feed(before), "flag": np.array(flag)}
        assert_same_outputs(before, model, feed, rtol=5e-3)


def test_scales_of_a_quantized_model_keep_their_precision() -> None:
    model = build(
        "g (float[1,8,4,4] x) => (float[1,80,4,4] y) { y = Conv(x, w, b) }", w=normal(80, 8, 1, 1), b=normal(80)
    )
    quantized = written(full(model))
    assert store_constants_as_float16(quantized) == 0
    assert sqnr(model, quantized, samples_of(model)) > 20


@pytest.mark.parametrize("taken", ["w_float16", "w_float32", "w_cast"])
def test_names_that_the_model_has_are_not_taken(taken: str) -> None:
    text = f"g (float[2,16] x) => (float[2,16] y) {{ {taken} = Relu(x) y = MatMul({taken}, w) }}"
    before, after = (build(text, w=(8 * normal(16, 16)).round() / 8) for _ in range(2))
    after.graph[0].name = taken
    assert store_constants_as_float16(after) == 1
    onnx.checker.check_model(ir.to_proto(after))
    assert_same_outputs(before, after, random_feed(before), rtol=1e-6)
