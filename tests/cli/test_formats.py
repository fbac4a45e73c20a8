"""Three output formats on the command line: together, alone, from quantized models, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.mindspore_lite.enums import Compression
from converter_lite.formats.mindspore_lite.importer.reader import read
from tests.cli.workshop import DYNAMIC, FULL, WEIGHT, Config, Workshop, changed, command, model_proto
from tests.support import build_proto, normal, operators, positive

ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"
SUFFIXES = {"MINDIR_LITE": ".ms", "ONNX": ".onnx", "NAIVE_BUFFER": ".nb"}


def written(workshop: Workshop) -> set[str]:
    return {path.name for path in workshop.folder.iterdir() if path.suffix in SUFFIXES.values()} - {"model.onnx"}


@pytest.mark.parametrize("config", [None, FULL, WEIGHT], ids=["float", "full", "weight"])
def test_three_formats_come_from_one_run_each_with_its_proof(workshop: Workshop, config: Config | None) -> None:
    out = workshop.succeed(ALL, "--json=r.json", config=config).out
    assert written(workshop) == {"out.ms", "out.onnx", "out.nb"}
    artefacts = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert [artefact["format"] for artefact in artefacts] == list(SUFFIXES)
    for artefact in artefacts:
        assert artefact["path"] == f"out{SUFFIXES[artefact['format']]}"
        assert artefact["bytes"] == Path(artefact["path"]).stat().st_size
        assert artefact["accuracy"][0]["cosine"] > (0.9999 if config is None else 0.99)
    assert "batch 1 in the .ms file" in out


def test_equal_node_counts_of_several_formats_are_printed_once(workshop: Workshop) -> None:
    out = workshop.succeed("--saveType=MINDIR_LITE,ONNX", config=FULL).out
    assert out.count("nodes: 5 read, 5 after optimization") == 1


def test_the_default_is_a_ms_file_and_an_onnx_file(workshop: Workshop) -> None:
    outcome = command("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out.ms")
    assert outcome.status == 0, outcome
    assert written(workshop) == {"out.ms", "out.onnx"}
    assert onnx.load("out.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_if_one_format_fails_there_is_none(workshop: Workshop) -> None:
    onnx.save(build_proto("g (float[2,2] x) => (float y) { y = Det(x) }"), workshop.model)
    for formats in ("MINDIR_LITE,ONNX", "ONNX,NAIVE_BUFFER"):
        message = workshop.fail(1, f"--saveType={formats}")
        assert "Det" in message
    assert "--saveType=ONNX" in workshop.fail(1, "--saveType=MINDIR_LITE,ONNX")
    assert "Det" in workshop.fail(1, "--saveType=MINDIR_LITE", "--dryRun")


@pytest.mark.parametrize("encode", ["true", "false"])
def test_integers_without_gaps_are_written_only_where_encodings_are_wanted(workshop: Workshop, encode: str) -> None:
    graph = "g (float[1,64,8,8] x) => (float[1,64,4,4] y) { h = Conv<group=64>(x, w) y = Conv(h, v) }"
    onnx.save(build_proto(graph, w=normal(64, 1, 5, 5), v=normal(64, 64, 1, 1)), workshop.model)
    config = changed(WEIGHT, common_quant_param={"enable_encode": encode, "min_quant_weight_channel": "0"})
    workshop.succeed("--saveType=MINDIR_LITE", config=config)
    weights = [t for t in read(Path("out.ms").read_bytes()).tensors if t.is_constant and t.quant is not None]
    assert len(weights) == 2
    assert all(t.compression is Compression.NONE for t in weights) == (encode == "false")


NORMALIZED = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[-1]>(q) a = Add(v, eps) \
s = Sqrt(a) n = Div(d, s) k = Mul(n, gamma) h = Add(k, beta)"
GELU = "z = Mul(h, inverse) e = Erf(z) p = Add(e, one) g = Mul(h, p) y = Mul(g, half)"
EXPORTED = {
    "eps": np.float32(1e-5),
    "gamma": positive(8),
    "beta": normal(8),
    "inverse": np.float32(0.5**0.5),
    "one": np.float32(1),
    "half": np.float32(0.5),
}


def test_normalizations_and_gelu_of_exporters_are_single_operators_of_a_ms_file(workshop: Workshop) -> None:
    graph = f"g (float[1,4,8] x) => (float[1,4,8] y) {{ {NORMALIZED} {GELU} }}"
    onnx.save(build_proto(graph, opset=13, **EXPORTED), workshop.model)
    workshop.succeed("--saveType=MINDIR_LITE")
    assert [node.op for node in read(Path("out.ms").read_bytes()).nodes] == ["LayerNormFusion", "Activation"]


def test_an_open_length_needs_a_shape_in_a_ms_file(workshop: Workshop) -> None:
    graph = "g (float[N,L,4] x) => (float[N,L,3] y) { y = MatMul(x, w) }"
    onnx.save(build_proto(graph, w=normal(4, 3)), workshop.model)
    message = workshop.fail(1, "--saveType=MINDIR_LITE")
    assert "x (dimension 1)" in message
    assert "--inputShape=x:1,128,4" in message
    workshop.succeed("--saveType=MINDIR_LITE", "--inputShape=x:1,7,4")
    workshop.succeed("--saveType=NAIVE_BUFFER")


@pytest.mark.parametrize(
    ("flags", "config", "message"),
    [
        (["--saveType=NAIVE_BUFFER"], DYNAMIC, "no dynamic quantization"),
        (["--saveType=NAIVE_BUFFER"], changed(WEIGHT, common_quant_param={"bit_num": "4"}), "8 or 16 bits"),
        (["--saveType=NAIVE_BUFFER", "--fp16=on"], None, "float16"),
        (["--saveType=NAIVE_BUFFER", "--inputDataType=INT8"], None, "--inputDataType=INT8"),
        (["--saveType=MINDIR_LITE", "--outputDataType=UINT8"], FULL, "--outputDataType=UINT8"),
        (["--saveType=MINDIR_LITE"], changed(FULL, full_quant_param={"target_device": "NVGPU"}), "NVGPU"),
        (["--saveType=NAIVE_BUFFER"], changed(FULL, full_quant_param={"target_device": "DSP"}), "DSP"),
        (["--msCompat=desktop"], None, "--msCompat"),
        (["--nbTarget=gpu"], None, "--nbTarget"),
        (["--saveType=NAIVE_BUFFER", "--nbTarget=x86", "--nbFp16=on"], None, "for ARM only"),
    ],
)
def test_what_a_format_does_not_have_is_refused_with_a_sentence(
    workshop: Workshop, flags: list[str], config: Config | None, message: str
) -> None:
    before = workshop.content().keys()
    outcome = workshop.convert(*flags, config=config)
    assert outcome.status in (1, 2)
    assert message in outcome.err
    assert workshop.content().keys() - {"quant.cfg"} == before


@pytest.mark.parametrize("save_type", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE"])
@pytest.mark.parametrize("half", [False, True])
def test_files_that_take_and_give_float32_may_be_asked_for_it(workshop: Workshop, save_type: str, half: bool) -> None:
    if half:
        graph = "g (float16[1,3,8,8] x) => (float16[1,3,8,8] y) { y = Relu(x) }"
        onnx.save(build_proto(graph), workshop.model)
    workshop.succeed(f"--saveType={save_type}", output="usual")
    workshop.succeed(f"--saveType={save_type}", "--inputDataType=FLOAT", "--outputDataType=FLOAT")
    for usual in workshop.folder.glob("usual*.*"):
        assert usual.read_bytes() == usual.with_stem(usual.stem.replace("usual", "out")).read_bytes()


def test_float16_constants_make_a_ms_file_smaller(workshop: Workshop) -> None:
    workshop.succeed("--saveType=MINDIR_LITE")
    half = workshop.succeed("--saveType=MINDIR_LITE", "--fp16=on", output="half")
    assert Path("half.ms").stat().st_size < Path("out.ms").stat().st_size
    assert "of several such files in a process" in half.out + half.err


def test_wheel_files_differ_from_device_files(workshop: Workshop) -> None:
    onnx.save(model_proto(w_fc=normal(5, 20)), workshop.model)
    for compat in ("device", "wheel"):
        workshop.succeed("--saveType=MINDIR_LITE", f"--msCompat={compat}", config=WEIGHT, output=compat)
    assert Path("device.ms").read_bytes() != Path("wheel.ms").read_bytes()


def test_the_target_of_a_nb_file_is_arm_unless_asked_otherwise(workshop: Workshop) -> None:
    workshop.succeed("--saveType=NAIVE_BUFFER", output="arm")
    workshop.succeed("--saveType=NAIVE_BUFFER", "--nbTarget=x86", output="x86")
    for name in ("arm", "x86"):
        assert command("inspect", f"{name}.nb").out.startswith(f"Paddle-Lite model: target {name},")


@pytest.mark.parametrize("config", [None, WEIGHT], ids=["float", "weight"])
def test_a_nb_file_with_float16_kernels_is_proven_with_its_rounding(workshop: Workshop, config: Config | None) -> None:
    cosines = []
    for half in ("off", "on"):
        flags = ("--saveType=NAIVE_BUFFER", f"--nbFp16={half}", "--infer=true", "--json=r.json")
        outcome = workshop.convert(*flags, config=config)
        assert outcome.status == 0, outcome
        assert ("operators that compute do so in float16" in outcome.err) == (half == "on")
        (artefact,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
        cosines.append(artefact["accuracy"][0]["cosine"])
    assert 0.999 < cosines[1] != cosines[0]


def test_a_full_quantization_has_no_float16_kernels_and_says_so(workshop: Workshop) -> None:
    outcome = workshop.convert("--saveType=NAIVE_BUFFER", "--nbFp16=on", config=FULL)
    assert outcome.status == 0
    assert "float16 kernels are not used beside them" in outcome.err
    assert "float16" not in command("inspect", "out.nb").out


def test_values_that_leave_the_range_of_float16_are_an_error(workshop: Workshop) -> None:
    graph = "g (float[2,3] x) => (float[2,3] y) { a = Mul(x, c) b = Mul(a, a) y = Relu(b) }"
    onnx.save(build_proto(graph, c=np.full(3, 3e4, np.float32)), workshop.model)
    workshop.succeed("--saveType=NAIVE_BUFFER", "--infer=true", output="float")
    assert "NaN or infinite" in workshop.fail(1, "--saveType=NAIVE_BUFFER", "--nbFp16=on", "--infer=true")


def test_an_x86_nb_file_of_a_full_quantization_holds_integer_weights_and_says_so(workshop: Workshop) -> None:
    outcome = workshop.convert("--saveType=NAIVE_BUFFER", "--nbTarget=x86", config=FULL)
    assert outcome.status == 0
    assert "WARNING x86: weights become int8" in outcome.err


@pytest.mark.parametrize("config", [None, FULL, WEIGHT, DYNAMIC], ids=["float", "full", "weight", "dynamic"])
def test_a_ms_file_becomes_onnx_again(workshop: Workshop, config: Config | None) -> None:
    workshop.succeed("--saveType=MINDIR_LITE", config=config)
    outcome = command("--fmk=MSLITE", "--modelFile=out.ms", "--outputFile=back", "--saveType=ONNX", "--json=r.json")
    assert outcome.status == 0, outcome
    (artefact,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert artefact["accuracy"][0]["cosine"] > 0.99999


@pytest.mark.parametrize("device", ["CPU", "ARM"])
def test_a_quantized_onnx_model_keeps_its_plan_in_each_format(workshop: Workshop, device: str) -> None:
    workshop.succeed("--saveType=ONNX", config=changed(FULL, full_quant_param={"target_device": device}))
    outcome = workshop.succeed(ALL, "--json=r.json", model="out.onnx", output="again")
    result = json.loads(Path("r.json").read_text(encoding="utf-8"))
    for artefact in result["artefacts"]:
        assert artefact["accuracy"][0]["cosine"] > 0.99, (device, artefact["format"])
    assert result["plans"]["MINDIR_LITE"]["quantized_nodes"] >= 2
    assert result["plans"]["NAIVE_BUFFER"]["quantized_nodes"] >= 2
    assert "MINDIR_LITE: " in outcome.out
    message = workshop.fail(1, ALL, config=WEIGHT, model="out.onnx", output="twice")
    assert "quantized already" in message


def test_plans_of_several_formats_are_saved_and_given_back(workshop: Workshop) -> None:
    workshop.succeed(ALL, "--savePlan=plan.json", config=FULL)
    assert list(json.loads(Path("plan.json").read_text(encoding="utf-8"))) == list(SUFFIXES)
    workshop.succeed(ALL, "--plan=plan.json", config=FULL, output="again")
    for suffix in SUFFIXES.values():
        assert Path(f"again{suffix}").stat().st_size == pytest.approx(Path(f"out{suffix}").stat().st_size, rel=0.01)


def test_a_dry_run_forecasts_every_format(workshop: Workshop) -> None:
    workshop.succeed(ALL, "--dryRun", "--json=r.json", config=FULL)
    result = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert list(result["forecast_bytes"]) == list(SUFFIXES)
    assert all(plan["quantized_nodes"] for plan in result["plans"].values())
    assert written(workshop) == set()


@pytest.mark.parametrize("config", [None, WEIGHT, FULL], ids=["float", "weight", "full"])
def test_the_forecast_of_device_files_is_what_they_take(workshop: Workshop, config: Config | None) -> None:
    workshop.succeed(ALL, "--dryRun", "--json=r.json", config=config)
    forecast = json.loads(Path("r.json").read_text(encoding="utf-8"))["forecast_bytes"]
    workshop.succeed(ALL, config=config)
    for name in ("MINDIR_LITE", "NAIVE_BUFFER"):
        assert forecast[name] == pytest.approx(Path(f"out{SUFFIXES[name]}").stat().st_size, rel=0.02)


@pytest.mark.parametrize("flags", [(), ("--msCompat=wheel",), ("--fp16=on",)], ids=["device", "wheel", "half"])
@pytest.mark.parametrize("bits", ["1", "4", "12"])
def test_the_forecast_of_packed_weights_is_what_they_take(
    workshop: Workshop, bits: str, flags: tuple[str, ...]
) -> None:
    config = changed(WEIGHT, common_quant_param={"bit_num": bits})
    workshop.succeed("--saveType=MINDIR_LITE", *flags, "--dryRun", "--json=r.json", config=config)
    forecast = json.loads(Path("r.json").read_text(encoding="utf-8"))["forecast_bytes"]["MINDIR_LITE"]
    workshop.succeed("--saveType=MINDIR_LITE", *flags, "--minCosine=-1", config=config)
    assert forecast == pytest.approx(Path("out.ms").stat().st_size, rel=0.02)


def test_debug_reports_have_a_folder_for_each_format(workshop: Workshop) -> None:
    workshop.succeed(ALL, config=changed(FULL, common_quant_param={"debug_info_save_path": "reports"}))
    assert {path.name for path in Path("reports").iterdir()} == {*SUFFIXES, "report.html"}


@pytest.mark.parametrize("suffix", SUFFIXES.values())
def test_a_file_can_be_inspected(workshop: Workshop, suffix: str) -> None:
    workshop.succeed(ALL, config=FULL)
    outcome = command("inspect", f"out{suffix}")
    assert (outcome.status, outcome.err) == (0, "")
    for text in ("8 bits" if suffix != ".nb" else "int8", "x"):
        assert text in outcome.out
    assert len(outcome.out.splitlines()) > 10


def test_what_cannot_be_inspected_is_reported(workshop: Workshop) -> None:
    Path("damaged.ms").write_bytes(b"MSL2" * 20)
    Path("damaged.nb").write_bytes(b"\2\0" * 20)
    for name, status in (("model.txt", 2), ("absent.ms", 1), ("damaged.ms", 1), ("damaged.nb", 1), ("absent.onnx", 1)):
        outcome = command("inspect", name)
        assert outcome.status == status, outcome
        assert outcome.err.startswith("ERROR ")
        assert name in outcome.err


def test_a_file_that_is_no_ms_file_is_named(workshop: Workshop) -> None:
    outcome = command("--fmk=MSLITE", "--modelFile=model.onnx", "--outputFile=back", "--saveType=ONNX")
    assert (outcome.status, outcome.err.splitlines()[0]) == (
        1,
        "ERROR model.onnx: this is not a MindSpore Lite model file",
    )


@pytest.mark.parametrize(
    ("flag", "kind"),
    [("--msCompat=wheel", "MINDIR_LITE"), ("--nbTarget=x86", "NAIVE_BUFFER"), ("--nbFp16=on", "NAIVE_BUFFER")],
)
def test_a_flag_for_a_kind_of_file_that_is_not_written_is_reported(flag: str, kind: str, workshop: Workshop) -> None:
    message = f"{flag} has no effect: --saveType does not name {kind}"
    told, silent = (
        workshop.convert(f"--saveType={kinds}", flag, "--dryRun", config=WEIGHT) for kinds in ("ONNX", kind)
    )
    assert (told.status, silent.status) == (0, 0)
    assert message in told.out + told.err
    assert message not in silent.out + silent.err


@pytest.mark.parametrize(("bits", "is_open"), [("0", True), ("6", False)])
def test_a_dry_run_says_where_its_size_is_only_a_bound(bits: str, is_open: bool, workshop: Workshop) -> None:
    config = changed(WEIGHT, common_quant_param={"bit_num": bits})
    told = workshop.succeed("--saveType=ONNX", "--dryRun", config=config).out
    assert ("its size is the largest possible" in told) == is_open


@pytest.mark.parametrize("strategy", ["", "ON_THE_FLY"])
def test_the_strategy_decides_and_files_of_both_kinds_keep_their_plan(workshop: Workshop, strategy: str) -> None:
    config = changed(WEIGHT, weight_quant_param={"dequant_strategy": strategy} if strategy else {})
    out = workshop.succeed(config=config).out
    first = Path("out.onnx").read_bytes()
    assert ("DequantizeLinear" in operators(ir.load("out.onnx"))) == bool(strategy)
    assert ("at every run, which" if strategy else "when a runtime loads the file") in out
    assert ("session.qdq_matmulnbits_accuracy_level" in out) == bool(strategy)
    Path("model.onnx").write_bytes(first)
    workshop.succeed(config=None, output="again")
    assert operators(ir.load("again.onnx")) == operators(ir.load("out.onnx"))
    assert strategy or Path("again.onnx").read_bytes() == first


def test_inspect_says_whether_weights_of_quantized_models_can_saturate(workshop: Workshop) -> None:
    full_grid = changed(FULL, common_quant_param={"portable": "false"})
    said = {}
    for name, flags, config in (
        ("grid", [], full_grid),
        ("uint8", ["--uint8Weights=on"], full_grid),
        ("pairs", [], FULL),
    ):
        workshop.succeed(*flags, config=config, output=name)
        said[name] = command("inspect", f"{name}.onnx").out
    assert "saturating on x86" in said["grid"]
    sentence = "no integer kernel of an x86 processor can saturate"
    assert [sentence in said[name] for name in ("grid", "uint8", "pairs")] == [False, True, True]
    assert "saturate" not in command("inspect", "model.onnx").out


@pytest.mark.parametrize(
    "flags",
    [
        ["--saveType=PADDLE", "--fp16=on"],
        ["--saveType=NAIVE_BUFFER", "--fp16=on"],
        ["--saveType=NAIVE_BUFFER", "--nbTarget=x86", "--nbFp16=on"],
        ["--saveType=NAIVE_BUFFER", "--inputDataType=INT8"],
        ["--saveType=PADDLE", "--outputDataType=UINT8"],
        ["--saveType=MINDIR_LITE", "--inputDataType=UINT8"],
    ],
)
def test_a_flag_that_the_format_does_not_have_is_a_wrong_command_line(workshop: Workshop, flags: list[str]) -> None:
    outcome = workshop.convert(*flags)
    assert outcome.status == 2
    assert f"ERROR {flags[-1]}: " in outcome.err


@pytest.mark.parametrize("kind", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE"])
def test_a_device_that_the_format_does_not_have_is_a_wrong_configuration(workshop: Workshop, kind: str) -> None:
    config = changed(FULL, full_quant_param={"target_device": "DSP"})
    assert workshop.convert(f"--saveType={kind}", config=config).status == 2
