"""Calibration data and models that are wrong, through the command line: what is said, and that nothing is written."""

import json
from collections.abc import Callable
from pathlib import Path
from time import sleep

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Config, Workshop, changed, model_proto, write_bins, write_pictures
from tests.support import normal

PICTURES = {
    "common_quant_param": {"quant_type": "FULL_QUANT"},
    "data_preprocess_param": {
        "calibrate_path": "x:pictures",
        "calibrate_size": "3",
        "input_type": "IMAGE",
        "image_to_format": "RGB",
        "normalize_mean": "[127.5, 127.5, 127.5]",
        "normalize_std": "[127.5, 127.5, 127.5]",
    },
}


def data(config: Config, **keys: str) -> dict[str, dict[str, str]]:
    """The configuration with other data keys; an empty text takes a key out."""
    result = changed(config, data_preprocess_param=keys)
    result["data_preprocess_param"] = {key: text for key, text in result["data_preprocess_param"].items() if text}
    return result


@pytest.mark.parametrize(
    ("config", "status", "message"),
    [
        (data(FULL, calibrate_path=""), 2, "calibrate_path"),
        (data(FULL, calibrate_size=""), 2, "calibrate_size"),
        (data(FULL, input_type=""), 2, "input_type"),
        (data(FULL, calibrate_size="0"), 2, "calibrate_size"),
        (data(FULL, calibrate_size="65536"), 2, "65535"),
        (data(FULL, calibrate_size="5"), 1, "4"),
        (data(FULL, calibrate_path="y:bins"), 1, "'y'"),
        (data(FULL, calibrate_path="xx:bins"), 1, "did you mean 'x'?"),
        (data(FULL, calibrate_path="x:absent"), 1, "absent"),
        (data(FULL, calibrate_path="x:model.onnx"), 1, "model.onnx"),
        (data(FULL, calibrate_path="x:bins,z:bins"), 1, "'z'"),
        (data(FULL, calibrate_path="bins"), 2, "calibrate_path"),
        (data(FULL, input_type="BINARY"), 2, "did you mean"),
        (data(FULL, input_type="IMAGE"), 1, "000.bin"),
        (data(PICTURES, input_type="BIN"), 1, "bytes"),
        (data(PICTURES, calibrate_size="4"), 1, "pictures"),
        (data(PICTURES, normalize_std="[1, 0, 1]"), 2, "normalize_std"),
        (data(PICTURES, normalize_std="[1, 1]"), 2, "normalize_"),
        (data(PICTURES, normalize_std=""), 2, "normalize_std"),
        (data(PICTURES, image_to_format="RGBA"), 2, "image_to_format"),
        (data(PICTURES, image_to_format="GRAY", normalize_mean="[1]", normalize_std="[1]"), 1, "1 channel"),
        (data(PICTURES, center_crop_width="9", center_crop_height="9"), 1, "center_crop"),
        (data(PICTURES, resize_width="7", resize_height="7", resize_method="LINEAR"), 1, "7x7"),
        (data(PICTURES, resize_width="7"), 2, "resize_"),
        (data(PICTURES, resize_width="8", resize_height="8", resize_method="AREA"), 2, "resize_method"),
    ],
)
def test_wrong_data_settings_are_reported(workshop: Workshop, config: Config, status: int, message: str) -> None:
    write_pictures(workshop.folder / "pictures", 3)
    assert message in workshop.fail(status, config=config)


def test_pictures_calibrate(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 3)
    assert "pictures as RGB, normalized, NCHW" in workshop.succeed(config=PICTURES).out


def test_an_unreadable_picture_is_named(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 3)
    (workshop.folder / "pictures/001.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 50)
    assert "001.png" in workshop.fail(1, config=PICTURES)


def test_a_truncated_picture_is_named(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 3)
    path = workshop.folder / "pictures/002.png"
    path.write_bytes(path.read_bytes()[:100])
    assert "002.png" in workshop.fail(1, config=PICTURES)


def test_a_stray_file_among_the_pictures_is_named(workshop: Workshop) -> None:
    write_pictures(workshop.folder / "pictures", 3)
    (workshop.folder / "pictures/000.txt").write_text("labels", encoding="utf-8")
    assert "000.txt" in workshop.fail(1, config=PICTURES)


@pytest.mark.parametrize("size", [0, 1, 767, 769, 1536])
def test_a_bin_of_the_wrong_size_is_named(workshop: Workshop, size: int) -> None:
    (workshop.folder / "bins/002.bin").write_bytes(bytes(size))
    message = workshop.fail(1, config=FULL)
    assert "002.bin" in message
    assert f"{size} bytes" in message


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_data_that_are_not_finite_are_refused_with_the_file_or_the_sample(workshop: Workshop, value: float) -> None:
    values = np.fromfile("bins/001.bin", np.float32)
    values[7] = value
    values.tofile("bins/001.bin")
    message = workshop.fail(1, config=FULL)
    assert ("bins/001.bin: " if np.isnan(value) else "tensor x, sample 2: ") in message


@pytest.mark.parametrize(("layout", "scale"), [("NHWC", 8.0), ("NCHW", 8.0)])
def test_bin_files_are_read_in_the_layout_that_is_asked_for(workshop: Workshop, layout: str, scale: float) -> None:
    # Only the first channel is large; the range of its first product tells whether the axes were understood.
    graph = "g (float[1,3,8,8] x) => (float[1,3,8,8] y) { c = Conv<group = 3>(x, w) y = Relu(c) }"
    onnx.save(model_proto(graph, w=np.array([1, 0, 0], np.float32).reshape(3, 1, 1, 1)), workshop.model)
    for path in (workshop.folder / "bins").iterdir():
        sample = np.random.default_rng(1).uniform(0, 1, (1, 8, 8, 3)).astype(np.float32)
        sample[..., 0] *= scale
        sample[0, 0, 0, 0] = scale
        (sample if layout == "NHWC" else np.ascontiguousarray(sample.transpose(0, 3, 1, 2))).tofile(path)
    out = workshop.succeed(f"--inputDataFormat={layout}", "--savePlan=plan.json", config=FULL).out
    assert f"BIN files are read as {layout}" in out
    plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))["ONNX"]
    assert plan["activations"]["y"]["scale"] == pytest.approx(scale / 255, rel=0.02)


def test_token_ids_calibrate_from_int64_files(workshop: Workshop) -> None:
    graph = "g (int64[1,6] ids) => (float[1,6,4] y) { e = Gather(table, ids) y = MatMul(e, w) }"
    onnx.save(model_proto(graph, table=normal(30, 8), w=normal(8, 4)), workshop.model)
    folder = workshop.folder / "ids"
    folder.mkdir()
    for index in range(3):
        np.random.default_rng(index).integers(0, 30, (1, 6)).astype(np.int64).tofile(folder / f"{index}.bin")
    config = data(FULL, calibrate_path="ids:ids", calibrate_size="3")
    workshop.succeed(config=config)
    (folder / "1.bin").write_bytes(bytes(24))
    assert "1.bin" in workshop.fail(1, config=config)


def test_several_inputs_are_calibrated_together(workshop: Workshop) -> None:
    graph = "g (float[1,4] left, float[1,4] right) => (float[1,5] y) { s = Add(left, right) y = MatMul(s, w) }"
    onnx.save(model_proto(graph, w=normal(4, 5)), workshop.model)
    write_bins(workshop.folder / "l", 3, (1, 4))
    write_bins(workshop.folder / "r r", 3, (1, 4))
    config = data(FULL, calibrate_path="left:l,right:'r r'", calibrate_size="3")
    workshop.succeed(config=config)
    assert "right" in workshop.fail(1, config=data(config, calibrate_path="left:l"))
    (workshop.folder / "l/001.bin").unlink()
    assert "left" in workshop.fail(1, config=data(config, calibrate_size="3"))


@pytest.mark.parametrize(
    "content", [b"", b"\0", b"no model", b"\x08\x07", bytes(range(256)), b"PK\x03\x04" + bytes(100)]
)
def test_a_file_that_is_no_model_is_named(workshop: Workshop, content: bytes) -> None:
    workshop.model.write_bytes(content)
    assert "ERROR model.onnx: " in workshop.fail(1)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
def test_a_truncated_model_is_named(workshop: Workshop, share: float) -> None:
    whole = workshop.model.read_bytes()
    workshop.model.write_bytes(whole[: int(len(whole) * share)])
    assert "model.onnx" in workshop.fail(1)


@pytest.mark.parametrize("model", ["absent.onnx", "bins", "model.onnx/inside"])
def test_a_model_that_is_not_there_is_named(workshop: Workshop, model: str) -> None:
    assert model.split("/")[0] in workshop.fail(1, model=model)


@pytest.mark.parametrize("optimize", ["none", "general"])
@pytest.mark.parametrize("config", [None, FULL, WEIGHT, data({**WEIGHT, **FULL}, calibrate_size="2"), DYNAMIC])
def test_a_model_with_external_data_gives_the_same_file(workshop: Workshop, config: Config, optimize: str) -> None:
    (workshop.folder / "elsewhere").mkdir()
    workshop.succeed(f"--optimize={optimize}", config=config)
    onnx.save(
        onnx.load("model.onnx"), "elsewhere/m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0
    )
    workshop.succeed(
        f"--optimize={optimize}", "--json=r.json", model="elsewhere/m.onnx", config=config, output="new/out"
    )
    assert Path("new/out.onnx").read_bytes() == Path("out.onnx").read_bytes()
    given = json.loads(Path("r.json").read_text(encoding="utf-8"))["model_bytes"]
    assert given == Path("elsewhere/m.onnx").stat().st_size + Path("elsewhere/m.bin").stat().st_size


@pytest.mark.parametrize("optimize", ["none", "general"])
def test_threads_may_meet_in_the_first_read_of_external_data(
    workshop: Workshop, optimize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load: Callable[[ir.ExternalTensor], None] = ir.ExternalTensor._load

    def slowly(tensor: ir.ExternalTensor) -> None:
        sleep(0.02)
        load(tensor)

    workshop.succeed(f"--optimize={optimize}", config=FULL)
    monkeypatch.setattr(ir.ExternalTensor, "_load", slowly)
    onnx.save(onnx.load("model.onnx"), "big.onnx", save_as_external_data=True, location="big.bin", size_threshold=0)
    workshop.succeed(f"--optimize={optimize}", "--threads=2", model="big.onnx", config=FULL, output="new")
    assert Path("new.onnx").read_bytes() == Path("out.onnx").read_bytes()


def test_external_data_that_are_missing_are_named(workshop: Workshop) -> None:
    onnx.save(onnx.load("model.onnx"), "big.onnx", save_as_external_data=True, location="big.bin", size_threshold=0)
    Path("big.bin").unlink()
    assert "big.bin" in workshop.fail(1, model="big.onnx")


@pytest.mark.parametrize("config", [FULL, WEIGHT, DYNAMIC])
def test_a_model_that_is_quantized_already_is_refused(workshop: Workshop, config: Config) -> None:
    workshop.succeed(config=FULL, output="quantized")
    assert "quantized already" in workshop.fail(1, model="quantized.onnx", config=config)


def test_a_quantized_model_can_be_converted_without_quantization(workshop: Workshop) -> None:
    workshop.succeed(config=FULL, output="quantized")
    workshop.succeed(model="quantized.onnx")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("config", [FULL, WEIGHT])
def test_weights_that_are_not_finite_are_named(workshop: Workshop, value: float, config: Config) -> None:
    weight = normal(20, 3, 3, 3)
    weight[3, 1, 0, 0] = value
    onnx.save(model_proto(w_conv=weight), workshop.model)
    message = workshop.fail(1, config=config)
    assert "constant w_conv" in message or "tensor" in message


def test_an_unknown_operator_is_named_with_the_nearest(workshop: Workshop) -> None:
    proto = model_proto()
    proto.graph.node[1].op_type = "Relux"
    onnx.save(proto, workshop.model)
    message = workshop.fail(1)
    assert "Relux" in message
    assert "Relu" in message


SKIPPED = {
    "node_conv_out": {"Conv"},
    "conv_out": {"Conv"},
    "node_y": {"Gemm"},
    "y": {"Gemm"},
    "node_conv_out, node_y": {"Conv", "Gemm"},
    " node_y ,conv_out ": {"Conv", "Gemm"},
}


@pytest.mark.parametrize(("names", "left"), SKIPPED.items())
def test_skipped_nodes_stay_float_by_node_or_tensor_name(workshop: Workshop, names: str, left: set[str]) -> None:
    outcome = workshop.convert(config=changed(WEIGHT, common_quant_param={"skip_quant_node": names}))
    if left == {"Conv", "Gemm"}:
        assert outcome.status == 1
        assert "2 x named in skip_quant_node" in outcome.err
        return
    assert outcome.status == 0
    nodes = onnx.load("out.onnx").graph.node
    dequantized = {node.output[0] for node in nodes if node.op_type == "Mul"}
    assert {n.op_type for n in nodes if n.op_type in ("Conv", "Gemm") and n.input[1] not in dequantized} == left


def test_a_skipped_name_of_a_folded_node_finds_the_node_that_took_it_in(workshop: Workshop) -> None:
    graph = (
        "g (float[N,3,8,8] x) => (float[N,20,8,8] y) { c = Conv<pads=[1,1,1,1]>(x, w_conv)"
        " n = BatchNormalization(c, s, b, m, v) e = Identity(n) r = Relu(e) y = Conv<pads=[1,1,1,1]>(r, w2) }"
    )
    ones = np.ones(20, np.float32)
    onnx.save(model_proto(graph, s=ones, b=ones, m=ones, v=ones, w2=normal(20, 20, 3, 3)), workshop.model)
    for name in ("node_n", "n"):
        config = changed(FULL, common_quant_param={"skip_quant_node": name})
        assert "1 x named in skip_quant_node" in workshop.succeed("--minCosine=-1", config=config).out, name
    for name in ("node_e", "e"):
        assert (
            workshop.convert(
                "--minCosine=-1", config=changed(FULL, common_quant_param={"skip_quant_node": name})
            ).status
            == 0
        )


def test_unknown_names_to_skip_are_all_reported_with_the_nearest(workshop: Workshop) -> None:
    config = changed(FULL, common_quant_param={"skip_quant_node": "node_conv,node_y,nod_y,quite_different"})
    message = workshop.fail(2, config=config)
    assert "'node_conv'; did you mean node_conv_out?" in message
    assert "'nod_y'; did you mean node_y?" in message
    assert "'quite_different'" in message
    assert "'node_y'" not in message
    assert message.count("quant.cfg:3") == 3


def test_names_with_blanks_and_letters_of_any_script_can_be_skipped(workshop: Workshop) -> None:
    proto = model_proto()
    proto.graph.node[0].name = "свёртка 1/卷积"
    proto.graph.node[-1].name = "fc layer"
    onnx.save(proto, "м 型.onnx")
    config = changed(WEIGHT, common_quant_param={"skip_quant_node": "свёртка 1/卷积"})
    out = workshop.succeed("-v", config=config, model="м 型.onnx", output="вывод 1").out
    assert "свёртка 1/卷积 (Conv): float - named in skip_quant_node" in out
    assert "fc layer (Gemm): weight" in out
