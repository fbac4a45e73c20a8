"""What a run leaves: lines, statuses, the JSON result, files."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from converter_lite.runtime.engine import OnnxRuntimeEngine
from tests.cli.workshop import DYNAMIC, FULL, SUCCESS, WEIGHT, Workshop, changed, command, model_proto


def result(workshop: Workshop, name: str = "result.json") -> Any:
    return json.loads((workshop.folder / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("level", ["gpu_oriented", "ascend_oriented:Ascend310"])
def test_a_level_for_devices_says_that_it_does_what_the_usual_one_does(workshop: Workshop, level: str) -> None:
    out = workshop.succeed(f"--optimize={level}").out.splitlines()
    assert out[0].endswith(f"after optimization ({level.partition(':')[0]}: for every device the rules of general)")


def test_a_float_conversion_says_what_it_did(workshop: Workshop) -> None:
    out = workshop.succeed().out.splitlines()
    assert out[0] == "nodes: 5 read, 5 after optimization (general)"
    assert any(line.startswith("out.onnx: ") and "bytes" in line for line in out)
    assert any("16 random samples" in line for line in out)
    assert any(line.split()[:2] == ["y", "1.000000"] for line in out)
    assert out[-1] == SUCCESS


def test_a_quantization_says_what_is_quantized_and_what_is_left(workshop: Workshop) -> None:
    out = workshop.succeed(config=DYNAMIC).out
    assert "ONNX: 1 node quantized, 4 left" in out
    assert "3 x has no weight to quantize" in out
    assert "1 x its weights are so small that integers save nothing" in out


def test_the_written_file_is_what_was_proven(workshop: Workshop) -> None:
    workshop.succeed("--json=result.json", config=FULL)
    artefact = result(workshop)["artefacts"][0]
    feed = {"x": np.fromfile("bins/000.bin", np.float32).reshape(1, 8, 8, 3).transpose(0, 3, 1, 2)}
    engine = OnnxRuntimeEngine()
    expected, given = (engine.session(Path(name), threads=1).run(feed)["y"] for name in ("model.onnx", "out.onnx"))
    cosine = float(np.sum(expected * given) / np.linalg.norm(expected) / np.linalg.norm(given))
    assert cosine >= artefact["accuracy"][0]["least_cosine"] - 1e-6
    assert float(np.abs(expected - given).max()) <= artefact["accuracy"][0]["max_error"] + 1e-5


def test_the_json_result_of_a_success_is_complete(workshop: Workshop) -> None:
    workshop.succeed("--json=result.json", config=FULL)
    data = result(workshop)
    assert data["status"] == 0
    assert data["model_bytes"] == workshop.model.stat().st_size
    assert data["nodes"] == {"read": 5, "optimized": 5}
    assert data["warnings"] == []
    assert data["plans"]["ONNX"] == {
        "target": "CPU",
        "quantized_nodes": 5,
        "float_nodes": 0,
        "float_reasons": {},
        "weight_bits": {"8": ["w_conv", "w_fc"]},
    }
    assert data["peak_memory_bytes"] > 1e6
    assert set(data["versions"]) == {"python", "converter-lite", "numpy", "onnx", "onnx-ir", "onnxruntime"}
    artefact = data["artefacts"][0]
    assert (artefact["format"], artefact["path"]) == ("ONNX", "out.onnx")
    assert artefact["bytes"] == Path("out.onnx").stat().st_size
    assert (artefact["samples"], artefact["real_samples"]) == (4, True)
    assert set(artefact["accuracy"][0]) == {"name", "cosine", "least_cosine", "sqnr", "max_error", "max_value", "empty"}


def test_the_json_hash_is_that_of_the_file(workshop: Workshop) -> None:
    import hashlib

    workshop.succeed("--json=result.json")
    assert result(workshop)["artefacts"][0]["sha256"] == hashlib.sha256(Path("out.onnx").read_bytes()).hexdigest()


def test_the_json_result_holds_no_number_that_json_lacks(workshop: Workshop) -> None:
    workshop.succeed("--json=result.json", "--optimize=none")
    text = (workshop.folder / "result.json").read_text(encoding="utf-8")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON result"))
    assert result(workshop)["artefacts"][0]["accuracy"][0]["sqnr"] is None


@pytest.mark.parametrize(
    ("status", "flags", "config", "error"),
    [
        (
            1,
            (),
            WEIGHT | {"common_quant_param": {**WEIGHT["common_quant_param"], "min_quant_weight_size": "65535"}},
            "nothing",
        ),
        (1, ("--minCosine=1",), FULL, "quality gate"),
        (2, (), {"common_quant_param": {"quant_typ": "FULL_QUANT"}}, "quant_type"),
        (2, ("--threads=many",), FULL, "number of threads"),
        (2, ("--encryption=true",), None, "--encryption=true needs it"),
        (2, ("--fmk=OM",), None, "Ascend"),
    ],
)
def test_the_json_result_of_a_failure_says_why(
    workshop: Workshop, status: int, flags: tuple[str, ...], config: Any, error: str
) -> None:
    (workshop.folder / "result.json").write_text('{"status": 0}', encoding="utf-8")
    fmk = [] if any("fmk" in flag for flag in flags) else ["--fmk=ONNX"]
    if config is not None:
        from tests.cli.workshop import ini

        (workshop.folder / "quant.cfg").write_text(ini(config), encoding="utf-8")
        fmk.append("--configFile=quant.cfg")
    outcome = command(*fmk, "--modelFile=model.onnx", "--outputFile=out", "--json=result.json", *flags)
    assert outcome.status == status
    data = result(workshop)
    assert data["status"] == status
    assert error in data["error"] + " ".join(data["problems"])
    plain = {"status", "error", "where", "hint", "problems"}
    if "quality gate" in error:
        assert set(data) > {*plain, "accuracy", "rejected"}
        assert "artefacts" not in data
    else:
        assert set(data) == plain


def test_every_problem_of_a_configuration_is_in_the_json_result(workshop: Workshop) -> None:
    workshop.convert("--json=result.json", config="[common_quant_param]\nquant_type=NONE\nbit_num=99\nfoo=1\n[bar]\n")
    assert len(result(workshop)["problems"]) == 4


@pytest.mark.parametrize("output", ["/", ".", ".."])
def test_an_output_without_a_name_is_in_the_json_result_too(workshop: Workshop, output: str) -> None:
    assert workshop.convert("--json=result.json", output=output).status == 2
    assert "names a directory" in result(workshop)["error"]


@pytest.mark.parametrize("path", ["model.onnx", "./model.onnx", "quant.cfg", "out.onnx", "bins", "absent/"])
def test_the_json_result_overwrites_no_file_of_the_run(workshop: Workshop, path: str) -> None:
    workshop.succeed(config=FULL)
    workshop.fail(2, f"--json={path}", config=FULL)


def test_a_json_path_that_cannot_be_written_is_a_failure(workshop: Workshop) -> None:
    (workshop.folder / "file").write_text("", encoding="utf-8")
    message = workshop.fail(1, "--json=file/result.json", config=FULL)
    assert message.startswith("ERROR file: cannot write: ")
    assert "quantized" not in workshop.convert("--json=file/result.json", config=FULL).out  # told before the work
    assert message.count("ERROR") == 1


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--fkm=ONNX"], "No such option"),
        (["--fmk=ONNX", "--fmk=ONNX"], "given twice"),
        (["--fmk"], "requires an argument"),
        (["fmk=ONNX"], "neither a flag"),
        (["--configFile="], "empty"),
    ],
)
@pytest.mark.parametrize("form", [["--json=result.json"], ["--json", "result.json"]])
def test_the_json_result_of_an_earlier_run_does_not_outlive_a_command_line_that_is_not_understood(
    workshop: Workshop, flags: list[str], error: str, form: list[str]
) -> None:
    (workshop.folder / "result.json").write_text('{"status": 0}', encoding="utf-8")
    assert command(*form, "--modelFile=model.onnx", *flags).status == 2
    assert result(workshop)["status"] == 2
    assert error in result(workshop)["error"]


@pytest.mark.parametrize("line", [("compare", "model.onnx", "out.onnx"), ("sensitivity",), ("finetune",)])
def test_an_analysis_that_was_not_understood_replaces_an_earlier_result(
    workshop: Workshop, line: tuple[str, ...]
) -> None:
    Path("result.json").write_text('{"status": 0}', encoding="utf-8")
    assert command(*line, "--json=result.json", "--no").status == 2
    assert json.loads(Path("result.json").read_text(encoding="utf-8"))["status"] == 2


def test_a_command_without_a_result_writes_none(workshop: Workshop) -> None:
    for name in ("inspect", "doctor", "template", "overview"):
        assert command(name, "model.onnx", "--json=result.json").status == 2
    assert not Path("result.json").exists()


def test_results_of_a_batch_outlive_a_command_line_that_is_not_understood(workshop: Workshop) -> None:
    (workshop.folder / "batch_result.json").write_text("{}", encoding="utf-8")
    before = workshop.content()
    assert command("batch", "model.onnx", "--json=batch_result.json", "--outptDir=o").status == 2
    assert workshop.content() == before


def test_a_command_line_that_is_not_understood_overwrites_no_input(workshop: Workshop) -> None:
    before = workshop.content()
    assert command("--modelFile=model.onnx", "--json=model.onnx", "--fkm=ONNX").status == 2
    assert workshop.content() == before


@pytest.mark.parametrize(
    ("output", "written"), [("m", "m.onnx"), ("m.onnx", "m.onnx"), ("m.v1", "m.v1.onnx"), ("ü n", "ü n.onnx")]
)
def test_the_suffix_is_added_once(workshop: Workshop, output: str, written: str) -> None:
    before = set(workshop.content())
    workshop.succeed(output=output)
    assert set(workshop.content()) - before == {written}


def test_missing_folders_of_the_output_are_made(workshop: Workshop) -> None:
    workshop.succeed(output="a/b/out")
    assert (workshop.folder / "a/b/out.onnx").is_file()


def test_a_failure_leaves_no_new_folder(workshop: Workshop) -> None:
    workshop.fail(1, "--minCosine=1", config=FULL, output="a/b/out")


@pytest.mark.parametrize("output", ["model", "model.onnx", "./model", "bins/../model", "link"])
def test_an_output_that_would_overwrite_the_model_is_refused(workshop: Workshop, output: str) -> None:
    (workshop.folder / "link.onnx").symlink_to(workshop.model)
    assert "overwrite an input" in workshop.fail(2, output=output)


def test_an_output_that_would_overwrite_the_configuration_is_refused(workshop: Workshop) -> None:
    (workshop.folder / "c.onnx").write_text("[common_quant_param]\nquant_type=DYNAMIC_QUANT\n", encoding="utf-8")
    outcome = command("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=c", "--configFile=c.onnx")
    assert outcome.status == 2
    assert "overwrite an input" in outcome.err


def test_an_existing_output_is_replaced(workshop: Workshop) -> None:
    (workshop.folder / "out.onnx").write_bytes(b"old")
    workshop.succeed()
    onnx.checker.check_model("out.onnx")


def test_an_existing_read_only_output_is_replaced(workshop: Workshop) -> None:
    (workshop.folder / "out.onnx").write_bytes(b"old")
    (workshop.folder / "out.onnx").chmod(0o400)
    workshop.succeed()
    onnx.checker.check_model("out.onnx")


def test_an_existing_output_survives_a_failure(workshop: Workshop) -> None:
    (workshop.folder / "out.onnx").write_bytes(b"old")
    workshop.fail(1, "--minCosine=1", config=FULL)
    assert (workshop.folder / "out.onnx").read_bytes() == b"old"


@pytest.mark.skipif(os.name != "posix", reason="file modes are a matter of POSIX systems")
def test_a_written_model_can_be_read_by_everybody(workshop: Workshop) -> None:
    workshop.succeed()
    assert stat.S_IMODE((workshop.folder / "out.onnx").stat().st_mode) == 0o644


def test_a_file_in_place_of_the_output_folder_is_named(workshop: Workshop) -> None:
    (workshop.folder / "file").write_text("", encoding="utf-8")
    message = workshop.fail(1, output="file/out")
    assert "cannot write" in message
    assert "file" in message


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write into read-only folders")
def test_a_read_only_output_folder_is_named(workshop: Workshop) -> None:
    (workshop.folder / "locked").mkdir(mode=0o500)
    assert "Permission denied" in workshop.fail(1, output="locked/out")


def test_a_dry_run_writes_nothing_and_prints_the_plan(workshop: Workshop) -> None:
    before = workshop.content()
    out = workshop.succeed("--dryRun", config=WEIGHT, output="new/out").out
    after = workshop.content()
    del after["quant.cfg"]
    assert after == before
    assert "ONNX: 2 nodes quantized, 3 left" in out
    assert "ONNX: about " in out


def test_a_dry_run_refuses_a_configuration_that_quantizes_nothing(workshop: Workshop) -> None:
    onnx.save(model_proto("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"), workshop.model)
    assert "nothing would be quantized" in workshop.fail(1, "--dryRun", config=DYNAMIC)


@pytest.mark.parametrize(
    "config",
    [
        changed(FULL, common_quant_param={"quant_type": ""}),
        changed(WEIGHT, common_quant_param={"min_quant_weight_channel": "20", "min_quant_weight_size": "65535"}),
        changed(WEIGHT, common_quant_param={"skip_quant_node": "node_conv_out,node_y"}),
        changed(DYNAMIC, common_quant_param={"skip_quant_node": "node_y"}),
        changed(
            FULL, common_quant_param={"skip_quant_node": "node_conv_out,node_relu_out,node_pooled,node_flat,node_y"}
        ),
    ],
)
def test_nothing_quantized_is_no_success(workshop: Workshop, config: Any) -> None:
    outcome = workshop.convert(config=config)
    assert outcome.status in (1, 2)
    assert "SUCCESS" not in outcome.out


def test_nothing_quantized_gives_the_reasons(workshop: Workshop) -> None:
    config = changed(WEIGHT, common_quant_param={"min_quant_weight_size": "65535"})
    message = workshop.fail(1, config=config)
    assert "nothing would be quantized" in message
    assert "2 x its weight has at most min_quant_weight_size=65535 elements" in message


def test_what_the_filters_leave_out_is_named_with_its_price(workshop: Workshop) -> None:
    config = changed(WEIGHT, common_quant_param={"min_quant_weight_channel": "20"})
    price = 20 * 3 * 3 * 3 * (4 - 1)
    for flags in ((), ("--dryRun",)):
        outcome = workshop.succeed(*flags, config=config)
        assert f"about {price:,} bytes more: node_conv_out" in outcome.out


def test_debug_reports_are_written(workshop: Workshop) -> None:
    workshop.succeed(config=changed(FULL, common_quant_param={"debug_info_save_path": "reports/new"}))
    names = {path.name for path in (workshop.folder / "reports/new").iterdir()}
    assert names == {"quant_param.csv", "output_summary.csv", "report.html", *(f"round_{i}.csv" for i in range(4))}


def test_infer_runs_random_data_too(workshop: Workshop) -> None:
    workshop.succeed("--infer=true", config=FULL)
