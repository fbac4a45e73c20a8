import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.graph import absorb_names, find_nodes, opset
from converter_lite.passes import opset as opset_module
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.passes.opset import changed_operators, declare_21, raise_opset
from tests.support import assert_same_outputs, build, normal, operators, positive, random_feed


def _network(version: int) -> ir.Model:
    return build(
        """g (float[1,3,8,8] x) => (float[1,4] y) {
            c = Conv<pads = [1,1,1,1]>(x, w, b) n = BatchNormalization(c, gamma, beta, mean, var) r = Relu(n)
            p = MaxPool<kernel_shape = [2,2], strides = [2,2]>(r) a = Add(p, p) g = GlobalAveragePool(a)
            f = Flatten(g) m = Gemm(f, v, k) y = Softmax<axis = 1>(m) }""",
        opset=version,
        ir_version=3 if version < 9 else 8,
        w=normal(4, 3, 3, 3),
        b=normal(4),
        gamma=normal(4),
        beta=normal(4),
        mean=normal(4),
        var=positive(4),
        v=normal(4, 4),
        k=normal(4),
    )


NEWEST_RUN = 21
"""Every supported runtime loads this operator set."""


@pytest.mark.parametrize("version", range(7, NEWEST_RUN + 1))
@pytest.mark.parametrize("target", [13, NEWEST_RUN])
def test_a_convolutional_network_of_every_opset_can_be_raised(version: int, target: int) -> None:
    model = _network(version)
    model.ir_version = 8
    raised = raise_opset(model, target)
    assert opset(raised) == max(version, target)
    onnx.checker.check_model(ir.to_proto(raised))
    assert_same_outputs(_network_for_runtime(version), raised, random_feed(model))


def _network_for_runtime(version: int) -> ir.Model:
    model = _network(version)
    model.ir_version = 8
    return model


def test_names_aliases_and_statistics_carry_over() -> None:
    model = _network(11)
    conv, norm = model.graph.node(0), model.graph.node(1)
    absorb_names(conv, [norm])
    conv.outputs[0].meta[BATCHNORM] = (np.zeros(4), np.ones(4))
    raised = raise_opset(model, 13)
    assert raised is not model
    assert [node.name for node in raised.graph][:3] == [node.name for node in model.graph][:3]
    new_conv = raised.graph.node(0)
    assert new_conv in find_nodes(raised.graph, "Conv_0")
    assert "n" in new_conv.meta["aliases"]
    assert BATCHNORM in new_conv.outputs[0].meta


def test_a_model_without_changed_operators_stays_the_same_object() -> None:
    model = build("g (float[3] x) => (float[3] y) { y = Relu(x) }", opset=14)
    assert changed_operators(model, 21) == []
    assert raise_opset(model, 21) is model
    assert opset(model) == 21
    assert model.ir_version >= 10


def test_a_newer_model_is_not_lowered() -> None:
    model = build("g (float[3] x) => (float[3] y) { y = Relu(x) }", opset=17)
    assert raise_opset(model, 13) is model
    assert opset(model) == 17


def test_large_weights_never_pass_through_the_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    convert = opset_module.version_converter.convert_version

    def spy(proto: onnx.ModelProto, target: int) -> onnx.ModelProto:
        sizes.append(proto.ByteSize())
        return convert(proto, target)

    monkeypatch.setattr(opset_module.version_converter, "convert_version", spy)
    model = build("g (float[N,512] x) => (float[N,512] y) { y = MatMul(x, w) }", opset=9, w=normal(512, 512))
    raised = raise_opset(model, 13)
    assert sizes and max(sizes) < 2000
    assert list(raised.graph.initializers) == ["w"]
    assert [value.name for value in raised.graph.inputs] == ["x"]
    assert_same_outputs(model, raised, random_feed(model, dynamic=2))


def test_reductions_get_their_axes_as_inputs() -> None:
    model = build("g (float[2,3,4] x) => (float[2,1,4] y) { y = ReduceMean<axes = [1]>(x) }", opset=13)
    raised = raise_opset(model, 18)
    assert operators(raised) == {"ReduceMean": 1}
    assert_same_outputs(model, raised, random_feed(model))


def test_a_refusal_names_the_node() -> None:
    model = build(
        """g (float[1,3,8,8] x) => (float[1,3,8,8] y) {
            a = Relu(x) b = BatchNormalization<spatial = 0>(a, k, k, k, k) c = Softmax(b) y = Neg(c) }""",
        opset=8,
        k=positive(3, 8, 8),
    )
    model.ir_version = 8
    with pytest.raises(ModelError, match="opset 8 cannot be raised to 13: Attribute spatial") as caught:
        raise_opset(model, 13)
    assert caught.value.where == "BatchNormalization_1 (BatchNormalization)"
    assert "opset 13 or newer" in caught.value.hint


def test_sizes_that_were_known_to_be_equal_still_are() -> None:
    model = build(
        """g (float[B,S,4] x) => (float[B,T,4] y) {
            s = Shape(x) b = Gather(s, zero) n = Gather(s, one) t = Concat<axis = 0>(b, n, minus)
            h = Reshape(x, halves) r = Reshape(h, t) m = ReduceMean<axes = [-1]>(r) y = Add(r, m) }""",
        opset=14,
        zero=np.array([0]),
        one=np.array([1]),
        minus=np.array([-1]),
        halves=np.array([0, 0, 2, 2]),
    )

    def sizes(model: ir.Model) -> list[str]:
        return [str(dim) for node in model.graph if node.op_type == "Reshape" for dim in node.outputs[0].shape or ()]

    before = sizes(model)
    assert before[:2] == before[4:6] == ["B", "S"]
    assert sizes(raise_opset(model, min(23, onnx.defs.onnx_opset_version()))) == before


def test_set_21_is_declared_where_it_only_extends_operators() -> None:
    model = build("g (float[1,4,2,2] x) => (y) { y = Transpose(x) }", opset=20)
    before = model.clone()
    declare_21(model)
    assert opset(model) == 21
    assert model.ir_version >= 10
    assert_same_outputs(before, model, random_feed(model))


@pytest.mark.parametrize(
    ("operator", "version"), [("GroupNormalization<num_groups = 2>", 20), ("InstanceNormalization", 19)]
)
def test_a_model_that_set_21_defines_anew_or_that_is_older_keeps_its_set(operator: str, version: int) -> None:
    model = build(f"g (float[1,4,2,2] x, float[4] s, float[4] b) => (y) {{ y = {operator}(x, s, b) }}", opset=version)
    declare_21(model)
    assert opset(model) == version
