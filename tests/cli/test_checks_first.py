"""What is known without reading the model, or without running it, is said at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workshop import FULL, WEIGHT, Workshop, changed, command, ini

DATA = "data_preprocess_param"
WRONG = {
    "a folder that is not there": (1, {"calibrate_path": "x:nowhere"}, "nowhere: the directory cannot be read"),
    "too few files": (1, {"calibrate_size": "9"}, "4 file(s) found, calibrate_size wants 9"),
    "no pictures": (1, {"input_type": "IMAGE"}, "not a picture"),
    "an input of another name": (1, {"calibrate_path": "X:bins"}, "the model has no input 'X' (did you mean 'x'?)"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("flags", [(), ("--dryRun",)])
def test_wrong_data_are_refused_before_any_work(workshop: Workshop, name: str, flags: tuple[str, ...]) -> None:
    status, keys, message = WRONG[name]
    assert message in workshop.fail(status, *flags, config=changed(FULL, **{DATA: keys}))


@pytest.mark.parametrize("name", ["a folder that is not there", "too few files", "no pictures"])
def test_folders_are_looked_into_before_the_model_is_read(workshop: Workshop, name: str) -> None:
    status, keys, message = WRONG[name]
    workshop.model.write_bytes(b"no model")
    assert message in workshop.fail(status, config=changed(FULL, **{DATA: keys}))


def test_names_of_inputs_are_compared_before_the_graph_is_optimized(workshop: Workshop) -> None:
    outcome = workshop.convert(config=changed(FULL, **{DATA: {"calibrate_path": "X:bins"}}))
    assert "after optimization" not in outcome.out


def test_a_dry_run_says_how_samples_are_prepared(workshop: Workshop) -> None:
    assert "input 'x': BIN files are read as NHWC" in workshop.succeed("--dryRun", config=FULL).out


@pytest.mark.parametrize(
    "flag",
    ["--outputFile=bins/out", "--preview=bins/seen", "--report=bins/r.html", "--cache=bins"],
)
def test_an_output_that_would_be_a_sample_of_the_next_run_is_refused(workshop: Workshop, flag: str) -> None:
    arguments = {"--fmk": "ONNX", "--modelFile": "model.onnx", "--outputFile": "out", "--configFile": "quant.cfg"}
    name, _, value = flag.partition("=")
    workshop.convert(config=FULL)
    before = workshop.content()
    outcome = command(*(f"{key}={text}" for key, text in {**arguments, name: value}.items()))
    assert outcome.status == 2
    assert f"{name}: {value}" in outcome.err
    assert "would be read as a sample of 'x' by the next run" in outcome.err
    assert workshop.content() == before


@pytest.mark.parametrize("flag", ["--csv=bins/layers.csv", "--json=bins/layers.json", "--outputDir=bins/worst"])
def test_an_analysis_writes_nothing_among_the_samples(workshop: Workshop, flag: str) -> None:
    Path("quant.cfg").write_text(ini(FULL), encoding="utf-8")
    lines = [("compare", "model.onnx", "model.onnx"), ("sensitivity", "--modelFile=model.onnx")]
    if flag.startswith("--outputDir"):
        lines = [(*lines[0], "--extract-worst=1")]
    for line in lines:
        outcome = command(*line, "--configFile=quant.cfg", flag)
        assert outcome.status == 2
        assert "would be read as a sample of 'x' by the next run" in outcome.err


@pytest.mark.parametrize("flag", ["--plan=absent.json", "--proofData=absent.npz"])
def test_files_that_are_not_there_are_missed_before_the_model_is_read(workshop: Workshop, flag: str) -> None:
    workshop.model.write_bytes(b"no model")
    outcome = workshop.convert(flag, config=FULL)
    assert outcome.status in (1, 2)
    assert flag.partition("=")[2] in outcome.err


def test_a_result_among_the_samples_is_refused(workshop: Workshop) -> None:
    outcome = workshop.convert("--json=bins/r.json", config=FULL)
    assert outcome.status == 2
    assert "--json: bins/r.json would be read as a sample" in outcome.err  # and the file says so: it was asked for


def test_debug_reports_in_a_calibration_folder_are_refused(workshop: Workshop) -> None:
    config = changed(FULL, common_quant_param={"debug_info_save_path": "bins/debug"})
    assert "[common_quant_param] debug_info_save_path" in workshop.fail(2, config=config)


def test_warnings_are_on_standard_error_and_results_on_standard_output(workshop: Workshop) -> None:
    outcome = workshop.succeed("--nbTarget=x86", config=WEIGHT)
    assert outcome.err == "WARNING --nbTarget=x86 has no effect: --saveType does not name NAIVE_BUFFER\n"
    assert "WARNING" not in outcome.out


@pytest.mark.parametrize(
    "line",
    [
        ("inspect", "LONG.onnx"),
        ("inspect", "--kernels", "LONG.onnx"),
        ("compare", "model.onnx", "LONG.onnx"),
        ("compare", "LONG.onnx", "model.onnx"),
        ("doctor", "LONG.onnx"),
        ("batch", "LONG.onnx"),
    ],
)
def test_a_name_that_is_too_long_is_a_reason_and_not_silence(workshop: Workshop, line: tuple[str, ...]) -> None:
    name = "n" * 300
    outcome = command(*(word.replace("LONG", name) for word in line))
    assert outcome.status == 1
    assert f"ERROR {name}.onnx: " in outcome.err
    assert "File name too long" in outcome.err


@pytest.mark.parametrize("argument", ["-configFile=quant.cfg", "-configFile", "-configfile=quant.cfg"])
def test_a_flag_behind_one_dash_is_refused_with_the_right_spelling(argument: str) -> None:
    outcome = command("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", argument)
    assert outcome.status == 2
    right = argument.replace("-configfile", "-configFile")
    assert f"{argument.partition('=')[0]}: flags have two dashes\n  write -{right}\n" in outcome.err
    assert command("-h").status == 0
