"""ARM files against the rules of the device; the rules themselves against files that break them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.paddle.exporter.build import NbOptions, build
from converter_lite.formats.paddle.exporter.sparsify import sparsify
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.program import Attribute, NbFile, attr, floats, ints, long
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from tests.formats.paddle.device_rules import violations
from tests.formats.paddle.models import random, small_network, sparse_file
from tests.formats.paddle.plans import plan_full, plan_weights
from tests.formats.paddle.test_quantized import full_network
from tests.runtimes.nb_cases import NbCase
from tests.runtimes.test_nb_models import MODELS, feed_of, graph_of
from tests.runtimes.test_nb_operators import CASES
from tests.support import build as graph

ARM = NbOptions("arm")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_operator_keeps_the_rules_of_the_device(case: NbCase) -> None:
    assert violations(build(QuantizedModel(case.model, QuantPlan("arm")), options=ARM)) == []
    assert violations(build(plan_weights(case.model, target="arm", bits=8), options=ARM)) == []


@pytest.mark.shared
@pytest.mark.parametrize("bits", [0, 16, 8], ids=["float", "int16", "int8"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_models_keep_the_rules_of_the_device(name: str, bits: int) -> None:
    model = graph_of(name)
    quantized = plan_weights(model, target="arm", bits=bits) if bits else QuantizedModel(model, QuantPlan("arm"))
    assert violations(build(quantized, options=ARM)) == []


@pytest.mark.shared
@pytest.mark.parametrize("name", MODELS)
def test_full_int8_models_keep_the_rules_of_the_device(name: str) -> None:
    model = graph_of(name)
    quantized = plan_full(model, feed_of(name), target="arm")
    file = build(quantized, options=ARM)
    assert violations(file) == []
    assert sum(bool(op.get("enable_int8")) for op in file.program.main.operators) > 8


BODIES = {
    "functions": "a = Conv(x, w) b = HardSwish(a) c = Conv<group=8>(b, d) e = HardSwish(c) y = Conv(e, w)",
    "without bias": "a = Conv(x, w) b = Conv<group=8>(a, d) y = LeakyRelu(b)",
    "transposed": "a = Conv(x, w) y = ConvTranspose(a, w)",
    "moved": "a = Conv(x, w) b = Transpose<perm=[0,1,3,2]>(a) y = Conv(b, w)",
    "two readers": "a = Conv(x, w) b = Relu(a) c = Conv(b, w) e = Sigmoid(b) y = Add(c, e)",
    "rows": "a = Conv(x, w) b = MatMul(a, m) c = Relu(b) e = MatMul(c, m) y = Clip(e, low, high)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_full_int8_graphs_of_every_shape_keep_the_rules_of_the_device(body: str) -> None:
    model = optimizable(body)
    quantized = plan_full(model, {"x": random(1, 8, 4, 4)}, target="arm")
    assert quantized.plan.quantized_nodes
    assert violations(build(quantized, options=ARM)) == []


@pytest.mark.parametrize("integer", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_sparse_graphs_of_every_shape_keep_the_rules_of_the_device(body: str, integer: bool) -> None:
    model = optimizable(body)
    quantized = QuantizedModel(model, QuantPlan("arm"))
    if integer:
        quantized = plan_full(model, {"x": random(1, 8, 4, 4)}, target="arm")
    file = build(quantized, options=ARM)
    assert sparsify(file, 0.0).sparse > 0
    assert violations(file) == []


def optimizable(body: str) -> ir.Model:
    constants = {"w": random(8, 8, 1, 1), "d": random(8, 1, 1, 1), "m": random(4, 4)}
    bounds = {"low": np.zeros((), np.float32), "high": np.full((), 6, np.float32)}
    used = {name: array for name, array in {**constants, **bounds}.items() if f"{name})" in body or f"{name}," in body}
    return graph(f"g (float[1,8,4,4] x) => (float[1,8,4,4] y) {{ {body} }}", opset=14, **used)


def change(file: NbFile, kind: str, name: str, value: object) -> None:
    op = next(op for op in file.program.main.operators if op.type == kind)
    if value is None:
        del op.attributes[name]
    else:
        op.attributes[name] = value  # type: ignore[assignment]


def drop_declaration(file: NbFile) -> None:
    file.program.main.variables.pop()


def drop_bias(file: NbFile) -> None:
    next(op for op in file.program.main.operators if op.type == "fc").inputs.pop("Bias")


BREAKS: dict[str, Callable[[NbFile], None]] = {
    "is missing": lambda file: change(file, "conv2d", "strides", None),
    "groups is LONG": lambda file: change(file, "conv2d", "groups", long(1)),
    "nothing asks for": lambda file: change(file, "conv2d", "fuse_relu", attr(True)),
    "sigmoid is not applied": lambda file: change(file, "conv2d", "act_type", attr("sigmoid")),
    "number of scales": lambda file: change(file, "fc", "W0_scale", floats((0.1,))),
    "would be 1": lambda file: change(file, "conv2d", "Input0_scale", floats(())),
    "hard_swish is not applied": lambda file: [
        change(file, "depthwise_conv2d", "with_act", attr(True)),
        change(file, "depthwise_conv2d", "act_type", attr("hard_swish")),
    ][0],
    "without a bias": lambda file: [change(file, "fc", "activation_type", attr("relu")), drop_bias(file)][0],
    "is not declared": drop_declaration,
    "not for ARM": lambda file: change(file, "softmax", "__@kernel_type_attr@__", attr("softmax/def/2/1/1")),
}


@pytest.mark.parametrize("rule", BREAKS)
def test_a_broken_rule_is_found(rule: str) -> None:
    file = build(full_network()[0], options=ARM)
    assert violations(file) == []
    BREAKS[rule](file)
    assert any(rule in violation for violation in violations(file))


SPARSE_BREAKS: dict[str, dict[str, Attribute | None]] = {
    "first_ic is missing": {"first_ic": None},
    "paddings are ignored": {"paddings": ints((0, 0, 1, 0))},
    "sigmoid is left out": {"act_type": attr("sigmoid")},
    "slope is divided": {
        "act_type": attr("leaky_relu"),
        KERNEL_ATTRIBUTE: attr("sparse_conv2d/int8_int8_out/4/2/1"),
    },
}


@pytest.mark.parametrize("rule", SPARSE_BREAKS)
def test_a_broken_rule_of_sparse_convolutions_is_found(rule: str) -> None:
    file = parse(sparse_file())
    assert violations(file) == []
    for name, value in SPARSE_BREAKS[rule].items():
        change(file, "sparse_conv2d", name, value)
    assert any(rule in violation for violation in violations(file))


def test_sparse_convolutions_of_several_pictures_are_found() -> None:
    file = parse(sparse_file())
    next(variable for variable in file.program.main.variables if variable.name == "x").dims = (2, 8, 6, 5)
    assert any("one picture" in violation for violation in violations(file))


def test_a_weight_that_is_explained_twice_is_found() -> None:
    file = build(plan_weights(small_network(), target="arm", bits=16), options=ARM)
    first, second = [op for op in file.program.main.operators if op.type == "conv2d"]
    name = next(name for name in first.attributes if name.endswith("_quant_scale"))
    second.attributes[name] = first.attributes[name]
    assert any("dequantized twice" in violation for violation in violations(file))
