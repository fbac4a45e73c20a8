"""Models in float16 and bfloat16, computed in float32."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.onnx.versions import fit_to_engine
from converter_lite.passes.widening import HALVES, compute_in_float32, computes_in_halves, replace_bfloat16
from tests.support import assert_same_outputs, build, build_proto, normal, random_feed, run

CONVOLUTION = """
g (float16[1,3,8,8] x, float16[1] slope) => (float16[1,4,8,8] y, float16[1,4,8,8] z) {
    a = Conv<pads=[1,1,1,1]>(x, w, b)
    h = Constant<value = float16 {14336}>()
    c = Mul(a, h)
    z = PRelu(c, slope)
    f = Cast<to=1>(z)
    e = Cast<to=10>(f)
    y = Add(e, z)
}
"""


def test_everything_inside_is_float32_and_the_interface_stays() -> None:
    model = build(CONVOLUTION, w=normal(4, 3, 3, 3).astype(np.float16), b=normal(4).astype(np.float16))
    feed = {"x": normal(1, 3, 8, 8).astype(np.float16), "slope": np.array([0.25], np.float16)}
    before = run(model, feed)
    assert computes_in_halves(model)
    assert compute_in_float32(model) > 0
    interface = {*model.graph.inputs, *model.graph.outputs}
    assert [value.dtype for value in (*model.graph.inputs, *model.graph.outputs)] == [ir.DataType.FLOAT16] * 4
    inner = [v for node in model.graph for v in node.outputs if v not in interface]
    assert inner
    assert not [v.name for v in (*inner, *model.graph.initializers.values()) if v.dtype in HALVES]
    assert [v.name for v in model.graph.outputs] == ["y", "z"]
    after = run(model, feed)
    for name, array in before.items():
        assert after[name].dtype == np.float16
        assert np.abs(after[name].astype(np.float32) - array).max() <= 0.01 * np.abs(array).max()


def test_branches_are_widened_too() -> None:
    text = """
    g (bool c, float16[2,3] x) => (float16[2,3] y) {
        y = If(c) <
            then_branch = t () => (float16[2,3] u) { u = Add(x, one) },
            else_branch = e () => (float16[2,3] v) { v = Constant<value = float16[2,3] {15360,15360,16384,16384,15360,15360}>() }
        >
    }
    """
    model = build(text, one=np.array(1, np.float16))
    x = normal(2, 3).astype(np.float16)
    feeds = [{"c": np.array(flag), "x": x} for flag in (True, False)]
    before = [run(model, feed) for feed in feeds]
    compute_in_float32(model)
    for feed, wanted in zip(feeds, before, strict=True):
        assert np.allclose(run(model, feed)["y"].astype(np.float32), wanted["y"], atol=2e-3)


def test_weights_that_are_only_stored_so_do_not_count() -> None:
    text = """
    g (float[2,3] x) => (float[2,4] y) {
        h = Constant<value = float16 {16384}>()
        k = Cast<to=1>(h)
        w = Cast<to=1>(v)
        m = MatMul(x, w)
        y = Mul(m, k)
    }
    """
    assert not computes_in_halves(build(text, v=normal(3, 4).astype(np.float16)))


@pytest.mark.parametrize("output", ["x", "w"])
def test_what_is_handed_on_unchanged_keeps_its_type(output: str) -> None:
    text = f"g (float16[3] x) => (float16[3] y, float16[3] {output}) {{ y = Add(x, w) }}"
    model = build(text, w=normal(3).astype(np.float16))
    kept = ir.from_proto(ir.to_proto(model))
    compute_in_float32(model)
    assert [value.dtype for value in model.graph.outputs] == [ir.DataType.FLOAT16] * 2
    assert_same_outputs(kept, model, {"x": normal(3, seed=2).astype(np.float16)}, rtol=2e-3)


@pytest.mark.parametrize("kind", ["float", "bfloat16"])
def test_bfloat16_is_computed_in_float32_inputs_and_outputs_included(kind: str, tmp_path: Path) -> None:
    text = f"""g ({kind}[2,8] x) => ({kind}[2,4] y) {{
        n = Cast<to=16>(x)
        m = MatMul(n, w)
        r = Relu(m)
        y = {"Cast<to=1>(r)" if kind == "float" else "Identity(r)"}
    }}"""
    weight = normal(8, 4, seed=1)
    proto = build_proto(text, opset=17)
    proto.graph.initializer.append(
        onnx.helper.make_tensor("w", onnx.TensorProto.BFLOAT16, weight.shape, weight.ravel())
    )
    onnx.save(proto, tmp_path / "model.onnx")
    model = fit_to_engine(read_onnx(tmp_path / "model.onnx"), tmp_path / "model.onnx")
    x = normal(2, 8)
    np.testing.assert_allclose(run(model, {"x": x})["y"], np.maximum(x @ weight, 0), atol=0.05)


def test_rounding_to_bfloat16_alone_stays() -> None:
    model = build("g (float[2,8] x) => (float[2,8] y) { n = Cast<to=16>(x) y = Cast<to=1>(n) }")
    assert not replace_bfloat16(model)


def test_sequences_stay_sequences() -> None:
    text = "g (float16[2,3] x) => (float16[1,3] y) { s = SplitToSequence(x) t = SequenceAt(s, one) y = Relu(t) }"
    before, after = build(text, one=np.array(1)), build(text, one=np.array(1))
    compute_in_float32(after)
    assert after.graph[1].outputs[0].type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))
    assert_same_outputs(before, after, random_feed(before), rtol=0)


def test_names_that_the_model_has_are_not_taken() -> None:
    text = (
        "g (float16[2,3] x) => (float16[2,3] y) { x_float32 = Relu(x) y_float32 = Neg(x_float32) y = Exp(y_float32) }"
    )
    before, after = build(text), build(text)
    after.graph[0].name, after.graph[1].name = "x_float32_cast", "y_cast"
    compute_in_float32(after)
    onnx.checker.check_model(ir.to_proto(after))
    assert_same_outputs(before, after, random_feed(before), rtol=1e-3)
