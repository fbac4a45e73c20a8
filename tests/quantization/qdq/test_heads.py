from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx import writer
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.qdq.heads import find_heads
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.runtime.context import RunContext
from tests.support import attention, build, clone, normal, optimized, random_feed, run, sqnr, written


def dynamic(model: ir.Model, *, alwc: bool = True) -> ir.Model:
    return written(quantize_dynamic(clone(model), DynamicSettings(alwc), target="CPU", context=RunContext()))


def product(model: ir.Model) -> ir.Node:
    return next(node for node in model.graph if node.op_type == "MatMul")


def orders(model: ir.Model) -> list[list[int]]:
    return sorted(list(n.attributes["perm"].as_ints()) for n in model.graph if n.op_type == "Transpose")


@pytest.mark.parametrize("sizes", [("B", "S"), ("1", "6"), ("3", "3")])
def test_heads_in_the_order_without_copies_are_the_same_heads(sizes: tuple[str, str]) -> None:
    model = attention(*sizes)
    turned = dynamic(model)
    # one turn of integers serves three products
    assert orders(turned) == [[0, 2, 1, 3], [1, 0, 2], [1, 2, 0, 3], [1, 2, 0, 3], [1, 2, 3, 0]]
    plain = clone(model)
    for node in plain.graph:  # an axis more keeps the heads from being found: the same integers in the usual order
        if node.op_type == "Reshape" and node.name in {"Reshape_2", "Reshape_6", "Reshape_10"}:
            wide = ir.node("Identity", [node.outputs[0]], name=f"{node.name}_as_it_is")
            wide.outputs[0].name = f"{node.outputs[0].name}_as_it_is"
            node.outputs[0].replace_all_uses_with(wide.outputs[0])
            wide.replace_input_with(0, node.outputs[0])
            plain.graph.insert_after(node, wide)
    usual = dynamic(plain)
    assert [1, 0, 2] not in orders(usual)
    for batch in (1, 2) if sizes == ("B", "S") else (1,):
        feed = random_feed(model, dynamic=batch * 3)
        np.testing.assert_allclose(run(turned, feed)["y"], run(usual, feed)["y"], rtol=1e-5, atol=1e-5)


def test_onnxruntime_takes_turned_heads_as_they_lie(tmp_path: Path) -> None:
    kernels = optimized(dynamic(attention()), tmp_path)
    assert kernels["FusedMatMul"] == 2
    assert kernels["Transpose"] == 2  # of the integers, and of the joined result


def test_the_written_file_tells_the_ranks_that_this_takes_and_no_shapes(tmp_path: Path) -> None:
    (path,) = writer.save(dynamic(attention("1", "6")), tmp_path / "attention.onnx")
    told = {info.name: info.type.tensor_type.shape.dim for info in onnx.load(path).graph.value_info}
    assert told.keys() == {"q", "k", "p"}
    assert all(len(dims) == 4 and not any(dim.HasField("dim_value") for dim in dims) for dims in told.values())


def test_a_reshape_to_fixed_sizes_is_turned_with_them() -> None:
    model = attention("2", "6")
    model.graph.initializers["heads"].const_value = ir.Tensor(np.array([2, -1, 2, 8], np.int64), name="heads")
    turned = dynamic(model)
    assert [1, 0, 2] in orders(turned)
    assert sqnr(model, turned, [random_feed(model)]) > 20


def test_no_value_keeps_the_name_of_one_that_it_is_not() -> None:
    model = attention()
    float_shapes = {v.name: v.shape for n in model.graph for v in n.outputs}
    names = {v.name for n in dynamic(model).graph for v in n.outputs}
    assert not names & {"q0", "q1", "q2", "k0", "k1", "k2", "v0", "v1", "v2"}
    assert {"q", "k", "v", "c"} <= names & float_shapes.keys()


def test_rows_with_scales_of_their_own_stay_in_their_order() -> None:
    assert [1, 0, 2] not in orders(dynamic(attention(), alwc=False))


TAIL = "y = Transpose<perm=[0,2,1,3]>(h)"
REFUSED = {
    "a matrix": ("float[S,16] x", "p = MatMul(x, w) h = Reshape(p, sizes) " + TAIL, [1, 4, 2, 8]),
    "sizes that mix the axes": ("float[2,6,16] x", "p = MatMul(x, w) h = Reshape(p, sizes) " + TAIL, [3, 4, 2, 8]),
    "unknown sizes": ("float[B,S,16] x", "p = MatMul(x, w) h = Reshape(p, sizes) " + TAIL, [1, -1, 2, 8]),
    "an unknown order": (
        "float[B,S,16] x",
        "p = MatMul(x, w) h = Reshape(p, sizes) y = Transpose<perm=[2,0,1,3]>(h)",
        [0, 0, 2, 8],
    ),
    "an activation between": (
        "float[B,S,16] x",
        "p = MatMul(x, w) r = Relu(p) h = Reshape(r, sizes) " + TAIL,
        [0, 0, 2, 8],
    ),
    "no Transpose": ("float[B,S,16] x", "p = MatMul(x, w) y = Reshape(p, sizes)", [0, 0, 2, 8]),
    "a bias that depends on the position": (
        "float[B,4,16] x",
        "p = MatMul(x, w) b = Add(p, c) h = Reshape(b, sizes) " + TAIL,
        [0, 0, 2, 8],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_shapes_are_left_alone(case: str) -> None:
    given, text, sizes = REFUSED[case]
    constants = {"w": normal(16, 16), "sizes": np.array(sizes, np.int64)}
    if "c)" in text:
        constants["c"] = normal(4, 16)
    model = build(f"g ({given}) => (float[a,b,c,d] y) {{ {text} }}", **constants)
    assert find_heads(product(model)) is None


def test_a_value_that_someone_else_reads_is_left_alone() -> None:
    model = build(
        "g (float[B,S,16] x) => (float[a,b,c,d] y, float[B,S,16] p) { p = MatMul(x, w) h = Reshape(p, z) "
        + TAIL
        + " }",
        w=normal(16, 16),
        z=np.array([0, 0, 2, 8], np.int64),
    )
    assert find_heads(product(model)) is None
