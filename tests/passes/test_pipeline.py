import math

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import UsageError
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.graph import find_nodes, known_names
from converter_lite.passes import pipeline
from converter_lite.passes.opset import raise_opset
from converter_lite.passes.pipeline import BrokenGraphError, optimize
from tests.support import (
    assert_same_outputs,
    build,
    clone,
    normal,
    operators,
    positive,
    random_feed,
    run,
    shared_model,
)

NETWORK = """g (float[N,3,8,8] x) => (float[N,4] y) {
    p = Pad(x, pads) h = Cast<to = 1>(w) c = Conv(p, h) n = BatchNormalization(c, gamma, beta, mean, var)
    s = Mul(n, k) r = Clip(s, zero) d = Dropout(r) g = GlobalAveragePool(d) f = Flatten(g)
    m = MatMul(f, v) y = Add(m, b) unused = Exp(m) }"""


def _network() -> ir.Model:
    return build(
        NETWORK,
        pads=np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        w=normal(4, 3, 3, 3).astype(np.float16),
        gamma=normal(4, seed=3),
        beta=normal(4, seed=4),
        mean=normal(4, seed=5),
        var=positive(4),
        k=positive(4, 1, 1),
        zero=np.float32(0),
        v=normal(4, 4),
        b=normal(4),
    )


def test_rules_work_together() -> None:
    model = _network()
    before = clone(model)
    result = optimize(model)
    assert operators(model) == {"Conv": 1, "Relu": 1, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}
    assert (result.nodes_before, result.nodes_after) == (12, 5)
    assert dict(result.changes)["fold_batchnorm"] == 1
    assert_same_outputs(before, model, random_feed(before))


def test_every_name_still_finds_a_node_or_is_told_to_be_gone() -> None:
    model = _network()
    names = known_names(model.graph)
    result = optimize(model)
    assert result.vanished == {"unused", "Exp_11"}
    assert all(find_nodes(model.graph, name) for name in names - result.vanished)


def test_optimizing_twice_equals_once() -> None:
    model = _network()
    optimize(model)
    once = ir.to_proto(model).SerializeToString(deterministic=True)
    assert optimize(model).changes == ()
    assert ir.to_proto(model).SerializeToString(deterministic=True) == once


def test_level_none_leaves_the_nodes_alone() -> None:
    model = _network()
    before = operators(model)
    result = optimize(model, level="none")
    assert operators(model) == before
    assert result.nodes_before == result.nodes_after


@pytest.mark.parametrize("level", ["gpu_oriented", "ascend_oriented"])
def test_device_levels_run_the_same_rules(level: str) -> None:
    model, general = _network(), _network()
    optimize(general)
    optimize(model, level=level)
    assert operators(model) == operators(general)


def test_fused_operators_appear_only_when_asked_for() -> None:
    text = """g (float[N,8] x) => (float[N,8] y) {
        a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) y = Mul(x, d) }"""
    constants = {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)}
    plain, fused = build(text, opset=14, **constants), build(text, opset=14, **constants)
    before = clone(plain)
    optimize(plain)
    optimize(fused, fused_operators=frozenset({"HardSwish", "HardSigmoid"}))
    assert "HardSwish" not in operators(plain)
    assert operators(fused) == {"HardSwish": 1}
    assert_same_outputs(before, fused, random_feed(before))


def test_unknown_level_and_fusion_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="unknown optimization level 'fast'"):
        optimize(_network(), level="fast")
    with pytest.raises(UsageError, match="no rule recognizes Mish"):
        optimize(_network(), fused_operators=frozenset({"Mish"}))


def _rename_output(model: ir.Model) -> int:
    model.graph.outputs[0].name = "renamed"
    return 1


def _forget_input(model: ir.Model) -> int:
    model.graph.inputs.pop()
    return 1


def _reverse_nodes(model: ir.Model) -> int:
    first = model.graph.node(0)
    model.graph.remove(first)
    model.graph.append(first)
    return 1


@pytest.mark.parametrize(
    ("defect", "message"),
    [
        (_rename_output, "pass _rename_output changed the outputs"),
        (_forget_input, "pass _forget_input changed the inputs"),
        (_reverse_nodes, r"pass _reverse_nodes left Conv_2 \(Conv\) without an input"),
    ],
)
def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch, defect, message: str) -> None:
    monkeypatch.setattr(pipeline, "RULES", (defect,))
    with pytest.raises(BrokenGraphError, match=message):
        optimize(_network())


def test_rules_that_never_settle_end_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pipeline, "RULES", (_restless,))
    assert dict(optimize(_network()).changes)["_restless"] == pipeline.MAX_ROUNDS
    assert "still changes" in caplog.text


def _restless(_: ir.Model) -> int:
    return 1


def test_paddings_that_each_layer_computes_from_its_size_are_all_settled() -> None:
    """More layers than there are rounds that change nothing, as in EnCodec."""
    count = pipeline.MAX_ROUNDS + 5
    layers = "".join(
        f"""s{i} = Shape(x{i}) w{i} = Gather(s{i}, last) c{i} = Cast<to = 1>(w{i}) d{i} = Div(c{i}, two) r{i} = Ceil(d{i})
        m{i} = Mul(r{i}, two) o{i} = Sub(m{i}, c{i}) e{i} = Cast<to = 7>(o{i}) p{i} = Concat<axis = 0>(zeros, e{i})
        q{i} = Pad(x{i}, p{i}) x{i + 1} = Conv(q{i}, w)"""
        for i in range(count)
    )
    model = build(
        f"g (float[1,1,90] x0) => (float[1,1,n] y) {{ {layers} y = Relu(x{count}) }}",
        last=np.array([2]),
        two=np.array([2], np.float32),
        zeros=np.zeros(5, np.int64),
        w=normal(1, 1, 2),
    )
    before = clone(model)
    optimize(model)
    assert operators(model) == {"Conv": count, "Relu": 1}
    assert_same_outputs(before, model, random_feed(before))


def test_bodies_of_control_flow_keep_what_they_read_from_outside() -> None:
    model = build(
        """g (float[1,3,8,8] x, bool c) => (float[1,4,6,6] y) {
            h = Cast<to = 1>(w) v = Conv(x, h) i = Identity(v)
            y = If (c) <then_branch = t () => (float[1,4,6,6] a) { q = Identity(i) a = Mul(q, k) },
                        else_branch = e () => (float[1,4,6,6] b) { o = Cast<to = 1>(l) b = Add(v, o) }> }""",
        w=normal(4, 3, 3, 3).astype(np.float16),
        k=positive(4, 1, 1),
        l=positive(4, 1, 1).astype(np.float16),
    )
    before = clone(model)
    optimize(model)
    feed = random_feed(before)
    for condition in (True, False):
        assert_same_outputs(before, model, feed | {"c": np.array(condition)})


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "count"),
    [("mobilenet_v1_0.75_224", 58), ("resnet8_cifar10", 24), ("ultraface_rfb_320", 125)],
)
def test_real_convolutional_networks_compute_the_same(name: str, count: int) -> None:
    path = shared_model(f"{name}.onnx")
    model = read_onnx(path)
    names = known_names(model.graph)
    result = optimize(model)
    assert result.nodes_after == count
    assert_same_outputs(path, model, random_feed(model, dynamic=1), random_feed(model, seed=1, dynamic=1))
    assert all(find_nodes(model.graph, node) for node in names - result.vanished)
    assert optimize(model).changes == ()


MINILM_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def _tokens(batch: int, length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = np.ones((batch, length), np.int64)
    mask[-1, length // 2 :] = 0
    return {
        "input_ids": rng.integers(1000, 20000, (batch, length)),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }


@pytest.mark.shared
def test_a_transformer_with_dynamic_shapes_computes_the_same() -> None:
    path = shared_model("minilm_l6_fp16_weights.onnx")
    model = read_onnx(path)
    result = optimize(model)
    assert result.nodes_after < 400
    assert not any(node.op_type == "Cast" and node.outputs[0].name in MINILM_INPUTS for node in model.graph)
    assert_same_outputs(path, model, _tokens(2, 16), _tokens(1, 9))


@pytest.mark.shared
def test_a_transformer_with_fixed_shapes_needs_no_shape_arithmetic() -> None:
    path = shared_model("minilm_l6_fp16_weights.onnx")
    model = read_onnx(path, input_shapes=dict.fromkeys(MINILM_INPUTS, (1, 32)))
    optimize(model)
    assert not {"Shape", "Range", "ConstantOfShape"} & operators(model).keys()
    assert model.graph.outputs[0].shape == (1, 32, 384)
    assert_same_outputs(path, model, _tokens(1, 32))


@pytest.mark.shared
def test_a_transformer_gets_the_fused_operators_of_its_operator_set() -> None:
    path = shared_model("minilm_l6_fp16_weights.onnx")
    model = raise_opset(read_onnx(path), 20)
    optimize(model, fused_operators=frozenset({"LayerNormalization", "Gelu"}))
    assert operators(model)["LayerNormalization"] == 13
    assert operators(model)["Gelu"] == 6
    assert_same_outputs(path, model, _tokens(2, 16))


@pytest.mark.shared
def test_optimized_weights_are_finite() -> None:
    model = read_onnx(shared_model("mobilenet_v1_0.75_224.onnx"))
    optimize(model)
    outputs = run(model, random_feed(model, dynamic=1))
    assert math.isclose(float(outputs["prob"].sum()), 1.0, rel_tol=1e-4)
