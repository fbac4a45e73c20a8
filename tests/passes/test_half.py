from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

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
