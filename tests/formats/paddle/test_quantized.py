"""Integer weights and int8 computation in ``.nb`` files."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import TargetError
from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.planning import adapt_plan
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.formats.paddle.program import VarType
from converter_lite.kernels.params import QuantSpec, weight_params
from converter_lite.quantization.full import decide_full
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.settings import FullSettings
from tests.formats.paddle.int8_arithmetic import run
from tests.formats.paddle.models import random, small_network
from tests.formats.paddle.plans import plan_full, plan_weights
from tests.formats.paddle.writing import write
from tests.support import build as graph
from tests.support import exact_session

Feed = dict[str, NDArray[Any]]


def outputs(model: ir.Model, feed: Feed) -> list[NDArray[Any]]:
    return list(exact_session(model, optimize=True).run(feed).values())


def dequantized(quantized: QuantizedModel) -> ir.Model:
    """The float graph with the weights that the runtime computes with."""
    model = ir.from_proto(ir.to_proto(quantized.model))
    for name, params in quantized.plan.weights.items():
        values = params.dequantize(quantized.integers(name))
        model.graph.initializers[name].const_value = ir.Tensor(values, name=name)
    return model


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("target", ["arm", "x86"])
def test_a_weight_only_file_holds_the_integers_and_scales_of_its_plan(bits: int, target: str) -> None:
    quantized = plan_weights(small_network(), target=target, bits=bits)
    file = build(quantized, options=NbOptions(target))
    kinds = Counter(array.dtype.name for array in file.parameters.values())
    assert kinds["int8"] + kinds["int16"] == 3 if bits == 8 else kinds["int16"] == 3
    conv = file.program.main.operators[1]
    name = conv.inputs["Filter"][0]
    params = quantized.plan.weights["w1"]
    assert conv.get(f"{name}_quant_scale") == tuple(float(scale) for scale in params.scale)
    assert conv.get("quantize_weight_bits") == params.spec.bits
    assert conv.get("quantization_type") == "post_weight_channel_wise_abs_max"
    assert np.array_equal(file.parameters[name], quantized.integers("w1"))


@pytest.mark.parametrize("bits", [8, 16])
def test_a_weight_only_file_reads_back_as_its_dequantized_graph(bits: int) -> None:
    quantized = plan_weights(small_network(), target="x86", bits=bits)
    again = read(write(quantized, options=NbOptions("x86")))
    feed = {"x": random(1, 3, 12, 12)}
    want, got = outputs(dequantized(quantized), feed)[0], outputs(again.model, feed)[0]
    assert np.abs(got - want).max() < 1e-6
    assert Counter(node.mode for node in again.plan.nodes.values())[NodeMode.WEIGHT] == len(quantized.plan.weights)


def test_dead_channels_have_a_scale_that_nothing_is_divided_by_in_vain() -> None:
    weight = np.zeros((8, 16, 1, 1), np.float32)
    weight[0] = 127.0
    model = graph("g (float[1,16,4,4] x) => (float[1,8,4,4] y) { y = Conv(x, w) }", w=weight)
    quantized = plan_weights(model, target="arm", bits=16)
    assert np.all(quantized.plan.weights["w"].scale > 0)
    assert not quantized.integers("w")[1:].any()


def test_a_weight_of_two_operators_is_explained_by_one_of_them_only() -> None:
    model = graph("g (float[1,8,4,4] x) => (float[1,8,4,4] y) { a = Conv(x, w) y = Conv(a, w) }", w=random(8, 8, 1, 1))
    file = build(plan_weights(model, target="arm", bits=16), options=NbOptions("arm"))
    explained = [op for op in file.program.main.operators if op.get("quantize_weight_bits")]
    assert len(explained) == 1
    assert len(file.parameters) == 1


def test_tables_of_rows_use_the_operator_whose_table_is_dequantized() -> None:
    model = graph("g (int64[1,4] i) => (float[1,4,16] y) { y = Gather(t, i) }", t=random(50, 16))
    quantized = plan_weights(model, target="x86", bits=8)
    file = build(quantized, options=NbOptions("x86"))
    assert [op.type for op in file.program.main.operators] == ["feed", "unsqueeze2", "lookup_table", "fetch"]
    float_file = build(QuantizedModel(model, type(quantized.plan)("x86")), options=NbOptions("x86"))
    assert [op.type for op in float_file.program.main.operators] == ["feed", "lookup_table_v2", "fetch"]


def test_products_of_activations_and_transposed_convolutions_keep_float_weights() -> None:
    model = graph(
        """g (float[1,8,4,4] x, float[2,3] p, float[3,2] q) => (float[1,8,6,6] y, float[2,2] z) {
            y = ConvTranspose(x, w) z = MatMul(p, q)
        }""",
        w=random(8, 8, 3, 3),
    )
    quantized = plan_weights(model, target="arm", bits=8)
    assert quantized.plan.weights == {}
    assert all(node.reason for node in quantized.plan.nodes.values())


def test_the_smallest_weights_of_an_8_bit_file_have_16_bits() -> None:
    model = graph(
        "g (float[1,64,4,4] x) => (float[1,64,2,2] y) { a = Conv<group=64, pads=[1,1,1,1]>(x, d) y = Conv(a, w) }",
        d=random(64, 1, 3, 3),
        w=random(64, 64, 3, 3),
    )
    bits = {name: p.spec.bits for name, p in plan_weights(model, target="arm", bits=8).plan.weights.items()}
    assert bits == {"d": 16, "w": 8}


@pytest.mark.parametrize("bits", [4, 12])
def test_widths_that_the_runtime_lacks_are_refused(bits: int) -> None:
    quantized = plan_weights(small_network(), target="arm", bits=8)
    weight = quantized.model.graph.initializers["w1"].const_value
    assert weight is not None
    spec = QuantSpec(bits=bits, signed=True, symmetric=True, narrow_range=True, axis=0)
    quantized.plan.weights["w1"] = weight_params(weight.numpy(), spec)
    with pytest.raises(TargetError, match="8 or 16 bits"):
        write(quantized, options=NbOptions("arm"))


def test_zero_points_are_refused() -> None:
    quantized = plan_weights(small_network(), target="arm", bits=8)
    weight = quantized.model.graph.initializers["w1"].const_value
    assert weight is not None
    quantized.plan.weights["w1"] = weight_params(weight.numpy() + 1, QuantSpec(bits=8, signed=True, axis=0))
    with pytest.raises(TargetError, match="zero points"):
        write(quantized, options=NbOptions("arm"))


def full_network() -> tuple[QuantizedModel, Feed]:
    model, feed = small_network(), {"x": random(1, 3, 12, 12)}
    return plan_full(model, feed, target="arm"), feed


def test_a_full_int8_file_chains_int8_results_and_converts_at_its_borders() -> None:
    quantized, _ = full_network()
    file = build(quantized, options=NbOptions("arm"))
    keys = [op.get(KERNEL_ATTRIBUTE) for op in file.program.main.operators]
    assert keys == [
        "feed/def/1/4/2",
        "calib/fp32_to_int8/4/2/1",
        "conv2d/fp32_out/4/2/1",
        "calib/fp32_to_int8/4/2/1",
        "depthwise_conv2d/int8_out/4/2/1",
        "conv2d/fp32_out/4/2/1",
        "elementwise_add/def/4/1/1",
        "pool2d/def/4/1/1",
        "flatten_contiguous_range/def/1/4/2",
        "calib/fp32_to_int8/4/2/1",
        "fc/fp32out/4/2/1",
        "softmax/def/4/1/1",
        "fetch/def/1/4/2",
    ]
    chained = file.program.main.operators[4]
    following = file.program.main.operators[5]
    assert chained.get("Output0_scale") == following.get("Input0_scale")
    kinds = {variable.name: variable.dtype for variable in file.program.main.variables}
    assert kinds[chained.outputs["Output"][0]] == VarType.INT8


def test_the_devices_arithmetic_on_a_full_int8_file_stays_close_to_float() -> None:
    quantized, feed = full_network()
    file = parse(write(quantized, options=NbOptions("arm")))
    got, want = run(file, feed)[0], outputs(quantized.model, feed)[0]
    assert np.abs(got - want).max() < 0.03
    assert np.abs(got - want).max() > 0


def test_a_full_int8_file_reads_back_with_its_plan() -> None:
    quantized, _ = full_network()
    again = read(write(quantized, options=NbOptions("arm")))
    scales = {name: float(params.scale) for name, params in again.plan.activations.items()}
    wanted = {name: float(params.scale) for name, params in quantized.plan.activations.items()}
    assert scales == wanted
    assert write(again, options=NbOptions("arm")) == write(quantized, options=NbOptions("arm"))


def test_fully_connected_layers_on_arm_have_one_scale_per_column() -> None:
    quantized, _ = full_network()
    params = quantized.plan.weights["w4"]
    single = QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True)
    weight = quantized.model.graph.initializers["w4"].const_value
    assert weight is not None and params.is_per_channel
    quantized.plan.weights["w4"] = weight_params(weight.numpy(), single)
    fc = next(op for op in build(quantized, options=NbOptions("arm")).program.main.operators if op.type == "fc")
    assert len(fc.get("W0_scale")) == 5
    assert len(set(fc.get("W0_scale"))) == 1


def test_an_integer_plan_becomes_integer_weights_where_the_target_has_no_use_for_more() -> None:
    quantized, _ = full_network()
    adapted = adapt_plan(quantized, PaddlePolicy("x86"), integer=False)
    modes = Counter(node.mode for node in adapted.plan.nodes.values())
    assert modes[NodeMode.INTEGER] == 0
    assert modes[NodeMode.WEIGHT] == 4
    assert all(adapted.q_weights[name] is array for name, array in quantized.q_weights.items())


def test_x86_integers_stay_within_its_limits() -> None:
    model = graph("g (float[1,4,8,16] x) => (float[1,3,8,16] y) { y = Conv(x, w) }", w=random(3, 4, 1, 1))
    conv = next(iter(model.graph))
    x86, arm = PaddlePolicy("x86"), PaddlePolicy("arm")
    assert x86.capability(conv).weight.qmax == 63
    assert arm.capability(conv).weight.qmax == 127
    odd = graph("g (float[1,3,5,3] x) => (float[1,4,5,3] y) { y = Conv(x, w) }", w=random(4, 3, 1, 1))
    assert "wrongly" in x86.capability(next(iter(odd.graph))).integer


@pytest.mark.parametrize("body", ["a = MatMul(x, m) y = Conv(x, w)", "y = Conv(x, w) a = MatMul(x, m)"])
def test_of_several_readers_of_a_tensor_the_narrowest_decides_its_grid(body: str) -> None:
    model = graph(
        f"g (float[1,4,8,16] x) => (float[1,4,8,5] a, float[1,3,8,16] y) {{ {body} }}",
        m=random(16, 5),
        w=random(3, 4, 1, 1),
    )
    quantized = plan_full(model, {"x": random(1, 4, 8, 16)}, target="x86")
    assert [node.mode for node in quantized.plan.nodes.values()] == [NodeMode.INTEGER] * 2
    assert quantized.plan.activations["x"].spec.bits == 7


@pytest.mark.parametrize(
    ("body", "constants", "reason"),
    [
        ("y = ConvTranspose<group=2>(x, w)", {"w": random(8, 4, 1, 1)}, "groups"),
        ("y = Relu(x)", {}, "no integer kernel"),
    ],
)
def test_what_arm_cannot_compute_with_integers_says_why(body: str, constants: dict[str, Any], reason: str) -> None:
    model = graph(f"g (float[1,8,4,4] x) => (float[1,8,4,4] y) {{ {body} }}", **constants)
    assert reason in PaddlePolicy("arm").capability(next(iter(model.graph))).integer


def test_layers_that_read_a_picture_stay_float_with_the_reason() -> None:
    """Where they hold a small part of the weights; the rest computes with integers."""
    model = graph(
        """g (float[1,3,8,8] x) => (float[1,600] y) {
            a = Conv<pads=[1,1,1,1]>(x, w1) b = Relu(a) c = Conv<pads=[1,1,1,1], group=8>(b, w2) d = Relu(c)
            e = Conv(d, w3) f = GlobalAveragePool(e) h = Flatten(f) i = MatMul(h, w4) y = MatMul(i, w4)
        }""",
        w1=random(8, 3, 3, 3),
        w2=random(8, 1, 3, 3),
        w3=random(600, 8, 1, 1),
        w4=random(600, 600),
    )
    plan = decide_full(model, PaddlePolicy("arm"), FullSettings())
    convolutions = [node for node in model.graph if node.op_type in ("Conv", "MatMul")]
    assert [plan.mode(node) for node in convolutions] == [NodeMode.FLOAT] * 2 + [NodeMode.INTEGER] * 3
    assert all("reads a picture" in plan.nodes[str(node.name)].reason for node in convolutions[:2])
