import numpy as np

from converter_lite.graph import find_nodes
from converter_lite.passes.common import (
    deduplicate_initializers,
    eliminate_common_subexpressions,
    lift_constants,
    remove_unused,
)
from tests.support import assert_applies, assert_refuses, build, normal, operators


def test_equal_chains_are_computed_once_and_answer_to_both_names() -> None:
    model = build(
        """g (float[3] x) => (float[3] y) {
            a = Relu(x) b = Relu(x) c = Neg(a) d = Neg(b) e = Abs(c) f = Abs(d) y = Add(e, f) }"""
    )
    assert_applies(eliminate_common_subexpressions, model, 3)
    assert operators(model) == {"Relu": 1, "Neg": 1, "Abs": 1, "Add": 1}
    for twin, kept in (("b", "Relu"), ("d", "Neg"), ("f", "Abs")):
        assert [node.op_type for node in find_nodes(model.graph, twin)] == [kept]


def test_two_equal_outputs_keep_their_names() -> None:
    model = build("g (float[3] x) => (float[3] y, float[3] z) { y = Relu(x) z = Relu(x) }")
    assert_applies(eliminate_common_subexpressions, model, 1)
    assert find_nodes(model.graph, "Relu_1") == [model.graph.node(0)]


def test_different_attributes_are_no_common_subexpression() -> None:
    model = build(
        """g (float[3,3] x) => (float[3,3] y) {
            a = LeakyRelu<alpha = 0.1>(x) b = LeakyRelu<alpha = 0.2>(x) y = Add(a, b) }"""
    )
    assert_refuses(eliminate_common_subexpressions, model)


def test_random_nodes_are_no_common_subexpression() -> None:
    model = build("g (float[3] x) => (float[3] y) { a = RandomNormalLike(x) b = RandomNormalLike(x) y = Add(a, b) }")
    assert_refuses(eliminate_common_subexpressions, model)


def test_constants_of_every_form_become_initializers() -> None:
    model = build(
        """g (float[2] x) => (float[2] y) {
            a = Constant<value_float = 2.0>() b = Constant<value_floats = [1.0, 2.0]>()
            c = Constant<value = float[2] {3.0, 4.0}>() d = Mul(x, a) e = Mul(d, b) y = Mul(e, c) }"""
    )
    assert_applies(lift_constants, model, 3)
    assert operators(model) == {"Mul": 3}


def test_a_constant_that_is_an_output_stays() -> None:
    model = build("g (float[2] x) => (float[2] y, float z) { y = Relu(x) z = Constant<value_float = 2.0>() }")
    assert_refuses(lift_constants, model)


def test_dead_nodes_and_weights_go() -> None:
    model = build("g (float[2] x) => (float[2] y) { a = Mul(x, k) b = Relu(a) y = Neg(x) }", k=normal(2))
    assert_applies(remove_unused, model, 3)
    assert not model.graph.initializers


def test_equal_weights_are_stored_once_whatever_their_size() -> None:
    weight = normal(64, 64)
    model = build(
        "g (float[N,64] x) => (float[N,64] y) { a = MatMul(x, v) b = MatMul(a, w) y = MatMul(b, u) }",
        v=weight,
        w=weight,
        u=-weight,
    )
    assert_applies(deduplicate_initializers, model, 1)
    assert len(model.graph.initializers) == 2


def test_equal_bytes_of_another_type_or_shape_are_no_duplicates() -> None:
    model = build(
        "g (float[2,2] x) => (float[2,2] y, int32[2,2] z) { y = Mul(x, a) t = Mul(y, b) z = Identity(c) }",
        a=np.zeros((2, 2), np.float32),
        b=np.zeros((1, 2, 2), np.float32),
        c=np.zeros((2, 2), np.int32),
    )
    assert deduplicate_initializers(model) == 0


def test_what_only_an_unused_branch_reads_goes_with_it() -> None:
    text = """g (float[2,4] x, bool c) => (float[2,4] y) {
        first = Neg(x)
        inner = If(c) <then_branch = a () => (float[2,4] t) { t = Exp(first) },
                       else_branch = b () => (float[2,4] e) { e = Abs(first) }>
        second = Sin(x)
        outer = If(c) <then_branch = p () => (float[2,4] u) { u = Add(second, inner) },
                       else_branch = q () => (float[2,4] v) { v = MatMul(second, w) }>
        y = Relu(x)
    }"""
    model = build(text, w=normal(4, 4))
    assert_applies(remove_unused, model, 5)
    assert [node.op_type for node in model.graph] == ["Relu"]
