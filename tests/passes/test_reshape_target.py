from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.graph import constant
from converter_lite.passes.reshape_target import simplify_reshape
from converter_lite.passes.shapes import infer_shapes
from tests.support import assert_applies, assert_refuses, build, operators

FIRST, SECOND, HEADS, WIDTH = (np.array(i, np.int64) for i in ([0], [1], [3], [4]))


def heads(target: str, rank_of_index: int = 0) -> ir.Model:
    shape = () if rank_of_index == 0 else (1,)
    return build(
        f"g (float[B,S,12] x, float[B,T,12] other) => (float[b,s,h,w] y) {{ {target} y = Reshape(x, t) }}",
        zero=np.zeros(shape, np.int64),
        one=np.ones(shape, np.int64),
        axis=FIRST,
        heads=HEADS,
        width=WIDTH,
    )


READ = """s = Shape({0}) b0 = Gather(s, zero) s0 = Gather(s, one) b = Unsqueeze(b0, axis) l = Unsqueeze(s0, axis)
    t = Concat<axis=0>(b, l, {1})"""


def test_sizes_that_stay_are_copied() -> None:
    model = heads(READ.format("x", "heads, width"))
    assert_applies(simplify_reshape, model, 1)
    reshape = next(node for node in model.graph if node.op_type == "Reshape")
    np.testing.assert_array_equal(constant(reshape.inputs[1]), [0, 0, 3, 4])


def test_sizes_read_as_vectors_are_copied() -> None:
    model = heads("s = Shape(x) b = Gather(s, zero) l = Gather(s, one) t = Concat<axis=0>(b, l, heads, width)", 1)
    assert_applies(simplify_reshape, model, 1)


def test_one_size_of_another_tensor_is_inferred() -> None:
    model = heads(READ.format("other", "heads, width"))
    assert_applies(simplify_reshape, model, 1)
    reshape = next(node for node in model.graph if node.op_type == "Reshape")
    np.testing.assert_array_equal(constant(reshape.inputs[1]), [0, -1, 3, 4])


def test_a_size_that_the_target_infers_already_is_inferred_beside_any_number_of_objects() -> None:
    text = """g (float[N,4] boxes) => (int64[n,m] y)
    { b = Greater(boxes, c) i = NonZero(b) x = Transpose<perm=[1,0]>(i) s = Shape(x)
      k = Gather(s, zero) t = Concat<axis=0>(k, rest) y = Reshape(x, t) }"""
    model = build(text, c=np.float32(0), zero=np.zeros(1, np.int64), rest=np.array([-1]))
    infer_shapes(model)
    assert_applies(simplify_reshape, model, 1)
    reshape = next(node for node in model.graph if node.op_type == "Reshape")
    np.testing.assert_array_equal(constant(reshape.inputs[1]), [0, -1])


def test_nothing_is_inferred_beside_a_number_of_objects_that_may_be_zero() -> None:
    text = """g (float[N,4] boxes) => (float[n,m] y)
    { b = Greater(boxes, c) i = NonZero(b) x = Transpose<perm=[1,0]>(i) s = Shape(x) d = Shape(boxes)
      k = Gather(s, zero) w = Gather(d, one) t = Concat<axis=0>(k, w) f = Concat<axis=1>(x, x) y = Reshape(f, t) }"""
    model = build(text, c=np.float32(0), zero=np.zeros(1, np.int64), one=np.ones(1, np.int64))
    infer_shapes(model)
    f = next(node for node in model.graph if node.op_type == "Concat" and node.outputs[0].name == "f")
    f.outputs[0].shape = ir.Shape([f.inputs[0].shape[0], None])
    assert_refuses(simplify_reshape, model)


@pytest.mark.parametrize(
    "target",
    [
        "s = Shape(other) l = Gather(s, one) k = Gather(s, one) t = Concat<axis=0>(l, k, heads, width)",
        "s = Shape(x) b = Gather(s, zero) l = Mul(b, axis) t = Concat<axis=0>(b, l, heads, width)",
        "s = Shape<start=1>(x) b = Gather(s, zero) t = Concat<axis=0>(axis, b, heads, width)",
    ],
)
def test_what_is_not_known_to_be_equal_stays(target: str) -> None:
    assert_refuses(simplify_reshape, heads(target, 1))


def test_zeros_that_mean_zero_stay() -> None:
    model = heads(READ.format("x", "heads, width"))
    reshape = next(node for node in model.graph if node.op_type == "Reshape")
    reshape.attributes.add(ir.AttrInt64("allowzero", 1))
    assert_refuses(simplify_reshape, model)
    assert operators(model)["Concat"] == 1
