"""Grids with zero points, which no kernel of Paddle-Lite has, in ``.nb`` files."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.planning import adapt_plan
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.kernels.params import QuantSpec, params_from_range
from converter_lite.quantization.grid_nodes import REASON
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from tests.formats.paddle.models import random, small_network
from tests.formats.paddle.plans import plan_full
from tests.formats.paddle.writing import write
from tests.support import build, run

STEP, NEAR = 6.0 / 255, 1.01
MOVES = """
    g (float[1,4,6,6] x) => (float[1,144] y)
    { c = Conv(x, w) r = Relu(c) m = MaxPool<kernel_shape=[1,1]>(r) t = Transpose<perm=[0,2,3,1]>(m) y = Reshape(t, s) }
"""


def asymmetric(model: ir.Model) -> QuantizedModel:
    """Everything in integers of one grid from -2 to 4."""
    quantized = plan_full(model, target="arm", bound=4.0)
    spec = QuantSpec(bits=8, signed=False)
    quantized.plan.activations = {name: params_from_range(-2.0, 4.0, spec) for name in quantized.plan.activations}
    return quantized


def result(model: ir.Model, **feed: NDArray[Any]) -> NDArray[Any]:
    (found,) = run(model, feed).values()
    return found


@pytest.mark.parametrize("target", ["arm", "x86"])
def test_a_file_gives_the_numbers_of_a_model_with_zero_points(target: str) -> None:
    given = random(1, 3, 12, 12)
    expected = result(qdq_model(asymmetric(small_network())), x=given)
    adapted = adapt_plan(asymmetric(small_network()), PaddlePolicy(target), integer=target == "arm")
    found = result(read(write(adapted, options=NbOptions(target))).model, x=given)
    plain = result(asymmetric(small_network()).model, x=given)
    assert np.abs(found - expected).max() <= NEAR * STEP
    assert (np.abs(found - expected) < 0.01 * STEP).mean() > 0.9
    assert np.abs(plain - expected).max() > 2 * STEP


def test_a_grid_of_sixteen_bits_is_kept() -> None:
    quantized = plan_full(small_network(), target="arm", bound=4.0)
    spec = QuantSpec(bits=16, symmetric=True)
    quantized.plan.activations = {name: params_from_range(-4.0, 4.0, spec) for name in quantized.plan.activations}
    given = random(1, 3, 12, 12)
    expected = result(qdq_model(quantized), x=given)
    found = result(
        read(write(adapt_plan(quantized, PaddlePolicy("arm"), integer=True), options=NbOptions("arm"))).model, x=given
    )
    assert np.abs(found - expected).max() <= NEAR * 4.0 / 2**15


def test_a_grid_is_four_operators_without_constants() -> None:
    quantized = asymmetric(build("g (float[1,4] x) => (float[1,3] y) { y = MatMul(x, w) }", w=random(4, 3)))
    file = parse(write(adapt_plan(quantized, PaddlePolicy("arm"), integer=True), options=NbOptions("arm")))
    kinds = Counter(op.type for op in file.program.main.operators)
    assert (kinds["clip"], kinds["scale"], kinds["floor"]) == (1, 2, 1)
    assert all(array.size > 1 for array in file.parameters.values())


def test_what_only_moves_numbers_is_not_rounded_again() -> None:
    quantized = asymmetric(build(MOVES, w=random(4, 4, 1, 1), s=np.array([1, 144], np.int64)))
    for node in quantized.model.graph:
        quantized.plan.quantize(node, NodeMode.INTEGER)
        if node.op_type != "Conv":
            quantized.plan.activations[str(node.outputs[0].name)] = quantized.plan.activations["x"]
    adapted = adapt_plan(quantized, PaddlePolicy("arm"), integer=True)
    rounded = [node.outputs[0] for node in adapted.model.graph if node.op_type == "Floor"]
    readers = [g.single_consumer(g.single_consumer(value).outputs[0]).op_type for value in rounded]  # type: ignore[union-attr]
    assert readers == ["Conv", "MaxPool"]


def test_an_output_keeps_its_name_and_new_nodes_have_a_reason() -> None:
    quantized = asymmetric(small_network())
    names = [value.name for value in quantized.model.graph.outputs]
    before = {node.name for node in quantized.model.graph}
    adapted = adapt_plan(quantized, PaddlePolicy("arm"), integer=True)
    assert [value.name for value in adapted.model.graph.outputs] == names
    added = {str(node.name) for node in adapted.model.graph if node.name not in before}
    assert added
    assert {adapted.plan.nodes[name].reason for name in added} <= {REASON, "it stands for the saturation of integers"}


def test_grids_without_zero_points_are_left_to_the_kernels() -> None:
    adapted = adapt_plan(plan_full(small_network(), target="arm", bound=4.0), PaddlePolicy("arm"), integer=True)
    assert not any(node.op_type == "Floor" for node in adapted.model.graph)
    on_x86 = adapt_plan(plan_full(small_network(), target="arm", bound=4.0), PaddlePolicy("x86"), integer=False)
    assert not any(node.op_type == "Floor" for node in on_x86.model.graph)


CHAIN = """
    g (float[1,64,8,8] x) => (float[1,16,8,8] y)
    { a = Conv(x, v, b) r = Relu(a) m = MaxPool<kernel_shape=[1,1]>(r) c = Conv(m, w) y = Clip(c, low, high) }
"""


def products() -> QuantizedModel:
    numbers = {"v": random(32, 64, 1, 1) / 8, "w": random(16, 32, 1, 1) / 4, "b": random(32)}
    quantized = asymmetric(build(CHAIN, low=np.float32(-0.9), high=np.float32(0.9), **numbers))
    for node in quantized.model.graph:
        quantized.plan.quantize(node, NodeMode.INTEGER)
    spec = QuantSpec(bits=8, signed=False)
    wide, narrow = params_from_range(-2.0, 4.0, spec), params_from_range(-1.0, 1.0, spec)
    quantized.plan.activations = {"x": wide, "r": wide, "m": wide, "y": narrow}
    return quantized


def whole(values: NDArray[Any], step: np.float32, low: float, high: float) -> NDArray[Any]:
    return np.clip(np.rint(values), np.rint(low / step), np.rint(high / step))


def multiplied(quantized: QuantizedModel, name: str, given: NDArray[Any], steps: tuple[np.float32, np.float32]) -> Any:
    """Sums of products of integers, with their bias, times the quotient of the steps: in steps of the result."""
    units = steps[0] * quantized.plan.weights[name].scale
    sums = np.einsum("oi,nihw->nohw", quantized.integers(name)[:, :, 0, 0], given.astype(np.int64))
    if name == "v":
        sums = sums + np.rint(np.asarray(g.constant(quantized.model.graph.initializers["b"])) / units)[:, None, None]
    return sums.astype(np.float32) * (units / steps[1])[:, None, None]


@pytest.mark.parametrize("target", ["arm", "x86"])
def test_products_of_a_quantized_model_are_those_of_its_integers(target: str) -> None:
    given, reference = random(1, 64, 8, 8), products()
    step, last = (reference.plan.activations[name].scale for name in "xy")
    low, high = reference.plan.activations["x"].real_range
    inner = whole(given / step, step, low, high)
    inner = whole(multiplied(reference, "v", inner, (step, step)), step, 0.0, high)
    expected = whole(multiplied(reference, "w", inner, (step, last)), last, -0.9, 0.9)
    adapted = adapt_plan(products(), PaddlePolicy(target), integer=target == "arm", exact=True)
    assert {node.op_type for node in adapted.model.graph} >= {"Conv", "Relu", "MaxPool"}
    found = result(read(write(adapted, options=NbOptions(target))).model, x=given)
    np.testing.assert_array_equal(np.rint(found / last), expected)
    np.testing.assert_allclose(found, expected * last, rtol=1e-6)


def test_channels_of_a_product_of_matrices_are_the_last_axis() -> None:
    quantized = asymmetric(build("g (float[1,6,8] x) => (float[1,6,6] y) { y = MatMul(x, w) }", w=random(8, 6)))
    quantized.plan.activations["y"] = quantized.plan.activations["x"]
    step, (low, high) = quantized.plan.activations["x"].scale, quantized.plan.activations["x"].real_range
    given, units = whole(random(1, 6, 8) / step, step, low, high), step * quantized.plan.weights["w"].scale
    sums = given.astype(np.int64) @ quantized.integers("w")
    adapted = adapt_plan(quantized, PaddlePolicy("x86"), integer=False, exact=True)
    found = result(read(write(adapted, options=NbOptions("x86"))).model, x=random(1, 6, 8))
    expected = whole(sums.astype(np.float32) * (units / step), step, low, high)
    np.testing.assert_array_equal(np.rint(found / step), expected)


def test_integers_of_weights_that_others_read_too_keep_their_scales() -> None:
    quantized = products()
    node = ir.node("Conv", [quantized.model.graph.inputs[0], quantized.model.graph.initializers["v"]], name="other")
    node.outputs[0].name, node.outputs[0].shape = "z", ir.Shape([1, 32, 8, 8])
    quantized.model.graph.append(node)
    quantized.model.graph.outputs.append(node.outputs[0])
    quantized.plan.keep_float(node, "for this test")
    adapted = adapt_plan(quantized, PaddlePolicy("x86"), integer=False, exact=True)
    assert np.all(adapted.plan.weights["w"].scale == 1)
    assert np.all(adapted.plan.weights["v"].scale < 1)
