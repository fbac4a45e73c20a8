import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.graph import Names, add_initializer, assign_names, constant, extracted, find_nodes
from tests.support import build, build_proto, normal, run


def test_a_generated_name_never_takes_one_of_the_file() -> None:
    proto = build_proto("g (float[3] x) => (float[3] y) { a = Relu(x) y = Neg(a) }")
    proto.graph.node[1].name = "Relu_0"
    model = ir.from_proto(proto)
    assign_names(model)
    assert [node.name for node in model.graph] == ["Relu_0_1", "Relu_0"]
    assert find_nodes(model.graph, "Relu_0") == [model.graph.node(1)]


def test_equal_names_are_made_different_and_both_stay_findable() -> None:
    proto = build_proto("g (float[3] x) => (float[3] y) { a = Relu(x) y = Neg(a) }")
    for node in proto.graph.node:
        node.name = "twin"
    model = ir.from_proto(proto)
    assign_names(model)
    assert [node.name for node in model.graph] == ["twin", "twin_1"]
    assert find_nodes(model.graph, "twin_1") == [model.graph.node(1)]


def test_outputs_that_are_left_out_stay_left_out() -> None:
    proto = build_proto("g (float[3,2] x) => (float[3,2] y) { y = Dropout(x) }")
    proto.graph.node[0].output.append("")
    model = ir.from_proto(proto)
    assign_names(model)
    assert [value.name for value in model.graph.node(0).outputs] == ["y", ""]


def test_a_scalar_initializer_stays_a_scalar_under_a_free_name() -> None:
    model = build("g (float[3] x) => (float[3] y) { a = Relu(x) y = Neg(a) }")
    for taken in ("x", "a"):
        value = add_initializer(model.graph, taken, np.array(2.0, np.float32))
        assert value.name == f"{taken}_1"
        array = constant(value)
        assert array is not None and array.shape == ()


def test_names_that_are_given_out_are_taken_from_then_on() -> None:
    names = Names(build("g (float[2] x) => (float[2] y) { y = Relu(x) }").graph)
    assert [names.unique(name) for name in ("x", "y", "z", "z", "z_1")] == ["x_1", "y_1", "z", "z_1", "z_1_1"]


def test_a_part_may_compute_again_what_it_is_given() -> None:
    model = build(
        "g (float[2,4] x) => (float[2,2] y) { a, b = Split<axis = 1, num_outputs = 2>(x) y = Sub(a, b) }", opset=18
    )
    first = next(iter(model.graph)).outputs[0]
    part = extracted(model.graph, [first, model.graph.inputs[0]], [model.graph.outputs[0]])
    x = normal(2, 4)
    np.testing.assert_allclose(run(ir.Model(part, ir_version=8), {"a": x[:, :2], "x": x})["y"], x[:, :2] - x[:, 2:])


def test_a_part_is_extracted_in_order_with_its_constants_and_what_subgraphs_read() -> None:
    model = build(
        "g (float[2,2] x, bool b) => (float[2,2] y) {"
        " a = Relu(x) c = Add(a, w) d = Neg(c)"
        " e = If(b) <then_branch = t () => (float[2,2] p) { p = Mul(c, d) },"
        " else_branch = f () => (float[2,2] q) { q = Identity(a) }>"
        " y = Abs(e) }",
        w=normal(2, 2),
    )
    values = {output.name: output for node in model.graph for output in node.outputs}
    part = extracted(model.graph, [values["a"], model.graph.inputs[1]], [values["e"]])
    assert [node.op_type for node in part] == ["Add", "Neg", "If"]
    assert [value.name for value in part.inputs] == ["a", "b"]
    assert list(part.initializers) == ["w"]
    with pytest.raises(ValueError, match="the input b"):
        extracted(model.graph, [values["a"]], [values["e"]])
