import numpy as np
import pytest

from converter_lite.graph import static_shape
from converter_lite.passes.gemm import fold_gemm_factors, fuse_gemm, unstack_weights
from tests.support import assert_applies, assert_refuses, build, normal, operators


@pytest.mark.parametrize("shape", [(4,), (1, 4)])
@pytest.mark.parametrize("add", ["Add(m, b)", "Add(b, m)"])
def test_a_product_with_bias_is_a_gemm(add: str, shape: tuple[int, ...]) -> None:
    model = build(
        f"g (float[N,3] x) => (float[N,4] y) {{ m = MatMul(x, w) y = {add} }}", w=normal(3, 4), b=normal(*shape)
    )
    assert_applies(fuse_gemm, model, 1)
    assert operators(model) == {"Gemm": 1}


@pytest.mark.parametrize(
    ("graph", "bias"),
    [
        ("g (float[2,5,3] x) => (float[2,5,4] y) { m = MatMul(x, w) y = Add(m, b) }", (4,)),
        ("g (float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }", (2, 4)),
        ("g (float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }", ()),
        ("g (float[2,3] x) => (float[1,2,4] y) { m = MatMul(x, w) y = Add(m, b) }", (1, 1, 4)),
        ("g (float[2,3] x) => (float[2,4] y, float[2,4] z) { m = MatMul(x, w) y = Add(m, b) z = Relu(m) }", (4,)),
        ("g (float[4,3] x) => (float[4,4] y) { m = MatMul(w, x) t = Identity(m) y = Add(t, b) }", (4,)),
    ],
)
def test_other_products_stay(graph: str, bias: tuple[int, ...]) -> None:
    assert_refuses(fuse_gemm, build(graph, w=normal(3, 4), b=np.ones(bias, np.float32)))


def test_a_product_of_two_activations_stays() -> None:
    model = build("g (float[2,3] x, float[3,4] w) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }", b=normal(4))
    assert_refuses(fuse_gemm, model)


def test_a_stack_of_one_matrix_is_the_matrix_once_for_all_its_readers() -> None:
    text = """g (float[2,5,3] x, float[2,2,5,3] z) => (float[2,5,4] y, float[2,2,5,4] u) {
        y = MatMul(x, w) u = MatMul(z, w) }"""
    model = build(text, w=normal(1, 3, 4))
    assert_applies(unstack_weights, model, 2)
    assert len({node.inputs[1] for node in model.graph}) == 1


@pytest.mark.parametrize(("rows", "stack"), [("5,3", (1, 3, 4)), ("2,5,3", (2, 3, 4)), ("2,5,3", (1, 1, 3, 4))])
def test_stacks_that_add_an_axis_or_hold_several_matrices_stay(rows: str, stack: tuple[int, ...]) -> None:
    model = build(
        f"g (float[{rows}] x) => (float y) {{ m = MatMul(x, w) y = ReduceSum<keepdims=0>(m) }}", w=normal(*stack)
    )
    assert_refuses(unstack_weights, model)


def test_a_product_of_nothing_is_left_alone() -> None:
    model = build("g (float[2,3] x) => (float[2,4] y) { y = MatMul(x, w) }", w=normal(3, 4))
    model.graph[0].resize_inputs(1)
    assert_refuses(unstack_weights, model)


@pytest.mark.parametrize("shared", [False, True])
def test_factors_are_multiplied_into_constants(shared: bool) -> None:
    extra = " z = MatMul(x, w)" if shared else ""
    outputs = "float[2,4] y, float[2,4] z" if shared else "float[2,4] y"
    model = build(
        f"g (float[2,3] x) => ({outputs}) {{ y = Gemm<alpha=0.5, beta=2.0>(x, w, b){extra} }}",
        w=normal(3, 4),
        b=normal(4),
    )
    assert_applies(fold_gemm_factors, model, 1)
    (gemm,) = (node for node in model.graph if node.op_type == "Gemm")
    assert not {"alpha", "beta"} & set(gemm.attributes)


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_bias_of_one_number_becomes_one_per_column(shape: tuple[int, ...], trans_b: int) -> None:
    weight = normal(4, 3) if trans_b else normal(3, 4)
    text = f"g (float[2,3] x) => (float[2,4] y) {{ y = Gemm<transB={trans_b}>(x, w, b) }}"
    model = build(text, w=weight, b=np.full(shape, 3, np.float32))
    assert_applies(fold_gemm_factors, model, 1)
    bias = model.graph[0].inputs[2]
    assert bias is not None
    assert static_shape(bias) == (4,)


@pytest.mark.parametrize(
    "graph",
    [
        "g (float[2,3] x, float[3,4] v, float[4] c) => (float[2,4] y) { y = Gemm<alpha=0.5, beta=2.0>(x, v, c) }",
        "g (float[2,3] x) => (float[2,4] y) { y = Gemm(x, w, b) }",
        "g (float[2,3] x) => (float[2,4] y) { y = Gemm(x, w) }",
        "g (float[4,3] x) => (float[4,4] y) { y = Gemm(x, w, column) }",
    ],
)
def test_computed_operands_and_plain_products_stay(graph: str) -> None:
    assert_refuses(fold_gemm_factors, build(graph, w=normal(3, 4), b=normal(4), column=normal(4, 1)))


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_products_of_whole_numbers_stay(kind: str) -> None:
    """onnxruntime has no Gemm of them."""
    graph = f"g ({kind}[2,3] x) => ({kind}[2,4] y) {{ m = MatMul(x, w) y = Add(m, b) }}"
    assert_refuses(fuse_gemm, build(graph, w=np.arange(12).reshape(3, 4).astype(kind), b=np.ones(4, kind)))
