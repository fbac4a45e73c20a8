import numpy as np
import pytest

from converter_lite import graph as g
from converter_lite.passes.noop import remove_noops
from tests.support import assert_applies, assert_refuses, build, normal, operators

INDICES = {
    name: np.array([number])
    for name, number in {
        "zero": 0,
        "one": 1,
        "two": 2,
        "four": 4,
        "last": -1,
        "far": -(2**31),
        "endless": 2**63 - 1,
    }.items()
}


@pytest.mark.parametrize(
    "node",
    [
        "Identity(r)",
        "Concat<axis = 1>(r)",
        "Sum(r)",
        "Dropout(r)",
        "Dropout(r, ratio, off)",
        "Cast<to = 1>(r)",
        "Transpose<perm = [0,1,2]>(r)",
        "Reshape(r, shape)",
        "Pad(r, nothing)",
        "Slice(r, zero, four, last)",
        "Slice(r, zero, endless)",
        "Slice(r, far, endless, last, one)",
    ],
)
def test_nodes_that_change_nothing_go(node: str) -> None:
    model = build(
        f"g (float[N,3,4] x) => (float[N,3,4] y) {{ r = Relu(x) q = {node} y = Neg(q) }}",
        ratio=np.float32(0.5),
        off=np.array(False),
        shape=np.array([-1, 3, 4]),
        nothing=np.zeros(6, np.int64),
        **INDICES,
    )
    assert_applies(remove_noops, model, 1)
    assert operators(model) == {"Relu": 1, "Neg": 1}
    assert g.find_nodes(model.graph, "q") == [model.graph.node(0)]


@pytest.mark.parametrize(
    "node",
    [
        "Slice(r, one, endless, last)",
        "Slice(r, zero, last, last)",
        "Slice(r, zero, four, last, two)",
        "Slice(r, zero, four)",  # of an unknown number
        "Slice(r, last, endless, last)",
    ],
)
def test_a_slice_of_fewer_elements_stays(node: str) -> None:
    assert_refuses(
        remove_noops, build(f"g (float[N,3,4] x) => (float y) {{ r = Relu(x) q = {node} y = Neg(q) }}", **INDICES)
    )


@pytest.mark.parametrize("node", ["Flatten(r)", "Expand(r, shape)", "Reshape(r, shape)"])
def test_reshaping_into_the_same_known_shape_goes(node: str) -> None:
    model = build(f"g (float[3,4] x) => (float[3,4] y) {{ r = Relu(x) q = {node} y = Neg(q) }}", shape=np.array([3, 4]))
    assert_applies(remove_noops, model, 1)


def test_parts_without_elements_are_neither_split_off_nor_joined() -> None:
    text = (
        "g (float[3,4] x) => (float[3,4] y) { a, b = Split<axis=1>(x, sizes) r = Relu(a) y = Concat<axis=1>(b, r, b) }"
    )
    model = build(text, sizes=np.array([4, 0]))
    assert_applies(remove_noops, model, 3)
    assert operators(model) == {"Relu": 1}


def test_a_graph_output_keeps_its_name() -> None:
    model = build("g (float[3] x) => (float[3] y, float[3] z) { r = Relu(x) y = Identity(r) z = Neg(r) }")
    assert_applies(remove_noops, model, 1)
    assert operators(model) == {"Relu": 1, "Neg": 1}


def test_a_node_behind_the_input_leaves_its_name_to_the_readers() -> None:
    model = build("g (float[3] x) => (float[3] y, float[3] z) { i = Identity(x) y = Relu(i) z = Neg(i) }")
    assert_applies(remove_noops, model, 1)
    assert g.find_nodes(model.graph, "Identity_0") == list(model.graph)


def test_a_subgraph_reads_the_value_that_stays() -> None:
    model = build(
        """g (float[3] x, bool c) => (float[3] y) {
            r = Relu(x) i = Identity(r)
            y = If (c) <then_branch = t () => (float[3] a) { a = Neg(i) },
                        else_branch = e () => (float[3] b) { b = Abs(i) }>
        }"""
    )
    feed = {"x": np.array([1, -2, 3], np.float32), "c": np.array(True)}
    assert_applies(remove_noops, model, 1, feed)


@pytest.mark.parametrize(
    "graph",
    [
        "g (float[3] x) => (float[3] y) { y = Identity(x) }",
        "g (float[3] x) => (float[3] y, float[3] z) { y = Relu(x) z = Identity(y) }",
        "g (float[3] x) => (float[3] y) { y = Identity(k) }",
        "g (float[3] x) => (double[3] y) { r = Relu(x) y = Cast<to = 11>(r) }",
        "g (float[3,3] x) => (float[3,3] y) { r = Relu(x) y = Transpose(r) }",
        "g (float[3,3] x) => (float[3,3] y) { r = Relu(x) y = Transpose<perm = [1,0]>(r) }",
        "g (float[N,M] x) => (float[A,B] y) { r = Relu(x) y = Reshape(r, s) }",
        "g (float[4,3] x) => (float[2,6] y) { r = Relu(x) y = Reshape(r, s) }",
        "g (float[N,3] x) => (float[N,3] y, bool[N,3] m) { r = Relu(x) y, m = Dropout(r) }",
        "g (float[N,3] x, bool train) => (float[N,3] y) { r = Relu(x) y = Dropout(r, k, train) }",
        "g (float[N,3] x) => (float[M,3] y) { r = Relu(x) y = Expand(r, e) }",
    ],
)
def test_nodes_that_change_something_or_name_an_output_stay(graph: str) -> None:
    model = build(graph, k=np.float32(0.5), s=np.array([2, 6]), e=np.array([2, 3]))
    assert_refuses(remove_noops, model)


LAYER = "g (float[4,2,3] x) => (float[4,1,2,5] y) { y = GRU<hidden_size=5>(x, w, r, , lengths) }"
WEIGHTS = {"w": normal(1, 15, 3), "r": normal(1, 15, 5)}


def test_lengths_of_whole_sequences_are_not_read() -> None:
    model = build(LAYER, opset=14, lengths=np.array([4, 4], np.int32), **WEIGHTS)
    assert_applies(remove_noops, model, 1)
    assert g.input_at(model.graph[-1], 4) is None


def test_lengths_of_shorter_sequences_are_read() -> None:
    assert_refuses(remove_noops, build(LAYER, opset=14, lengths=np.array([4, 3], np.int32), **WEIGHTS))
