"""``compare`` with files whose inputs and outputs have other element types than those of the float model."""

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.workshop import FULL, Workshop, changed, command, model_proto, write_bins
from tests.support import normal

TWO = "g ({0}[N,3,8,8] x) => ({0}[N,20,8,8] y, {0}[N,3,8,8] z) {{ c = Conv<pads = [1,1,1,1]>(x, w_conv) y = Relu(c) z = Exp(x) }}"


@pytest.mark.parametrize("model", ["float", "float16"])
@pytest.mark.parametrize(("target", "kind"), [("CPU", "UINT8"), ("ARM", "INT8"), ("CPU", "FLOAT16"), ("CPU", "FLOAT")])
@pytest.mark.parametrize("flags", ["input", "output", "input output"])
def test_real_numbers_are_compared_whatever_types_a_file_takes_and_gives(
    workshop: Workshop, model: str, target: str, kind: str, flags: str
) -> None:
    """The outputs are as near to the float model's as the proof of the conversion says."""
    dtype = {"float": "float32"}.get(model, model)
    onnx.save(model_proto(TWO.format(model), w_conv=normal(20, 3, 3, 3).astype(dtype)), workshop.model)
    write_bins(workshop.folder / "samples", 4, (1, 8, 8, 3), dtype=dtype)
    config = changed(
        FULL, full_quant_param={"target_device": target}, data_preprocess_param={"calibrate_path": "x:samples"}
    )
    workshop.succeed("--json=r.json", *(f"--{end}DataType={kind}" for end in flags.split()), config=config)
    outcome = command(
        "compare", "model.onnx", "out.onnx", "--configFile=quant.cfg", "--json=c.json", "--minCosine=0.99"
    )
    assert outcome.status == 0, outcome
    layers = json.loads(Path("c.json").read_text(encoding="utf-8"))["layers"]
    found = {layer["tensor"]: layer["accumulated"]["cosine"] for layer in layers}
    proof = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"][0]["accuracy"]
    for output in proof:
        assert found[output["name"]] == pytest.approx(output["cosine"], abs=2e-5)


def test_layers_of_a_file_with_integer_ends_are_cut_out(workshop: Workshop) -> None:
    workshop.succeed("--inputDataType=UINT8", "--outputDataType=UINT8", config=FULL)
    flags = ("--extract-worst=2", "--outputDir=worst", "--configFile=quant.cfg")
    outcome = command("compare", "model.onnx", "out.onnx", *flags)
    assert outcome.status == 0, outcome
    parts = sorted(path for path in Path("worst").iterdir() if path.is_dir())
    assert len(parts) == 2
    for part in parts:
        models = (f"{part}/{kind}/model.onnx" for kind in ("float", "quantized"))
        again = command("compare", *models, f"--inputs={part}/float")
        assert (again.status, "1 layer compared" in again.out) == (0, True), again


@pytest.mark.parametrize("kind", ["UINT8", "FLOAT16"])
def test_an_input_that_nothing_reads_takes_the_samples_of_the_float_model(workshop: Workshop, kind: str) -> None:
    unread = "g (float[N,3,8,8] x, float[N,2] u) => (float[N,20,8,8] y) { y = Conv<pads = [1,1,1,1]>(x, w_conv) }"
    onnx.save(model_proto(unread, w_conv=normal(20, 3, 3, 3)), workshop.model)
    write_bins(workshop.folder / "samples", 4, (1, 8, 8, 3))
    write_bins(workshop.folder / "unread", 4, (1, 2))
    config = changed(FULL, data_preprocess_param={"calibrate_path": "x:samples,u:unread"})
    workshop.succeed(f"--inputDataType={kind}", config=config)
    outcome = command("compare", "model.onnx", "out.onnx", "--configFile=quant.cfg", "--minCosine=0.99")
    assert outcome.status == 0, outcome
