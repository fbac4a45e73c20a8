from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.onnx import reader as frontend
from converter_lite.formats.onnx.reader import is_quantized, read_onnx
from converter_lite.graph import constant, find_nodes, opset
from converter_lite.passes import constant_folding, skeleton
from converter_lite.passes.input_shapes import fix_input_shapes
from converter_lite.passes.opset import raise_opset
from converter_lite.passes.pipeline import optimize
from tests.support import assert_same_outputs, build_proto, normal, operators, positive, random_feed, shared_model

NETWORK = """g (float[N,3,8,8] x) => (float[N,4] y) {
    c = Conv<pads = [1,1,1,1]>(x, w, b) n = BatchNormalization(c, gamma, beta, mean, var) r = Relu(n)
    a = AveragePool<kernel_shape = [2,2], strides = [2,2]>(r) g = GlobalAveragePool(a)
    f = Flatten(g) y = Softmax(f) }"""


def _network(version: int = 13, ir_version: int = 8) -> onnx.ModelProto:
    return build_proto(
        NETWORK,
        opset=version,
        ir_version=ir_version,
        w=normal(4, 3, 3, 3),
        b=normal(4),
        gamma=normal(4),
        beta=normal(4),
        mean=normal(4),
        var=positive(4),
    )


def _save(proto: onnx.ModelProto, folder: Path, **options: object) -> Path:
    path = folder / "model.onnx"
    onnx.save(proto, path, **options)
    return path


def _add_inputs_for_initializers(proto: onnx.ModelProto) -> None:
    for tensor in proto.graph.initializer:
        proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


@pytest.mark.parametrize("version", range(7, 22))
def test_every_opset_is_read_and_optimized(version: int, tmp_path: Path) -> None:
    path = _save(_network(version), tmp_path)
    model = read_onnx(path)
    assert opset(model) == max(version, 13)
    assert optimize(model).model is model
    assert "BatchNormalization" not in operators(model)
    assert_same_outputs(path, model, random_feed(model))


@pytest.mark.parametrize("version", range(22, onnx.defs.onnx_opset_version() + 1))
def test_opsets_that_runtimes_may_not_know_yet_are_read(version: int, tmp_path: Path) -> None:
    ir_version = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", version)])
    model = read_onnx(_save(_network(version, ir_version), tmp_path))
    optimize(model)
    assert opset(model) == version
    assert model.graph.outputs[0].shape is not None


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_are_no_inputs_any_more(ir_version: int, tmp_path: Path) -> None:
    proto = _network(8, ir_version)
    _add_inputs_for_initializers(proto)
    path = _save(proto, tmp_path)
    model = read_onnx(path)
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert_same_outputs(path, model, random_feed(model))


def test_values_have_shapes_and_nodes_have_names(tmp_path: Path) -> None:
    model = read_onnx(_save(_network(), tmp_path))
    assert [node.name for node in model.graph][:2] == ["Conv_0", "BatchNormalization_1"]
    assert all(value.shape is not None and value.dtype is not None for node in model.graph for value in node.outputs)


def test_nodes_are_found_by_the_modules_of_pytorch_that_they_come_from(tmp_path: Path) -> None:
    proto = build_proto(
        "g (float[1,2,4,4] x) => (float[1,3,4,4] z) { [node_Conv_26] y = Conv(x, w) [node_relu] z = Relu(y) }",
        w=normal(3, 2, 1, 1),
    )
    proto.graph.node[0].input[1] = proto.graph.initializer[0].name = "block.0.weight"
    for node, scopes in zip(proto.graph.node, ("['', 'block', 'block.1', 'norm']", "['', 'relu']"), strict=True):
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    graph = read_onnx(path).graph
    for name in ("block", "block.0", "block.0.weight", "block.1", "norm"):
        assert [node.op_type for node in find_nodes(graph, name)] == ["Conv"], name
    assert [node.op_type for node in find_nodes(graph, "relu")] == ["Relu"]
    assert find_nodes(graph, ", ") == []


def test_external_data_stay_on_disk_until_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skeleton, "DETACH_ABOVE", 64)
    path = _save(_network(), tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    model = read_onnx(path)
    assert isinstance(model.graph.initializers["w"].const_value, ir.ExternalTensor)
    optimize(model)
    assert_same_outputs(path, model, random_feed(model))


def test_small_constants_of_other_files_survive_a_newer_operator_set(tmp_path: Path) -> None:
    path = _save(_network(), tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = raise_opset(read_onnx(path), 18)
    assert_same_outputs(path, model, random_feed(model))


def test_nothing_large_is_serialized_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proto = build_proto(
        "g (float[N,3,8,8] x) => (float[N,4,6,6] y) { h = Cast<to = 1>(w) c = Conv(x, h, b) y = Relu(c) }",
        opset=10,
        w=normal(4, 3, 3, 3).astype(np.float16),
        b=normal(4),
    )
    path = _save(proto, tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    monkeypatch.setattr(skeleton, "DETACH_ABOVE", 64)
    monkeypatch.setattr(constant_folding, "FEED_ABOVE", 64)
    sizes: list[int] = []
    serialize = ir.serde.serialize_tensor
    monkeypatch.setattr(ir.serde, "serialize_tensor", lambda t: sizes.append(t.nbytes) or serialize(t))
    model = read_onnx(path)
    optimize(model)
    assert operators(model) == {"Conv": 1, "Relu": 1}
    assert max(sizes) <= 64
    assert_same_outputs(path, model, random_feed(model))


def test_nodes_in_any_order_are_sorted(tmp_path: Path) -> None:
    proto = _network()
    nodes = list(proto.graph.node)[::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    model = read_onnx(_save(proto, tmp_path))
    assert [node.op_type for node in model.graph][:2] == ["Conv", "BatchNormalization"]


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[3] x) => (float[3] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }"""
    )
    path = _save(proto, tmp_path)
    model = read_onnx(path)
    assert operators(model) == {"Add": 1}
    assert_same_outputs(path, model, random_feed(model))


def test_operators_of_other_domains_stay(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 12, "com.microsoft" : 1]>
        g (float[2,8] x) => (float[2,8] y) { a = com.microsoft.Gelu(x) b = Identity(a) y = Softmax(b) }"""
    )
    path = _save(proto, tmp_path)
    model = read_onnx(path)
    optimize(model)
    assert opset(model) == 13
    assert operators(model)["Gelu"] == 1
    assert_same_outputs(path, model, random_feed(model))


def test_a_model_that_cannot_be_raised_is_kept_when_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(model: ir.Model, target: int) -> ir.Model:
        raise ModelError("this cannot be raised")

    monkeypatch.setattr(frontend, "raise_opset", refuse)
    assert opset(read_onnx(_save(_network(11), tmp_path))) == 11
    assert "cannot be raised" in caplog.text
    with pytest.raises(ModelError, match="cannot be raised"):
        read_onnx(_save(_network(10), tmp_path))


def test_a_quantized_model_is_recognized(tmp_path: Path) -> None:
    proto = build_proto(
        "g (float[3] x) => (float[3] y) { q = QuantizeLinear(x, s) y = DequantizeLinear(q, s) }", s=np.float32(0.1)
    )
    assert is_quantized(read_onnx(_save(proto, tmp_path)))
    assert not is_quantized(read_onnx(_save(_network(), tmp_path)))


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist") as caught:
        read_onnx(tmp_path / "absent.onnx")
    assert "absent.onnx" in caught.value.where


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a device that never ends")
def test_a_device_is_no_model() -> None:
    with pytest.raises(ModelError, match="this is not a regular file"):
        read_onnx(Path("/dev/zero"))


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="directory"):
        read_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"this is some text\n" * 20, b"\x89PNG\r\n\x1a\n" + bytes(64), b"{}"])
def test_other_files_are_no_models(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not an ONNX model"):
        read_onnx(path)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_file_is_told_to_be_damaged(kept: float, tmp_path: Path) -> None:
    content = _network().SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(ModelError):
        read_onnx(path)


def test_missing_external_data_are_named(tmp_path: Path) -> None:
    path = _save(_network(), tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"'weights\.bin' is missing"):
        read_onnx(path)


def test_short_external_data_are_named(tmp_path: Path) -> None:
    path = _save(_network(), tmp_path, save_as_external_data=True, location="weights.bin", size_threshold=64)
    data = tmp_path / "weights.bin"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(ModelError, match="too short for tensor 'w'"):
        read_onnx(path)


def test_external_data_outside_the_folder_are_refused(tmp_path: Path) -> None:
    proto = _network()
    tensor = proto.graph.initializer[0]
    onnx.external_data_helper.set_external_data(tensor, "../secret.bin", 0, len(tensor.raw_data))
    tensor.ClearField("raw_data")
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="outside the model's folder"):
        read_onnx(path)


@pytest.mark.parametrize(
    ("version", "message"), [(0, "opset 0 has no such operator"), (999, "newer than the newest known")]
)
def test_unknown_opsets_are_refused(version: int, message: str, tmp_path: Path) -> None:
    proto = _network()
    proto.opset_import[0].version = version
    with pytest.raises(ModelError, match=message):
        read_onnx(_save(proto, tmp_path))


def test_unknown_operators_are_listed_with_the_nearest_one(tmp_path: Path) -> None:
    proto = build_proto("g (float[3] x) => (float[3] y) { a = Reluu(x) y = Sigmoidd(a) }")
    with pytest.raises(ModelError, match=r"Reluu_0 \(Reluu\), Sigmoidd_1 \(Sigmoidd\)") as caught:
        read_onnx(_save(proto, tmp_path))
    assert "Relu" in caught.value.hint


def test_an_operator_of_a_later_set_is_refused_with_that_set(tmp_path: Path) -> None:
    proto = build_proto("g (float[1,8,1] x) => (float[1,8,2] y) { y = DFT(x) }", opset=13)
    with pytest.raises(ModelError, match=r"opset 13 has no such operator: DFT_0") as caught:
        read_onnx(_save(proto, tmp_path))
    assert caught.value.hint == "it exists from opset 17 on"


def test_a_model_without_nodes_is_refused(tmp_path: Path) -> None:
    proto = build_proto("g (float[3] x) => (float[3] x) { }")
    with pytest.raises(ModelError, match="no nodes"):
        read_onnx(_save(proto, tmp_path))


def test_damaged_bytes_never_end_in_a_traceback(tmp_path: Path) -> None:
    """Damaged files are refused or read, and what is read can be optimized."""
    content = _network().SerializeToString()
    rng = np.random.default_rng(5)
    path = tmp_path / "model.onnx"
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for position in rng.integers(0, len(content), 3):
            damaged[position] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            optimize(read_onnx(path))
        except ModelError:
            refused += 1
    assert 50 < refused < 300


def test_a_value_that_nothing_computes_is_named(tmp_path: Path) -> None:
    proto = build_proto("g (float[3] x) => (float[3] y) { y = Add(x, absent) }")
    with pytest.raises(ModelError, match=r"Add_0 \(Add\) reads 'absent', which nothing computes"):
        read_onnx(_save(proto, tmp_path))


def test_an_output_that_nothing_computes_is_named(tmp_path: Path) -> None:
    proto = build_proto("g (float[3] x) => (float[3] y, float[3] z) { y = Relu(x) }")
    with pytest.raises(ModelError, match="nothing computes the output 'z'"):
        read_onnx(_save(proto, tmp_path))


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    proto = build_proto("g (float[3] x) => (float[3] y) { y = Add(x, a) a = Neg(y) }")
    with pytest.raises(ModelError, match="cycle"):
        read_onnx(_save(proto, tmp_path))


def test_a_tensor_with_too_few_numbers_is_named(tmp_path: Path) -> None:
    proto = _network()
    proto.graph.initializer[0].raw_data = bytes(8)
    with pytest.raises(ModelError, match="tensor 'w' are damaged"):
        read_onnx(_save(proto, tmp_path))


# --- input shapes -----------------------------------------------------------------------------------------------------

TWO_INPUTS = "g (float[batch,seq] a, float[batch,seq] b, float[?,2] c) => (float[batch,seq] y) { y = Add(a, b) }"


def _two_inputs(folder: Path) -> Path:
    return _save(build_proto(TWO_INPUTS), folder)


def test_a_shape_fixes_what_depends_on_it(tmp_path: Path) -> None:
    model = read_onnx(_save(_network(), tmp_path), input_shapes={"x": (2, 3, 8, 8)})
    assert model.graph.inputs[0].shape == (2, 3, 8, 8)
    assert model.graph.outputs[0].shape == (2, 4)
    assert model.graph.node(0).outputs[0].shape == (2, 4, 8, 8)


def test_a_named_dimension_is_the_same_at_every_input(tmp_path: Path) -> None:
    model = read_onnx(_two_inputs(tmp_path), input_shapes={"a": (1, -1)})
    shape = model.graph.inputs[1].shape
    assert shape is not None
    assert shape[0] == 1
    assert not isinstance(shape[1], int)


@pytest.mark.parametrize("unknown", ["?", "-1", ""])
def test_a_question_mark_is_no_name_of_a_size(unknown: str, tmp_path: Path) -> None:
    """As converters of PaddlePaddle write it at every open dimension."""
    proto = build_proto("g (float[N,3,N,N] x) => (float[N,3,N,N] y) { y = Relu(x) }")
    for value in (*proto.graph.input, *proto.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = unknown
    model = read_onnx(_save(proto, tmp_path), input_shapes={"x": (1, 3, 48, 320)})
    assert model.graph.outputs[0].shape == (1, 3, 48, 320)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"aa": (1, 2)}, "no input 'aa'"),
        ({"a": (1, 2, 3)}, r"'a' has 2 dimensions \(batch, seq\), not 3 \(1x2x3\)"),
        ({"c": (1, 3)}, "dimension 1 of input 'c' is 2, not 3"),
        ({"a": (1, 2), "b": (1, 3)}, r"dimension 1 of input 'b' is 2 \('seq' was set by another input\), not 3"),
        ({"a": (1, 0)}, "dimension 1 of input 'a' cannot be 0"),
        ({"a": (-2, 1)}, "dimension 0 of input 'a' cannot be -2"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: dict[str, tuple[int, ...]], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        read_onnx(_two_inputs(tmp_path), input_shapes=shapes)


def test_an_unknown_input_shows_the_nearest_one(tmp_path: Path) -> None:
    model = read_onnx(_save(_network(), tmp_path))
    model.graph.inputs[0].name = "input_ids"
    with pytest.raises(UsageError) as caught:
        fix_input_shapes(model, {"input_id": (1, 3, 8, 8)})
    assert caught.value.hint == "did you mean 'input_ids'?"


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "version"), [("mobilenet_v1_0.75_224", 13), ("ultraface_rfb_320", 13), ("minilm_l6_fp16_weights", 14)]
)
def test_real_models_are_read_at_a_working_opset(name: str, version: int) -> None:
    model = read_onnx(shared_model(f"{name}.onnx"))
    assert opset(model) == version
    assert "Constant" not in operators(model)
    weights = [constant(value) for value in model.graph.initializers.values()]
    assert all(weight is not None for weight in weights)


def test_several_constants_with_one_name_are_refused(tmp_path: Path) -> None:
    proto = build_proto("g (float[2,2] x) => (float[2,2] y) { y = MatMul(x, w) }", opset=17, w=normal(2, 2))
    proto.graph.initializer.append(proto.graph.initializer[0])
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="several initializers are called 'w'"):
        read_onnx(tmp_path / "model.onnx")


TINY = build_proto("g (float[2,2] x) => (float[2,2] y) { y = Relu(x) }", opset=17)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "unpack it first"),
        (b"<!DOCTYPE html>", "web page"),
        (b'{"irVersion": 8}', "JSON"),
        (onnx.printer.to_text(TINY).encode(), "format='onnxtxt'"),
        (str(TINY).encode(), "format='textproto'"),
    ],
    ids=["lfs", "gzip", "html", "json", "onnxtxt", "textproto"],
)
def test_files_of_other_kinds_are_told(content: bytes, hint: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_onnx(tmp_path / "model.onnx")
    assert hint in caught.value.hint


def test_a_sparse_constant_is_refused_by_name(tmp_path: Path) -> None:
    """onnx_ir drops it, and then nothing would compute what the node reads."""
    proto = build_proto("g (float[2,8] x) => (float[2,8] y) { y = MatMul(x, w) }", opset=17, w=normal(8, 8))
    del proto.graph.initializer[:]
    values, places = onnx.helper.make_tensor("w", 1, [2], [1.0, 2.0]), onnx.helper.make_tensor("i", 7, [2], [0, 9])
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [8, 8]))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="initializer 'w' is a sparse tensor, which is not read"):
        read_onnx(tmp_path / "m.onnx")


def test_a_sparse_constant_of_a_node_is_refused_by_name(tmp_path: Path) -> None:
    proto = build_proto(
        "g (float[2,8] x) => (float[2,8] y) { w = Constant<value_float=1.0>() y = Mul(x, w) }", opset=17
    )
    values, places = onnx.helper.make_tensor("w", 1, [1], [1.0]), onnx.helper.make_tensor("i", 7, [1], [3])
    proto.graph.node[0].CopyFrom(
        onnx.helper.make_node("Constant", [], ["w"], sparse_value=onnx.helper.make_sparse_tensor(values, places, [8]))
    )
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="constant 'w' is a sparse tensor, which is not read"):
        read_onnx(tmp_path / "m.onnx")


def test_maps_are_refused_by_name(tmp_path: Path) -> None:
    """skl2onnx puts the scores of a classifier into maps, unless it is told otherwise."""
    proto = build_proto("g (float[2,2] x) => (float[2,2] y) { y = Softmax(x) }", opset=17)
    scores = onnx.helper.make_map_type_proto(onnx.TensorProto.INT64, onnx.helper.make_tensor_type_proto(1, []))
    proto.graph.node.append(
        onnx.helper.make_node("ZipMap", ["y"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    )
    proto.graph.output.append(onnx.helper.make_value_info("z", onnx.helper.make_sequence_type_proto(scores)))
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="'z' holds maps") as caught:
        read_onnx(tmp_path / "m.onnx")
    assert "zipmap" in caught.value.hint


def test_a_function_with_the_name_of_a_standard_operator_is_refused(tmp_path: Path) -> None:
    proto = build_proto("g (float[2,2] x) => (float[2,2] y) { y = Relu(x) }", opset=17)
    body = onnx.helper.make_node("Neg", ["a"], ["b"])
    proto.functions.append(onnx.helper.make_function("", "Relu", ["a"], ["b"], [body], proto.opset_import))
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="the function Relu has the name of a standard operator"):
        read_onnx(tmp_path / "model.onnx")


def test_an_input_that_is_an_output_keeps_its_open_size(tmp_path: Path) -> None:
    """Exporters often write outputs without their sizes."""
    proto = build_proto("g (float[N,3] x) => (float[N,3] y, float x, float[3] w) { y = Mul(x, w) }", w=normal(3))
    for output in proto.graph.output[1:]:
        output.type.tensor_type.ClearField("shape")
    model = read_onnx(_save(proto, tmp_path))
    assert model.graph.inputs[0].shape == ("N", 3)
    assert [value.shape for value in model.graph.outputs] == [("N", 3), ("N", 3), (3,)]
