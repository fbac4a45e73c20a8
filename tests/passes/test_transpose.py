import pytest

from converter_lite.graph import find_nodes
from converter_lite.passes.transpose import merge_transposes
from tests.support import assert_applies, assert_refuses, build, operators


def test_a_pair_that_undoes_itself_goes() -> None:
    model = build(
        """g (float[2,3,4] x) => (float[2,3,4] y) {
            r = Relu(x) a = Transpose<perm = [1,2,0]>(r) b = Transpose<perm = [2,0,1]>(a) y = Neg(b) }"""
    )
    assert_applies(merge_transposes, model, 1)
    assert operators(model) == {"Relu": 1, "Neg": 1}


def test_other_pairs_become_one() -> None:
    model = build(
        "g (float[2,3,4] x) => (float[A,B,C] y) { a = Transpose<perm = [1,2,0]>(x) y = Transpose<perm = [0,2,1]>(a) }"
    )
    assert_applies(merge_transposes, model, 1)
    assert operators(model) == {"Transpose": 1}
    assert find_nodes(model.graph, "a") == [model.graph.node(0)]


def test_default_permutations_reverse() -> None:
    model = build("g (float[2,3] x) => (float[2,3] y) { r = Relu(x) a = Transpose(r) b = Transpose(a) y = Neg(b) }")
    assert_applies(merge_transposes, model, 1)
    assert operators(model) == {"Relu": 1, "Neg": 1}


def test_the_first_stays_for_its_other_reader() -> None:
    model = build(
        """g (float[2,3] x) => (float[2,3] y, float[3,2] z) {
            r = Relu(x) a = Transpose<perm = [1,0]>(r) z = Neg(a) b = Transpose<perm = [1,0]>(a) y = Neg(b) }"""
    )
    assert_applies(merge_transposes, model, 1)
    assert operators(model) == {"Relu": 1, "Neg": 2, "Transpose": 1}


def test_a_pair_between_input_and_output_keeps_one_node() -> None:
    model = build("g (float[2,3] x) => (float[2,3] y) { a = Transpose(x) y = Transpose(a) }")
    assert_applies(merge_transposes, model, 1)
    assert operators(model) == {"Transpose": 1}


@pytest.mark.parametrize(
    "graph",
    [
        """g (float[2,3,4] x) => (float[A,B,C] y, float[A,B,C] z) {
            a = Transpose<perm = [1,2,0]>(x) z = Neg(a) y = Transpose<perm = [0,2,1]>(a) }""",
        """g (float[2,3,4] x) => (float[A,B,C] y, float[A,B,C] a) {
            a = Transpose<perm = [1,2,0]>(x) y = Transpose<perm = [0,2,1]>(a) }""",
        "g (float[2,3] x) => (float[3,2] y) { a = Transpose(x) y = Relu(a) }",
    ],
)
def test_other_transposes_stay(graph: str) -> None:
    assert_refuses(merge_transposes, build(graph))
