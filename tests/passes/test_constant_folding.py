from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.graph import add_initializer, constant, find_nodes, static_shape
from converter_lite.passes.constant_folding import fold_constants
from converter_lite.passes.shapes import infer_shapes
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.support import assert_applies, assert_refuses, build, normal, operators


class CountingEngine:
    """Counts sessions; refuses models that hold an operator of ``refused``."""

    def __init__(self, refused: bytes = b"\0no operator") -> None:
        self.sessions = 0
        self.bytes = 0
        self._refused = refused

    def session(self, model: Any, *, threads: int = 0, optimize: bool = True) -> Any:
        if self._refused in model:
            raise ModelError("this operator is not there")
        self.sessions += 1
        self.bytes += len(model)
        return DEFAULT_ENGINE.session(model, threads=threads, optimize=optimize)


def test_large_half_precision_weights_stay_as_they_are_in_memory_and_are_widened_when_read() -> None:
    stored = np.concatenate([normal(300, 256), [[6e-8] * 256]]).astype(np.float16)
    model = build("g (float[N,301] x) => (float[N,256] y) { c = Cast<to = 1>(w) y = MatMul(x, c) }", w=stored)
    assert_applies(fold_constants, model, 1)
    weight = model.graph.node(0).inputs[1]
    assert weight is not None and isinstance(weight.const_value, ir.LazyTensor)
    assert weight.dtype == ir.DataType.FLOAT and weight.const_value.nbytes == 4 * stored.size
    for _ in range(2):
        np.testing.assert_array_equal(weight.const_value.numpy(), stored.astype(np.float32))
    assert find_nodes(model.graph, "Cast_0") == [model.graph.node(0)]


def test_half_precision_weights_behind_a_chain_become_single_precision() -> None:
    model = build(
        "g (float[N,64] x) => (float[N,32] y) { c = Cast<to = 1>(w) t = Transpose(c) y = MatMul(x, t) }",
        w=normal(32, 64).astype(np.float16),
    )
    assert_applies(fold_constants, model, 2)
    weight = constant(model.graph.node(0).inputs[1])
    assert weight is not None and weight.dtype == np.float32 and weight.shape == (64, 32)
    assert find_nodes(model.graph, "Cast_0") == [model.graph.node(0)]


def test_everything_is_evaluated_in_one_session_without_copying_weights() -> None:
    model = build(
        """g (float[N,64] x) => (float[N,64] y) {
            a = Cast<to = 1>(v) b = Cast<to = 1>(w) c = Add(k, k) d = MatMul(x, a) e = MatMul(d, b) y = Add(e, c) }""",
        v=normal(64, 64).astype(np.float16),
        w=normal(64, 64, seed=2).astype(np.float16),
        k=normal(64),
    )
    engine = CountingEngine()
    assert fold_constants(model, engine=engine) == 3
    assert engine.sessions == 1
    assert engine.bytes < 2048


def test_what_the_runtime_refuses_stays_and_the_rest_is_folded() -> None:
    model = build(
        "g (float[3] x) => (float[3] y) { a = Neg(k) b = Erf(k) c = Abs(a) d = Mul(x, b) y = Add(d, c) }", k=normal(3)
    )
    assert fold_constants(model, engine=CountingEngine(refused=b"Erf")) == 2
    assert operators(model) == {"Erf": 1, "Mul": 1, "Add": 1}


def test_bfloat16_weights_are_widened_without_the_runtime() -> None:
    weight = normal(64, 32).astype(ml_dtypes.bfloat16)
    model = build("g (float[N,64] x) => (float[N,32] y) { y = MatMul(x, w) }", w=normal(64, 32))
    product = model.graph.node(0)
    stored = add_initializer(model.graph, "half", weight, dtype=ir.DataType.BFLOAT16)
    cast = ir.node("Cast", inputs=[stored], attributes={"to": 1}, name="widen")
    model.graph.insert_before(product, cast)
    product.replace_input_with(1, cast.outputs[0])
    infer_shapes(model)
    engine = CountingEngine()
    assert fold_constants(model, engine=engine) == 1
    assert engine.sessions == 0
    array = constant(product.inputs[1])
    assert array is not None and np.array_equal(array, weight.astype(np.float32))
    assert find_nodes(model.graph, "widen") == [product]


def test_scalars_stay_scalars() -> None:
    model = build("g (float[3] x) => (float[3] y) { k = Sqrt(two) y = Div(x, k) }", two=np.float32(2))
    assert_applies(fold_constants, model, 1)
    number = constant(model.graph.node(0).inputs[1])
    assert number is not None and number.shape == ()


@pytest.mark.parametrize("operator", ["Expand(one, size)", "ConstantOfShape(size)", "Tile(one, size)"])
def test_results_that_would_blow_the_model_up_are_computed_at_run_time(operator: str) -> None:
    model = build(
        f"g (float[300,300] x) => (float[300,300] y) {{ e = {operator} y = Add(x, e) }}",
        one=np.ones((1, 1), np.float32),
        size=np.array([300, 300]),
    )
    assert_refuses(fold_constants, model)


def test_a_result_that_nobody_reads_may_have_an_unknown_size() -> None:
    """Weights that are standardized at run time (BiT): up to operator set 13 a BatchNormalization names statistics, too."""
    model = build(
        """g (float[N,3,8,8] x) => (float[N,4,6,6] y) {
            n, o1, o2, o3, o4 = BatchNormalization(rows, scale, shift, m, v) w = Reshape(n, target) y = Conv(x, w) }""",
        opset=13,
        rows=normal(1, 4, 27),
        scale=normal(4),
        shift=normal(4),
        m=normal(4),
        v=np.ones(4, np.float32),
        target=np.array([4, 3, 3, 3]),
    )
    infer_shapes(model)
    for value in model.graph.node(0).outputs[1:]:
        value.shape = None
    assert_applies(fold_constants, model, 2)
    assert operators(model) == {"Conv": 1}


def test_places_in_constants_are_folded() -> None:
    """Windows of attention are chosen by places in matrices of ones."""
    text = "g (float[4] x) => (float[1,N] y) { places = NonZero(ones) y = Gather(x, places) }"
    model = build(text, ones=np.array([1, 0, 1, 1]))
    assert_applies(fold_constants, model, 1)
    assert model.graph[0].inputs[1].shape == (1, 3)


def test_chosen_elements_of_constants_are_folded() -> None:
    text = "g (float[4] x) => (float[N] y) { places = Compress(all, mask) y = Gather(x, places) }"
    model = build(text, all=np.arange(4), mask=np.array([True, False, True, False]))
    assert_applies(fold_constants, model, 1)


def test_places_in_large_constants_stay() -> None:
    text = "g (float[4] x) => (float[2,N] y) { places = NonZero(ones) y = Gather(x, places) }"
    assert_refuses(fold_constants, build(text, ones=np.ones((2, 40000), bool)))


def test_small_expansions_are_folded() -> None:
    model = build(
        "g (float[3,4] x) => (float[3,4] y) { e = Expand(one, size) y = Add(x, e) }",
        one=np.float32(1),
        size=np.array([3, 4]),
    )
    assert_applies(fold_constants, model, 1)


def test_a_chain_of_expansions_does_not_grow_with_its_length() -> None:
    """Round by round, too: what was folded before does not count as a constant of the model."""
    body = " ".join(f"t{index + 1} = Tile(t{index}, four)" for index in range(9))
    model = build(
        f"g (float[1,4] x) => (float[1,4] y) {{ {body} m = ReduceMax(t9) y = Add(x, m) }}",
        t0=np.ones((1, 16384), np.float32),
        four=np.array([1, 4]),
    )
    infer_shapes(model)
    while fold_constants(model):
        infer_shapes(model)
    assert operators(model) == {"Tile": 8, "ReduceMax": 1, "Add": 1}


def test_a_large_intermediate_keeps_what_depends_on_it() -> None:
    model = build(
        """g (float[300] x) => (float[300] y) {
            e = Expand(one, size) s = ReduceSum<keepdims = 0>(e, axis) y = Add(x, s) }""",
        one=np.float32(1),
        size=np.array([300, 300]),
        axis=np.array([0]),
    )
    assert_refuses(fold_constants, model)


def test_a_quantized_constant_is_stored_as_integers() -> None:
    text = """g (float[2,3] x) => (float[2,4] y) {
        q = QuantizeLinear<axis=1>(w, scale, zero) t = Transpose<perm=[1,0]>(q)
        d = DequantizeLinear<axis=0>(t, scale, zero) u = Transpose<perm=[1,0]>(d) y = MatMul(x, u) }"""
    scale = np.linspace(0.01, 0.03, 4, dtype=np.float32)
    model = build(text, w=normal(3, 4), scale=scale, zero=np.zeros(4, np.int8))
    assert_applies(fold_constants, model, 2)
    stored = next(node for node in model.graph if node.op_type == "DequantizeLinear").inputs[0]
    assert stored is not None and stored.dtype is ir.DataType.INT8 and static_shape(stored) == (4, 3)


@pytest.mark.parametrize(
    "graph",
    [
        "g (float[3] x) => (float[3] y) { r = RandomNormalLike(k) y = Add(x, r) }",
        "g (float[3] x) => (float[3] y) { r = DequantizeLinear(q, scale) y = Add(x, r) }",
        "g (float[3] x) => (float[3] y, float[3] z) { y = Neg(x) z = Neg(k) }",
        "g (float[3] x) => (float[3] y) { y = Add(x, k) }",
        """g (float[3] x) => (float[3] y) { i = If (c) <
            then_branch = t () => (float[3] a) { a = Neg(k) }, else_branch = e () => (float[3] b) { b = Abs(k) }>
            y = Add(x, i) }""",
    ],
)
def test_random_quantized_and_output_nodes_stay(graph: str) -> None:
    constants = {"k": normal(3), "q": np.array([1, 2, 3], np.uint8), "scale": np.float32(0.5), "c": np.array(True)}
    assert_refuses(fold_constants, build(graph, **constants))
