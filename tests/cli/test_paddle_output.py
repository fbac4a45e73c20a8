"""``--saveType=PADDLE`` on the command line and in Python: two files, all or nothing, proven, read by every command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from converter_lite import Converter, quant_post_dynamic, quant_post_static
from converter_lite.formats.paddle.inference_model.reader import load, read_paddle
from converter_lite.quantization.plan import NodeMode
from tests.cli.conftest import workshop as workshop
from tests.cli.workshop import FULL, WEIGHT, Config, Workshop, changed, command
from tests.formats.paddle.inference_models import float_model, save
from tests.support import normal

PADDLE = "--saveType=PADDLE"
FILES = ("out.pdiparams", "out.pdmodel")


@pytest.mark.parametrize("config", [None, WEIGHT, FULL], ids=["float", "weight", "full"])
def test_two_files_are_written_and_proven(config: Config | None, workshop: Workshop) -> None:
    workshop.succeed(PADDLE, "--json=r.json", config=config)
    assert sorted(path.name for path in workshop.folder.glob("out.*")) == list(FILES)
    (artefact,) = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert artefact["path"] == "out.pdmodel"
    assert artefact["bytes"] == sum(Path(name).stat().st_size for name in FILES)
    assert artefact["accuracy"][0]["cosine"] > (0.99999 if config is None else 0.99)
    kinds = {op.type for op in load(Path("out.pdmodel"), Path("out.pdiparams"))[0].main.operators}
    assert ("dequantize_linear" in kinds) == (config is not None)
    assert ("quantize_linear" in kinds) == (config is FULL)


def test_all_formats_are_written_together(workshop: Workshop) -> None:
    workshop.succeed("--saveType=ONNX,MINDIR_LITE,NAIVE_BUFFER,PADDLE", "--inputShape=x:1,3,8,8", config=FULL)
    assert sorted(path.suffix for path in workshop.folder.glob("out.*")) == [
        *(".ms", ".nb", ".onnx", ".pdiparams", ".pdmodel")
    ]


def test_a_written_model_is_described_compared_and_converted(workshop: Workshop) -> None:
    workshop.succeed(PADDLE, config=FULL)
    for name in FILES:
        shown = command("inspect", name)
        assert shown.status == 0
        assert "quantize_linear" in shown.out
    assert command("compare", "model.onnx", "out.pdmodel", "--inputShape=x:1,3,8,8").status == 0
    outcome = command("--fmk=PADDLE", "--modelFile=out.pdmodel", "--outputFile=again", "--saveType=NAIVE_BUFFER,PADDLE")
    assert outcome.status == 0, outcome
    first, again = (read_paddle(Path(name)) for name in ("out.pdmodel", "again.pdmodel"))
    assert [p.scale.tolist() for p in first.plan.weights.values()] == [
        p.scale.tolist() for p in again.plan.weights.values()
    ]


def test_a_dry_run_forecasts_both_files(workshop: Workshop) -> None:
    workshop.succeed(PADDLE, "--dryRun", "--json=r.json", config=FULL)
    forecast = json.loads(Path("r.json").read_text(encoding="utf-8"))["forecast_bytes"]["PADDLE"]
    workshop.succeed(PADDLE, config=FULL)
    size = sum(Path(name).stat().st_size for name in FILES)
    assert forecast == pytest.approx(size, rel=0.02)


def test_a_saved_plan_gives_the_same_files(workshop: Workshop) -> None:
    workshop.succeed(PADDLE, "--savePlan=plan.json", config=FULL)
    workshop.succeed(PADDLE, "--plan=plan.json", config=FULL, output="again")
    assert Path("again.pdiparams").read_bytes() == Path("out.pdiparams").read_bytes()


@pytest.mark.parametrize("named", [True, False])
def test_the_parameters_that_are_read_are_not_overwritten(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = save(tmp_path / "source", *float_model())
    for end in (".pdmodel", ".pdiparams"):
        shutil.copy(folder / f"inference{end}", f"model{end}")
    if named:
        Path("model.pdiparams").rename("out.pdiparams")
        files = ["--modelFile=model.pdmodel", "--weightFile=out.pdiparams", "--outputFile=out"]
    else:  # a program of another kind of file name, with its parameters beside it
        Path("model.pdmodel").rename("model.json")
        files = ["--modelFile=model.json", "--outputFile=model"]
    before = {path: path.read_bytes() for path in tmp_path.glob("*.*")}
    outcome = command("--fmk=PADDLE", *files, PADDLE)
    assert outcome.status == 2
    assert "would overwrite an input" in outcome.err
    assert {path: path.read_bytes() for path in tmp_path.glob("*.*")} == before


def test_what_it_cannot_hold_is_refused(workshop: Workshop) -> None:
    assert "float16" in workshop.fail(2, PADDLE, "--fp16=on")
    assert "cannot become INT8" in workshop.fail(2, PADDLE, "--inputDataType=INT8")
    device = changed(FULL, full_quant_param={"target_device": "ARM"})
    assert "cannot follow the rules of ARM" in workshop.fail(2, PADDLE, config=device)


def test_flags_of_other_formats_have_no_effect_with_a_word(workshop: Workshop) -> None:
    outcome = workshop.succeed(PADDLE, "--nbTarget=x86")
    assert "--nbTarget=x86 has no effect: --saveType does not name NAIVE_BUFFER" in outcome.err


def test_sensitivity_follows_its_rules(workshop: Workshop) -> None:
    workshop.succeed(PADDLE, config=FULL)  # writes quant.cfg
    outcome = command("sensitivity", "--fmk=ONNX", "--modelFile=model.onnx", "--configFile=quant.cfg", PADDLE)
    assert outcome.status == 0, outcome
    assert "conv_out" in outcome.out


def test_functions_with_the_names_of_paddleslim_write_it(workshop: Workshop) -> None:
    folder = save(Path("model"), *float_model())
    pictures = [normal(1, 3, 8, 8, seed=seed) for seed in range(4)]
    quant_post_static(folder, "static", pictures, algo="abs_max", save_type="PADDLE")
    quant_post_dynamic(folder, "dynamic", save_type=["PADDLE"])
    modes = [
        {node.mode for node in read_paddle(path).plan.nodes.values()}
        for path in (Path("static.pdmodel"), Path("dynamic/quantized_model.pdmodel"))
    ]
    assert NodeMode.INTEGER in modes[0]
    assert NodeMode.WEIGHT in modes[1]
    assert NodeMode.INTEGER not in modes[1]


def test_the_converter_class_writes_it(workshop: Workshop) -> None:
    result = Converter(save_type="PADDLE").convert("ONNX", "model.onnx", "api")
    assert [artefact.path.name for artefact in result.artefacts] == ["api.pdmodel"]
    assert np.isfinite(result.artefacts[0].accuracy[0].cosine)


def test_a_goal_for_weights_leaves_nodes_in_float(workshop: Workshop) -> None:
    goal = changed(WEIGHT, common_quant_param={"target_error": "0.000001"})
    outcome = workshop.succeed(PADDLE, config=goal)
    assert "of 16 bits are stored as floats" in outcome.out
