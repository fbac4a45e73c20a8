from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import FormatError
from converter_lite.formats.onnx import writer
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.qdq.materialize import required_opset
from tests.quantization.cases import CASES
from tests.quantization.test_weight_only import all_kinds, weights
from tests.support import assert_same_outputs, build, build_proto, full, normal, random_feed, run, since, written


@pytest.mark.parametrize(("bits", "opset"), [(4, 21), (8, 13), (16, 21)])
def test_the_operator_set_is_raised_as_far_as_the_plan_needs(bits: int, opset: int, tmp_path: Path) -> None:
    quantized = weights(all_kinds(13), bits=bits)
    assert required_opset(quantized.plan) == opset
    path = writer.save(qdq_model(quantized), tmp_path / "out.onnx")[0]
    proto = onnx.load(path)
    assert proto.opset_import[0].version == opset
    assert proto.ir_version >= onnx.helper.find_min_ir_version_for(list(proto.opset_import))
    writer.check(path)


@since("onnxruntime", 1, 21, reason="knows no newer operator set")
def test_a_newer_operator_set_is_kept() -> None:
    model = build("g (float[1,8] x) => (float[1,8] y) { y = MatMul(x, w) }", opset=22, ir_version=10, w=normal(8, 8))
    assert qdq_model(full(model)).graph.opset_imports[""] == 22


def test_old_models_are_raised_for_scales_per_channel() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { a = Conv(x, w, b) y = Relu(a) }",
        opset=11,
        w=normal(4, 3, 3, 3),
        b=normal(4),
    )
    result = written(full(model, bias_correction=True))
    assert result.graph.opset_imports[""] == 13
    feed = random_feed(model)
    np.testing.assert_allclose(run(result, feed)["y"], run(model, feed)["y"], atol=0.2)


def test_the_same_model_gives_the_same_bytes_and_loads_as_it_was(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        model = qdq_model(full(CASES["Concat"].model(), method="MSE", bias_correction=True))
        files.append(writer.save(model, tmp_path / f"{name}.onnx")[0])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert_same_outputs(model, files[0], random_feed(model), rtol=0)


def test_inner_shapes_are_left_out_and_the_interface_is_kept(tmp_path: Path) -> None:
    proto = onnx.load(writer.save(written(full(CASES["Conv"].model())), tmp_path / "out.onnx")[0])
    assert not proto.graph.value_info
    assert [value.name for value in (*proto.graph.input, *proto.graph.output)] == ["x", "y"]
    assert (proto.producer_name, proto.producer_version) == ("converter_lite", "")


def test_large_constants_go_into_a_second_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SINGLE_FILE_LIMIT", 10_000)
    model = build("g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }", w=normal(64, 64))
    path, data = writer.save(model.clone(), tmp_path / "out.onnx")
    assert data == tmp_path / "out.onnx.data"
    assert path.stat().st_size < 1000
    assert not onnx.load(path, load_external_data=False).graph.value_info
    assert data.stat().st_size >= 64 * 64 * 4
    writer.check(path)
    assert_same_outputs(model, path, random_feed(model), rtol=0)


def test_constants_in_files_are_copied_while_others_read_them(tmp_path: Path) -> None:
    proto = build_proto("g (float[1,64] x) => (float[1,64] y) { y = MatMul(x, w) }", w=normal(64, 64))
    onnx.save(proto, tmp_path / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=0)
    model = ir.load(tmp_path / "in.onnx")
    stored = model.graph.initializers["w"].const_value
    assert isinstance(stored, ir.ExternalTensor)
    view = stored.numpy()
    (path,) = writer.save(model, tmp_path / "out.onnx")
    np.testing.assert_array_equal(view, normal(64, 64))
    assert_same_outputs(tmp_path / "in.onnx", path, random_feed(ir.load(path)), rtol=0)


def test_constants_of_a_branch_count_for_the_size_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SINGLE_FILE_LIMIT", 10_000)
    text = "g (bool c, float[1,64] x) => (float[1,64] y) { y = If(c) <then_branch = a () => (float[1,64] t) "
    text += "<float[64,64] w> { t = MatMul(x, w) }, else_branch = b () => (float[1,64] e) { e = Neg(x) }> }"
    proto = build_proto(text)
    inner = proto.graph.node[0].attribute[0].g
    del inner.initializer[:]
    inner.initializer.append(onnx.numpy_helper.from_array(normal(64, 64), "w"))
    model = ir.from_proto(proto)
    path, data = writer.save(model.clone(), tmp_path / "out.onnx")
    assert data.stat().st_size >= 64 * 64 * 4
    feed = {"c": np.array(True), "x": normal(1, 64)}
    np.testing.assert_array_equal(run(path, feed)["y"], run(model, feed)["y"])


def test_a_damaged_file_is_found_when_it_is_read_back(tmp_path: Path) -> None:
    proto = ir.to_proto(build("g (float[3] x) => (float[3] y) { y = Neg(x) }"))
    proto.graph.node[0].input[0] = "nowhere"
    path = tmp_path / "out.onnx"
    onnx.save(proto, path)
    with pytest.raises(FormatError, match="the written file is not valid") as error:
        writer.check(path)
    assert error.value.where == str(path)


def test_an_output_whose_rank_is_unknown_is_left_to_the_runtime(tmp_path: Path) -> None:
    model = build("g (float[6] x, int64[n] sizes) => (float y) { y = Reshape(x, sizes) }")
    model.graph.outputs[0].shape = None
    path = writer.save(model, tmp_path / "out.onnx")[0]
    assert not onnx.load(path).graph.output[0].type.tensor_type.HasField("shape")
    writer.check(path)
    assert run(path, {"x": normal(6), "sizes": np.array([2, 3])})["y"].shape == (2, 3)


def test_operators_of_other_domains_are_left_to_the_runtime(tmp_path: Path) -> None:
    proto = ir.to_proto(build("g (float[3] x) => (float[3] y) { y = Neg(x) }"))
    proto.graph.node[0].domain = "com.microsoft"
    proto.graph.node[0].op_type = "Gelu"
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    path = tmp_path / "out.onnx"
    onnx.save(proto, path)
    writer.check(path)
