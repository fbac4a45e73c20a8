import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.graph import Names
from converter_lite.passes.pipeline import optimize
from converter_lite.passes.shape_chain import fold_shapes, share_sizes
from tests.support import assert_applies, assert_refuses, assert_same_outputs, build, clone, operators, random_feed


@pytest.mark.parametrize(
    ("chain", "opset"),
    [
        ("s = Shape(x) d = Gather(s, one)", 13),
        ("s = Shape(x) d = Gather(s, last)", 13),
        ("s = Shape(x) d = Slice(s, from_one, end)", 13),
        ("s = Shape(x) d = Slice(s, from_one, end, axis, step)", 13),
        ("d = Shape<start = 1, end = 3>(x)", 15),
        ("d = Shape<start = -1>(x)", 15),
    ],
)
def test_known_sizes_of_a_dynamic_tensor_become_constants(chain: str, opset: int) -> None:
    model = build(
        f"g (float[N,3,8] x) => (float[K] y) {{ {chain} f = Cast<to = 1>(d) y = Neg(f) }}",
        opset=opset,
        one=np.array([1]),
        last=np.array([-1, 1]),
        from_one=np.array([1]),
        end=np.array([9]),
        axis=np.array([0]),
        step=np.array([2]),
    )
    assert_applies(fold_shapes, model, 1)


def test_names_are_collected_once_however_many_sizes_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = " ".join(f"s{i} = Shape(x)" for i in range(20))
    names = ", ".join(f"s{i}" for i in range(20))
    model = build(f"g (float[2,3] x) => (float[40] y) {{ {sizes} s = Concat<axis=0>({names}) y = Cast<to=1>(s) }}")
    collected = []
    collect = Names.__init__

    def noted(self: Names, graph: ir.Graph) -> None:
        collected.append(graph)
        collect(self, graph)

    monkeypatch.setattr(Names, "__init__", noted)
    assert_applies(fold_shapes, model, 20)
    assert len(collected) <= 1


def test_a_scalar_index_gives_a_scalar() -> None:
    model = build(
        "g (float[N,3] x) => (float y) { s = Shape(x) d = Gather(s, i) f = Cast<to = 1>(d) y = Neg(f) }",
        i=np.array(1),
    )
    assert_applies(fold_shapes, model, 1)


@pytest.mark.parametrize(("op", "shape"), [("Shape", "[2]"), ("Size", "")])
def test_questions_about_static_tensors_are_answered(op: str, shape: str) -> None:
    model = build(f"g (float[2,3] x) => (float{shape} y) {{ s = {op}(x) f = Cast<to = 1>(s) y = Neg(f) }}")
    assert_applies(fold_shapes, model, 1)


def test_a_reshape_chain_of_known_sizes_disappears() -> None:
    model = build(
        """g (float[N,3,8] x) => (float[N,24] y) {
            s = Shape(x) a = Gather(s, one) b = Gather(s, two) p = Mul(a, b) t = Concat<axis = 0>(minus, p)
            y = Reshape(x, t) }""",
        one=np.array([1]),
        two=np.array([2]),
        minus=np.array([-1]),
    )
    before = clone(model)
    optimize(model)
    assert operators(model) == {"Reshape": 1}
    assert_same_outputs(before, model, random_feed(before))


@pytest.mark.parametrize(
    "graph",
    [
        "g (float[N,3] x) => (int64[1] y) { s = Shape(x) d = Gather(s, zero) y = Neg(d) }",
        "g (float[N,3] x) => (int64[2] y) { s = Shape(x) y = Neg(s) }",
        "g (float[N,3] x) => (int64[2] y) { s = Shape(x) d = Slice(s, zero, end) y = Neg(d) }",
        "g (float[N,3] x) => (int64 y) { d = Size(x) y = Neg(d) }",
        "g (float[2,3] x) => (int64[2] y) { y = Shape(x) }",
        "g (float[N,3] x, int64[1] i) => (int64[1] y) { s = Shape(x) d = Gather(s, i) y = Neg(d) }",
        "g (int64[3] x) => (int64[1] y) { d = Gather(x, zero) y = Neg(d) }",
    ],
)
def test_unknown_sizes_stay_questions(graph: str) -> None:
    assert_refuses(fold_shapes, build(graph, zero=np.array([0]), end=np.array([2])))


def test_a_size_that_two_tensors_share_is_read_once() -> None:
    model = build(
        """g (float[B,S] x, float[T,S] other) => (int64[] y, int64[] z) {
            s = Shape(x) b = Gather(s, one) t = Shape(other) c = Gather(t, one) d = Gather(t, zero)
            y = Mul(b, c) z = Add(c, d) }""",
        zero=np.array(0),
        one=np.array(1),
    )
    assert_applies(share_sizes, model, 1)
    assert sum(node.op_type == "Gather" for node in model.graph) == 2


def test_sizes_in_vectors_and_in_scalars_are_not_mixed() -> None:
    model = build(
        """g (float[B,S] x) => (int64[] y, int64[1] z) {
            s = Shape(x) b = Gather(s, one) c = Gather(s, ones) y = Neg(b) z = Neg(c) }""",
        one=np.array(1),
        ones=np.array([1]),
    )
    assert_refuses(share_sizes, model)
