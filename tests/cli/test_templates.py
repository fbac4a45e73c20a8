"""``converter_lite template`` and the files of ``configs/``."""

from pathlib import Path

import onnx
import pytest

from converter_lite.config.template import TEMPLATES
from tests.cli.workshop import ROOT, Outcome, command

FLAGS = {
    "full_quant_nvgpu": ["--saveType=ONNX"],
    "full_quant_dsp": ["--saveType=ONNX"],
    "full_quant_ascend": ["--saveType=ONNX", "--optimize=ascend_oriented"],
    "full_quant_ascend_dynamic": ["--saveType=ONNX", "--optimize=ascend_oriented", "--inputShape=input:1,3,64,64"],
}
"""What the first comment of a file says it is to be run with."""


def convert_sample(tmp_path: Path, text: str, use: str, *flags: str) -> Outcome:
    config = tmp_path / f"{use}.cfg"
    config.write_text(text.replace("samples/calibration", str(ROOT / "samples/calibration")), encoding="utf-8")
    model = ROOT / "samples/shapes.onnx"
    required = ["--fmk=ONNX", f"--modelFile={model}", f"--outputFile={tmp_path / use}", f"--configFile={config}"]
    return command(*required, *FLAGS.get(use, []), *flags)


@pytest.mark.parametrize("use", TEMPLATES)
def test_a_template_is_the_file_in_configs(use: str) -> None:
    outcome = command("template", use)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (ROOT / f"configs/{use}.cfg").read_text(encoding="utf-8")


def test_every_file_in_configs_is_a_template() -> None:
    assert {path.stem for path in (ROOT / "configs").iterdir()} == set(TEMPLATES)


@pytest.mark.parametrize("use", sorted(TEMPLATES))
def test_a_template_converts_the_sample_model_without_a_warning(tmp_path: Path, use: str) -> None:
    outcome = convert_sample(tmp_path, command("template", use).out, use)
    assert outcome.status == 0, outcome
    assert "WARNING" not in outcome.out
    operators = {node.op_type for node in onnx.load(tmp_path / f"{use}.onnx").graph.node}
    assert operators & {"DequantizeLinear", "MatMulInteger", "DynamicQuantizeLinear", "Cast"}
    assert ("DequantizeLinear" in operators) == ("full" in use or "on_the_fly" in use)


@pytest.mark.once
@pytest.mark.parametrize("use", ["full_quant", "weight_quant", "dynamic_quant"])
def test_the_same_input_gives_the_same_bytes_with_any_number_of_threads(tmp_path: Path, use: str) -> None:
    text = command("template", use).out
    results = set()
    for threads in ("1", "2", "5", "0"):
        assert convert_sample(tmp_path, text, use, f"--threads={threads}").status == 0
        results.add((tmp_path / f"{use}.onnx").read_bytes())
    assert len(results) == 1


@pytest.mark.once
@pytest.mark.parametrize("method", ["KL", "REMOVAL_OUTLIER", "PERCENTILE", "MSE"])
def test_every_method_gives_the_same_bytes_again(tmp_path: Path, method: str) -> None:
    text = command("template", "full_quant").out.replace("quant_method=MAX_MIN", f"quant_method={method}")
    text = text.replace("calibrate_size=100", "calibrate_size=20")
    results = set()
    for threads in ("1", "3"):
        outcome = convert_sample(tmp_path, text, "full_quant", f"--threads={threads}")
        assert outcome.status == 0, outcome
        results.add((tmp_path / "full_quant.onnx").read_bytes())
    assert len(results) == 1


@pytest.mark.once
@pytest.mark.parametrize("use", sorted(TEMPLATES))
def test_the_forecast_of_a_dry_run_is_within_ten_percent(tmp_path: Path, use: str) -> None:
    import json

    text = command("template", use).out.replace("calibrate_size=100", "calibrate_size=5")
    result = tmp_path / "result.json"
    assert convert_sample(tmp_path, text, use, "--dryRun", f"--json={result}").status == 0
    assert not (tmp_path / f"{use}.onnx").exists()
    forecast = json.loads(result.read_text(encoding="utf-8"))["forecast_bytes"]["ONNX"]
    assert convert_sample(tmp_path, text, use, "--minCosine=-1").status == 0
    assert forecast == pytest.approx((tmp_path / f"{use}.onnx").stat().st_size, rel=0.1)


def test_template_without_a_name_lists_every_use() -> None:
    out = command("template").out
    assert [line.split()[0] for line in out.splitlines()] == list(TEMPLATES)
    assert max(map(len, out.splitlines())) > 40


def test_an_unknown_template_names_the_nearest(tmp_path: Path) -> None:
    outcome = command("template", "full_qant")
    assert (outcome.status, outcome.out) == (2, "")
    assert "did you mean full_quant?" in outcome.err


def test_too_many_names_are_refused() -> None:
    assert command("template", "full_quant", "weight_quant").status == 2
